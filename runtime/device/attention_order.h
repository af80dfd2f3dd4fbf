// Where the rows of a block of queries or keys stand in the sequence: what a causal attention compares.
#ifndef TESSERA_DEVICE_ATTENTION_ORDER_H
#define TESSERA_DEVICE_ATTENTION_ORDER_H

#include <stdint.h>

namespace tessera::rt {

/// A block of `size` rows of a sequence of `blocks` of them. In order (`blocks` = 0) row i stands at start +
/// i. In zig-zag order the block is chunk c of twice as many, c = start / size, and behind it chunk 2 *
/// blocks - 1 - c: so every block of queries sees as many keys as any other. Positions grow with rows in
/// both. Inlined always: this is compiled for several machines.
struct AttentionOrder {
  int64_t start, size, blocks;

  [[gnu::always_inline]] constexpr int64_t chunk() const { return size / 2; }
  /// Where the second chunk begins.
  [[gnu::always_inline]] constexpr int64_t back() const { return blocks * size - start / 2 - chunk(); }
  [[gnu::always_inline]] constexpr int64_t position(int64_t row) const {
    if (blocks == 0)
      return start + row;
    return row < chunk() ? start / 2 + row : back() + row - chunk();
  }
  /// How many rows stand before `position`: from 0 to `size`.
  [[gnu::always_inline]] constexpr int64_t before(int64_t position) const {
    if (blocks == 0)
      return clamp(position - start, size);
    int64_t front = clamp(position - start / 2, chunk());
    return front < chunk() ? front : chunk() + clamp(position - back(), chunk());
  }

private:
  [[gnu::always_inline]] static constexpr int64_t clamp(int64_t x, int64_t most) {
    return x < 0 ? 0 : x < most ? x : most;
  }
};

/// The number of keys that query `row` sees among the first `valid` of its block: those that do not stand
/// behind it.
[[gnu::always_inline]] constexpr int64_t visibleKeys(const AttentionOrder &queries,
                                                     const AttentionOrder &keys, int64_t row, int64_t valid) {
  int64_t seen = keys.before(queries.position(row) + 1);
  return seen < valid ? seen : valid;
}

} // namespace tessera::rt
#endif
