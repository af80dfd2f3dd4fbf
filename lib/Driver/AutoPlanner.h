// The search of `tessera plan --auto`: the plan that makes the fastest step, by the compiler's own estimate.
//
// Every plan that is considered is compiled up to its plan of memory, so what is compared is what `info` of
// the executable will say. Deep models are compared by shallow ones (Shallow.h), and the best compiled whole.
// The search judges every way to spread the ranks over the axes, then goes from the best of each kind (data,
// tensor, sequence, expert, pipeline, mixed) to the best neighbour while that is faster. From the best
// recipes of different meshes it goes on by one decision at a time (Flips.h). What does not depend on each
// other is judged by several threads (Judges.h); without the clock the search is the same on every machine
// that gives a rank as many threads.
#ifndef TESSERA_LIB_DRIVER_AUTOPLANNER_H
#define TESSERA_LIB_DRIVER_AUTOPLANNER_H

#include "lib/Driver/Commands.h"
#include "lib/Driver/Flips.h"
#include "lib/Driver/Interruption.h"
#include "lib/Driver/Page/Page.h"
#include "lib/Driver/Recipes.h"
#include <atomic>
#include <chrono>
#include <set>

namespace tessera {

/// A plan that was judged: a recipe's, or one that was reached from it.
struct JudgedPlan {
  AssignOptions recipe;
  Verdict verdict;               // to compare by, as if memory were unlimited
  std::optional<Verdict> lean;   // the same with blocks run again, of what is too large without
  Verdict fitted;                // of what was tried to the end
  bool recomputes = false;       // whether that is `lean`, of which the plan has to say so
  std::optional<Plan> plan = {}; // where it is not the recipe's
  size_t flips = 0;              // how many of its decisions are others

  /// Of what it was compared by.
  int64_t leastDeviceBytes() const {
    return lean ? std::min(lean->deviceBytes, verdict.deviceBytes) : verdict.deviceBytes;
  }
  std::string text() const {
    return recipeText(recipe) +
           (flips ? ", " + std::to_string(flips) + (flips == 1 ? " decision" : " decisions") + " changed"
                  : "");
  }
};

/// What the device needs at least.
struct LeastMemory {
  int64_t bytes;
  AssignOptions recipe;
  std::string by; // it, and how many of its decisions are others
};

/// Looks for the best plan of one model for one number of ranks.
class AutoPlanner {
public:
  /// `model` has been differentiated, `shallow` and `judges` are of it; `decided`: what of a recipe stays as
  /// the model's options have it; `end`: of the search.
  AutoPlanner(Compilation &model, Shallow &shallow, Judges &judges, const DecidedOptions &decided,
              int64_t ranks, bool trains, std::chrono::steady_clock::time_point end)
      : model(model), judge(model, &shallow), judges(judges),
        recipes(ranks, model.options.assign, decided, trains, samplesOf(*model.module)),
        begin(std::chrono::steady_clock::now()), end(end),
        flips(model, &shallow, judges, decided, cap(),
              [this](double work, bool isPipeline) { return isTimeFor(work, isPipeline, this->end); }) {}

  /// The fastest that keeps the caps; null where none was found.
  const JudgedPlan *run();
  /// By rising seconds: those that compile.
  std::vector<const JudgedPlan *> ranking() const;
  /// What needs least of the device, where nothing fits: by rising bytes, at most so many.
  std::vector<const JudgedPlan *> smallest(size_t count) const;
  /// What of these needs least whatever is moved off the device, in as many microbatches as make it less.
  /// After `until` no other is begun but the first.
  std::optional<LeastMemory> leastBelow(llvm::ArrayRef<const JudgedPlan *> list,
                                        std::chrono::steady_clock::time_point until);
  /// In place of `run`, a recipe that keeps the caps, whether or not it is fast: first `fewer`, one for fewer
  /// ranks, with more of them on one axis. Changes no decisions. Null where none was found.
  const JudgedPlan *runForAny(const AssignOptions &fewer);
  /// How many recipes, and how many changes of the best, were compiled.
  size_t size() const { return numRecipes; }
  size_t numFlips() const { return flips.size(); }
  /// The plan of what was found, with what each of its entries gains.
  mlir::FailureOr<Plan> planOf(const JudgedPlan &each);
  /// The model as it is to be compiled.
  std::unique_ptr<Compilation> compilationOf(const JudgedPlan &each) const;
  std::chrono::steady_clock::time_point began() const { return begin; }
  /// Whether the clock, or an interruption, kept something from being judged.
  bool wasCut() const { return cut || leftOut; }
  std::string firstReason() const { return reason; }
  /// All that were judged, by rising seconds; those that do not compile last.
  std::vector<Alternative> alternatives(const JudgedPlan &best) const;

private:
  // Where any that fits will do, how many are tried, and how often microbatches are doubled.
  static constexpr size_t kTriedToFind = 6;
  static constexpr int kDoublings = 3;

  bool isLate() {
    if (std::chrono::steady_clock::now() >= end || interruption::wasAsked())
      cut = true;
    return cut;
  }
  int64_t cap() const { return model.options.deviceMemory.value_or(INT64_MAX); }
  using Time = std::chrono::steady_clock::time_point;
  std::vector<JudgedPlan *> consider(llvm::ArrayRef<AssignOptions> list, Time until);
  bool isTimeFor(double work, bool isPipeline, Time until);
  bool fits(const Verdict &verdict) const { return verdict.deviceBytes <= cap(); }
  bool mayRecompute() const;
  // Before all else, whether what splits most over data and tensor alone does not come near the cap, whatever
  // is moved; then whether no walk leads to what keeps it; and behind the walks, whether what needs least and
  // what is fastest do not keep it.
  bool isHopeless();
  bool isFarOutOfReach();
  bool isOutOfReach();
  bool isAbove(llvm::ArrayRef<const JudgedPlan *> list, int64_t times);
  // What fits of the `count` that need least, in more and more microbatches: the fastest of the fewest with
  // which any does.
  const JudgedPlan *findAny(size_t count, int doublings);
  LeastMemory leastOf(Judge &one, const JudgedPlan &each, Time until) const;
  std::vector<std::optional<Verdict>> compare(llvm::ArrayRef<Candidate> list, bool isFirst, Time until);
  std::vector<JudgedPlan *> considerSplit(llvm::ArrayRef<AssignOptions> list, Time until);
  double knownWorth(const AssignOptions &recipe) const;
  void considerLean(llvm::ArrayRef<JudgedPlan *> large, Time until);
  // What is compared while recipes are walked: too much memory is worth as much more time.
  double worth(const Verdict &verdict) const {
    return verdict.seconds * std::max(1.0, double(verdict.deviceBytes) / double(cap()));
  }
  double worth(const JudgedPlan &each) const {
    return each.lean ? std::min(worth(each.verdict), worth(*each.lean)) : worth(each.verdict);
  }
  bool isPromising(const AssignOptions &recipe);
  std::vector<JudgedPlan *> bestOfKinds();
  void climb(std::vector<JudgedPlan *> from, Time until);
  std::vector<JudgedPlan *> inOrder();
  void tryWhole(Judge &one, JudgedPlan &each);
  const JudgedPlan *fastestThatFits(llvm::ArrayRef<JudgedPlan *> order, const JudgedPlan *best);
  std::vector<const JudgedPlan *> starts(const JudgedPlan *best);
  mlir::FailureOr<Plan> barePlan(const AssignOptions &recipe) const;
  const JudgedPlan *flip(const JudgedPlan *best);

  Compilation &model;
  Judge judge;
  Judges &judges;
  Recipes recipes;
  const std::chrono::steady_clock::time_point begin, end; // of the search
  std::map<std::string, JudgedPlan> judged;               // by text
  std::map<std::string, LeastMemory> leasts;              // what was asked of `leastBelow`, by text
  std::set<std::string> hopeless; // not judged, since what is nearer to data alone is slow; by text
  std::string reason;             // why the first that does not compile does not
  bool anyWillDo = false;         // `runForAny`
  size_t numRecipes = 0;
  std::atomic<bool> cut = false;
  std::atomic<bool> leftOut = false;
  // On recipes that compile, so far: models as Judge::work counts them, and how long they took.
  struct Pace {
    double models = 0;
    std::chrono::duration<double> spent{0};
  };
  std::mutex mutex;
  Pace paces[2]; // of recipes without a pipeline, and with one, whose programs are unrolled
  Flips flips;
};

} // namespace tessera
#endif
