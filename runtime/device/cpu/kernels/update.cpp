// Optimizer updates, element by element, in place or to another place. This file alone of the folder is
// compiled without -ffast-math: an element comes out the same from a vector as from what is left behind the
// last one.
#include "runtime/device/cpu/kernels/vector.h"

namespace tessera::rt::cpu::TESSERA_LEVEL {
namespace {

constexpr int64_t lineElements = 16;
typedef float Line __attribute__((vector_size(lineElements * 4)));

bool isLineStart(const float *place) { return reinterpret_cast<uintptr_t>(place) % sizeof(Line) == 0; }

/// `update(p, g, m, v)` of elements [begin, end), the first `states` of m and v being there.
template <int states, typename Update>
void updateHere(const Update &update, const UpdateState &state, const float *__restrict g, int64_t begin,
                int64_t end) {
  float *__restrict p = state.p, *__restrict m = state.m, *__restrict v = state.v, none = 0;
  for (int64_t i = begin; i < end; ++i)
    update(p[i], g[i], states > 0 ? m[i] : none, states > 1 ? v[i] : none);
}

/// The same, written elsewhere, and past the caches: what is written is not read before the next step, and a
/// line that is written whole need not be read first.
template <int states, typename Update>
void updateThere(const Update &update, const UpdateState &from, const float *__restrict g,
                 const UpdateState &to, int64_t n) {
  const auto one = [&](int64_t i) {
    float p = from.p[i], m = states > 0 ? from.m[i] : 0, v = states > 1 ? from.v[i] : 0;
    update(p, g[i], m, v);
    to.p[i] = p;
    if (states > 0)
      to.m[i] = m;
    if (states > 1)
      to.v[i] = v;
  };
  int64_t i = 0;
  for (; i < n && !isLineStart(to.p + i); ++i)
    one(i);
  const bool inLines = (states < 1 || isLineStart(to.m + i)) && (states < 2 || isLineStart(to.v + i));
  for (; inLines && i + lineElements <= n; i += lineElements) {
    alignas(Line) float p[lineElements], m[lineElements], v[lineElements];
    for (int64_t k = 0; k < lineElements; ++k) {
      p[k] = from.p[i + k];
      m[k] = states > 0 ? from.m[i + k] : 0;
      v[k] = states > 1 ? from.v[i + k] : 0;
      update(p[k], g[i + k], m[k], v[k]);
    }
    const auto write = [i](const float *line, float *place) {
      __builtin_nontemporal_store(*reinterpret_cast<const Line *>(line), reinterpret_cast<Line *>(place + i));
    };
    write(p, to.p);
    if (states > 0)
      write(m, to.m);
    if (states > 1)
      write(v, to.v);
  }
  for (; i < n; ++i)
    one(i);
  __builtin_ia32_sfence();
}

template <int states, typename Update>
void updateAll(const Update &update, const UpdateState &from, const float *g, const UpdateState &to,
               int64_t n) {
  if (from.p == to.p && from.m == to.m && from.v == to.v)
    updateHere<states>(update, from, g, 0, n);
  else
    updateThere<states>(update, from, g, to, n);
}

} // namespace

void adamw(const UpdateStep &given, const UpdateState &from, const float *g, const UpdateState &to,
           int64_t n) {
  updateAll<2>([step = given](float &p, float g, float &m, float &v) { updateAdamW(step, p, g, m, v); }, from,
               g, to, n);
}

void adam(const UpdateStep &given, const UpdateState &from, const float *g, const UpdateState &to,
          int64_t n) {
  updateAll<2>([step = given](float &p, float g, float &m, float &v) { updateAdam(step, p, g, m, v); }, from,
               g, to, n);
}

void sgd(const UpdateStep &given, const UpdateState &from, const float *g, const UpdateState &to, int64_t n) {
  updateAll<0>([step = given](float &p, float g, float &, float &) { updateSgd(step, p, g); }, from, g, to,
               n);
}

void sgdMomentum(const UpdateStep &given, const UpdateState &from, const float *g, const UpdateState &to,
                 int64_t n) {
  updateAll<1>([step = given](float &p, float g, float &m, float &) { updateSgdMomentum(step, p, g, m); },
               from, g, to, n);
}

} // namespace tessera::rt::cpu::TESSERA_LEVEL
