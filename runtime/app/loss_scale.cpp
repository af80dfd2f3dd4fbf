// See loss_scale.h.
#include "runtime/app/loss_scale.h"

#include "runtime/app/metadata_number.h"
#include "runtime/comm/agreed_error.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tessera::rt {
namespace {

constexpr float largest = 16777216;

} // namespace

bool scalesLoss(const Program &program) {
  const ProgramInput *scalars = program.findInput("scalars");
  return scalars && scalars->shape[0] > numStepScalars;
}

void LossScale::resume(const std::map<std::string, std::string> &metadata) {
  readNumber(metadata, "loss_scale", value);
  readNumber(metadata, "good_steps", goodSteps);
  readNumber(metadata, "skipped_steps", leftOut);
}

std::map<std::string, std::string> LossScale::metadata() const {
  char text[64];
  auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  return {{"loss_scale", std::string(text, end)},
          {"good_steps", std::to_string(goodSteps)},
          {"skipped_steps", std::to_string(leftOut)}};
}

bool LossScale::finish(float gradNorm) {
  if (std::isfinite(gradNorm)) {
    if (++goodSteps == patience) {
      value = std::min(largest, value * 2);
      goodSteps = 0;
    }
    return false;
  }
  goodSteps = 0;
  ++leftOut;
  value /= 2;
  if (value < smallest)
    throw AgreedError("the gradient is not finite in f16, whatever the loss is scaled by; compile the model "
                      "with --dtype bf16");
  return true;
}

} // namespace tessera::rt
