// The learning rate of a step.
#pragma once

#include <cstdint>

namespace tessera::rt {

/// `constant`, `linear` or `cosine` after a linear warm-up.
struct LearningRate {
  enum class Shape { Constant, Linear, Cosine };
  Shape shape = Shape::Constant;
  double peak = 1e-3;
  double minimum = 0;
  int64_t warmup = 0;
  int64_t steps = 1;

  /// The rate of step `step`, counted from 1; parts of a step count. Step `warmup` has `peak`; `linear` and
  /// `cosine` reach `minimum` in step `steps`.
  double at(double step) const;
};

} // namespace tessera::rt
