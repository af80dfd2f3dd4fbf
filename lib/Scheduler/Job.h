// What is scheduled and where: jobs, and the places of a cluster.
#ifndef TESSERA_LIB_SCHEDULER_JOB_H
#define TESSERA_LIB_SCHEDULER_JOB_H

#include "lib/Launch/LaunchWords.h"
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tessera::scheduler {

/// How a job's loss falls from its start to its end, 1 / (a + b epochs) + floor: the family of Optimus
/// (EuroSys'18, section 3.1). `target` is where the run ends.
struct LossCurve {
  double first = 0, target = 0, floor = 0;
  /// The loss when `part` of the run, 0 to 1, is done.
  double at(double part) const;
};

/// What becomes of a job's batch when its number of places changes.
enum class Batch {
  Asked,  ///< it stays the asked places', divided anew: fewer places compute more before they communicate
  Places, ///< it is what the throughput table is of, so much a place
  AtLeastAsked ///< the larger of the two
};

/// A training run that can be given any number of places between `fewest` and `most`.
struct Job {
  /// What is launched, where anything is.
  struct Program {
    std::map<int, std::string> executables; ///< places -> what `tessera compile` wrote for so many
    std::vector<std::string> arguments;     ///< of `train`
    int64_t every = 50;                     ///< steps from one checkpoint to the next
    bool isOne = false;                     ///< one executable for all of them, which has a size for each
    std::map<int, int64_t> sizes;           ///< of such a one: places -> `--size`
    bool promised = false;                  ///< the throughput is still to be asked of the executables
    int line = 0, column = 0;               ///< in the jobs file, for messages
  };

  std::string name;
  std::string kind;         ///< jobs of one kind take about as many epochs; the name where none is given
  double arrival = 0;       ///< seconds
  int places = 1;           ///< asked for
  int64_t batch = 1;        ///< samples of a place in a step
  int64_t largestBatch = 1; ///< samples of all places in a step, beyond which the model learns no more
  double learningRate = 1;  ///< at the asked places; it grows with the batch
  double samples = 0;  ///< until the run ends. Policies ask for `told`: where it is unset they have to guess
  double dataSize = 0; ///< samples of an epoch
  double parameters = 0;                               ///< of the model; 0: not known
  std::optional<double> resizeSeconds, restartSeconds; ///< instead of what the cluster says of such a job
  std::optional<LossCurve> loss;
  std::map<int, double> throughput; ///< places -> samples/s, where it is known

  /// What policies know of `samples`: a job that ends at a target loss does not tell.
  std::optional<double> told() const;
  double epochs() const { return samples / dataSize; }
  /// The most places of `count` that it can run on: executables are for certain numbers only.
  int usable(int count) const;
  int fewest() const { return throughput.begin()->first; }
  /// As many places as the table and the largest batch allow.
  int most() const;
  /// Samples/s on `count` places, straight between two entries of the table; 0 below the first.
  double throughputAt(int count) const;
  /// What becomes of the batch on other places, where it is the executables' and not the policy's to say; the
  /// table is of that.
  std::optional<Batch> ownBatch;
  Program program;
  bool toldAnyway = false; ///< policies know `samples` although the run ends at a target loss
};

using launch::Host;

/// Seconds that a job stands still.
struct Pauses {
  double resize = 1;   ///< when its places change while it runs
  double restart = 10; ///< when it starts, or resumes from a checkpoint
};

/// What was measured with a model of so many parameters.
struct MeasuredPauses {
  double parameters = 0;
  Pauses pauses;
};

/// Places are numbered through all hosts.
struct Cluster {
  std::vector<Host> hosts;
  double spread = 1; ///< speed of a job on more hosts than it needs, relative to its table
  Pauses pauses;     ///< of jobs of which neither their own nor their number of parameters is known
  std::vector<MeasuredPauses> measured; ///< in the order of parameters, each number once
  double lostPerDoubling = 0;           ///< part of the samples that a batch of twice the asked one wastes

  int places() const;
  /// The host of each place.
  std::vector<int> hostOfPlace() const;
  /// Of this job: its own, else by its number of parameters, straight between two that were measured and as
  /// the nearest beyond them, else the cluster's.
  Pauses pausesOf(const Job &job) const;
};

/// Samples of all places together in a step.
double batchOn(const Job &job, int count, Batch batch);

/// Useful samples/s by number of places, 0 to the most that the job can have on this cluster.
std::vector<double> speeds(const Job &job, const Cluster &cluster, Batch batch);

} // namespace tessera::scheduler
#endif
