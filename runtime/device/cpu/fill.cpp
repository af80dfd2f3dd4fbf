// Functions that write constants or indices: fill, mask_padding, logical_index.
#include "runtime/device/cpu/functions.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tessera::rt::cpu {

namespace {
/// One element as bytes, repeated over ranges.
struct Pattern {
  std::array<char, 8> bytes{};
  int64_t size = 0;

  void write(char *target, int64_t count) const {
    if (std::all_of(bytes.begin(), bytes.begin() + size, [this](char b) { return b == bytes[0]; })) {
      std::memset(target, bytes[0], count * size);
      return;
    }
    if (size == 4) {
      uint32_t word;
      std::memcpy(&word, bytes.data(), 4);
      std::fill_n(reinterpret_cast<uint32_t *>(target), count, word);
      return;
    }
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(target + i * size, bytes.data(), size);
  }
};

Pattern parsePattern(const CallParser &parser) {
  Pattern pattern;
  const uint64_t bits = parser.valueBits();
  std::memcpy(pattern.bytes.data(), &bits, sizeof(bits));
  pattern.size = parser.elementBytes();
  return pattern;
}
} // namespace

LibraryCall prepareFill(CallParser &parser) {
  const int64_t count = parser.size("count");
  const Pattern pattern = parsePattern(parser);
  const int out = parser.buffer("out", count, pattern.size);
  parser.finish();
  return [=](const CallContext &context) {
    char *target = static_cast<char *>(context.args[out]);
    context.pool.parallelFor(count, 65536 / pattern.size, [&](int64_t begin, int64_t end, int) {
      pattern.write(target + begin * pattern.size, end - begin);
    });
  };
}

LibraryCall prepareMaskPadding(CallParser &parser) {
  const int64_t outer = parser.size("outer"), n = parser.size("n"), inner = parser.size("inner"),
                piece = parser.size("piece", 0);
  const bool copies = parser.flag("out");
  const Pattern pattern = parsePattern(parser);
  const auto elements = checkedProduct(std::array{outer, n, inner});
  if (piece > 0) {
    const int x = parser.buffer("x", piece, pattern.size);
    const int out = copies ? parser.buffer("out", piece, pattern.size) : x;
    parser.finish(2, 2);
    return [=](const CallContext &context) {
      const int64_t valid = std::clamp<int64_t>(context.scalars[0], 0, n), start = context.scalars[1];
      const int64_t block = n * inner, kept = valid * inner, end = std::min(start + piece, outer * block);
      char *target = static_cast<char *>(context.args[out]);
      if (copies)
        std::memcpy(target, context.args[x], piece * pattern.size);
      // The masked part of every block that the piece meets.
      for (int64_t i = start / block; i * block < end; ++i) {
        const int64_t from = std::max(i * block + kept, start), to = std::min((i + 1) * block, end);
        if (from < to)
          pattern.write(target + (from - start) * pattern.size, to - from);
      }
    };
  }
  const int x = parser.buffer("x", elements, pattern.size);
  const int out = copies ? parser.buffer("out", elements, pattern.size) : x;
  parser.finish(1, 1);
  return [=](const CallContext &context) {
    const int64_t valid = std::clamp<int64_t>(context.scalars[0], 0, n);
    if (!copies && valid == n)
      return;
    const char *source = static_cast<const char *>(context.args[x]);
    char *target = static_cast<char *>(context.args[out]);
    const int64_t block = n * inner, kept = valid * inner;
    const int64_t touched = std::max<int64_t>(1, (copies ? block : block - kept) * pattern.size);
    context.pool.parallelFor(outer, std::max<int64_t>(1, 65536 / touched),
                             [&](int64_t begin, int64_t end, int) {
                               for (int64_t i = begin; i < end; ++i) {
                                 const int64_t at = i * block * pattern.size;
                                 if (copies)
                                   std::memcpy(target + at, source + at, kept * pattern.size);
                                 pattern.write(target + at + kept * pattern.size, block - kept);
                               }
                             });
  };
}

LibraryCall prepareLogicalIndex(CallParser &parser) {
  const int64_t count = parser.size("count");
  const int out = parser.buffer("out", count, 8);
  parser.finish(1, 1);
  return [=](const CallContext &context) {
    int64_t *target = static_cast<int64_t *>(context.args[out]);
    for (int64_t i = 0; i < count; ++i)
      target[i] = context.scalars[0] + i;
  };
}

} // namespace tessera::rt::cpu
