// See ModelCommand.h.
#include "lib/Driver/ModelCommand.h"
#include "dialects/dist/Attributes.h"
#include "passes/Assign/Plan.h"
#include "passes/Pipeline/PipelineSchedule.h"
#include "passes/Tiers/Policies/Policies.h"
#include "runtime/core/shards.h"
#include "runtime/core/size.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace tessera;
namespace cl = llvm::cl;

std::string tessera::targetsWithTwins() {
  std::vector<llvm::StringRef> names;
  for (const std::unique_ptr<target::Target> &target : target::targets())
    if (target->hasTwins() && !llvm::is_contained(names, target->library().name()))
      names.push_back(target->library().name());
  return llvm::join(names, " or ");
}

namespace {

// Each of these fills a part of `options`; the exit status, 0 to go on.

// LLVM's own parser of numbers has its own way of reporting.
int readNumbers(ModelCommand &command, CompileOptions &options) {
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
  options.assign.sizes = command.sizes;
  if (!command.sizes.empty() && !rt::parseSizes(command.sizes))
    return usage("--sizes=" + command.sizes +
                 ": expected numbers of ranks in ascending order, such as 1,2,4");
  options.assign.onResize = command.onResize;
  if (!command.onResize.empty() && !isResizeRule(command.onResize.getValue()))
    return usage("--on-resize=" + command.onResize + ": expected keep or scale");
  if (!command.capacityFactor.empty() &&
      (!llvm::to_float(command.capacityFactor, options.capacityFactor) || !(options.capacityFactor > 0) ||
       std::isinf(options.capacityFactor)))
    return usage("--capacity-factor=" + command.capacityFactor + ": expected a number above 0, such as 1.25");
  return 0;
}

// Tensor and sequence parallelism.
int readModes(ModelCommand &command, CompileOptions &options) {
  options.assign.tpMode = command.tpMode;
  if (!llvm::is_contained({"1d", "2d", "2.5d", "3d"}, options.assign.tpMode))
    return usage("--tp-mode=" + command.tpMode + ": expected 1d, 2d, 2.5d or 3d");
  // By so many ranks, or by as many as are found.
  auto mayBeSplit = [&](int64_t ranks, const llvm::cl::opt<std::string> &option) {
    return ranks > 1 || (command.findsRecipe() && option.getNumOccurrences() == 0);
  };
  bool tensor = mayBeSplit(options.assign.tp, command.tp),
       sequence = mayBeSplit(options.assign.sp, command.sp);
  if (options.assign.tpMode != "1d" && !tensor && command.plan.empty())
    return usage("--tp-mode=" + command.tpMode + ": needs --tp N");
  options.assign.spMode = command.spMode;
  if (!command.spMode.empty() &&
      !llvm::is_contained({"megatron", "ulysses", "ring", "rsa"}, options.assign.spMode))
    return usage("--sp-mode=" + command.spMode + ": expected megatron, ulysses, ring or rsa");
  if (options.assign.spMode == "megatron" &&
      (!tensor || options.assign.tpMode != "1d" || options.assign.sp > 1))
    return usage("--sp-mode=megatron: the sequence is split over the axis of --tp, which it needs, in its 1d "
                 "mode and without --sp");
  if (!command.spMode.empty() && options.assign.spMode != "megatron" && !sequence)
    return usage("--sp-mode=" + command.spMode + ": needs --sp N");
  if (options.assign.tpDepth > 0 &&
      (options.assign.tpMode != "2.5d" || options.assign.tp % options.assign.tpDepth))
    return usage("--tp-depth=" + command.tpDepth + ": expected with --tp-mode 2.5d, and a divisor of --tp");
  return 0;
}

// Training state, what is streamed, the schedule of a pipeline.
int readMemory(ModelCommand &command, CompileOptions &options) {
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
int readTiers(ModelCommand &command, CompileOptions &options) {
  for (auto *option : {&command.deviceMemory, &command.hostMemory, &command.nvme, &command.offload,
                       &command.recompute, &command.machine})
    if (option->getNumOccurrences() > 0 && option->empty())
      return usage("--" + option->ArgStr + "=: expected " + option->ValueStr + ", or leave the option out");
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

int readTraining(ModelCommand &command, CompileOptions &options) {
  options.optimizer = command.train;
  if (!options.optimizer.empty() &&
      !llvm::is_contained({"adamw", "adam", "sgd", "sgd-momentum"}, options.optimizer))
    return usage("--train=" + options.optimizer + ": expected adamw, adam, sgd or sgd-momentum");
  options.dtype = command.dtype;
  if (!options.dtype.empty() && !isComputeType(options.dtype))
    return usage("--dtype=" + options.dtype + ": expected f32, bf16 or f16");
  return 0;
}

int readImport(ModelCommand &command, CompileOptions &options) {
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

} // namespace

int tessera::read(PageCommand &command, CompileOptions &options) {
  options.report = command.report;
  options.measured = command.measured;
  llvm::StringRef files = command.report.ValueStr, report = options.report;
  if (!report.empty() && !report.ends_with(".html") && !(files.contains("json") && report.ends_with(".json")))
    return usage("--report=" + report + ": expected " + (files.contains("json") ? "FILE.json or " : "") +
                 "FILE.html");
  if (!options.measured.empty() && !report.ends_with(".html"))
    return usage("--measured=" + options.measured + ": needs --report FILE.html, which it is shown in");
  return 0;
}

int tessera::read(ModelCommand &command, CompileOptions &options) {
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

int tessera::read(TargetCommand &command, CompileOptions &options) {
  options.target = target::findTarget(command.target);
  if (!options.target)
    return usage("--target=" + command.target + ": expected " + target::targetWords());
  return read(static_cast<ModelCommand &>(command), options);
}
