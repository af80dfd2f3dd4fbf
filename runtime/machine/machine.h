// A machine with nothing left out: what its files say over what a target has without them.
#pragma once

#include "runtime/core/dtype.h"
#include "runtime/core/tier.h"
#include "runtime/machine/machine_file.h"

namespace tessera::rt {

struct Machine {
  /// Seconds a copy and bytes a second.
  struct Way {
    double latency = 0, bandwidth = 0;
  };

  /// Operations a second of products, convolutions and attention, by type; bytes a second of memory.
  double productsF32 = 0, productsBF16 = 0, productsF16 = 0, bandwidth = 0;
  /// Whether these are a thread's.
  bool perThread = false;
  /// Seconds until a collective or message begins, whatever it does.
  double launch = 0;
  PerDirection<Way> ways;
  /// Elements a second of an optimizer's update on the host.
  double update = 0;
  /// Innermost first.
  std::vector<MachineFile::Level> levels;

  /// Operations a second of a rank of so many threads.
  double productsOf(DType type, int64_t threads) const;
  /// Bytes a second of kernels of such a rank.
  double bandwidthOf(int64_t threads) const;
  /// The innermost level that two ranks are in together.
  size_t levelOf(int64_t rank, int64_t other) const;
  /// The ranks of a node of a level: of a group of the level below it.
  int64_t nodeRanks(size_t level) const { return level == 0 ? 1 : levels[level - 1].ranks; }
  /// Ranks that it has places for.
  int64_t places() const { return levels.back().ranks; }
};

/// What `given` says, and `own` for what it leaves out. Throws Error where `own` leaves out what it needs.
Machine completeMachine(const MachineFile &given, const MachineFile &own);

} // namespace tessera::rt
