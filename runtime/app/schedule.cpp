// See schedule.h.
#include "runtime/app/schedule.h"

#include <cmath>
#include <numbers>

namespace tessera::rt {

double LearningRate::at(double step) const {
  if (step <= double(warmup))
    return peak * step / double(warmup);
  if (shape == Shape::Constant)
    return peak;
  double progress = step >= double(steps) ? 1.0 : (step - double(warmup)) / double(steps - warmup);
  double share =
      shape == Shape::Linear ? 1.0 - progress : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return minimum + (peak - minimum) * share;
}

} // namespace tessera::rt
