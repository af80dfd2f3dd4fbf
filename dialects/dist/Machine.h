// What a rank's processor and its links do: the one place that passes ask for time.
#pragma once

#include "dialects/dist/Cost.h"
#include "runtime/machine/rates.h"

namespace mlir {
class Operation;
}

namespace tessera::dist {

/// A CPU's rates: thread-seconds of the training steps of a 14M and a 124M GPT (batch 4 x 256, 2 threads of
/// an AVX-512 machine, `train --profile`) divided among products and all else; both models agree within 8 %.
rt::Rates cpuRates();

/// Rates of one rank, unless it is said otherwise a CPU's. A target has its own (`#dist.machine` on the
/// module).
struct Machine {
  /// What kernels and calls take.
  rt::Rates rates = cpuRates();
  /// Collectives and messages.
  CostModel links;
  /// Copies between the device and the host: seconds a copy and a byte, each way, both at once.
  Link host = {1e-5, 1e-10};
  /// Reads and writes of the host's file on NVMe: seconds an access and a byte, each way.
  Link disk = {1e-4, 5e-10};
  /// Elements a second of an optimizer's update on the host's processors.
  double update = 5e8;

  bool operator==(const Machine &) const = default;

  /// What the program that `op` is in is compiled for.
  static Machine of(mlir::Operation *op);
};

llvm::hash_code hash_value(const Machine &machine);

} // namespace tessera::dist
