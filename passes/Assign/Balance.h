// Cutting a chain of operators into a pipeline's chunks. Plain data and arithmetic, without IR.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

/// What is known of a chain of n operators before each of them and at its end: n + 1 figures each.
struct Chain {
  explicit Chain(int64_t n)
      : seconds(n + 1), crossing(n + 1), variables(n + 1), activations(n + 1), layers(n + 1) {}

  /// Sums of what the operators before take, in seconds.
  std::vector<double> seconds;
  /// What sending the values that are live there takes, in seconds.
  std::vector<double> crossing;
  /// Sums of bytes a rank: of the parameters that the operators before read, with gradients and optimizer
  /// state; of their results that the backward reads, for one microbatch.
  std::vector<double> variables, activations;
  /// How many layers are before.
  std::vector<int64_t> layers;
};

/// How much slower a cut may be for the sake of memory: estimates of an operator's time are no more exact.
inline constexpr double kTolerance = 0.05;

/// Where each chunk ends, one more than its last operator: one for each entry of `live`, how many
/// microbatches' activations the chunk holds at once. Every chunk has a layer. Among the cuts whose slowest
/// chunk, with what it receives and sends, takes at most 1 + `tolerance` of the best possible, the one whose
/// largest chunk is smallest; among equals, those that send least. With no tolerance the fastest that sends
/// least, whatever its chunks hold. Empty when there are fewer layers than chunks.
std::vector<int64_t> balance(const Chain &chain, const std::vector<double> &live,
                             double tolerance = kTolerance);

/// What a cut is estimated by.
struct CutRule {
  double tolerance = kTolerance;
  /// How many points of its factors an operator computes a second, and how many bytes it reads or writes; 0:
  /// as the machine does what is of the operator's class.
  double points = 0, bytes = 0;
};

/// The cuts that are worth a comparison, the likeliest first: by the machine's rates; with more time for less
/// memory; by arithmetic alone, as if kernels kept all else in registers; by time alone, where operators read
/// and write memory one by one. None that is worse than the last is taken (lib/Driver/Cuts.h).
inline constexpr CutRule kCutRules[] = {
    {},
    {.tolerance = 0.3},
    {.points = 5e10, .bytes = 1e12},
    {.tolerance = 0, .points = 2.5e10, .bytes = 1e10},
};

} // namespace tessera
