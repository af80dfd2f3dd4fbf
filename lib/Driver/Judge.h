// What a recipe or a plan comes to, by the compiler itself.
#ifndef TESSERA_LIB_DRIVER_JUDGE_H
#define TESSERA_LIB_DRIVER_JUDGE_H

#include "lib/Driver/Reductions.h"
#include "passes/Assign/Plan.h"
#include <map>
#include <memory>

namespace tessera {

/// Of the training program, or of inference where there is none.
struct Verdict {
  /// Whether the compiler takes it; else why not.
  bool compiles = false;
  std::string reason;
  /// Of a step, of the slowest rank, by the machine's rates: what `info` says.
  double seconds = 0;
  /// The peak of the device of the rank that needs most, and what it has below.
  int64_t deviceBytes = 0, hostBytes = 0;
  /// The same of each stage of a pipeline, whose most is that above.
  std::vector<int64_t> stageDeviceBytes, stageHostBytes;
  /// What ranks send in a step, mean over them: all of it, and by axes.
  int64_t sentBytes = 0;
  std::map<std::string, int64_t> sentOver;
  /// Floating-point operations of a step, by all ranks.
  double flops = 0;
  /// Where a step's time goes, as a simulation has it (runtime/simulate/simulate.h): means over the ranks.
  double computing = 0, waitsForRanks = 0, waitsForStages = 0, waitsForCopies = 0, waitsForEnd = 0;
  std::map<std::string, double> exposed; // by axes
  /// Whether it was drawn from models with fewer blocks or microbatches, so that it is about that.
  bool isDrawn = false;
};

/// What a program comes to whose memory has been planned, from what `Compilation::describe` returns.
Verdict verdictOf(const Compilation &compilation, const rt::Description &description);

double countOperators(mlir::ModuleOp model);

/// `12.30 ms`, `1.20 s`.
std::string secondsText(double seconds);

/// Seconds below which no step of so many operations can be: all ranks do nothing but products, each as much.
double leastSeconds(const Compilation &model, const Verdict &verdict, int64_t ranks);

/// What is compared: a recipe, with `recompute` as --recompute has it, or a plan. Refers to them.
struct Candidate {
  explicit Candidate(const AssignOptions &recipe, llvm::StringRef recompute)
      : recipe(&recipe), recompute(recompute) {}
  explicit Candidate(const Plan &plan) : plan(&plan) {}

  const AssignOptions *recipe = nullptr;
  llvm::StringRef recompute;
  const Plan *plan = nullptr;
};

/// Compiles one model by plan after plan, from where plans begin to matter up to the plan of memory.
class Judge {
public:
  /// `model` has been differentiated. `shallow`: of it; null: it is always compiled itself.
  explicit Judge(const Compilation &model, Shallow *shallow = nullptr) : model(model), shallow(shallow) {}

  /// What is compiled to compare a candidate: models with fewer blocks, and pipelines of fewer microbatches,
  /// where that is less work.
  Reductions reductions(const Candidate &candidate) const;
  /// One of these: of the training program alone where there is one, as if memory were unlimited. Does not
  /// compile, for no reason, where the plan cannot be had with so few blocks.
  Verdict compare(const Candidate &candidate, const Reduction &reduction);
  /// How much that compiles, in models: the steps of a pipeline and a recipe's rings are unrolled, shallow
  /// models have fewer blocks.
  double work(const AssignOptions &recipe) const;
  double work(const Plan &plan) const;
  /// What the executable will say: of all programs, by the model's options of memory.
  Verdict judge(const AssignOptions &recipe) { return judge(withRecipe(recipe), /*isWhole=*/true); }
  /// The same where it matters only whether it fits: the first placement that does.
  Verdict judgeAny(const AssignOptions &recipe);
  Verdict judge(const Plan &plan) { return judge(withPlan(plan), /*isWhole=*/true); }
  /// The model as the recipe, or the plan's text, would have it, before anything is assigned.
  std::unique_ptr<Compilation> withRecipe(const AssignOptions &recipe) const;
  std::unique_ptr<Compilation> withPlan(const Plan &plan) const;

private:
  struct Size;
  static Size sizeOf(int64_t stages, llvm::StringRef schedule, int64_t microbatches);
  static Size sizeOf(const Plan &plan);

  /// The candidate for the judge's model, which has so many of the blocks; null where there is none.
  std::unique_ptr<Compilation> with(const Candidate &candidate, size_t blocks, Shallow *shallow) const;
  Verdict judge(std::unique_ptr<Compilation> compilation, bool isWhole);
  double work(const Size &size) const;
  std::optional<Depths> blocksFor(const Size &size) const;
  std::optional<Depths> turnsFor(const Size &size) const;

  const Compilation &model;
  Shallow *shallow;
};

} // namespace tessera
#endif
