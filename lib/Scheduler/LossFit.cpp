// See LossFit.h.
#include "lib/Scheduler/LossFit.h"
#include <algorithm>
#include <cmath>

namespace tessera::scheduler {

namespace {

struct Line {
  double offset = 0, slope = 0, residual = 0;
};

// Least squares of 1 / (loss - floor) over epochs; weights make the residual one of losses, relative to them.
Line fitLine(double floor, double first, const std::vector<double> &losses) {
  double w = 0, x = 0, y = 0, xx = 0, xy = 0;
  auto forEach = [&](auto body) {
    body(0.0, first);
    for (size_t i = 0; i < losses.size(); ++i)
      body(static_cast<double>(i + 1), losses[i]);
  };
  forEach([&](double epoch, double loss) {
    double above = loss - floor, weight = std::pow(above, 4) / (loss * loss);
    w += weight, x += weight * epoch, y += weight / above;
    xx += weight * epoch * epoch, xy += weight * epoch / above;
  });
  Line line;
  line.slope = (w * xy - x * y) / (w * xx - x * x);
  line.offset = (y - line.slope * x) / w;
  forEach([&](double epoch, double loss) {
    double difference = 1 / (line.offset + line.slope * epoch) + floor - loss;
    line.residual += difference * difference / (loss * loss);
  });
  return line;
}

} // namespace

std::optional<double> epochsToReach(double target, double first, const std::vector<double> &losses) {
  if (losses.size() < 3)
    return std::nullopt;
  constexpr int kFloors = 40;
  double highest = std::min(target, *std::ranges::min_element(losses));
  std::optional<double> epochs;
  double least = 0;
  for (int i = 0; i < kFloors; ++i) {
    double floor = highest * i / kFloors;
    Line line = fitLine(floor, first, losses);
    if (!(line.slope > 0 && line.offset > 0) || (epochs && line.residual >= least))
      continue;
    least = line.residual;
    epochs = (1 / (target - floor) - line.offset) / line.slope;
  }
  return epochs;
}

} // namespace tessera::scheduler
