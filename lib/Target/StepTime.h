// The estimate that `info` gives of a step's duration.
#ifndef TESSERA_LIB_TARGET_STEPTIME_H
#define TESSERA_LIB_TARGET_STEPTIME_H

#include "dialects/dist/Cost.h"

namespace tessera {

/// What a rank's processor does: thread-seconds of the training steps of a 14M and a 124M GPT (batch 4 x 256, 2 threads of
/// an AVX-512 machine, `train --profile`) divided among products and all else; both models agree within 8 %.
struct MachineRates {
  /// Floating-point operations a second and thread of products, convolutions and attention in f32.
  double flops = 1.3e11;
  /// Bytes a second and thread of kernels, counting every buffer they read or write once.
  double bytes = 1.5e10;
};

/// Adds up the operations of a step. Nothing overlaps, ranks do not slow each other, every buffer comes from memory.
class StepTime {
public:
  explicit StepTime(dist::CostModel links = {}, MachineRates rates = {}) : links(std::move(links)), rates(rates) {}

  /// A kernel or library call that does `flops` operations on buffers of `bytes` bytes.
  void work(double flops, double bytes, int64_t times);
  /// A collective whose local source has `bytes` bytes.
  void collective(dist::CollectiveKind kind, double bytes, llvm::ArrayRef<dist::AxisRef> axes, int64_t times);

  double flops() const { return totalFlops; }
  double seconds(int64_t threads) const;

private:
  dist::CostModel links;
  MachineRates rates;
  double totalFlops = 0, totalBytes = 0, communication = 0;
};

} // namespace tessera
#endif
