// What a rank's processor does.
#pragma once

namespace tessera::dist {

/// Thread-seconds of the training steps of a 14M and a 124M GPT (batch 4 x 256, 2 threads of an AVX-512
/// machine, `train --profile`) divided among products and all else; both models agree within 8 %.
struct MachineRates {
  /// Floating-point operations a second and thread of products, convolutions and attention in f32.
  double flops = 1.3e11;
  /// Bytes a second and thread of kernels, counting every buffer they read or write once.
  double bytes = 1.5e10;
};

} // namespace tessera::dist
