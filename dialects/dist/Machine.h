// What a rank's processor and its links do: the one place that passes ask for time.
#pragma once

#include "dialects/dist/Cost.h"

namespace mlir {
class Operation;
}

namespace tessera::dist {

/// The defaults are thread-seconds of the training steps of a 14M and a 124M GPT (batch 4 x 256, 2 threads of
/// an AVX-512 machine, `train --profile`) divided among products and all else; both models agree within 8 %.
struct Machine {
  /// Floating-point operations a second and thread of products, convolutions and attention in f32.
  double flops = 1.3e11;
  /// Bytes a second and thread of kernels, counting every buffer they read or write once.
  double bytes = 1.5e10;
  /// Collectives and messages.
  CostModel links;

  /// What the program that `op` is in is compiled for.
  static Machine of(mlir::Operation *op) { return {}; }
};

} // namespace tessera::dist
