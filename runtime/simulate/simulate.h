// What a step takes: the program of every rank, run on a machine that is only described.
//
// Operations are executed in their order as the interpreter executes them (runtime/program/rank_program.cpp):
// kernels and calls one after the other; collectives and messages by the rank's communication, beside them,
// in the order in which they were started (on GPUs: those of one group); copies by a stream for each
// direction. A collective begins when all of its members have come to it, and ends for all; ranks send at
// the same time, and share what they share of links, and of their host's processors (network.h).
#pragma once

#include "runtime/machine/machine.h"
#include "runtime/program/description.h"
#include "runtime/simulate/timeline.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tessera::rt {

struct SimulateOptions {
  /// Of a rank; 0: as many as the program was compiled for.
  int threads = 0;
  /// Ranks whose work takes so many times as long.
  std::map<int64_t, double> slow;
  /// Work takes up to this share more or less, at random by `seed`.
  double jitter = 0;
  uint64_t seed = 0;
  /// Whether ranks that do the same at the same time are simulated once. It changes no result.
  bool folds = true;
  /// Whether to record what each simulated rank does when.
  bool records = false;
  /// Nobody waits for a step of more operations of a rank: a description may say anything.
  int64_t mostOperations = 100'000'000;
};

/// Of one step; means are over the ranks, times in seconds.
struct Simulation {
  double seconds = 0;
  /// When each rank is done.
  std::vector<double> ends;
  /// Ranks that were simulated: one of each class.
  int64_t classes = 0;
  /// Kernels and calls.
  double computing = 0;
  struct Communication {
    double exposed = 0; ///< while the rank has nothing else to do, and what it takes of the rank's computing
    double hidden = 0;  ///< the rest, beside its work
  };
  /// By axes, as traffic is counted. Overlapping transfers are hidden by each other.
  std::map<std::string, Communication> communication;
  /// Without work and communication: other ranks have not come to a collective; another stage has not sent;
  /// a copy between the tiers; the step's end, for which others still work. All of a step is `computing`,
  /// exposed communication and these.
  double waitsForRanks = 0, waitsForStages = 0, waitsForCopies = 0, waitsForEnd = 0;
  SentTable sent;
  MovedBytes moved;
  /// The same in one list: what is sent over axes, by kind (`send` are messages) and by the machine's level
  /// whose links it uses.
  struct Traffic {
    std::string axes, kind;
    size_t level = 0;
    Communication over;
    SentFigures sent;
  };
  std::vector<Traffic> traffic;
  /// Floating-point operations of all ranks, and what part of the products' rate that is.
  double flops = 0, mfu = 0;
  /// Of each class, where it was asked for; their operations are the description's.
  std::vector<RankTimeline> timelines;
};

/// Of the program called `name`. Throws Error where the machine has fewer places than there are ranks, for a
/// slow rank that is not there, and for ranks that would wait for each other for ever.
Simulation simulate(const Description &description, const std::string &name, const Machine &machine,
                    const SimulateOptions &options = {});

/// The machine that the description's estimates are by, or what `given` says over the target's own rates;
/// none where nothing says any. Throws Error where figures are left out.
std::optional<Machine> machineOf(const Description &description, const MachineFile *given = nullptr);

/// Seconds of a step by the description's own machine, with so many threads a rank (0: as compiled); 0 where
/// it has none.
double estimatedSeconds(const Description &description, const std::string &name, int threads = 0);

} // namespace tessera::rt
