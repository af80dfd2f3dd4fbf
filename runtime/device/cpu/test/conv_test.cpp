// Convolutions and their gradients against direct sums in f64.
#include "runtime/device/cpu/test/harness.h"
#include "runtime/device/cpu/workspace.h"

using namespace tessera::rt;
using namespace tessera::rt::cpu;
using nlohmann::json;

namespace {
struct Case {
  int64_t batch, ci, co, groups;
  std::array<int64_t, 2> in, kernel, strides = {1, 1}, pads = {0, 0}, ends = {0, 0}, dilations = {1, 1};
  bool line = false;
  int64_t out(int i) const {
    return (in[i] + pads[i] + ends[i] - (kernel[i] - 1) * dilations[i] - 1) / strides[i] + 1;
  }
};

/// fn(x index, w index, y index) for every product of the convolution.
template <typename Fn> void forProducts(const Case &c, Fn fn) {
  const int64_t cig = c.ci / c.groups, cog = c.co / c.groups, oh = c.out(0), ow = c.out(1);
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t o = 0; o < c.co; ++o)
      for (int64_t i = 0; i < cig; ++i)
        for (int64_t y = 0; y < oh; ++y)
          for (int64_t x = 0; x < ow; ++x)
            for (int64_t ky = 0; ky < c.kernel[0]; ++ky)
              for (int64_t kx = 0; kx < c.kernel[1]; ++kx) {
                const int64_t iy = y * c.strides[0] - c.pads[0] + ky * c.dilations[0];
                const int64_t ix = x * c.strides[1] - c.pads[1] + kx * c.dilations[1];
                if (iy < 0 || iy >= c.in[0] || ix < 0 || ix >= c.in[1])
                  continue;
                fn(((b * c.ci + o / cog * cig + i) * c.in[0] + iy) * c.in[1] + ix,
                   ((o * cig + i) * c.kernel[0] + ky) * c.kernel[1] + kx, ((b * c.co + o) * oh + y) * ow + x);
              }
}

void check(const Case &c) {
  const int64_t pixels = c.out(0) * c.out(1);
  auto x = randomFloats(c.batch * c.ci * c.in[0] * c.in[1], 1);
  auto w = randomFloats(c.co * (c.ci / c.groups) * c.kernel[0] * c.kernel[1], 2);
  auto bias = randomFloats(c.co, 3), dy = randomFloats(c.batch * c.co * pixels, 4);
  std::vector<double> y(dy.size()), dx(x.size()), dw(w.size()), db(c.co);
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = bias[i / pixels % c.co];
    db[i / pixels % c.co] += dy[i];
  }
  forProducts(c, [&](int64_t xi, int64_t wi, int64_t yi) {
    y[yi] += double(x[xi]) * w[wi];
    dx[xi] += double(dy[yi]) * w[wi];
    dw[wi] += double(dy[yi]) * x[xi];
  });
  const auto list = [&](std::array<int64_t, 2> both) { return c.line ? json{both[1]} : json(both); };
  json attrs = {{"batch", c.batch},
                {"in_channels", c.ci},
                {"out_channels", c.co},
                {"groups", c.groups},
                {"in", list(c.in)},
                {"out", list({c.out(0), c.out(1)})},
                {"kernel", list(c.kernel)},
                {"strides", list(c.strides)},
                {"pads", list(c.pads)},
                {"dilations", list(c.dilations)},
                {"bias", true}};
  const int64_t workspace = convWorkspaceBytes(1);
  std::vector<float> y32(y.size(), notANumber), dx32(x.size(), notANumber), dw32(w.size(), notANumber),
      db32(c.co, notANumber);
  callLibrary("conv_forward", attrs, {x, w, y32, bias}, {}, workspace);
  expectClose(y32, y);
  callLibrary("conv_backward_data", attrs, {w, dy, dx32}, {}, workspace);
  expectClose(dx32, dx);
  callLibrary("conv_backward_weights", attrs, {x, dy, dw32, db32}, {}, workspace);
  expectClose(dw32, dw, 2e-5);
  expectClose(db32, db, 2e-5);
}
} // namespace

TEST(Conv, KernelsAndPadding) {
  check({2, 3, 5, 1, {7, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}});
  check({1, 40, 130, 1, {20, 18}, {3, 3}, {1, 1}, {1, 1}, {1, 1}});
  check({2, 8, 6, 1, {5, 5}, {1, 1}});
  check({1, 2, 3, 1, {6, 6}, {6, 6}, {1, 1}, {5, 5}, {5, 5}});
}

TEST(Conv, StridesAndDilations) {
  check({1, 3, 4, 1, {17, 15}, {7, 5}, {2, 3}, {3, 2}, {3, 2}});
  check({2, 3, 4, 1, {13, 13}, {3, 3}, {2, 2}, {0, 1}, {1, 0}, {2, 3}});
  check({1, 1, 1, 1, {20, 20}, {17, 17}});
}

TEST(Conv, Groups) {
  check({2, 6, 9, 3, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}});
  check({1, 5, 5, 5, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}});
}

TEST(Conv, OneDimension) { check({2, 4, 6, 2, {1, 50}, {1, 5}, {1, 2}, {0, 2}, {0, 2}, {1, 1}, true}); }
