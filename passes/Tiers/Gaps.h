// The gaps of a step that a plan may move. Internal to the search.
#ifndef TESSERA_PASSES_TIERS_GAPS_H
#define TESSERA_PASSES_TIERS_GAPS_H

#include "passes/Tiers/Tiers.h"
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tessera::tiers {

/// Positions begin <= p < end.
struct Range {
  int64_t begin = 0, end = 0;
};

/// A gap with at least one position at which its value need not be on the device, or one round the end of a
/// value that has such a gap.
struct Gap {
  int value = 0, gap = 0; // as in `Move`
  int64_t bytes = 0;
  /// The positions of the uses around it; the first at which a prefetch may start if nothing has to go down,
  /// and the last at which an offload may be waited for.
  int64_t use = 0, next = 0, begin = 0, end = 0;
  bool round = false; // round the end of the step
  bool sinks = false; // its value goes down for good
  /// Whether the transfers are in the loop.
  bool downTurns = false, upTurns = false;
  /// Seconds of the transfers, in all turns.
  double down = 0, up = 0;
  double made = -1; // as in `Value`
};

/// What a plan does in a gap, as in `Move`; prefetch < 0 where the value is kept.
struct Away {
  int64_t offload = -1, gone = -1, prefetch = -1;
  bool moved() const { return prefetch >= 0; }
  bool dirty() const { return offload >= 0; }
  bool operator==(const Away &) const = default;
};

/// Where a value takes no memory on the device: round the end that is two ranges, else the second is empty.
std::array<Range, 2> absence(const Gap &gap, const Away &away, int64_t positions);
/// The same of a value that is gone right behind its use and back at the next.
std::array<Range, 2> longestAbsence(const Gap &gap, int64_t positions);

/// A step with what the search needs to know of it. The step outlives it.
struct Problem {
  Problem(const Step &step, const Limits &limits, const Rates &rates);

  /// Makes a plan of a value's moves after that of its gap number `changed` was changed. The gap round the
  /// end follows the others: it is moved with the first of them, and they are kept with it. Each moved gap
  /// has an offload where no copy is valid, at once and waited for at once if it had none, and none where one
  /// is. What sinks does not come back. A transfer at a position of the loop that does not belong there ends
  /// before the loop, or starts behind it. `aways` is parallel to `gapsOf[value]`.
  void makeValid(int value, std::vector<Away> &aways, int changed) const;
  /// The gap and those of its value that are near it: what a change of it is likeliest to change, too. All of
  /// them but where a value has hundreds, such as a number that all updates read.
  std::span<const int> neighbours(int gap) const;
  /// Whether every plan moves the gap.
  bool isAlways(const Gap &gap) const;
  /// The first position at which a prefetch of the gap may start.
  static int64_t firstPrefetch(const Gap &gap, const Away &away) {
    return away.dirty() && !gap.round ? std::max(away.gone, gap.begin) : gap.begin;
  }
  /// Where the value takes memory on the host.
  Range onHost(int value, const std::vector<Away> &aways) const;

  const Step &step;
  Limits limits;
  Rates rates;
  int64_t positions;
  double computing; // seconds of all operators
  /// In the order in which transfers that start at one position are to start: of the uses they come back for.
  std::vector<Gap> gaps;
  /// Indices of each value's gaps, in order of the gaps.
  std::vector<std::vector<int>> gapsOf;
  /// Those that every plan moves.
  std::vector<int> always;

private:
  void placeByLoop(const Gap &gap, Away &away) const;
};

} // namespace tessera::tiers
#endif
