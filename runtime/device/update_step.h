// How an optimizer updates an element: one formula for the kernels of CPUs and of GPUs, to which nn.update is
// lowered as well (dialects/nn/ops/Optimizer.cpp). Every operation is rounded once, in the order written
// here, so that an element's bits depend on nothing but its operands; docs/kernels.md says why. No
// product is contracted with a sum here, whatever file includes this; but one that updates elements must be
// compiled without -ffast-math.
#pragma once

namespace tessera::rt {

/// Length of the program's scalars: lr, beta1, beta2, eps, 1-beta1^t, 1-beta2^t, momentum, clip_norm; and
/// loss_scale, if the gradient is that of a scaled loss.
constexpr int updateScalars = 8;

/// The numbers of an update, which are the same for all elements of a call.
struct UpdateStep {
  float rate, decay, keep;     ///< keep: 1 - rate * decay
  float fresh1, beta2, fresh2; ///< fresh: 1 - beta
  float size, epsilon;         ///< both times the root of 1-beta2^t; see adamUpdate
  float momentum, gradientScale;
};

/// Whether the gradient of a scaled loss has overflowed, so that the step is left out; so for a NaN.
static inline bool gradientOverflowed(float norm) { return !(norm < __builtin_inff()); }

/// `norm` is null where the gradient is not clipped, `lossScale` where its loss is not scaled.
static inline UpdateStep updateStep(const float *scalars, float decay, const float *norm,
                                    const float *lossScale) {
#pragma clang fp contract(off)
  const float rate = scalars[0], beta1 = scalars[1], beta2 = scalars[2], clip = scalars[7];
  const float root = __builtin_sqrtf(scalars[5]);
  UpdateStep step{};
  step.rate = rate;
  step.decay = decay;
  step.keep = 1 - rate * decay;
  step.fresh1 = 1 - beta1;
  step.beta2 = beta2;
  step.fresh2 = 1 - beta2;
  step.size = rate / scalars[4] * root;
  step.epsilon = scalars[3] * root;
  step.momentum = scalars[6];
  step.gradientScale = 1;
  if (norm && clip > 0) {
    const float scale = clip / (*norm + 1e-6f);
    // A NaN norm stays one, so that it shows in the parameters as it does in PyTorch.
    step.gradientScale = scale > 1 ? 1 : scale;
  }
  if (lossScale)
    step.gradientScale /= *lossScale;
  return step;
}

/// One step of Adam's moments; returns what is to be subtracted. PyTorch's
/// rate / c1 * m / (sqrt(v) / sqrt(c2) + eps)
/// with both sides of the second division multiplied by sqrt(c2), which saves a division an element.
static inline float adamUpdate(const UpdateStep &step, float g, float &m, float &v) {
#pragma clang fp contract(off)
  m = m + (g - m) * step.fresh1;
  v = v * step.beta2 + step.fresh2 * g * g;
  return step.size * m / (__builtin_sqrtf(v) + step.epsilon);
}

static inline void updateAdamW(const UpdateStep &step, float &p, float g, float &m, float &v) {
#pragma clang fp contract(off)
  p = p * step.keep - adamUpdate(step, g * step.gradientScale, m, v);
}

static inline void updateAdam(const UpdateStep &step, float &p, float g, float &m, float &v) {
#pragma clang fp contract(off)
  p = p - adamUpdate(step, g * step.gradientScale + step.decay * p, m, v);
}

static inline void updateSgd(const UpdateStep &step, float &p, float g) {
#pragma clang fp contract(off)
  p = p - step.rate * (g * step.gradientScale + step.decay * p);
}

static inline void updateSgdMomentum(const UpdateStep &step, float &p, float g, float &momentum) {
#pragma clang fp contract(off)
  momentum = step.momentum * momentum + (g * step.gradientScale + step.decay * p);
  p = p - step.rate * momentum;
}

} // namespace tessera::rt
