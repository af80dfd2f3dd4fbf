// The estimate that `info` gives of a step's duration.
#ifndef TESSERA_LIB_TARGET_STEPTIME_H
#define TESSERA_LIB_TARGET_STEPTIME_H

#include "dialects/dist/Machine.h"
#include "runtime/core/tier.h"
#include "llvm/ADT/DenseMap.h"
#include <algorithm>

namespace tessera {

/// The operations of a step in their order, on their resources: the rank's threads, its links to other ranks,
/// and the ways between the tiers of its memory, and the host's processors. A collective, a copy or an update
/// on the host begins when it is started and those before it on the same resource are complete. Ranks do not
/// slow each other, every buffer comes from memory.
class StepTime {
public:
  StepTime(int64_t threads, dist::Machine machine) : threads(threads), machine(std::move(machine)) {}

  /// A kernel or library call that does `flops` operations, in a half type or not, on buffers of `bytes`
  /// bytes.
  void work(double flops, bool half, double bytes);
  /// A collective whose local source has `bytes` bytes; with a token it is only started.
  void collective(dist::CollectiveKind kind, double bytes, llvm::ArrayRef<dist::AxisRef> axes, int64_t token);
  /// A copy between tiers is started; those in one direction are one after the other.
  void copy(rt::Direction direction, double bytes, int64_t token);
  /// An update on the host is started; they are made one after the other.
  void hostUpdate(int64_t elements, int64_t token);
  void wait(int64_t token);
  /// What came since `begin`, `times` times altogether.
  void repeat(double begin, int64_t times);

  /// So far: what the threads are at, and when all is done.
  double now() const { return busy; }
  double seconds() const {
    double last = std::max({busy, linked, host});
    for (rt::Direction direction : rt::directions)
      last = std::max(last, ways[direction]);
    return last;
  }

private:
  const int64_t threads;
  dist::Machine machine;
  double busy = 0, linked = 0, host = 0;
  rt::PerDirection<double> ways;
  llvm::DenseMap<int64_t, double> complete; // by token
};

} // namespace tessera
#endif
