// Plans that are not chosen but given.
#include "passes/Tiers/Draft.h"
#include "passes/Tiers/Gaps.h"
#include "passes/Tiers/Tiers.h"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

using namespace tessera::tiers;

namespace {

/// Whether the positions of a move are in order.
bool isInOrder(const Gap &gap, const Away &away) {
  if (away.prefetch > gap.next || away.offload < -1 || away.gone < -1)
    return false;
  if (away.prefetch < Problem::firstPrefetch(gap, away))
    return false;
  return away.dirty() ? gap.use < away.offload && away.offload <= away.gone && away.gone <= gap.end
                      : away.gone == -1;
}

/// What the moves do in each gap of the problem; nothing where one has no gap, or two have the same.
std::optional<std::vector<Away>> awaysOf(const Problem &problem, const std::vector<Move> &moves) {
  std::vector<Away> aways(problem.gaps.size());
  auto values = static_cast<int>(problem.gapsOf.size());
  for (const Move &move : moves) {
    if (move.value < 0 || move.value >= values)
      return std::nullopt;
    const std::vector<int> &list = problem.gapsOf[move.value];
    auto found =
        std::find_if(list.begin(), list.end(), [&](int g) { return problem.gaps[g].gap == move.gap; });
    Away away{move.offload, move.gone, move.prefetch};
    if (found == list.end() || aways[*found].moved() || !isInOrder(problem.gaps[*found], away))
      return std::nullopt;
    aways[*found] = away;
  }
  return aways;
}

} // namespace

std::optional<Plan> tessera::tiers::planOf(const Step &step, const std::vector<Move> &moves,
                                           const Rates &rates) {
  Problem problem(step, {}, rates);
  std::optional<std::vector<Away>> aways = awaysOf(problem, moves);
  if (!aways)
    return std::nullopt;
  // What follows from a value's moves is there already.
  for (size_t v = 0; v < problem.gapsOf.size(); ++v) {
    const std::vector<int> &list = problem.gapsOf[v];
    std::vector<Away> given, valid;
    for (int gap : list)
      given.push_back((*aways)[gap]);
    valid = given;
    for (size_t i = 0; i < list.size(); ++i)
      problem.makeValid(static_cast<int>(v), valid, static_cast<int>(i));
    if (valid != given)
      return std::nullopt;
  }
  Draft draft(problem);
  draft.load(*aways);
  return judge(step, draft.moves(), rates);
}
