// See BetaRegression.h.
#include "lib/Scheduler/BetaRegression.h"
#include <algorithm>

namespace tessera::scheduler {

namespace {

constexpr int kSteps = 1000;       // examples seen by a fit
constexpr double kLearning = 3e-3; // Adam's, with its usual decays
constexpr double kFirstDecay = 0.9, kSecondDecay = 0.999;

// Features of about the same size, so that no tanh saturates.
BetaRegression::Features scaled(const BetaRegression::Features &f) {
  return {f[0] / 10, f[1] / 10, f[2] / 30, f[3]};
}

struct Moments {
  double first = 0, second = 0;
  // The step of a parameter whose derivative is `slope`.
  double step(double slope, double bias1, double bias2) {
    first = kFirstDecay * first + (1 - kFirstDecay) * slope;
    second = kSecondDecay * second + (1 - kSecondDecay) * slope * slope;
    return kLearning * (first / bias1) / (std::sqrt(second / bias2) + 1e-8);
  }
};

} // namespace

double digamma(double x) {
  double result = 0;
  while (x < 6) {
    result -= 1 / x;
    x += 1;
  }
  double square = 1 / (x * x);
  return result + std::log(x) - 0.5 / x - square * (1.0 / 12 - square * (1.0 / 120 - square / 252));
}

double drawGamma(double shape, Random &random) {
  if (shape < 1)
    return drawGamma(shape + 1, random) * std::pow(1 - random.uniform(), 1 / shape);
  double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    double x = random.normal(), v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(1 - random.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v))
      return d * v;
  }
}

BetaRegression::BetaRegression(uint64_t seed) : random(seed) {
  for (Unit &unit : units) {
    for (double &weight : unit.weights)
      weight = random.normal();
    unit.bias = random.normal();
    unit.out = random.normal() / std::sqrt(static_cast<double>(kUnits));
  }
}

double BetaRegression::net(const Features &features, std::array<double, kUnits> &hidden) const {
  Features x = scaled(features);
  double sum = outBias;
  for (int u = 0; u < kUnits; ++u) {
    double in = units[u].bias;
    for (int i = 0; i < kInputs; ++i)
      in += units[u].weights[i] * x[i];
    hidden[u] = std::tanh(in);
    sum += units[u].out * hidden[u];
  }
  return sum;
}

double BetaRegression::second(const Features &features) const {
  std::array<double, kUnits> hidden;
  return 1 + std::max(0.0, net(features, hidden));
}

double BetaRegression::draw(const Features &features) {
  double a = drawGamma(std::max(features[2], 1e-3), random), b = drawGamma(second(features), random);
  return a / (a + b);
}

void BetaRegression::fit(const std::vector<Example> &examples) {
  if (examples.empty())
    return;
  std::array<std::array<Moments, kInputs + 2>, kUnits> moments;
  Moments biasMoments;
  double decay1 = 1, decay2 = 1;
  for (int step = 0; step < kSteps; ++step) {
    const Example &example = examples[random.below(static_cast<int>(examples.size()))];
    Features x = scaled(example.features);
    std::array<double, kUnits> hidden;
    double out = net(example.features, hidden), a = std::max(example.features[2], 1e-3),
           b = 1 + std::max(0.0, out);
    // The derivative of -log Beta(part; a, b) by b. Below its threshold a unit is pushed up only.
    double slope = digamma(b) - digamma(a + b) - std::log(1 - example.part);
    slope = std::clamp(out <= 0 ? std::min(slope, 0.0) : slope, -1.0, 1.0);
    decay1 *= kFirstDecay, decay2 *= kSecondDecay;
    double bias1 = 1 - decay1, bias2 = 1 - decay2;
    for (int u = 0; u < kUnits; ++u) {
      double back = slope * units[u].out * (1 - hidden[u] * hidden[u]);
      units[u].out -= moments[u][kInputs + 1].step(slope * hidden[u], bias1, bias2);
      for (int i = 0; i < kInputs; ++i)
        units[u].weights[i] -= moments[u][i].step(back * x[i], bias1, bias2);
      units[u].bias -= moments[u][kInputs].step(back, bias1, bias2);
    }
    outBias -= biasMoments.step(slope, bias1, bias2);
  }
}

} // namespace tessera::scheduler
