// The options that say what to compile, which all commands on a model share.
#ifndef TESSERA_LIB_DRIVER_MODELCOMMAND_H
#define TESSERA_LIB_DRIVER_MODELCOMMAND_H

#include "lib/Driver/CommandOptions.h"
#include "lib/Driver/Options.h"

namespace tessera {

struct ModelCommand {
  llvm::cl::SubCommand sub;
  llvm::cl::opt<std::string> model{llvm::cl::Positional, llvm::cl::desc("MODEL"), llvm::cl::sub(sub)};
  llvm::cl::list<std::string> bind{"bind", llvm::cl::desc("value of a symbolic dimension (repeat)"),
                                   llvm::cl::value_desc("NAME=N"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> plan{"plan", llvm::cl::desc("plan file"), llvm::cl::value_desc("FILE.toml"),
                                  llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> dp{"dp", llvm::cl::desc("recipe: data parallelism, mesh axis \"data\""),
                                llvm::cl::value_desc("N"), llvm::cl::init("1"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> tp{"tp", llvm::cl::desc("recipe: tensor parallelism, mesh axis \"tensor\""),
                                llvm::cl::value_desc("N"), llvm::cl::init("1"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> tpMode{"tp-mode", llvm::cl::desc("how products are split: 1d, 2d, 2.5d or 3d"),
                                    llvm::cl::value_desc("MODE"), llvm::cl::init("1d"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> tpDepth{"tp-depth", llvm::cl::desc("depth of --tp-mode 2.5d"),
                                     llvm::cl::value_desc("D"), llvm::cl::init("0"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> sp{"sp", llvm::cl::desc("recipe: sequence parallelism, mesh axis \"seq\""),
                                llvm::cl::value_desc("N"), llvm::cl::init("1"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> spMode{"sp-mode",
                                    llvm::cl::desc("ring (default with --sp; with --auto whichever is "
                                                   "faster), ulysses or rsa; megatron goes with --tp and "
                                                   "uses its axis"),
                                    llvm::cl::value_desc("MODE"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> ep{"ep", llvm::cl::desc("recipe: expert parallelism, mesh axis \"expert\""),
                                llvm::cl::value_desc("N"), llvm::cl::init("1"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> zero{"zero",
                                  llvm::cl::desc("recipe: what a step has in pieces over \"data\": 1 "
                                                 "optimizer state, 2 + gradients, 3 + parameters"),
                                  llvm::cl::value_desc("STAGE"), llvm::cl::init("0"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> regather{
      "regather",
      llvm::cl::desc("whether the backward gathers again what the forward gathered: "
                     "never, always or auto (ZeRO-3 does, ZeRO-1 and 2 keep parameters)"),
      llvm::cl::value_desc("WHEN"), llvm::cl::init("auto"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> stream{
      "stream",
      llvm::cl::desc(
          "whether a product of gathered operands is computed by panels that are broadcast one by one: "
          "never, always or auto (where it is faster)"),
      llvm::cl::value_desc("WHEN"), llvm::cl::init("auto"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> pp{"pp", llvm::cl::desc("recipe: pipeline stages, mesh axis \"pipe\""),
                                llvm::cl::value_desc("N"), llvm::cl::init("1"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> ppSchedule{
      "pp-schedule",
      llvm::cl::desc("order of the pipeline's steps: gpipe, 1f1b (default), interleaved or zero-bubble"),
      llvm::cl::value_desc("SCHEDULE"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> microbatches{
      "microbatches", llvm::cl::desc("microbatches the batch is cut into (gradient accumulation)"),
      llvm::cl::value_desc("M"), llvm::cl::init("1"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> train{
      "train", llvm::cl::desc("build a training program: adamw, adam, sgd or sgd-momentum"),
      llvm::cl::value_desc("OPTIMIZER"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> dtype{
      "dtype",
      llvm::cl::desc(
          "what to compute in: f32 (default), bf16 or f16; parameters and optimizer state stay f32"),
      llvm::cl::value_desc("TYPE"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> loss{"loss",
                                  llvm::cl::desc("cross_entropy:OUTPUT, mse:OUTPUT, or OUTPUT, a scalar"),
                                  llvm::cl::value_desc("LOSS"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> capacityFactor{
      "capacity-factor",
      llvm::cl::desc("experts take F times their even share of a batch row's "
                     "choices, and drop others (default: none is dropped)"),
      llvm::cl::value_desc("F"), llvm::cl::sub(sub)};
  llvm::cl::list<std::string> trainable{
      "trainable", llvm::cl::desc("train parameters by name (repeat; the last match wins)"),
      llvm::cl::value_desc("GLOB"), llvm::cl::sub(sub)};
  llvm::cl::list<std::string> frozen{"frozen", llvm::cl::desc("do not train parameters by name"),
                                     llvm::cl::value_desc("GLOB"), llvm::cl::sub(sub)};
  Flag asWritten{"as-written",
                 llvm::cl::desc("do not restore parameters that the exporter merged or dropped"),
                 llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> weights{
      "weights", llvm::cl::desc("initial weights of a .mlir model; with convert, trained ones"),
      llvm::cl::value_desc("FILE.safetensors"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> threads{
      "threads",
      llvm::cl::desc(
          "threads a rank that workspaces are sized for (default: this machine's cores over the ranks)"),
      llvm::cl::value_desc("N"), llvm::cl::init("0"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> deviceMemory{
      "device-memory", llvm::cl::desc("the most memory of the device that a rank may use, such as 16GiB"),
      llvm::cl::value_desc("SIZE"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> hostMemory{
      "host-memory",
      llvm::cl::desc("the most memory of the host that a rank may use for what leaves the device"),
      llvm::cl::value_desc("SIZE"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> nvme{
      "nvme",
      llvm::cl::desc(
          "a folder on NVMe, and the most of it that a rank may use for what --host-memory has no room "
          "for, such as /scratch:500GiB"),
      llvm::cl::value_desc("DIR:SIZE"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> offload{
      "offload",
      llvm::cl::desc(
          "what may leave the device where --device-memory is too small for all: none, auto (default, "
          "anything), or a list of optimizer, parameters, activations"),
      llvm::cl::value_desc("WHAT"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> sizes{
      "sizes",
      llvm::cl::desc("numbers of ranks along --dp's axis that the executable can run on, such as 1,2,4, with "
                     "the same results: each must divide the next"),
      llvm::cl::value_desc("N,..."), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> onResize{
      "on-resize",
      llvm::cl::desc(
          "with --sizes: keep (default; the model's batch on every size, with the same results) or "
          "scale (a rank has as much of the batch on every size: the largest has the model's)"),
      llvm::cl::value_desc("RULE"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> machine{
      "machine",
      llvm::cl::desc(
          "the machine's rates, which decisions and estimates are made by (default: the target's)"),
      llvm::cl::value_desc("FILE.toml"), llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> tierPolicy{
      "tier-policy",
      llvm::cl::desc(
          "by which rule values leave the device, for comparisons: planned (default), patrickstar, "
          "elixir, zero-offload, lru, belady"),
      llvm::cl::value_desc("NAME"),
      llvm::cl::init("planned"),
      llvm::cl::Hidden,
      llvm::cl::sub(sub)};
  llvm::cl::opt<std::string> recompute{
      "recompute",
      llvm::cl::desc(
          "what the backward makes again: none, block (all within blocks of the forward), or auto (what "
          "is cheapest and fits into --device-memory, the default with it)"),
      llvm::cl::value_desc("none|block|auto"), llvm::cl::sub(sub)};
  ModelCommand(const char *name, const char *description) : sub(name, description) {}
  virtual ~ModelCommand() = default;
  /// Whether recipe options that are not given are found, not left at their defaults.
  virtual bool findsRecipe() const { return false; }
  explicit operator bool() { return bool(sub); }
};

/// Checks them and fills `options`; the exit status, 0 to go on.
int read(ModelCommand &command, CompileOptions &options);

/// Those of commands that may compile for another machine than this one.
struct TargetCommand : ModelCommand {
  const std::string targetText = "what executes the kernels: " + target::targetWords();
  llvm::cl::opt<std::string> target{"target", llvm::cl::desc(targetText), llvm::cl::value_desc("TARGET"),
                                    llvm::cl::init(target::targets().front()->name()), llvm::cl::sub(sub)};

  using ModelCommand::ModelCommand;
};

/// As above.
int read(TargetCommand &command, CompileOptions &options);

/// The page of a step, of the commands that can show one.
struct PageCommand {
  llvm::cl::opt<std::string> report, measured;
  /// `files`: what --report takes.
  PageCommand(llvm::cl::SubCommand &sub, const char *files)
      : report("report", llvm::cl::desc("write a page that shows a step: its time, memory, plan and traffic"),
               llvm::cl::value_desc(files), llvm::cl::sub(sub)),
        measured("measured",
                 llvm::cl::desc("show on the page beside the step what a run took, by its --trace"),
                 llvm::cl::value_desc("TRACE.json"), llvm::cl::sub(sub)) {}
};

/// As above.
int read(PageCommand &command, CompileOptions &options);

/// The targets whose kernels can have twins for the host, for messages.
std::string targetsWithTwins();

} // namespace tessera
#endif
