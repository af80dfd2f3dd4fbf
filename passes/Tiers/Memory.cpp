// Bytes of both tiers by position: sums of what begins and ends at each.
#include "passes/Tiers/Tiers.h"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

using namespace tessera::tiers;

namespace {

/// Bytes by position, from changes that hold from a position on.
struct Curve {
  std::vector<int64_t> changes;
  explicit Curve(size_t positions) : changes(positions + 1) {}

  /// Adds at positions begin <= p < end.
  void add(int64_t begin, int64_t end, int64_t bytes) {
    if (begin >= end)
      return;
    changes[begin] += bytes;
    changes[end] -= bytes;
  }

  std::vector<int64_t> sums() const {
    std::vector<int64_t> sums(changes.begin(), changes.end() - 1);
    for (size_t p = 1; p < sums.size(); ++p)
      sums[p] += sums[p - 1];
    return sums;
  }
};

bool goesRoundTheEnd(const Value &value, int gap) {
  return value.rests && static_cast<size_t>(gap) + 1 == value.uses.size();
}

/// Takes a value off the curve where it is not on the device.
void leave(Curve &curve, const Value &value, int gap, int64_t gone, int64_t prefetch) {
  auto n = static_cast<int64_t>(curve.changes.size()) - 1;
  if (goesRoundTheEnd(value, gap)) {
    curve.add(gone, n, -value.bytes);
    curve.add(0, prefetch, -value.bytes);
  } else {
    curve.add(gone, prefetch, -value.bytes);
  }
}

} // namespace

std::vector<int64_t> tessera::tiers::deviceBytes(const Step &step, const std::vector<Move> &moves) {
  Curve curve(step.bytes.size());
  for (const Move &move : moves) {
    const Value &value = step.values[move.value];
    int64_t gone = move.offload < 0 ? value.uses[move.gap].position + 1 : move.gone;
    leave(curve, value, move.gap, gone, move.prefetch);
  }
  std::vector<int64_t> bytes = curve.sums();
  for (size_t p = 0; p < bytes.size(); ++p)
    bytes[p] += step.bytes[p];
  return bytes;
}

std::vector<int64_t> tessera::tiers::hostBytes(const Step &step, const std::vector<Move> &moves) {
  auto n = static_cast<int64_t>(step.bytes.size());
  std::map<int, std::pair<int64_t, int64_t>>
      taken; // of each value that is moved, the first and last position
  for (const Move &move : moves) {
    const Value &value = step.values[move.value];
    auto [place, isNew] = taken.try_emplace(move.value, n, -1);
    auto &[first, last] = place->second;
    if (goesRoundTheEnd(value, move.gap)) {
      first = 0;
      last = std::max(last, value.made < 0 ? n - 1 : value.turns ? step.loop.end : value.uses[0].position);
      continue;
    }
    if (move.offload >= 0)
      first = std::min(first, move.offload);
    last = std::max(last, std::min(value.uses[move.gap + 1].position, n - 1));
    if (value.turns)
      last = std::max(last, step.loop.end);
  }
  Curve curve(step.bytes.size());
  for (const Value &value : step.values)
    if (value.uses.empty())
      curve.add(0, n, value.bytes);
  for (const auto &[value, positions] : taken)
    curve.add(positions.first, positions.second + 1, step.values[value].bytes);
  return curve.sums();
}

std::pair<int64_t, int64_t> tessera::tiers::leastDeviceBytes(const Step &step) {
  if (step.bytes.empty())
    return {0, 0};
  Curve curve(step.bytes.size());
  for (const Value &value : step.values) {
    size_t gaps = value.uses.size() - (value.rests ? 0 : 1);
    for (size_t gap = 0; gap < gaps; ++gap)
      if (value.mayMove(static_cast<int>(gap)))
        leave(curve, value, static_cast<int>(gap), value.uses[gap].position + 1,
              value.uses[(gap + 1) % value.uses.size()].position);
  }
  std::vector<int64_t> bytes = curve.sums();
  for (size_t p = 0; p < bytes.size(); ++p)
    bytes[p] += step.bytes[p];
  auto most = std::max_element(bytes.begin(), bytes.end());
  return {*most, most - bytes.begin()};
}
