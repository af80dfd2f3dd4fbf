// See OtherPlans.h.
#include "lib/Driver/OtherPlans.h"
#include "mlir/IR/Diagnostics.h"
#include "passes/Schedule/Sizes.h"
#include <chrono>

using namespace mlir;
using namespace tessera;

namespace {

/// Seconds in all, and how often microbatches are doubled.
constexpr double kPatience = 4;
constexpr int kDoublings = 4;

class OtherPlans {
public:
  OtherPlans(const Compilation &refused, double seconds)
      : refused(refused), recipe(refused.options.assign), seconds(seconds) {}

  void tryAll() {
    tryMicrobatches();
    if (recipe.dp > 1 && recipe.zero < 3)
      tryOne("--zero=3", [](AssignOptions &changed) { changed.zero = 3; });
    tryOne("twice the ranks, --tp=" + std::to_string(recipe.tp * 2),
           [](AssignOptions &changed) { changed.tp *= 2; });
    const int64_t stages = recipe.pp * 2;
    const bool hasFew = recipe.microbatches < stages; // some stages would wait all the time
    tryOne("twice the ranks, --pp=" + std::to_string(stages) +
               (hasFew ? " --microbatches=" + std::to_string(stages) : ""),
           [&](AssignOptions &changed) {
             changed.pp = stages;
             changed.microbatches = std::max(changed.microbatches, stages);
           });
    tryOne("twice the ranks, --dp=" + std::to_string(recipe.dp * 2) + " --zero=3",
           [](AssignOptions &changed) { changed.dp *= 2, changed.zero = 3; });
  }

private:
  /// The least that it needs of the device; none where it does not compile, or the time is over.
  std::optional<int64_t> leastOf(const AssignOptions &changed) {
    std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (elapsed.count() + seconds > kPatience)
      return std::nullopt;
    CompileOptions options = refused.options;
    options.assign = changed;
    Compilation compilation(options, refused.context);
    return leastDeviceOf(compilation);
  }

  void note(const std::string &change, int64_t least) {
    if (least < refused.leastDevice)
      emitRemark(UnknownLoc::get(&refused.context))
          << "with " << change << " the least possible is " << sizeText(least) << " on the device";
  }

  void tryOne(const std::string &change, llvm::function_ref<void(AssignOptions &)> apply) {
    AssignOptions changed = recipe;
    apply(changed);
    if (std::optional<int64_t> least = leastOf(changed))
      note(change, *least);
  }

  /// The fewest that may fit, or else the most that were tried.
  void tryMicrobatches() {
    AssignOptions changed = recipe;
    int64_t count = 0, least = INT64_MAX;
    for (int i = 0; i < kDoublings && least > *refused.options.deviceMemory; ++i) {
      changed.microbatches *= 2;
      std::optional<int64_t> now = leastOf(changed);
      if (!now)
        break;
      least = *now, count = changed.microbatches;
    }
    note("--microbatches=" + std::to_string(count), least);
  }

  const Compilation &refused;
  const AssignOptions &recipe;
  const double seconds;
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

} // namespace

std::optional<int64_t> tessera::leastDeviceOf(Compilation &compilation) {
  ScopedDiagnosticHandler quiet(&compilation.context, [](Diagnostic &) { return success(); });
  compilation.options.advises = false;
  compilation.options.report.clear();
  compilation.options.dumpDirectory.clear();
  compilation.wantsLeast = compilation.onlyLeast = true;
  (void)compilation.run(Phase::Schedule);
  return compilation.leastDevice ? std::optional(compilation.leastDevice) : std::nullopt;
}

LogicalResult tessera::runWithAdvice(Compilation &compilation, Phase last) {
  const auto begin = std::chrono::steady_clock::now();
  compilation.wantsLeast = true;
  if (succeeded(compilation.run(last)))
    return success();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  const CompileOptions &options = compilation.options;
  if (compilation.leastDevice > options.deviceMemory.value_or(INT64_MAX) && options.assign.planFile.empty())
    OtherPlans(compilation, elapsed.count()).tryAll();
  return failure();
}
