// Starts of the search: gaps chosen by price, with their transfers placed. Internal to it.
#ifndef TESSERA_PASSES_TIERS_DESCENT_H
#define TESSERA_PASSES_TIERS_DESCENT_H

#include "passes/Tiers/Draft.h"
#include "passes/Tiers/Gaps.h"
#include "passes/Tiers/Search.h"
#include <cstdint>
#include <limits>
#include <vector>

namespace tessera::tiers {

/// How prices begin and are led on: with one of the host or without, whether or not it is limited, and see
/// `pressure`.
struct Course {
  bool downBehind;
  double host;
};

/// What gaps are chosen for: bytes on the device, at most. Values of `stays` bytes are left alone.
struct Aim {
  int64_t target;
  Course course;
  int64_t stays = -1;
};

struct Start {
  double seconds;
  std::vector<Away> aways;
};

/// Rounds of choosing gaps by price, each of which the next one learns from.
class Descent {
public:
  static constexpr double kWorse = 1.01; // than the fastest: not by little

  /// Transfers are first placed by the clock that the draft has. It outlives the rounds, and is changed by
  /// nothing else meanwhile.
  Descent(Draft &draft, const Aim &aim);

  /// Whether what was chosen is within the limits: then the draft has it, and its transfers are placed.
  bool round();
  /// Whether the last round was faster than all before, and not by little.
  bool gains() const { return hasGained; }
  int64_t rounds() const { return done; }
  /// Seconds; infinity where no round was within the limits.
  double best() const { return bestSeconds; }
  /// Of the last round, if that was within the limits.
  Start start() const { return {draft.seconds(), draft.aways()}; }

private:
  Draft &draft;
  Aim aim;
  Prices prices;
  int64_t done = 0;
  bool isWithin = false, hasGained = false; // the last round
  double bestSeconds = std::numeric_limits<double>::infinity();
};

/// With a draft of its own, which begins with nothing moved.
struct OwnDescent {
  OwnDescent(const Problem &problem, const Aim &aim) : draft(problem), rounds(draft, aim) {}
  Draft draft;
  Descent rounds;
};

} // namespace tessera::tiers
#endif
