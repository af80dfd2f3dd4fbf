// Who gets which places: what a policy sees, and what it decides.
#ifndef TESSERA_LIB_SCHEDULER_POLICY_H
#define TESSERA_LIB_SCHEDULER_POLICY_H

#include "lib/Scheduler/Job.h"
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace tessera::scheduler {

inline constexpr int kIdle = -1;
inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// The job of each place, or kIdle.
using Assignment = std::vector<int>;

/// A job that has arrived and not ended.
struct ActiveJob {
  int index = 0; ///< in the list of all jobs; what assignments hold
  const Job *job = nullptr;
  const std::vector<double> *speed = nullptr; ///< useful samples/s by number of places
  double done = 0;                            ///< useful samples
  int held = 0;                               ///< places
  double doneBefore = 0;                      ///< useful samples when its places last changed
  double service = 0;                         ///< place seconds so far
  double ran = 0;                             ///< seconds with places
  bool started = false;
  std::vector<double> losses; ///< at the end of each epoch, where the job has a loss

  int epochs() const { return static_cast<int>(done / job->dataSize * (1 + 1e-12)); }
  /// Epochs that have ended since its places last changed.
  int epochsSinceChange() const {
    return epochs() - static_cast<int>(doneBefore / job->dataSize * (1 + 1e-12));
  }
  int most() const { return static_cast<int>(speed->size()) - 1; }
};

/// The next number of places, up to `most`, that is faster than `count`; 0 where there is none. A job whose
/// executables are for certain numbers of places gains nothing in between.
int nextFaster(const std::vector<double> &speed, int count, int most);
/// As few places as are as fast as `count`, at least `fewest`.
int withoutIdle(const std::vector<double> &speed, int count, int fewest);

struct Situation {
  double now = 0; ///< seconds
  const Cluster *cluster = nullptr;
  std::vector<const ActiveJob *> jobs; ///< in the order of their arrival
  Assignment running;
};

/// Decides anew whenever a job comes or ends, and when it asked to be woken. Keeps what it learns of jobs.
class Policy {
public:
  virtual ~Policy() = default;
  /// Gives each job none, or between its fewest and most places.
  virtual Assignment decide(const Situation &situation) = 0;
  /// When to decide again even if nothing happens.
  virtual double wake(const Situation &) { return kNever; }
  virtual Batch batch() const { return Batch::Asked; }
  /// Whether a job's places change while it runs on, which costs a resize; else it restarts from a
  /// checkpoint.
  virtual bool resizes() const { return false; }
  /// Whether the end of any epoch is an occasion to decide.
  virtual bool wantsEpochs() const { return false; }
  /// A job ended, with all its samples done.
  virtual void ended(const ActiveJob &) {}
  /// When the policy thinks a job ends (seconds), by the decision just taken; kNever where it has no opinion.
  virtual double forecast(int) const { return kNever; }
};

/// What can be left out of `ones`, to see what it is worth.
struct OnesParts {
  bool table = true;     ///< places to start with from the throughput table, else one and doubled
  bool forecast = true;  ///< candidates scored by a fast-forward, else by the published sum
  bool kinds = true;     ///< remaining work by kind of job, else by the published regression
  bool batch = true;     ///< no batch below the asked one, else so much a place
  bool evolution = true; ///< candidates evolve, else only those that fill makes from nothing
};

struct PolicyOptions {
  uint64_t seed = 1;
  OnesParts ones;
  /// Jobs that ended before: what policies that learn from ended jobs know at the start.
  std::vector<Job> history;
};

/// The names of all policies.
std::vector<std::string> policyNames();
/// Null for a name that is none.
std::unique_ptr<Policy> makePolicy(const std::string &name, const PolicyOptions &options);

std::unique_ptr<Policy> makeFifo(bool backfill);
std::unique_ptr<Policy> makeDrf();
std::unique_ptr<Policy> makeTiresias();
std::unique_ptr<Policy> makeOptimus(const PolicyOptions &options);
std::unique_ptr<Policy> makeSrtf();
std::unique_ptr<Policy> makeOnesPublished(const PolicyOptions &options);
std::unique_ptr<Policy> makeOnes(const PolicyOptions &options);

} // namespace tessera::scheduler
#endif
