// A draft's bytes and clock, which follow each change, against the judges that count and simulate anew.
#include "passes/Tiers/Draft.h"
#include "Traces.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <limits>

using namespace tessera::tiers;

namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

Away anyAway(Random &random, const Draft &draft, int g) {
  const Gap &gap = draft.problem().gaps[g];
  if (between(random, 0, 2) == 0)
    return {};
  Away away;
  away.offload = between(random, gap.use + 1, gap.end);
  away.gone = between(random, away.offload, gap.end);
  away.prefetch = gap.round ? between(random, 0, gap.next) : between(random, away.gone, gap.next);
  return away;
}

void expectAsJudged(const Draft &draft) {
  const Problem &problem = draft.problem();
  std::vector<Move> moves = draft.moves();
  ASSERT_EQ(whyWrong(problem.step, moves), "");
  ASSERT_EQ(draft.device().all(), deviceBytes(problem.step, moves));
  int64_t above = 0;
  for (int64_t bytes : deviceBytes(problem.step, moves))
    above += std::max<int64_t>(0, bytes - problem.limits.device);
  for (int64_t bytes : hostBytes(problem.step, moves))
    above += std::max<int64_t>(0, bytes - problem.limits.host);
  ASSERT_EQ(draft.excess(), above);
}

TEST(Draft, FollowsEveryChangeAndUndoesIt) {
  Random random(1);
  int undone = 0, kept = 0;
  for (int trial = 0; trial < 200; ++trial) {
    Step step = anyStep(random, between(random, 2, 14), between(random, 1, 8));
    Rates rates{static_cast<double>(between(random, 1, 4)), static_cast<double>(between(random, 1, 4)), 0.25};
    Problem problem(step, {between(random, 5, 30), between(random, 5, 30)}, rates);
    Draft draft(problem);
    if (problem.gaps.empty())
      continue;
    for (int i = 0; i < 60; ++i) {
      std::vector<Move> before = draft.moves();
      bool fitted = draft.excess() == 0;
      for (int64_t k = between(random, 1, 3); k > 0; --k) {
        int gap = static_cast<int>(between(random, 0, static_cast<int64_t>(problem.gaps.size()) - 1));
        draft.change(gap, anyAway(random, draft, gap));
      }
      expectAsJudged(draft);
      ASSERT_TRUE(!fitted || draft.fits() == (draft.excess() == 0));
      double seconds = simulate(step, draft.moves(), rates);
      int64_t what = between(random, 0, 3);
      if (what == 0) { // kept without a look at the clock
        draft.keep();
        continue;
      }
      double bound = what == 1 ? kForever : seconds * static_cast<double>(between(random, 1, 3)) / 2;
      double simulated = draft.simulate(bound);
      ASSERT_EQ(simulated, simulated == kForever ? kForever : seconds);
      ASSERT_TRUE(simulated == seconds || seconds > bound * (1 - 1e-12));
      if (simulated == kForever || what == 2) {
        draft.undo();
        ++undone;
        ASSERT_EQ(draft.moves(), before);
        expectAsJudged(draft);
        ASSERT_EQ(draft.simulate(kForever), simulate(step, before, rates));
      } else {
        draft.keep();
        ++kept;
      }
    }
  }
  EXPECT_GT(undone, 1000);
  EXPECT_GT(kept, 1000);
}

} // namespace
