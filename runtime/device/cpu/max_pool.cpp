// The gradient of a maximum over windows, by what each window has chosen: a window is one addition, where
// looking from an element at all windows around it would be as many as it is in.
#include "runtime/device/cpu/functions.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::rt::cpu {

namespace {
/// Windows over an image of three dimensions; of fewer the first ones have one element. A window's elements
/// are numbered row-major.
class Windows {
public:
  explicit Windows(CallParser &parser) {
    const int64_t given = int64_t(parser.sizes("in").size());
    if (given < 1 || given > int64_t(rank))
      parser.fail("attribute 'in': expected one to three sizes");
    auto sizes = [&](const char *name, int64_t others) {
      Sizes all;
      all.fill(others);
      const std::vector<int64_t> list = parser.sizes(name, given);
      if (std::ranges::max(list) > mostSize)
        parser.fail("attribute '" + std::string(name) + "': expected sizes up to " +
                    std::to_string(mostSize));
      std::ranges::copy(list, all.end() - given);
      return all;
    };
    in = sizes("in", 1), out = sizes("out", 1), strides = sizes("strides", 1), pads = sizes("pads", 0);
    const Sizes window = sizes("kernel", 1), dilations = sizes("dilations", 1);
    const std::optional<int64_t> count = checkedProduct(window);
    if (!count || *count < 1 || *count > mostNumbers)
      parser.fail("attribute 'kernel': expected a window of 1 to " + std::to_string(mostNumbers) +
                  " elements");
    for (int64_t number = 0; number < *count; ++number) {
      Sizes &offset = offsets.emplace_back();
      for (size_t d = rank, rest = size_t(number); d-- > 0; rest /= size_t(window[d]))
        offset[d] = int64_t(rest) % window[d] * dilations[d] - pads[d];
    }
  }

  std::optional<int64_t> imageElements() const { return checkedProduct(in); }
  std::optional<int64_t> windows() const { return checkedProduct(out); }

  /// Adds to each element of an image what its windows have, in the windows' order. What a window has chosen
  /// beyond the image counts for nothing.
  void add(const int32_t *chosen, const float *dy, float *dx) const {
    for (int64_t z = 0; z < out[0]; ++z)
      for (int64_t y = 0; y < out[1]; ++y)
        for (int64_t x = 0; x < out[2]; ++x, ++chosen, ++dy) {
          const auto number = size_t(uint32_t(*chosen));
          if (number >= offsets.size())
            continue;
          const Sizes &offset = offsets[number];
          // Below 0 they are large.
          const auto iz = uint64_t(z * strides[0] + offset[0]), iy = uint64_t(y * strides[1] + offset[1]),
                     ix = uint64_t(x * strides[2] + offset[2]);
          if (iz < uint64_t(in[0]) && iy < uint64_t(in[1]) && ix < uint64_t(in[2]))
            dx[(iz * uint64_t(in[1]) + iy) * uint64_t(in[2]) + ix] += *dy;
        }
  }

private:
  static constexpr size_t rank = 3;
  static constexpr int64_t mostNumbers = int64_t(1) << 20, mostSize = int64_t(1) << 30;
  using Sizes = std::array<int64_t, rank>;
  Sizes in, out, strides, pads;
  std::vector<Sizes> offsets; ///< of each number, from where its window would begin without padding
};
} // namespace

LibraryCall prepareMaxPoolBackward(CallParser &parser) {
  const int64_t images = parser.size("images");
  const Windows windows(parser);
  const std::optional<int64_t> image = windows.imageElements(), results = windows.windows();
  auto ofAll = [&](std::optional<int64_t> each) {
    return each ? checkedProduct(std::array{images, *each}) : std::nullopt;
  };
  const int chosen = parser.buffer("chosen", ofAll(results)), dy = parser.buffer("dy", ofAll(results)),
            dx = parser.buffer("dx", ofAll(image));
  parser.finish();

  return [=](const CallContext &context) {
    constexpr int64_t elements = 16384; // a chunk's, about
    context.pool.parallelFor(images, std::max<int64_t>(1, elements / std::max<int64_t>(1, *image)),
                             [&](int64_t begin, int64_t end, int) {
                               for (int64_t i = begin; i < end; ++i) {
                                 float *to = static_cast<float *>(context.args[dx]) + i * *image;
                                 std::fill_n(to, *image, 0.0f);
                                 windows.add(static_cast<const int32_t *>(context.args[chosen]) +
                                                 i * *results,
                                             static_cast<const float *>(context.args[dy]) + i * *results, to);
                               }
                             });
  };
}

} // namespace tessera::rt::cpu
