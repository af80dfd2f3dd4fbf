// What a rank's processor and its links do: the one place that passes ask for time.
#pragma once

#include "dialects/dist/Cost.h"

namespace mlir {
class Operation;
}

namespace tessera::dist {

/// Rates of one rank. The defaults are those of a CPU: thread-seconds of the training steps of a 14M and a
/// 124M GPT (batch 4 x 256, 2 threads of an AVX-512 machine, `train --profile`) divided among products and
/// all else; both models agree within 8 %. A target has its own (`#dist.machine` on the module).
struct Machine {
  /// Floating-point operations a second of products, convolutions and attention in f32, and in bf16 and f16.
  double flops = 1.3e11, halfFlops = 1.3e11;
  /// Bytes a second of kernels, counting every buffer they read or write once.
  double bytes = 1.5e10;
  /// Whether these are a thread's, or the whole device's however many threads the host has.
  bool perThread = true;
  /// Collectives and messages.
  CostModel links;
  /// Copies between the device and the host: seconds a copy and a byte, each way, both at once.
  Link host = {1e-5, 1e-10};
  /// Reads and writes of the host's file on NVMe: seconds an access and a byte, each way.
  Link disk = {1e-4, 5e-10};
  /// Elements a second of an optimizer's update on the host's processors.
  double update = 5e8;

  bool operator==(const Machine &) const = default;

  /// Seconds of a kernel or call that does `flops` operations, in a half type or not, on buffers of `bytes`
  /// bytes, by a rank of `threads` threads.
  double seconds(double flops, bool half, double bytes, int64_t threads) const;

  /// What the program that `op` is in is compiled for.
  static Machine of(mlir::Operation *op);
};

llvm::hash_code hash_value(const Machine &machine);

} // namespace tessera::dist
