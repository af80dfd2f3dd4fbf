// Convolutions as matrix products with an unfolded image (im2col), a block of which exists at a time.
#include "runtime/device/cpu/conv_shape.h"
#include "runtime/device/cpu/cpu.h"
#include "runtime/device/cpu/functions.h"
#include "runtime/device/cpu/workspace.h"

#include <algorithm>

namespace tessera::rt::cpu {

namespace {
/// Columns of dw per task: fewer than of other products, since a gradient of weights has few tasks.
int64_t weightColumns(int64_t depth) {
  return std::clamp<int64_t>(roundUp((depth + 7) / 8, panelColumns), 32, 128);
}
static_assert(blockDepth * unfoldedStride <= taskRows * blockColumns);

int64_t blocksOf(int64_t extent, int64_t block) { return (extent + block - 1) / block; }

/// One thread's areas: packed rows, packed columns, and either an unfolded block or one of results.
struct Area {
  float *rows, *columns, *block;
  Area(const CallContext &context, int argument, int worker) {
    rows =
        reinterpret_cast<float *>(static_cast<char *>(context.args[argument]) + worker * ownProductBytes(1));
    columns = rows + blockRows * blockDepth;
    block = columns + blockDepth * blockColumns;
  }
};

struct Convolution : ConvShape {
  using ConvShape::ConvShape;

  template <typename Fn>
  void stretches(int64_t row0, int64_t row1, int64_t pixel0, int64_t pixel1, Fn &&fn) const;

  /// block[row - row0][pixel - pixel0] = the input element that meets weight `row` (channel, ky, kx) at
  /// `pixel`.
  void unfold(const float *x, int64_t row0, int64_t row1, int64_t pixel0, int64_t pixel1, float *block) const;
  /// The reverse: adds block elements (rows `stride` apart) to the input elements.
  void fold(float *x, int64_t row0, int64_t row1, int64_t pixel0, int64_t pixel1, const float *block,
            int64_t stride) const;
};

/// fn(row, pixel, count, source, sourceCount, lead): `count` pixels from `pixel` on, all in one output row;
/// the first `lead` and those after `lead + sourceCount` meet padding, the others the input from element
/// `source` on, strideW apart. Rows of small images are short: nothing is divided for one.
template <typename Fn>
void Convolution::stretches(int64_t row0, int64_t row1, int64_t pixel0, int64_t pixel1, Fn &&fn) const {
  const int64_t firstY = pixel0 / ow, firstX = pixel0 % ow;
  for (int64_t row = row0; row < row1; ++row) {
    const int64_t channel = row / (kh * kw), ky = row / kw % kh, kx = row % kw;
    // Of a whole output row, the columns that meet the input.
    const int64_t shift = kx * dilationW - padW, begin = shift >= 0 ? 0 : blocksOf(-shift, strideW),
                  end = shift >= w ? 0 : blocksOf(w - shift, strideW);
    int64_t iy = firstY * strideH - padH + ky * dilationH, ox = firstX;
    for (int64_t pixel = pixel0, count; pixel < pixel1; pixel += count, iy += strideH, ox = 0) {
      count = std::min(ow - ox, pixel1 - pixel);
      int64_t lead = count, inside = 0;
      if (iy >= 0 && iy < h) {
        lead = std::clamp<int64_t>(begin - ox, 0, count);
        inside = std::max<int64_t>(0, std::min(count, end - ox) - lead);
      }
      fn(row, pixel, count, (channel * h + iy) * w + shift + (ox + lead) * strideW, inside, lead);
    }
  }
}

void Convolution::unfold(const float *x, int64_t row0, int64_t row1, int64_t pixel0, int64_t pixel1,
                         float *block) const {
  stretches(row0, row1, pixel0, pixel1,
            [&](int64_t row, int64_t pixel, int64_t count, int64_t source, int64_t inside, int64_t lead) {
              float *out = block + (row - row0) * unfoldedStride + pixel - pixel0;
              std::fill(out, out + lead, 0.0f);
              if (strideW == 1)
                std::copy_n(x + (inside ? source : 0), inside, out + lead);
              else
                for (int64_t i = 0; i < inside; ++i)
                  out[lead + i] = x[source + i * strideW];
              std::fill(out + lead + inside, out + count, 0.0f);
            });
}

void Convolution::fold(float *x, int64_t row0, int64_t row1, int64_t pixel0, int64_t pixel1,
                       const float *block, int64_t stride) const {
  stretches(row0, row1, pixel0, pixel1,
            [&](int64_t row, int64_t pixel, int64_t, int64_t source, int64_t inside, int64_t lead) {
              const float *in = block + (row - row0) * stride + pixel - pixel0 + lead;
              float *out = x + (inside ? source : 0);
              if (strideW == 1)
                for (int64_t i = 0; i < inside; ++i)
                  out[i] += in[i];
              else
                for (int64_t i = 0; i < inside; ++i)
                  out[i * strideW] += in[i];
            });
}
} // namespace

LibraryCall prepareConvForward(CallParser &parser) {
  const Convolution c(parser);
  const int x = parser.buffer("x", c.inputCount()), w = parser.buffer("w", c.weightCount());
  const int y = parser.buffer("y", c.outputCount()),
            bias = parser.bufferIf(parser.flag("bias"), "bias", c.co);
  const int workspace = parser.workspace(convWorkspaceBytes(parser.threads()));
  parser.finish();
  const Kernels &kernel = kernels();
  return [=, &kernel](const CallContext &context) {
    const int64_t columnBlocks = blocksOf(c.pixels, blockColumns), tasks = c.batch * c.groups * columnBlocks;
    context.pool.parallelFor(tasks, 1, [&](int64_t begin, int64_t end, int worker) {
      const Area area(context, workspace, worker);
      for (int64_t task = begin; task < end; ++task) {
        const int64_t image = task / columnBlocks, group = image % c.groups;
        const int64_t p0 = task % columnBlocks * blockColumns, count = std::min(blockColumns, c.pixels - p0);
        const float *xi = static_cast<const float *>(context.args[x]) + image * c.cig * c.h * c.w;
        const float *wi = static_cast<const float *>(context.args[w]) + group * c.cog * c.depth;
        float *yi = static_cast<float *>(context.args[y]) + image * c.cog * c.pixels + p0;
        for (int64_t l = 0; l < c.depth; l += blockDepth) {
          const int64_t depth = std::min(blockDepth, c.depth - l);
          c.unfold(xi, l, l + depth, p0, p0 + count, area.block);
          for (int64_t i = 0; i < c.cog; i += blockRows) {
            const int64_t rows = std::min(blockRows, c.cog - i);
            const Strided packed =
                kernel.packBlock(rows, depth, {wi + i * c.depth + l, c.depth, 1}, area.rows);
            kernel.productRows(rows, count, depth, packed, area.block, unfoldedStride, yi + i * c.pixels,
                               c.pixels, l > 0);
          }
        }
        for (int64_t i = 0; i < c.cog; ++i) {
          const float b = bias < 0 ? 0 : static_cast<const float *>(context.args[bias])[group * c.cog + i];
          for (int64_t p = 0; p < count; ++p)
            yi[i * c.pixels + p] = c.depth == 0 ? b : yi[i * c.pixels + p] + b;
        }
      }
    });
  };
}

LibraryCall prepareConvBackwardData(CallParser &parser) {
  const Convolution c(parser);
  const int w = parser.buffer("w", c.weightCount()), dy = parser.buffer("dy", c.outputCount());
  const int dx = parser.buffer("dx", c.inputCount());
  const int workspace = parser.workspace(convWorkspaceBytes(parser.threads()));
  parser.finish();
  const Kernels &kernel = kernels();
  return [=, &kernel](const CallContext &context) {
    // A task owns some input channels of one image, about one block of rows of the unfolded gradient.
    const int64_t taps = c.kh * c.kw, channels = std::max<int64_t>(1, blockDepth / taps);
    const int64_t channelBlocks = blocksOf(c.cig, channels), tasks = c.batch * c.groups * channelBlocks;
    context.pool.parallelFor(tasks, 1, [&](int64_t begin, int64_t end, int worker) {
      const Area area(context, workspace, worker);
      for (int64_t task = begin; task < end; ++task) {
        const int64_t image = task / channelBlocks, group = image % c.groups;
        const int64_t c0 = task % channelBlocks * channels, c1 = std::min(c0 + channels, c.cig);
        const float *wi = static_cast<const float *>(context.args[w]) + group * c.cog * c.depth;
        const float *dyi = static_cast<const float *>(context.args[dy]) + image * c.cog * c.pixels;
        float *dxi = static_cast<float *>(context.args[dx]) + image * c.cig * c.h * c.w;
        std::fill(dxi + c0 * c.h * c.w, dxi + c1 * c.h * c.w, 0.0f);
        for (int64_t p0 = 0; p0 < c.pixels; p0 += blockColumns) {
          const int64_t count = std::min(blockColumns, c.pixels - p0);
          for (int64_t r0 = c0 * taps; r0 < c1 * taps; r0 += blockDepth) {
            const int64_t r1 = std::min(r0 + blockDepth, c1 * taps);
            for (int64_t l = 0; l < c.cog; l += blockDepth) {
              const int64_t depth = std::min(blockDepth, c.cog - l);
              kernel.packPanels(depth, count, {dyi + l * c.pixels + p0, c.pixels, 1}, area.columns);
              for (int64_t i = r0; i < r1; i += blockRows) {
                const int64_t rows = std::min(blockRows, r1 - i);
                const Strided packed =
                    kernel.packBlock(rows, depth, {wi + l * c.depth + i, 1, c.depth}, area.rows);
                kernel.product(rows, count, depth, packed, area.columns, depth,
                               area.block + (i - r0) * unfoldedStride, unfoldedStride, l > 0);
              }
            }
            c.fold(dxi, r0, r1, p0, p0 + count, area.block, unfoldedStride);
          }
        }
      }
    });
  };
}

LibraryCall prepareConvBackwardWeights(CallParser &parser) {
  const Convolution c(parser);
  const int x = parser.buffer("x", c.inputCount()), dy = parser.buffer("dy", c.outputCount());
  const int dw = parser.buffer("dw", c.weightCount()),
            bias = parser.bufferIf(parser.flag("bias"), "bias", c.co);
  const int workspace = parser.workspace(convWorkspaceBytes(parser.threads()));
  parser.finish();
  const Kernels &kernel = kernels();
  return [=, &kernel](const CallContext &context) {
    const int64_t columns = weightColumns(c.depth), columnBlocks = blocksOf(c.depth, columns);
    context.pool.parallelFor(c.groups * columnBlocks, 1, [&](int64_t begin, int64_t end, int worker) {
      const Area area(context, workspace, worker);
      for (int64_t task = begin; task < end; ++task) {
        const int64_t group = task / columnBlocks;
        const int64_t r0 = task % columnBlocks * columns, count = std::min(columns, c.depth - r0);
        float *dwi = static_cast<float *>(context.args[dw]) + group * c.cog * c.depth;
        for (int64_t i = 0; i < c.cog; ++i)
          std::fill_n(dwi + i * c.depth + r0, count, 0.0f);
        for (int64_t b = 0; b < c.batch; ++b) {
          const int64_t image = b * c.groups + group;
          const float *xi = static_cast<const float *>(context.args[x]) + image * c.cig * c.h * c.w;
          const float *dyi = static_cast<const float *>(context.args[dy]) + image * c.cog * c.pixels;
          for (int64_t p0 = 0; p0 < c.pixels; p0 += blockDepth) {
            const int64_t depth = std::min(blockDepth, c.pixels - p0);
            c.unfold(xi, r0, r0 + count, p0, p0 + depth, area.block);
            kernel.packPanels(depth, count, {area.block, 1, unfoldedStride}, area.columns);
            for (int64_t i = 0; i < c.cog; i += blockRows) {
              const int64_t rows = std::min(blockRows, c.cog - i);
              const Strided packed =
                  kernel.packBlock(rows, depth, {dyi + i * c.pixels + p0, c.pixels, 1}, area.rows);
              kernel.product(rows, count, depth, packed, area.columns, depth, dwi + i * c.depth + r0, c.depth,
                             true);
            }
          }
        }
      }
    });
    if (bias < 0)
      return;
    context.pool.parallelFor(c.co, 4, [&](int64_t begin, int64_t end, int) {
      for (int64_t channel = begin; channel < end; ++channel) {
        double sum = 0;
        for (int64_t b = 0; b < c.batch; ++b) {
          const float *row = static_cast<const float *>(context.args[dy]) + (b * c.co + channel) * c.pixels;
          for (int64_t p = 0; p < c.pixels; ++p)
            sum += row[p];
        }
        static_cast<float *>(context.args[bias])[channel] = float(sum);
      }
    });
  };
}

} // namespace tessera::rt::cpu
