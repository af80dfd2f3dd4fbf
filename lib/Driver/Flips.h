// The search within a plan's mesh: one decision at a time is made otherwise, as long as that pays.
#ifndef TESSERA_LIB_DRIVER_FLIPS_H
#define TESSERA_LIB_DRIVER_FLIPS_H

#include "lib/Driver/Judges.h"
#include "lib/Driver/PlanDecisions.h"
#include <functional>
#include <map>

namespace tessera {

/// What a plan is worth below a cap. What fits is before what does not; of those the fastest, of these the
/// smallest.
struct Price {
  bool compiles = false, fits = false;
  double seconds = 0;
  int64_t bytes = 0;

  bool operator<(const Price &other) const;
};

/// Changes plans of one model and number of ranks. The same plans in the same order on any machine, unless
/// `isTimeFor`, asked about work as a judge counts it and whether it is a pipeline's, ends it.
class Flips {
public:
  /// A plan, and what it comes to.
  struct Found {
    Plan plan;
    Price price;
    Price alone;     // without caps
    Verdict verdict; // without caps, unless it fits by them alone
    /// How many decisions were made otherwise on the way.
    size_t flips = 0;
  };

  /// `shallow`: of `model`; null: that is always compiled itself. `judges`: of both. `cap`: of the device, in
  /// bytes.
  Flips(const Compilation &model, Shallow *shallow, Judges &judges, const DecidedOptions &decided,
        int64_t cap, std::function<bool(double, bool)> isTimeFor);

  /// The best plan that is reached from `start`, perhaps itself, by compiling up to `effort` operators, and
  /// what was not needed so far.
  Found improve(const Plan &start, double effort);
  /// Notes at each of the plan's entries what it gains against the best of the alternatives that were judged.
  void annotate(Plan &plan);
  size_t size() const { return judged.size(); }

private:
  struct Judged {
    Price price, alone; // as in Found
    Verdict verdict;
    bool isKnown = false; // whether it fits below the cap
  };
  void compare(llvm::ArrayRef<Plan> plans);
  const Judged *judge(const Plan &plan, const Found &than);
  bool step(Found &found, const PlanDecision &decision);
  bool stepTwo(Found &found, const PlanDecision &first, const PlanDecision &second);
  std::string noteOf(const Judged &own, const Judged &other, llvm::StringRef choice, size_t count) const;

  const Compilation &model;
  Judge compiler;
  Judges &judges;
  const DecidedOptions &decided;
  const int64_t cap;
  double effort = 0;      // what is left
  const double operators; // of the model
  std::function<bool(double work, bool isPipeline)> isTimeFor;
  std::map<std::string, Judged> judged; // by text
};

} // namespace tessera
#endif
