// The estimate that `info` gives of a step's duration.
#ifndef TESSERA_LIB_TARGET_STEPTIME_H
#define TESSERA_LIB_TARGET_STEPTIME_H

#include "dialects/dist/Cost.h"
#include "dialects/dist/Machine.h"

namespace tessera {

/// Adds up the operations of a step. Nothing overlaps, ranks do not slow each other, every buffer comes from memory.
class StepTime {
public:
  explicit StepTime(dist::CostModel links = {}, dist::MachineRates rates = {}) : links(std::move(links)), rates(rates) {}

  /// A kernel or library call that does `flops` operations on buffers of `bytes` bytes.
  void work(double flops, double bytes, int64_t times);
  /// A collective whose local source has `bytes` bytes.
  void collective(dist::CollectiveKind kind, double bytes, llvm::ArrayRef<dist::AxisRef> axes, int64_t times);

  double flops() const { return totalFlops; }
  double seconds(int64_t threads) const;

private:
  dist::CostModel links;
  dist::MachineRates rates;
  double totalFlops = 0, totalBytes = 0, communication = 0;
};

} // namespace tessera
#endif
