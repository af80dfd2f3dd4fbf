// See Cuts.h.
#include "lib/Driver/Cuts.h"
#include "dialects/dist/Pipeline.h"
#include "lib/Driver/Judges.h"
#include "mlir/IR/Diagnostics.h"
#include "passes/Assign/Balance.h"
#include "llvm/Support/SaveAndRestore.h"
#include <limits>
#include <set>

using namespace mlir;
using namespace tessera;

/// Operators that may be compiled to compare cuts: somewhat more than a second.
static constexpr double kEffort = 27000;
static constexpr int64_t kNumRules = std::size(kCutRules);
/// How much longer a step may take and count as no longer: simulated steps are no more exact.
static constexpr double kSameTime = 1.001;

// Whether it is a pipeline whose stages no list names, and small enough.
static bool isWorthComparing(const Compilation &compilation) {
  ModuleOp module = compilation.module.get();
  FailureOr<Plan> plan = makePlan(module, compilation.options.assign);
  return succeeded(plan) && plan->pipeline && plan->pipeline->stages.empty() &&
         countOperators(module) * Judge(compilation).work(*plan) * kNumRules <= kEffort;
}

// The chunk of each operator that has one, in order.
static std::vector<int64_t> chunksOf(ModuleOp module) {
  std::vector<int64_t> chunks;
  module->walk([&](Operation *op) {
    if (std::optional<dist::PipelinePart> part = dist::PipelinePart::of(op))
      chunks.push_back(part->chunk);
  });
  return chunks;
}

// With each of the rules, from the last on, that cuts otherwise than those before.
static std::vector<AssignOptions> recipesOf(const Compilation &compilation, const Judge &judge) {
  std::vector<AssignOptions> recipes;
  std::set<std::vector<int64_t>> seen;
  AssignOptions recipe = compilation.options.assign;
  for (recipe.cut = kNumRules - 1; recipe.cut >= 0; --recipe.cut)
    if (std::unique_ptr<Compilation> assigned = judge.withRecipe(recipe);
        succeeded(assigned->run(Phase::Assign)) && seen.insert(chunksOf(*assigned->module)).second)
      recipes.push_back(recipe);
  return recipes;
}

void tessera::chooseCut(Compilation &compilation) {
  int64_t &cut = compilation.options.assign.cut;
  if (compilation.options.toCompare || cut >= 0)
    return;
  cut = 0;
  // What is wrong is said when the model is compiled.
  ScopedDiagnosticHandler quiet(&compilation.context, [](Diagnostic &) { return success(); });
  if (!isWorthComparing(compilation))
    return;
  // The same on any machine, however many cores it has.
  int64_t &threads = compilation.options.threads;
  llvm::SaveAndRestore given(threads, std::max<int64_t>(threads, 1));
  // Whatever is made again and whatever leaves the device a program has the same bits, so the same cut.
  llvm::SaveAndRestore recompute(compilation.options.recompute, std::string("none"));
  Judge judge(compilation);
  std::vector<AssignOptions> recipes = recipesOf(compilation, judge);
  if (recipes.size() <= 1)
    return;
  std::vector<Candidate> candidates;
  for (const AssignOptions &each : recipes)
    candidates.emplace_back(each, compilation.options.recompute);
  const std::vector<std::optional<Verdict>> verdicts = Judges(compilation).compare(candidates);
  const Verdict &last = *verdicts.front();
  double least = std::numeric_limits<double>::infinity();
  for (auto [recipe, compared] : llvm::zip(recipes, verdicts)) {
    const Verdict &verdict = *compared;
    double product = verdict.seconds * double(verdict.deviceBytes);
    bool isWorse = last.compiles &&
                   (verdict.seconds > kSameTime * last.seconds || verdict.deviceBytes > last.deviceBytes);
    if (verdict.compiles && !isWorse && product < least) {
      least = product;
      cut = recipe.cut;
    }
  }
}
