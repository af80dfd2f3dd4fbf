// The shape of a convolution, as its attributes give it; on every device.
#pragma once

#include "runtime/device/cpu/call_parser.h"

namespace tessera::rt::cpu {

/// A one-dimensional convolution has a first dimension of 1.
struct ConvShape {
  int64_t batch, ci, co, groups, h, w, oh, ow, kh, kw, strideH, strideW, padH, padW, dilationH, dilationW;
  /// Channels per group, taps x input channels of a group, pixels of the result.
  int64_t cig, cog, depth, pixels;

  explicit ConvShape(const CallParser &parser);

  int64_t inputCount() const { return batch * ci * h * w; }
  int64_t outputCount() const { return batch * co * pixels; }
  int64_t weightCount() const { return co * depth; }
};

} // namespace tessera::rt::cpu
