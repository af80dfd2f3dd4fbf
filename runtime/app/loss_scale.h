// Dynamic loss scaling for programs that compute in f16: gradients too small for f16 are moved into its
// range.
#pragma once

#include "runtime/program/description.h"

#include <cstdint>
#include <map>
#include <string>

namespace tessera::rt {

/// Whether a training program multiplies its loss by the ninth scalar.
bool scalesLoss(const Program &program);

/// The factor that a step's loss is multiplied by before its gradient is computed; the optimizer divides by
/// it again. It is halved when the gradient overflows, which leaves the step out, and doubled after
/// `patience` steps in a row without. Ranks need not agree on it: all of them see the same norm.
class LossScale {
public:
  static constexpr float standard = 65536;
  static constexpr int64_t patience = 2000;
  /// Below this the gradients themselves are infinite or no numbers. 148 halvings lead there
  /// from any scale.
  static constexpr float smallest = 1.0f / (1 << 20);

  /// `initial` is finite and at least `smallest`.
  explicit LossScale(float initial = standard) : value(initial) {}
  /// As a checkpoint has it; of one without, as if there had been no step.
  void resume(const std::map<std::string, std::string> &metadata);
  std::map<std::string, std::string> metadata() const;

  float scale() const { return value; }
  /// How many steps were left out so far: the optimizer has made as many fewer.
  int64_t skipped() const { return leftOut; }
  /// Takes note of the norm of a step's gradient. Whether the step was left out. Throws when no scale is
  /// small enough.
  bool finish(float gradNorm);

private:
  float value;
  int64_t goodSteps = 0, leftOut = 0;
};

} // namespace tessera::rt
