// See conv_shape.h.
#include "runtime/device/cpu/conv_shape.h"

#include <array>
#include <tuple>

namespace tessera::rt::cpu {

ConvShape::ConvShape(const CallParser &parser) {
  batch = parser.size("batch");
  ci = parser.size("in_channels");
  co = parser.size("out_channels");
  groups = parser.size("groups", 1);
  const std::vector<int64_t> in = parser.sizes("in");
  const size_t rank = in.size();
  if (rank != 1 && rank != 2)
    parser.fail("attribute 'in' has " + std::to_string(rank) + " dimensions, expected 1 or 2");
  if (groups < 1 || ci % groups || co % groups)
    parser.fail("attribute 'groups' is " + std::to_string(groups) + ", expected a divisor of " +
                std::to_string(ci) + " and " + std::to_string(co) + " channels");
  const auto read = [&](const char *name, int64_t low, int64_t standard, bool required) {
    std::vector<int64_t> list =
        required ? parser.sizes(name, rank) : parser.sizes(name, std::vector<int64_t>(rank, standard));
    for (int64_t value : list)
      if (value < low || value > (int64_t(1) << 31))
        parser.fail(std::string("attribute '") + name + "' holds " + std::to_string(value) + ", expected " +
                    std::to_string(low) + " to 2^31");
    if (rank == 1)
      list.insert(list.begin(), standard);
    return std::pair(list[0], list[1]);
  };
  const auto input = read("in", 0, 1, true), output = read("out", 0, 1, true),
             kernel = read("kernel", 1, 1, true);
  const auto stride = read("strides", 1, 1, false), pad = read("pads", 0, 0, false);
  const auto dilation = read("dilations", 1, 1, false);
  std::tie(h, w) = input;
  std::tie(oh, ow) = output;
  std::tie(kh, kw) = kernel;
  std::tie(strideH, strideW) = stride;
  std::tie(padH, padW) = pad;
  std::tie(dilationH, dilationW) = dilation;
  cig = ci / groups;
  cog = co / groups;
  if (!checkedProduct(std::array{batch, ci, h, w}) || !checkedProduct(std::array{batch, co, oh, ow}) ||
      !checkedProduct(std::array{co, cig, kh, kw}))
    parser.fail("a shape does not fit 64 bits");
  depth = cig * kh * kw;
  pixels = oh * ow;
}

} // namespace tessera::rt::cpu
