#include "passes/Tiers/Gaps.h"
#include "passes/Tiers/Tiers.h"
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <tuple>
#include <vector>

using namespace tessera::tiers;

bool Value::mayMove(int gap) const {
  if (gap == loopGap)
    return false;
  bool round = rests && gap + 1 == static_cast<int>(uses.size());
  return !decided || (round && below) || std::find(always.begin(), always.end(), gap) != always.end();
}

std::array<Range, 2> tessera::tiers::absence(const Gap &gap, const Away &away, int64_t positions) {
  int64_t gone = away.dirty() ? away.gone : gap.use + 1;
  if (gap.round)
    return {{{gone, positions}, {0, away.prefetch}}};
  return {{{gone, away.prefetch}, {0, 0}}};
}

std::array<Range, 2> tessera::tiers::longestAbsence(const Gap &gap, int64_t positions) {
  return absence(gap, {-1, -1, gap.next}, positions);
}

Problem::Problem(const Step &step, const Limits &limits, const Rates &rates)
    : step(step), limits(limits), rates(rates), positions(static_cast<int64_t>(step.seconds.size())),
      computing(std::accumulate(step.seconds.begin(), step.seconds.end(), 0.0)), gapsOf(step.values.size()) {
  const Loop &loop = step.loop;
  for (size_t v = 0; v < step.values.size(); ++v) {
    const Value &value = step.values[v];
    size_t before = gaps.size();
    for (size_t i = 0; i < value.uses.size(); ++i) {
      bool round = i + 1 == value.uses.size();
      if ((round && !value.rests) || !value.mayMove(static_cast<int>(i)))
        continue;
      Gap gap;
      gap.value = static_cast<int>(v);
      gap.gap = static_cast<int>(i);
      gap.bytes = value.bytes;
      gap.use = value.uses[i].position;
      gap.next = value.uses[round ? 0 : i + 1].position;
      gap.round = round;
      gap.sinks = value.sinks(static_cast<int>(i));
      gap.made = value.made;
      gap.downTurns = loop.has(gap.use) && gap.use < loop.end;
      gap.upTurns = loop.has(gap.next) && gap.next < loop.end;
      gap.begin = round ? 0 : gap.use + 1;
      gap.end = round ? positions : gap.next;
      if (gap.upTurns)
        gap.begin = std::max(gap.begin, loop.begin + 1);
      if (gap.downTurns)
        gap.end = std::min(gap.end, loop.end);
      auto seconds = [&](double bytesPerSecond, bool turns) {
        double once = rates.latency + static_cast<double>(value.bytes) / bytesPerSecond;
        return once * static_cast<double>(turns ? loop.times : 1);
      };
      gap.down = seconds(rates.bytesDown, gap.downTurns);
      gap.up = gap.sinks ? 0 : seconds(rates.bytesUp, gap.upTurns);
      bool leaves = round ? gap.use + 1 < positions || gap.next > 0 : gap.use + 1 < gap.next;
      // A home on the host may be worth it for the other gaps alone: they are then clean.
      if (leaves || gap.sinks || (round && (gaps.size() > before || value.below)))
        gaps.push_back(gap);
    }
  }
  std::sort(gaps.begin(), gaps.end(), [](const Gap &a, const Gap &b) {
    return std::tie(a.next, a.value, a.gap) < std::tie(b.next, b.value, b.gap);
  });
  for (size_t g = 0; g < gaps.size(); ++g) {
    gapsOf[gaps[g].value].push_back(static_cast<int>(g));
    if (isAlways(gaps[g]))
      always.push_back(static_cast<int>(g));
  }
  for (auto &list : gapsOf)
    std::sort(list.begin(), list.end(), [&](int a, int b) { return gaps[a].gap < gaps[b].gap; });
}

bool Problem::isAlways(const Gap &gap) const {
  const Value &value = step.values[gap.value];
  const std::vector<int> &list = value.always;
  return (gap.round && value.below) || std::find(list.begin(), list.end(), gap.gap) != list.end();
}

std::span<const int> Problem::neighbours(int gap) const {
  constexpr size_t kMany = 256, kToEachSide = 32;
  const std::vector<int> &list = gapsOf[gaps[gap].value];
  if (list.size() <= kMany)
    return list;
  auto place = std::lower_bound(list.begin(), list.end(), gaps[gap].gap,
                                [&](int other, int number) { return gaps[other].gap < number; });
  size_t index = place - list.begin(), begin = index - std::min(index, kToEachSide);
  return std::span(list).subspan(begin, std::min(list.size(), index + kToEachSide + 1) - begin);
}

void Problem::placeByLoop(const Gap &gap, Away &away) const {
  const Loop &loop = step.loop;
  if (away.dirty())
    for (int64_t *position : {&away.offload, &away.gone})
      if (gap.downTurns)
        *position = std::min(*position, gap.end);
      else if (loop.has(*position))
        *position = loop.begin;
  if (!gap.upTurns && !gap.sinks && loop.has(away.prefetch))
    away.prefetch = loop.end + 1;
}

void Problem::makeValid(int value, std::vector<Away> &aways, int changed) const {
  const std::vector<int> &list = gapsOf[value];
  if (!step.values[value].always.empty())
    for (size_t i = 0; i < list.size(); ++i)
      if (!aways[i].moved() && isAlways(gaps[list[i]]))
        aways[i] = {-1, -1, gaps[list[i]].next};
  const std::vector<Use> &uses = step.values[value].uses;
  if (step.values[value].rests && !aways.back().moved()) {
    bool isLast = changed + 1 == static_cast<int>(list.size());
    if (step.values[value].below || (!isLast && aways[changed].moved()))
      aways.back() = {-1, -1, gaps[list.back()].next};
    else
      std::fill(aways.begin(), aways.end(), Away{});
  }
  bool valid = step.values[value].rests && aways.back().moved();
  size_t use = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const Gap &gap = gaps[list[i]];
    for (; use <= static_cast<size_t>(gap.gap); ++use)
      valid = valid && !uses[use].writes;
    if (!aways[i].moved())
      continue;
    if (valid)
      aways[i].offload = aways[i].gone = -1;
    else if (!aways[i].dirty())
      aways[i].offload = aways[i].gone = gap.use + 1;
    placeByLoop(gap, aways[i]);
    aways[i].prefetch = std::max(aways[i].prefetch, firstPrefetch(gap, aways[i]));
    if (gap.sinks)
      aways[i].prefetch = gap.next;
    valid = true;
  }
}

Range Problem::onHost(int value, const std::vector<Away> &aways) const {
  const std::vector<int> &list = gapsOf[value];
  Range range{positions, 0};
  for (size_t i = 0; i < list.size(); ++i) {
    if (!aways[i].moved())
      continue;
    if (gaps[list[i]].round && gaps[list[i]].made < 0)
      return {0, positions};
    if (gaps[list[i]].round)
      range.begin = 0;
    else if (aways[i].dirty())
      range.begin = std::min(range.begin, aways[i].offload);
    range.end = std::max(range.end, std::min(gaps[list[i]].next + 1, positions));
    if (step.values[value].turns) // the next turn brings it up again
      range.end = std::max(range.end, step.loop.end + 1);
  }
  if (list.empty() && step.values[value].uses.empty())
    return {0, positions};
  return range.begin < range.end ? range : Range{0, 0};
}
