#include "lib/Driver/CommandLine.h"
#include "dialects/dist/Attributes.h"
#include "lib/Driver/CheckpointCommand.h"
#include "lib/Driver/Commands.h"
#include "lib/Driver/Compile.h"
#include "lib/Driver/RunCommand.h"
#include "lib/Driver/ScheduleCommand.h"
#include "lib/Run/Control.h"
#include "lib/Target/Targets.h"
#include "passes/Assign/Pattern.h"
#include "passes/Assign/Plan.h"
#include "passes/Pipeline/PipelineSchedule.h"
#include "passes/Tiers/Policies/Policies.h"
#include "runtime/core/size.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include <cmath>

using namespace tessera;
namespace cl = llvm::cl;

std::string FlagParser::problem;

bool FlagParser::parse(cl::Option &, llvm::StringRef name, llvm::StringRef text, bool &value) {
  value = text.empty() || text == "true" || text == "1";
  if (!value && text != "false" && text != "0")
    problem = ("--" + name + "=" + text + ": expected no value, or true or false").str();
  return !problem.empty();
}

int tessera::usage(const llvm::Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return 2;
}

namespace {

// The options that say what to compile, which all commands share.
struct Command {
  cl::SubCommand sub;
  cl::opt<std::string> model{cl::Positional, cl::desc("MODEL"), cl::sub(sub)};
  cl::list<std::string> bind{"bind", cl::desc("value of a symbolic dimension (repeat)"),
                             cl::value_desc("NAME=N"), cl::sub(sub)};
  cl::opt<std::string> plan{"plan", cl::desc("plan file"), cl::value_desc("FILE.toml"), cl::sub(sub)};
  cl::opt<std::string> dp{"dp", cl::desc("recipe: data parallelism, mesh axis \"data\""), cl::value_desc("N"),
                          cl::init("1"), cl::sub(sub)};
  cl::opt<std::string> tp{"tp", cl::desc("recipe: tensor parallelism, mesh axis \"tensor\""),
                          cl::value_desc("N"), cl::init("1"), cl::sub(sub)};
  cl::opt<std::string> tpMode{"tp-mode", cl::desc("how products are split: 1d, 2d, 2.5d or 3d"),
                              cl::value_desc("MODE"), cl::init("1d"), cl::sub(sub)};
  cl::opt<std::string> tpDepth{"tp-depth", cl::desc("depth of --tp-mode 2.5d"), cl::value_desc("D"),
                               cl::init("0"), cl::sub(sub)};
  cl::opt<std::string> sp{"sp", cl::desc("recipe: sequence parallelism, mesh axis \"seq\""),
                          cl::value_desc("N"), cl::init("1"), cl::sub(sub)};
  cl::opt<std::string> spMode{
      "sp-mode",
      cl::desc("ring (default with --sp), ulysses or rsa; megatron goes with --tp and uses its axis"),
      cl::value_desc("MODE"), cl::sub(sub)};
  cl::opt<std::string> ep{"ep", cl::desc("recipe: expert parallelism, mesh axis \"expert\""),
                          cl::value_desc("N"), cl::init("1"), cl::sub(sub)};
  cl::opt<std::string> zero{
      "zero",
      cl::desc("recipe: store in pieces over \"data\": 1 optimizer state, 2 + gradients, 3 + parameters"),
      cl::value_desc("STAGE"), cl::init("0"), cl::sub(sub)};
  cl::opt<std::string> regather{"regather",
                                cl::desc("whether the backward gathers again what the forward gathered: "
                                         "never, always or auto (ZeRO-3 does)"),
                                cl::value_desc("WHEN"), cl::init("auto"), cl::sub(sub)};
  cl::opt<std::string> stream{
      "stream",
      cl::desc("whether a product of gathered operands is computed by panels that are broadcast one by one: "
               "never, always or auto (where it is faster)"),
      cl::value_desc("WHEN"), cl::init("auto"), cl::sub(sub)};
  cl::opt<std::string> pp{"pp", cl::desc("recipe: pipeline stages, mesh axis \"pipe\""), cl::value_desc("N"),
                          cl::init("1"), cl::sub(sub)};
  cl::opt<std::string> ppSchedule{
      "pp-schedule",
      cl::desc("order of the pipeline's steps: gpipe, 1f1b (default), interleaved or zero-bubble"),
      cl::value_desc("SCHEDULE"), cl::sub(sub)};
  cl::opt<std::string> microbatches{"microbatches",
                                    cl::desc("microbatches the batch is cut into (gradient accumulation)"),
                                    cl::value_desc("M"), cl::init("1"), cl::sub(sub)};
  cl::opt<std::string> train{"train", cl::desc("build a training program: adamw, adam, sgd or sgd-momentum"),
                             cl::value_desc("OPTIMIZER"), cl::sub(sub)};
  cl::opt<std::string> dtype{
      "dtype",
      cl::desc("what to compute in: f32 (default), bf16 or f16; parameters and optimizer state stay f32"),
      cl::value_desc("TYPE"), cl::sub(sub)};
  cl::opt<std::string> loss{"loss", cl::desc("cross_entropy:OUTPUT, mse:OUTPUT, or OUTPUT, a scalar"),
                            cl::value_desc("LOSS"), cl::sub(sub)};
  cl::opt<std::string> capacityFactor{"capacity-factor",
                                      cl::desc("experts take F times their even share of a batch row's "
                                               "choices, and drop others (default: none is dropped)"),
                                      cl::value_desc("F"), cl::sub(sub)};
  cl::list<std::string> trainable{"trainable",
                                  cl::desc("train parameters by name (repeat; the last match wins)"),
                                  cl::value_desc("GLOB"), cl::sub(sub)};
  cl::list<std::string> frozen{"frozen", cl::desc("do not train parameters by name"), cl::value_desc("GLOB"),
                               cl::sub(sub)};
  Flag asWritten{"as-written", cl::desc("do not restore parameters that the exporter merged or dropped"),
                 cl::sub(sub)};
  cl::opt<std::string> weights{"weights",
                               cl::desc("initial weights of a .mlir model; with convert, trained ones"),
                               cl::value_desc("FILE.safetensors"), cl::sub(sub)};
  cl::opt<std::string> threads{
      "threads",
      cl::desc("threads a rank that workspaces are sized for (default: this machine's cores over the ranks)"),
      cl::value_desc("N"), cl::init("0"), cl::sub(sub)};
  cl::opt<std::string> deviceMemory{
      "device-memory", cl::desc("the most memory of the device that a rank may use, such as 16GiB"),
      cl::value_desc("SIZE"), cl::sub(sub)};
  cl::opt<std::string> hostMemory{
      "host-memory", cl::desc("the most memory of the host that a rank may use for what leaves the device"),
      cl::value_desc("SIZE"), cl::sub(sub)};
  cl::opt<std::string> nvme{
      "nvme",
      cl::desc("a folder on NVMe, and the most of it that a rank may use for what --host-memory has no room "
               "for, such as /scratch:500GiB"),
      cl::value_desc("DIR:SIZE"), cl::sub(sub)};
  cl::opt<std::string> offload{
      "offload",
      cl::desc("what may leave the device where --device-memory is too small for all: none, auto (default, "
               "anything), or a list of optimizer, parameters, activations"),
      cl::value_desc("WHAT"), cl::sub(sub)};
  cl::opt<std::string> machine{
      "machine",
      cl::desc("the machine's rates, which decisions and estimates are made by (default: the target's)"),
      cl::value_desc("FILE.toml"), cl::sub(sub)};
  cl::opt<std::string> tierPolicy{
      "tier-policy",
      cl::desc("by which rule values leave the device, for comparisons: planned (default), patrickstar, "
               "elixir, zero-offload, lru, belady"),
      cl::value_desc("NAME"),
      cl::init("planned"),
      cl::Hidden,
      cl::sub(sub)};
  cl::opt<std::string> recompute{
      "recompute",
      cl::desc("what the backward makes again: none, block (all within blocks of the forward), or auto (what "
               "is cheapest and fits into --device-memory, the default with it)"),
      cl::value_desc("none|block|auto"), cl::sub(sub)};
  Command(const char *name, const char *description) : sub(name, description) {}
  explicit operator bool() { return bool(sub); }
};

std::string targetsWithTwins() {
  std::vector<llvm::StringRef> names;
  for (const std::unique_ptr<target::Target> &target : target::targets())
    if (target->hasTwins() && !llvm::is_contained(names, target->library().name()))
      names.push_back(target->library().name());
  return llvm::join(names, " or ");
}

// `compile`, with what it writes and where it starts and stops.
struct CompileCommand : Command {
  cl::opt<std::string> output{"o", cl::desc("output file"), cl::value_desc("OUT"), cl::sub(sub)};
  cl::opt<std::string> to{"to",
                          cl::desc("stop after a phase: import normalize differentiate assign propagate "
                                   "partition schedule memory lower link"),
                          cl::value_desc("PHASE"), cl::sub(sub)};
  cl::opt<std::string> from{"from",
                            cl::desc("the phase that a .mlir MODEL goes on with (default: as its text says)"),
                            cl::value_desc("PHASE"), cl::sub(sub)};
  const std::string targetText = "what executes the kernels: " + target::targetWords(),
                    twinsText = "with --target " + targetsWithTwins() +
                                ": write the kernels' programs for the host, which a simulator executes";
  cl::opt<std::string> target{"target", cl::desc(targetText), cl::value_desc("TARGET"),
                              cl::init(target::targets().front()->name()), cl::sub(sub)};
  cl::opt<std::string> hostTwins{"host-twins", cl::desc(twinsText), cl::value_desc("FILE.so"), cl::sub(sub)};
  cl::opt<std::string> dump{"dump-phases", cl::desc("write the program after each phase"),
                            cl::value_desc("DIR"), cl::sub(sub)};
  cl::opt<std::string> report{"report", cl::desc("write a report, as JSON or as a page to look at"),
                              cl::value_desc("FILE.json|.html"), cl::sub(sub)};
  Flag timing{"timing", cl::desc("show where compile time goes"), cl::sub(sub)};
  Flag verbose{"v", cl::desc("say how long each phase takes"), cl::sub(sub)};
  Flag listPatterns{"list-patterns", cl::desc("print every pattern with its axes"), cl::sub(sub)};

  using Command::Command;
};

// `convert`. With --format torch the positional argument is the weights, the model an option.
struct ConvertCommand : Command {
  cl::opt<std::string> output{"o", cl::desc("output file"), cl::value_desc("OUT"), cl::sub(sub)};
  cl::opt<std::string> format{"format",
                              cl::desc("onnx (the model with the plan inside), mlir (text with it), torch "
                                       "(MODEL is FILE.safetensors or a checkpoint: under the names and in "
                                       "the shapes of the framework), or safetensors (MODEL is a "
                                       "checkpoint: all of it in one file)"),
                              cl::value_desc("FORMAT"), cl::sub(sub)};
  cl::opt<std::string> of{"model", cl::desc("the model that FILE.safetensors was trained with"),
                          cl::value_desc("MODEL"), cl::sub(sub)};

  using Command::Command;
};

// `plan`, with what `--auto` wants to know.
struct PlanCommandLine : Command {
  Flag automatic{"auto",
                 cl::desc("find the recipe for --ranks that makes the fastest step, by the machine's rates, "
                          "and fits; recipe options that are given stay"),
                 cl::sub(sub)};
  cl::opt<std::string> ranks{"ranks",
                             cl::desc("with --auto: how many ranks; of a list a plan each, and a table"),
                             cl::value_desc("N[,N...]"), cl::sub(sub)};
  cl::opt<std::string> planSeconds{"plan-seconds",
                                   cl::desc("with --auto: end the search after so long (default 60)"),
                                   cl::value_desc("S"), cl::init("60"), cl::sub(sub)};
  cl::opt<std::string> output{"o", cl::desc("with --auto: the plan's file; of several ranks STEM-N.toml"),
                              cl::value_desc("PLAN.toml"), cl::sub(sub)};
  Flag json{"json", cl::desc("with --auto: print what was found as JSON"), cl::sub(sub)};

  using Command::Command;
};

// LLVM's messages without the name of the program before each line: one error, then notes.
std::string withoutProgramName(llvm::StringRef text) {
  std::string result;
  for (llvm::StringRef line : llvm::split(text.trim(), '\n')) {
    line.consume_front("error: ");
    result += (result.empty() ? "" : "\nnote: ") + line.str();
  }
  for (size_t at; (at = result.find("error --help")) != std::string::npos;)
    result.replace(at, 5, "tessera");
  return result;
}

// What is wrong with an option's name, or nothing. LLVM's parser takes unknown names for groups of one-letter
// options.
std::string unknownOption(llvm::ArrayRef<const char *> arguments) {
  for (cl::SubCommand *sub : cl::getRegisteredSubcommands()) {
    if (arguments.empty() || sub->getName() != arguments.front())
      continue;
    auto takesValue = [](const cl::Option *option) {
      return option->getValueExpectedFlag() == cl::ValueRequired;
    };
    for (size_t i = 1; i < arguments.size(); ++i) {
      llvm::StringRef argument = arguments[i];
      if (argument == "--")
        return {};
      if (!argument.consume_front("-") || argument.empty())
        continue;
      argument.consume_front("-");
      auto [name, value] = argument.split('=');
      auto known = sub->OptionsMap.find(name);
      if (known != sub->OptionsMap.end()) {
        i += takesValue(known->second) && !argument.contains('=');
        continue;
      }
      if (name == "h") // LLVM has it aside
        continue;
      std::string nearest;
      unsigned least = 1 + std::max<size_t>(1, name.size() / 3);
      for (auto &entry : sub->OptionsMap)
        if (unsigned distance = name.edit_distance(entry.first, true, least);
            entry.first.size() > 1 && distance < least)
          least = distance, nearest = "; did you mean --" + entry.first.str() + "?";
      return ("unknown option \"" + llvm::StringRef(arguments[i]).split('=').first + "\" of tessera " +
              sub->getName() + (nearest.empty() ? "; see tessera " + sub->getName() + " --help" : nearest))
          .str();
    }
  }
  return {};
}

// Each of these fills a part of `options`; the exit status, 0 to go on.

// LLVM's own parser of numbers has its own way of reporting.
int readNumbers(Command &command, CompileOptions &options) {
  for (auto [name, text, value, least] :
       {std::tuple("--dp", &command.dp, &options.assign.dp, int64_t(1)),
        {"--tp", &command.tp, &options.assign.tp, 1},
        {"--tp-depth", &command.tpDepth, &options.assign.tpDepth, 0},
        {"--sp", &command.sp, &options.assign.sp, 1},
        {"--pp", &command.pp, &options.assign.pp, 1},
        {"--ep", &command.ep, &options.assign.ep, 1},
        {"--microbatches", &command.microbatches, &options.assign.microbatches, 1},
        {"--threads", &command.threads, &options.threads, 0}})
    if (llvm::StringRef(*text).getAsInteger(10, *value) || *value < least)
      return usage(llvm::Twine(name) + "=" + *text + ": expected a whole number of at least " +
                   llvm::Twine(least));
  if (options.threads > 1 << 16) // as the executable's own option
    return usage("--threads=" + command.threads + ": expected at most 65536");
  if (!command.capacityFactor.empty() &&
      (!llvm::to_float(command.capacityFactor, options.capacityFactor) || !(options.capacityFactor > 0) ||
       std::isinf(options.capacityFactor)))
    return usage("--capacity-factor=" + command.capacityFactor + ": expected a number above 0, such as 1.25");
  return 0;
}

// Tensor and sequence parallelism.
int readModes(Command &command, CompileOptions &options) {
  options.assign.tpMode = command.tpMode;
  if (!llvm::is_contained({"1d", "2d", "2.5d", "3d"}, options.assign.tpMode))
    return usage("--tp-mode=" + command.tpMode + ": expected 1d, 2d, 2.5d or 3d");
  options.assign.spMode = command.spMode;
  if (!command.spMode.empty() &&
      !llvm::is_contained({"megatron", "ulysses", "ring", "rsa"}, options.assign.spMode))
    return usage("--sp-mode=" + command.spMode + ": expected megatron, ulysses, ring or rsa");
  if (options.assign.spMode == "megatron" &&
      (options.assign.tp < 2 || options.assign.tpMode != "1d" || options.assign.sp > 1))
    return usage("--sp-mode=megatron: the sequence is split over the axis of --tp, which it needs, in its 1d "
                 "mode and without --sp");
  if (!command.spMode.empty() && options.assign.spMode != "megatron" && options.assign.sp < 2)
    return usage("--sp-mode=" + command.spMode + ": needs --sp N");
  if (options.assign.tpDepth > 0 &&
      (options.assign.tpMode != "2.5d" || options.assign.tp % options.assign.tpDepth))
    return usage("--tp-depth=" + command.tpDepth + ": expected with --tp-mode 2.5d, and a divisor of --tp");
  return 0;
}

// Training state, what is streamed, the schedule of a pipeline.
int readMemory(Command &command, CompileOptions &options) {
  if (llvm::StringRef(command.zero).getAsInteger(10, options.assign.zero) || options.assign.zero < 0 ||
      options.assign.zero > 3)
    return usage("--zero=" + command.zero +
                 ": expected 0 (off), 1 (optimizer state), 2 (gradients too) or 3 (parameters too)");
  options.assign.regather = command.regather;
  if (!llvm::is_contained({"never", "always", "auto"}, options.assign.regather))
    return usage("--regather=" + command.regather + ": expected never, always or auto");
  options.assign.stream = command.stream;
  if (!llvm::is_contained({"never", "always", "auto"}, options.assign.stream))
    return usage("--stream=" + command.stream + ": expected never, always or auto");
  options.assign.ppSchedule = command.ppSchedule;
  if (!options.assign.ppSchedule.empty() && !pipeline::findSchedule(options.assign.ppSchedule))
    return usage("--pp-schedule=" + options.assign.ppSchedule + ": expected one of " +
                 pipeline::scheduleNames());
  return 0;
}

// Caps of memory, and what may leave the device.
int readTiers(Command &command, CompileOptions &options) {
  options.machineFile = command.machine;
  for (auto [name, text, bytes] : {std::tuple("device-memory", &command.deviceMemory, &options.deviceMemory),
                                   {"host-memory", &command.hostMemory, &options.hostMemory}}) {
    if (text->empty())
      continue;
    *bytes = rt::parseSize(text->getValue());
    if (!*bytes || **bytes == 0)
      return usage(llvm::Twine("--") + name + "=" + text->getValue() +
                   ": expected a size above 0, such as 16GiB or 500MiB");
  }
  options.nvme = rt::parseFolderSize(command.nvme.getValue());
  if (!command.nvme.empty() && !options.nvme)
    return usage("--nvme=" + command.nvme +
                 ": expected a folder and a size above 0, such as /scratch:500GiB");
  llvm::StringRef what = command.offload;
  // A plan may say the rest.
  bool needsDevice = !options.deviceMemory && command.plan.empty();
  if (options.hostMemory && needsDevice)
    return usage("--host-memory=" + command.hostMemory +
                 ": needs --device-memory, without which nothing leaves the device");
  if (options.nvme && !options.hostMemory && command.plan.empty())
    return usage("--nvme=" + command.nvme + ": needs --host-memory, without which nothing leaves the host");
  if (!what.empty() && needsDevice)
    return usage("--offload=" + what + ": needs --device-memory, without which nothing leaves the device");
  options.tierPolicy = command.tierPolicy;
  if (!llvm::is_contained(tiers::policies(), std::string_view(options.tierPolicy)))
    return usage("--tier-policy=" + options.tierPolicy + ": expected one of " +
                 llvm::join(tiers::policies(), " "));
  if (options.tierPolicy != "planned" && needsDevice)
    return usage("--tier-policy=" + options.tierPolicy +
                 ": needs --device-memory, without which nothing leaves the device");
  std::optional<std::vector<std::string>> offload = parseOffload(what.empty() ? "auto" : what);
  if (!offload)
    return usage("--offload=" + what +
                 ": expected none, auto, or a list of optimizer, parameters, activations");
  options.offload = *offload;
  options.assign.deviceMemory = options.deviceMemory.value_or(0);
  options.assign.hostMemory = options.hostMemory.value_or(0);
  options.assign.nvme = command.nvme;
  options.assign.offload = what.str();
  options.recompute = command.recompute;
  if (!options.recompute.empty() && !llvm::is_contained(dist::kRecomputations, options.recompute))
    return usage("--recompute=" + command.recompute + ": expected none, block or auto");
  options.assign.recompute = options.recompute;
  return 0;
}

int readTraining(Command &command, CompileOptions &options) {
  options.optimizer = command.train;
  if (!options.optimizer.empty() &&
      !llvm::is_contained({"adamw", "adam", "sgd", "sgd-momentum"}, options.optimizer))
    return usage("--train=" + options.optimizer + ": expected adamw, adam, sgd or sgd-momentum");
  options.dtype = command.dtype;
  if (!options.dtype.empty() && !isComputeType(options.dtype))
    return usage("--dtype=" + options.dtype + ": expected f32, bf16 or f16");
  return 0;
}

int readImport(Command &command, CompileOptions &options) {
  for (const std::string &bind : command.bind) {
    auto [name, value] = llvm::StringRef(bind).split('=');
    int64_t number = 0;
    if (name.empty() || value.getAsInteger(10, number) || number < 1)
      return usage("--bind=" + bind + ": expected NAME=N with N at least 1");
    options.import.binds[name.str()] = number;
  }
  // The last match wins, over both options: by their order on the command line.
  std::vector<std::pair<unsigned, std::pair<bool, std::string>>> globs;
  for (size_t i = 0; i < command.trainable.size(); ++i)
    globs.push_back({command.trainable.getPosition(i), {true, command.trainable[i]}});
  for (size_t i = 0; i < command.frozen.size(); ++i)
    globs.push_back({command.frozen.getPosition(i), {false, command.frozen[i]}});
  llvm::sort(globs);
  for (auto &[position, glob] : globs)
    options.import.trainable.push_back(glob);
  options.import.asWritten = command.asWritten;
  return 0;
}

int read(Command &command, CompileOptions &options) {
  if (command.model.empty())
    return usage("no model given: tessera " + command.sub.getName() + " MODEL ...");
  options.model = command.model;
  options.assign.planFile = command.plan;
  options.loss = command.loss;
  options.weights = command.weights;
  for (auto *part : {readNumbers, readModes, readMemory, readTiers, readTraining, readImport})
    if (int status = part(command, options))
      return status;
  return 0;
}

// What only `compile` has.
int read(CompileCommand &command, CompileOptions &options) {
  if (int status = read(static_cast<Command &>(command), options))
    return status;
  options.output = command.output;
  options.target = target::findTarget(command.target);
  if (!options.target)
    return usage("--target=" + command.target + ": expected " + target::targetWords());
  options.hostTwins = command.hostTwins;
  if (!options.hostTwins.empty() && !options.target->hasTwins())
    return usage("--host-twins=" + command.hostTwins + ": kernels for " + options.target->name() +
                 " have no twins; expected with --target " + targetsWithTwins());
  options.dumpDirectory = command.dump;
  options.report = command.report;
  if (llvm::StringRef report = options.report;
      !report.empty() && !report.ends_with(".json") && !report.ends_with(".html"))
    return usage("--report=" + report + ": expected FILE.json or FILE.html");
  options.timing = command.timing || command.verbose;
  for (auto [text, phase, name] :
       {std::tuple(&command.to, &options.to, "--to"), {&command.from, &options.from, "--from"}})
    if (!text->empty()) {
      auto parsed = parsePhase(*text);
      if (!parsed)
        return usage(llvm::Twine(name) + "=" + *text +
                     " is no phase; phases are import normalize differentiate assign propagate partition "
                     "schedule memory lower link");
      *phase = *parsed;
    }
  if (options.from != Phase::Import && !llvm::StringRef(options.model).ends_with(".mlir"))
    return usage("--from=" + command.from + " needs .mlir text, and the model is \"" + options.model + "\"");
  if (options.from > Phase::Normalize && options.capacityFactor > 0)
    return usage("--capacity-factor=" + command.capacityFactor +
                 ": is for phase normalize, which --from=" + command.from + " leaves out");
  if (options.from > options.to)
    return usage("--from=" + command.from + " is behind --to=" + command.to);
  if (options.output.empty() && options.to == Phase::Link)
    return usage("no output given: add -o OUT");
  return 0;
}

// What only `convert` has.
int read(ConvertCommand &command, CompileOptions &options) {
  if (int status = read(static_cast<Command &>(command), options))
    return status;
  options.output = command.output;
  if (options.output.empty())
    return usage("no output given: add -o OUT");
  if (!llvm::is_contained({"onnx", "mlir", "torch", "safetensors"}, std::string(command.format)))
    return usage("--format=" + command.format + ": expected onnx, mlir, torch or safetensors");
  bool isTorch = command.format == "torch";
  if (isTorch != !command.of.empty())
    return usage(isTorch ? "--format torch: no model given: tessera convert FILE.safetensors --model MODEL "
                           "--format torch -o OUT"
                         : "--model goes with --format torch: tessera convert MODEL --format " +
                               command.format + " -o OUT");
  if (command.format == "onnx" && !llvm::StringRef(options.model).ends_with(".onnx"))
    return usage("--format onnx needs an .onnx model to write the plan into, and the model is \"" +
                 options.model + "\"");
  if (isTorch && !command.weights.empty())
    return usage("--weights: with --format torch the weights are the first argument");
  if (isTorch) {
    options.weights = command.model;
    options.model = command.of;
  }
  return 0;
}

// Which ranks, and what of a recipe is decided.
int read(PlanCommandLine &command, const CompileOptions &options, AutoOptions &how) {
  if (command.ranks.empty())
    return usage("--auto: give the number of ranks by --ranks N");
  for (llvm::StringRef text : llvm::split(llvm::StringRef(command.ranks), ',')) {
    int64_t ranks = 0;
    if (text.getAsInteger(10, ranks) || ranks < 1 || ranks > 1 << 16)
      return usage("--ranks=" + command.ranks +
                   ": expected whole numbers from 1 to 65536, such as 8 or 1,2,4");
    how.ranks.push_back(ranks);
  }
  if (!llvm::to_float(llvm::StringRef(command.planSeconds), how.seconds) || !(how.seconds > 0) ||
      how.seconds > 1e6)
    return usage("--plan-seconds=" + command.planSeconds + ": expected a number above 0");
  int64_t product = 1;
  for (auto [option, text, value] : {std::tuple("dp", &command.dp, options.assign.dp),
                                     {"tp", &command.tp, options.assign.tp},
                                     {"sp", &command.sp, options.assign.sp},
                                     {"pp", &command.pp, options.assign.pp},
                                     {"ep", &command.ep, options.assign.ep}})
    if (text->getNumOccurrences() > 0) {
      how.decided.insert(option);
      product *= std::min<int64_t>(value, 1 << 17);
    }
  for (int64_t ranks : how.ranks)
    if (ranks % product != 0 || (how.decided.size() == 5 && ranks != product))
      return usage("--ranks=" + command.ranks + ": the recipe's options take " + llvm::Twine(product) +
                   " ranks, which do not go into " + llvm::Twine(ranks));
  for (auto [option, text] : {std::pair("tp-mode", &command.tpMode),
                              {"tp-depth", &command.tpDepth},
                              {"sp-mode", &command.spMode},
                              {"pp-schedule", &command.ppSchedule},
                              {"microbatches", &command.microbatches},
                              {"zero", &command.zero}})
    if (text->getNumOccurrences() > 0)
      how.decided.insert(option);
  how.output = command.output;
  how.json = command.json;
  return 0;
}

void printPatterns() {
  for (const Pattern *pattern : allPatterns()) {
    llvm::outs() << pattern->name() << " [";
    llvm::interleaveComma(pattern->axes(), llvm::outs());
    llvm::outs() << "]\n  " << pattern->doc() << "\n\n";
  }
}

int plan(PlanCommandLine &command, const CompileOptions &options) {
  if (command.automatic) {
    AutoOptions how;
    int status = read(command, options, how);
    return status ? status : planAutomatically(options, how);
  }
  for (const cl::Option *only :
       {static_cast<cl::Option *>(&command.ranks), static_cast<cl::Option *>(&command.output),
        static_cast<cl::Option *>(&command.planSeconds), static_cast<cl::Option *>(&command.json)})
    if (only->getNumOccurrences() > 0)
      return usage("--" + only->ArgStr + " goes with --auto");
  return printPlan(options);
}

// What is about runs and their files.
struct CommandsWithoutModel {
  ScheduleCommand schedule;
  CheckpointCommand checkpoint;
  RunCommand train;
  RunControlCommand status{"status", "what runs in a folder of `tessera run`, and how far it is",
                           run::describeRun};
  RunControlCommand ending{"stop", "tell what runs in a folder to finish its step and end", run::stopRun};

  // The exit status of the one that is given; none where none is.
  std::optional<int> run() {
    if (schedule)
      return schedule.run();
    if (checkpoint)
      return checkpoint.run();
    if (train)
      return train.run();
    for (RunControlCommand *control : {&status, &ending})
      if (*control)
        return control->run();
    return std::nullopt;
  }
};

} // namespace

int tessera::runCommandLine(int argc, char **argv) {
  registerTargets();
  static CompileCommand compileCommand("compile", "compile a model into an executable");
  static PlanCommandLine planCommand("plan", "print the plan that the options stand for, or find one");
  static Command explainCommand("explain", "print what becomes of every operator and parameter, and why");
  static Command verifyCommand("verify", "compare the sharded program with that of one rank on random data");
  static ConvertCommand convertCommand(
      "convert", "write the model with its plan, or trained weights for the framework that exported it");
  static Command simulateCommand("simulate",
                                 "print what a step takes, by the machine's rates, without an executable");
  static Flag simulateJson{"json", cl::desc("as JSON"), cl::sub(simulateCommand.sub)};
  static CommandsWithoutModel others;
  static cl::opt<std::string> glob{"op", cl::desc("only operators with this name: node, module or parameter"),
                                   cl::value_desc("GLOB"), cl::sub(explainCommand.sub)};
  static cl::opt<std::string> why{
      "why", cl::desc("only why what has this name (node, module or parameter) became what it is"),
      cl::value_desc("NODE"), cl::sub(explainCommand.sub)};
  static cl::opt<std::string> tolerance{
      "tolerance",
      cl::desc("difference allowed, relative to the largest magnitude of a tensor (default 1e-5)"),
      cl::value_desc("X"), cl::init("1e-5"), cl::sub(verifyCommand.sub)};
  // LLVM's own options mean nothing to users of this tool.
  static cl::OptionCategory ours("options");
  cl::HideUnrelatedOptions(ours);
  std::string problems;
  llvm::raw_string_ostream os(problems);
  // LLVM begins its messages about single options with the program's name: with the word of the contract,
  // unless help is asked for.
  std::vector<const char *> arguments(argv, argv + argc);
  if (llvm::none_of(arguments,
                    [](llvm::StringRef a) { return a.starts_with("--help") || a == "-h" || a == "-help"; }))
    arguments[0] = "error";
  if (std::string problem = unknownOption(llvm::ArrayRef(arguments).drop_front()); !problem.empty())
    return usage(problem);
  bool parsed = cl::ParseCommandLineOptions(
      argc, arguments.data(), "Tessera: compiles models into sharded, distributed programs\n", &os);
  if (!FlagParser::problem.empty())
    return usage(FlagParser::problem);
  if (!parsed) // a missing value has been reported already
    return problems.empty() ? 2 : usage(withoutProgramName(problems));
  if (std::optional<int> status = others.run())
    return *status;
  CompileOptions options;
  if (compileCommand) {
    if (compileCommand.listPatterns) {
      printPatterns();
      return 0;
    }
    if (int status = read(compileCommand, options))
      return status;
    return failed(compile(options)) ? 1 : 0;
  }
  if (convertCommand) {
    if (int status = read(convertCommand, options))
      return status;
    return convertCommand.format == "safetensors" ? joinCheckpoint(options.model, options.output, false)
           : convertCommand.format == "torch"     ? convertToTorch(options)
           : convertCommand.format == "onnx"      ? convertToOnnx(options)
                                                  : convertToText(options);
  }
  for (Command *command :
       {static_cast<Command *>(&planCommand), &explainCommand, &verifyCommand, &simulateCommand})
    if (*command)
      if (int status = read(*command, options))
        return status;
  if (planCommand)
    return plan(planCommand, options);
  if (simulateCommand)
    return simulate(options, simulateJson);
  if (explainCommand)
    return explain(options, glob, why);
  if (verifyCommand) {
    double allowed = 0;
    if (llvm::StringRef(tolerance).getAsDouble(allowed) || !(allowed >= 0))
      return usage("--tolerance=" + tolerance + ": expected a number of at least 0");
    return verify(options, allowed);
  }
  return usage("no command given; see tessera --help");
}
