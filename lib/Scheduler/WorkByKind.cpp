// See WorkByKind.h.
#include "lib/Scheduler/WorkByKind.h"
#include <algorithm>
#include <cmath>

namespace tessera::scheduler {

namespace {

// Before any job has ended: 30 epochs, within a factor of three or so.
constexpr double kFirstGuess = 3.4, kFirstDeviation = 1;
// What jobs of one kind are taken to differ by, as so many jobs would tell.
constexpr double kDeviation = 0.3, kDeviationWeight = 4;

// The probability that a normal variable exceeds `x`.
double above(double x) { return 0.5 * std::erfc(x / std::sqrt(2.0)); }

} // namespace

void WorkByKind::learn(const std::string &kind, double epochs) {
  double value = std::log(std::max(epochs, 1e-6));
  for (Sum *sum : {&kinds[kind], &all}) {
    sum->count += 1;
    sum->sum += value;
    sum->squares += value * value;
  }
}

double WorkByKind::remaining(const std::string &kind, double done) const {
  double mean = kFirstGuess, deviation = kFirstDeviation;
  if (auto known = kinds.find(kind); known != kinds.end()) {
    double squares = kDeviation * kDeviation * kDeviationWeight, freedom = kDeviationWeight;
    for (auto &[name, sum] : kinds) {
      squares += sum.squares - sum.sum * sum.sum / sum.count;
      freedom += sum.count - 1;
    }
    mean = known->second.sum / known->second.count;
    deviation = std::sqrt(squares / freedom * (1 + 1 / known->second.count));
  } else if (all.count > 0) {
    mean = all.sum / all.count;
  }
  double whole = std::exp(mean + deviation * deviation / 2);
  if (done <= 0)
    return whole;
  // The mean of a log-normal variable that is known to be above `done`.
  double x = (std::log(done) - mean) / deviation, left = above(x);
  if (left < 1e-12)
    return deviation * done; // far beyond all that was seen: about a deviation more
  return std::max(whole * above(x - deviation) / left - done, 0.01 * done);
}

} // namespace tessera::scheduler
