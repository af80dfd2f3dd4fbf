// Convolutions as products with an unfolded image that exists nowhere: its elements are found where they are
// multiplied.
#include "runtime/device/cuda/kernels/tile.h"

using namespace tessera::rt::cuda;

namespace {
int64_t tilesOf(int64_t m, int64_t n) {
  return (m + gemmTile - 1) / gemmTile * ((n + gemmTile - 1) / gemmTile);
}

/// The input element that meets weight `row` (channel, ky, kx) of a group at `pixel` of the result; `image`
/// begins with the group's channels.
float unfolded(const ConvArguments &a, const float *image, int64_t row, int64_t pixel) {
  int64_t channel = row / (a.kh * a.kw), ky = row / a.kw % a.kh, kx = row % a.kw;
  int64_t y = pixel / a.ow * a.strideH - a.padH + ky * a.dilationH,
          x = pixel % a.ow * a.strideW - a.padW + kx * a.dilationW;
  return y >= 0 && y < a.h && x >= 0 && x < a.w ? image[(channel * a.h + y) * a.w + x] : 0.0f;
}

/// The position of the result at which tap `tap` meets input position `at`, or -1.
int64_t metAt(int64_t at, int64_t tap, int64_t pad, int64_t dilation, int64_t stride, int64_t extent) {
  int64_t reach = at + pad - tap * dilation;
  return reach >= 0 && reach % stride == 0 && reach / stride < extent ? reach / stride : -1;
}
} // namespace

TSR_KERNEL(conv_forward, ConvArguments) {
  int64_t pixels = a.oh * a.ow, depth = a.cig * a.kh * a.kw, tiles = tilesOf(a.cog, pixels),
          item = blockIndex() / tiles, group = item % a.groups;
  const float *image = a.input + item * a.cig * a.h * a.w, *weights = a.weights + group * a.cog * depth;
  float *out = a.out + item * a.cog * pixels;
  computeTile<true, false>(
      a.cog, pixels, depth, blockIndex() % tiles,
      [&](int64_t i, int64_t t) { return weights[i * depth + t]; },
      [&](int64_t t, int64_t j) { return unfolded(a, image, t, j); },
      [&](int64_t i, int64_t j, float sum) {
        out[i * pixels + j] = sum + (a.bias ? a.bias[group * a.cog + i] : 0.0f);
      });
}

TSR_KERNEL(conv_backward_data, ConvArguments) {
  int64_t pixels = a.oh * a.ow, taps = a.kh * a.kw, tiles = tilesOf(a.cig, a.h * a.w),
          item = blockIndex() / tiles, group = item % a.groups;
  const float *dy = a.dy + item * a.cog * pixels, *weights = a.weights + group * a.cog * a.cig * taps;
  float *out = a.out + item * a.cig * a.h * a.w;
  computeTile<true, false>(
      a.cig, a.h * a.w, a.cog * taps, blockIndex() % tiles,
      [&](int64_t i, int64_t t) { return weights[(t / taps * a.cig + i) * taps + t % taps]; },
      [&](int64_t t, int64_t j) {
        int64_t y = metAt(j / a.w, t % taps / a.kw, a.padH, a.dilationH, a.strideH, a.oh);
        int64_t x = metAt(j % a.w, t % a.kw, a.padW, a.dilationW, a.strideW, a.ow);
        return y < 0 || x < 0 ? 0.0f : dy[t / taps * pixels + y * a.ow + x];
      },
      [&](int64_t i, int64_t j, float sum) { out[i * a.h * a.w + j] = sum; });
}

TSR_KERNEL(conv_backward_weights, ConvArguments) {
  int64_t pixels = a.oh * a.ow, depth = a.cig * a.kh * a.kw, tiles = tilesOf(a.cog, depth),
          group = blockIndex() / tiles;
  // A term is a pixel of an image of the batch.
  auto item = [&](int64_t t) { return t / pixels * a.groups + group; };
  float *out = a.out + group * a.cog * depth;
  computeTile<true, true>(
      a.cog, depth, a.batch * pixels, blockIndex() % tiles,
      [&](int64_t i, int64_t t) { return a.dy[(item(t) * a.cog + i) * pixels + t % pixels]; },
      [&](int64_t t, int64_t j) { return unfolded(a, a.input + item(t) * a.cig * a.h * a.w, j, t % pixels); },
      [&](int64_t i, int64_t j, float sum) { out[i * depth + j] = sum; });
}

/// The gradient of a convolution's bias: a warp sums a channel of all images.
TSR_KERNEL(conv_backward_bias, ConvArguments) {
  int64_t channels = a.groups * a.cog, pixels = a.oh * a.ow, channel = blockIndex(), lane = threadIndex();
  float sum = 0;
  for (int64_t t = lane; t < a.batch * pixels; t += lanes)
    sum += a.dy[(t / pixels * channels + channel) * pixels + t % pixels];
  sum = warpSum(sum);
  if (lane == 0)
    a.out[channel] = sum;
}
