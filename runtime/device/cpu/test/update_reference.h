// What an optimizer's update of an element must be to the bit, and numbers to try it on.
#pragma once

#include <nlohmann/json.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace tessera::rt::test {

/// An f32 whose operations are done in f64 and rounded: as exact as rounding once, since f64 has more than
/// twice the digits, and nothing that a compiler could contract.
struct Exact {
  float value;
  Exact(double x) : value(float(x)) {}
  double wide() const { return value; }
};
inline Exact operator+(Exact a, Exact b) { return a.wide() + b.wide(); }
inline Exact operator-(Exact a, Exact b) { return a.wide() - b.wide(); }
inline Exact operator*(Exact a, Exact b) { return a.wide() * b.wide(); }
inline Exact operator/(Exact a, Exact b) { return a.wide() / b.wide(); }
inline Exact root(Exact a) { return std::sqrt(a.wide()); }

struct Optimizer {
  const char *name;
  int states;
};
constexpr Optimizer optimizers[] = {{"adamw", 2}, {"adam", 2}, {"sgd", 0}, {"sgd_momentum", 1}};

/// What a call is told. A `norm` < 0: it is told none; `lossScale` 0: nor that the loss is scaled.
struct UpdateNumbers {
  std::vector<float> scalars = {3e-3f, 0.9f, 0.95f, 1e-8f, 1 - 0.9f * 0.9f, 1 - 0.95f * 0.95f, 0.8f, 0.5f};
  float decay = 0.1f, norm = -1, lossScale = 0;

  bool isClipped() const { return !(norm < 0); } // by a NaN, too
  bool isLeftOut() const { return lossScale > 0 && !std::isfinite(norm); }
  float gradientScale() const {
    Exact scale = 1, clip = scalars[7];
    if (isClipped() && clip.value > 0 && !((clip / (Exact(norm) + 1e-6f)).value > 1))
      scale = clip / (Exact(norm) + 1e-6f);
    return lossScale > 0 ? (scale / lossScale).value : scale.value;
  }
};

/// Calls with and without clipping, with betas of 0, and a norm that is not finite.
inline std::vector<UpdateNumbers> someNumbers() {
  std::vector<UpdateNumbers> all(5);
  all[1].norm = 0.3f;
  all[2].norm = 7.1f;
  all[3].norm = std::numeric_limits<float>::quiet_NaN();
  all[4].scalars = {0.37f, 0, 0, 0, 1, 1, 0, 0};
  all[4].norm = 1e30f;
  return all;
}
/// The same of a loss that is scaled.
inline std::vector<UpdateNumbers> someScaledNumbers() {
  std::vector<UpdateNumbers> all = someNumbers();
  all.erase(all.begin());
  for (UpdateNumbers &numbers : all)
    numbers.lossScale = 3000;
  return all;
}

/// A parameter's elements, their gradients and state (of sgd_momentum in m).
struct UpdateArrays {
  std::vector<float> p, g, m, v;
};

/// Updates element i in the order that docs/kernels.md gives.
inline void updateExactly(const std::string &name, const UpdateNumbers &numbers, UpdateArrays &arrays,
                          size_t i) {
  if (numbers.isLeftOut())
    return;
  const std::vector<float> &s = numbers.scalars;
  Exact p = arrays.p[i], rate = s[0], beta1 = s[1], beta2 = s[2], decay = numbers.decay;
  Exact g = Exact(arrays.g[i]) * numbers.gradientScale();
  if (name == "adamw")
    p = p * (1 - rate * decay);
  else
    g = g + decay * p;
  if (name.starts_with("sgd")) {
    Exact step = g;
    if (name == "sgd_momentum")
      arrays.m[i] = (step = Exact(s[6]) * arrays.m[i] + g).value;
    arrays.p[i] = (p - rate * step).value;
    return;
  }
  Exact m = arrays.m[i], v = arrays.v[i];
  m = m + (g - m) * (1 - beta1);
  v = v * beta2 + (1 - beta2) * g * g;
  arrays.m[i] = m.value;
  arrays.v[i] = v.value;
  Exact size = rate / s[4] * root(s[5]), epsilon = Exact(s[3]) * root(s[5]);
  arrays.p[i] = (p - size * m / (root(v) + epsilon)).value;
}

/// A call of the library: its attributes and buffers, which include the arrays.
struct UpdateCall {
  std::vector<float> scalars, decay, norm;
  nlohmann::json attrs;
  std::vector<std::vector<float> *> buffers;

  UpdateCall(const Optimizer &optimizer, const UpdateNumbers &numbers, UpdateArrays &arrays)
      : scalars(numbers.scalars), decay{5, numbers.decay}, norm{numbers.norm} {
    const bool isScaled = numbers.lossScale > 0;
    attrs = {{"count", arrays.p.size()},
             {"decay", 1},
             {"grad_norm", numbers.isClipped()},
             {"loss_scale", isScaled}};
    if (isScaled)
      scalars.push_back(numbers.lossScale);
    buffers = {&scalars, &decay};
    if (numbers.isClipped())
      buffers.push_back(&norm);
    buffers.insert(buffers.end(), {&arrays.p, &arrays.g});
    if (optimizer.states > 0)
      buffers.push_back(&arrays.m);
    if (optimizer.states > 1)
      buffers.push_back(&arrays.v);
  }
  UpdateCall(const UpdateCall &) = delete;
};

/// Numbers in [-1, 1), among them any patterns of bits, zeros, infinities, NaN, the least and the largest.
inline std::vector<float> anyFloats(size_t count, unsigned seed) {
  using Limits = std::numeric_limits<float>;
  const float special[] = {0.0f,
                           -0.0f,
                           Limits::infinity(),
                           -Limits::infinity(),
                           Limits::quiet_NaN(),
                           Limits::denorm_min(),
                           -3 * Limits::denorm_min(),
                           Limits::min(),
                           Limits::max()};
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> usual(-1, 1);
  std::vector<float> values(count);
  for (float &value : values) {
    const uint32_t kind = random() % 16;
    value = kind == 0   ? special[random() % std::size(special)]
            : kind == 1 ? std::bit_cast<float>(uint32_t(random()))
            : kind == 2 ? std::bit_cast<float>(uint32_t(random()) & 0x807fffffu) // a denormal
                        : usual(random);
  }
  return values;
}

/// Second moments are positive but for a few.
inline UpdateArrays anyArrays(size_t count, unsigned seed) {
  UpdateArrays arrays = {anyFloats(count, seed), anyFloats(count, seed + 1), anyFloats(count, seed + 2),
                         anyFloats(count, seed + 3)};
  for (size_t i = 0; i < count; ++i)
    if (i % 64)
      arrays.v[i] = std::fabs(arrays.v[i]);
  return arrays;
}

/// Which NaN comes of an operation is the processor's own affair.
inline bool sameBits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

/// Where two arrays first differ, or -1.
inline int64_t firstDifference(const std::vector<float> &a, const std::vector<float> &b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (!sameBits(a[i], b[i]))
      return int64_t(i);
  return -1;
}
inline int64_t firstDifference(const UpdateArrays &a, const UpdateArrays &b) {
  for (auto array : {&UpdateArrays::p, &UpdateArrays::g, &UpdateArrays::m, &UpdateArrays::v})
    if (int64_t i = firstDifference(a.*array, b.*array); i >= 0)
      return i;
  return -1;
}

} // namespace tessera::rt::test
