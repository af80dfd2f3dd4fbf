// How much of a job is done, as ONES publishes it.
#ifndef TESSERA_LIB_SCHEDULER_BETAREGRESSION_H
#define TESSERA_LIB_SCHEDULER_BETAREGRESSION_H

#include "lib/Scheduler/Random.h"
#include <array>
#include <vector>

namespace tessera::scheduler {

/// The part of a job that is done is Beta(a, b) distributed: a is the epochs done, b is 1 + what 64 tanh
/// units make of the job's features, fitted by maximum likelihood to jobs that ended (ONES, SC'21,
/// section 3.2.1).
class BetaRegression {
public:
  /// Log of the data's size, first loss, epochs done, 1 - loss / first loss. The published one has the
  /// accuracy too.
  using Features = std::array<double, 4>;
  struct Example {
    Features features;
    double part = 0; ///< that was done, above 0 and below 1
  };

  explicit BetaRegression(uint64_t seed);
  /// Goes on fitting, by Adam, on a sample of the examples.
  void fit(const std::vector<Example> &examples);
  /// b for these features.
  double second(const Features &features) const;
  /// Draws the part that is done.
  double draw(const Features &features);

private:
  static constexpr int kUnits = 64, kInputs = 4;
  struct Unit {
    std::array<double, kInputs> weights{};
    double bias = 0, out = 0;
  };
  double net(const Features &features, std::array<double, kUnits> &hidden) const;

  Random random;
  std::array<Unit, kUnits> units;
  double outBias = 0;
};

/// The derivative of the logarithm of the gamma function, for x > 0.
double digamma(double x);

/// A draw of the gamma distribution with this shape and scale 1 (Marsaglia and Tsang, 2000).
double drawGamma(double shape, Random &random);

} // namespace tessera::scheduler
#endif
