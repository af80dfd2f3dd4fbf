// Random numbers of a counter: Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers:
// as easy as 1, 2, 3"). Nothing is carried from one number to the next, so every rank draws those of its
// elements and all agree. Inlined always: this is compiled for several machines.
#ifndef TESSERA_CORE_PHILOX_H
#define TESSERA_CORE_PHILOX_H

#include <stdint.h>

namespace tessera::rt {

struct PhiloxWords {
  uint32_t word[4];
};

/// Ten rounds under `key`, whose low half is the first of the paper's two key words.
[[gnu::always_inline]] constexpr PhiloxWords philox(PhiloxWords counter, uint64_t key) {
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t x = uint64_t(0xD2511F53u) * counter.word[0], y = uint64_t(0xCD9E8D57u) * counter.word[2];
    counter = {{uint32_t(y >> 32) ^ counter.word[1] ^ k0, uint32_t(y),
                uint32_t(x >> 32) ^ counter.word[3] ^ k1, uint32_t(x)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return counter;
}

/// The words of elements 4 * quad to 4 * quad + 3 of the operator with number `id`.
[[gnu::always_inline]] constexpr PhiloxWords philoxQuad(uint64_t key, uint64_t id, uint64_t quad) {
  return philox({{uint32_t(quad), uint32_t(quad >> 32), uint32_t(id), uint32_t(id >> 32)}}, key);
}

/// The key of a step of training, counted from 1, or of inference, step 0.
constexpr uint64_t stepKey(uint64_t seed, uint64_t step) {
  PhiloxWords words = philox({{uint32_t(step), uint32_t(step >> 32), 0, 0}}, seed);
  return words.word[0] | uint64_t(words.word[1]) << 32;
}

/// An element is kept where its word is not below this: no rounding decides.
constexpr uint32_t dropThreshold(double ratio) {
  double scaled = ratio * 4294967296.0 + 0.5;
  return scaled >= 4294967295.0 ? 4294967295u : uint32_t(scaled);
}

} // namespace tessera::rt
#endif
