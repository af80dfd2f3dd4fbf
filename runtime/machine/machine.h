// A machine with nothing left out: what its files say over what a target has without them.
#pragma once

#include "runtime/core/dtype.h"
#include "runtime/core/tier.h"
#include "runtime/machine/machine_file.h"
#include "runtime/machine/rates.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace tessera::rt {

struct Machine {
  /// Seconds a copy and bytes a second.
  struct Way {
    double latency = 0, bandwidth = 0;
  };

  /// What work takes.
  Rates rates;
  /// Seconds until a collective or message begins, whatever it does.
  double launch = 0;
  /// What a rank's communication takes of its computing while both go on, from 0 to 1; none: what processors
  /// leave it (takeOf).
  std::optional<double> collectivesTake;
  PerDirection<Way> ways;
  /// Elements a second of an optimizer's update on the host.
  double update = 0;
  /// Innermost first.
  std::vector<MachineFile::Level> levels;

  /// Processors and bytes a second of memory that the ranks of the innermost level share; 0: each has its
  /// own.
  double cores = 0, hostBandwidth = 0;

  /// What work takes where there are so many ranks of so many threads. No more of a host's ranks work at a
  /// time than it has processors for.
  Rates ratesOf(int64_t ranks, int64_t threads) const;
  /// What a rank's communication takes of its computing while both go on, where each of so many ranks has so
  /// many threads and one more that communicates (runtime/comm): `collectivesTake`, or what of the latter has
  /// no processor of its own.
  double takeOf(int64_t ranks, int64_t threads) const;
  /// The innermost level that two ranks are in together.
  size_t levelOf(int64_t rank, int64_t other) const;
  /// The ranks of a node of a level: of a group of the level below it.
  int64_t nodeRanks(size_t level) const { return level == 0 ? 1 : levels[level - 1].ranks; }
  /// Of so many ranks those that share a host.
  int64_t ranksOfHost(int64_t ranks) const {
    return std::max<int64_t>(1, std::min(ranks, levels.front().ranks));
  }
  /// Ranks that it has places for.
  int64_t places() const { return levels.back().ranks; }
};

/// Puts what the file says of work over `rates`; a figure for all kernels, or for all products of a type,
/// also over what these say of single classes and shapes.
void setRates(const MachineFile &file, Rates &rates);

/// Throws Error where the file has rates of products, and none of the type that a program computes in: those
/// of another type say nothing of it.
void checkProducts(const MachineFile &file, DType type);

/// What `given` says, and `own` for what it leaves out. Throws Error where `own` leaves out what it needs.
Machine completeMachine(const MachineFile &given, const MachineFile &own);

} // namespace tessera::rt
