// See Reductions.h.
#include "lib/Driver/Reductions.h"
#include "lib/Driver/Judge.h"
#include <cmath>

using namespace mlir;
using namespace tessera;

Reduction Reductions::operator[](size_t i) const {
  const size_t perDepth = turns ? 2 : 1;
  Reduction reduction;
  if (blocks)
    reduction.blocks = i / perDepth == 0 ? blocks->few : blocks->more;
  if (turns)
    reduction.turns = i % perDepth == 0 ? turns->few : turns->more;
  return reduction;
}

// What grows by the same with each block, or microbatch, from what it is with few of them to all.
static Verdict drawn(const Verdict &few, const Verdict &more, const Depths &depths) {
  const double steps = double(depths.all - depths.few) / double(depths.more - depths.few);
  Verdict all = few;
  auto draw = [&](auto &into, auto from, auto to) {
    double value = std::max(0.0, double(from) + (double(to) - double(from)) * steps);
    into = std::is_integral_v<decltype(from)> ? std::round(value) : value;
  };
  auto drawMap = [&](auto &into, const auto &from, const auto &to) {
    for (auto &[axes, value] : to) {
      auto there = from.find(axes);
      draw(into[axes], there == from.end() ? decltype(value)(0) : there->second, value);
    }
  };
  for (auto member : {&Verdict::seconds, &Verdict::flops, &Verdict::computing, &Verdict::waitsForRanks,
                      &Verdict::waitsForStages, &Verdict::waitsForCopies, &Verdict::waitsForEnd})
    draw(all.*member, few.*member, more.*member);
  draw(all.sentBytes, few.sentBytes, more.sentBytes);
  // Which stage needs most may be another than of few.
  for (auto [most, stages] : {std::pair(&Verdict::deviceBytes, &Verdict::stageDeviceBytes),
                              {&Verdict::hostBytes, &Verdict::stageHostBytes}}) {
    for (auto [into, from, to] : llvm::zip_equal(all.*stages, few.*stages, more.*stages))
      draw(into, from, to);
    all.*most = *llvm::max_element(all.*stages);
  }
  drawMap(all.sentOver, few.sentOver, more.sentOver);
  drawMap(all.exposed, few.exposed, more.exposed);
  all.isDrawn = true;
  return all;
}

Verdict Reductions::draw(ArrayRef<Verdict> verdicts) const {
  for (const Verdict &each : verdicts)
    if (!each.compiles)
      return each;
  std::vector<Verdict> left = verdicts.vec();
  for (const std::optional<Depths> &depths : {turns, blocks}) {
    if (!depths)
      continue;
    for (size_t i = 0; i + 1 < left.size(); i += 2)
      left[i / 2] = drawn(left[i], left[i + 1], *depths);
    left.resize(left.size() / 2);
  }
  return left.front();
}
