// Schedules by simulation: complete, without deadlock, with the bubbles and live microbatches that are known
// of them.
#include "passes/Pipeline/PipelineSchedule.h"
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <tuple>

using namespace tessera::pipeline;

namespace {

Shape shapeOf(const Schedule &schedule, int64_t stages, int64_t micro) {
  return {stages, stages * schedule.chunksPerStage, micro};
}

Simulation simulated(const char *name, int64_t stages, int64_t micro) {
  const Schedule &schedule = *findSchedule(name);
  Shape shape = shapeOf(schedule, stages, micro);
  EXPECT_EQ(schedule.refusal(shape), "");
  auto result = simulate(schedule, shape, schedule.order(shape));
  EXPECT_TRUE(result) << name << " with " << stages << " stages and " << micro
                      << " microbatches waits for ever";
  return result.value_or(Simulation());
}

TEST(Schedule, EveryStepOnceOnItsStage) {
  for (const Schedule &schedule : allSchedules())
    for (int64_t stages : {1, 2, 3, 4, 8})
      for (int64_t micro : {1, 2, 3, 4, 7, 8, 16}) {
        Shape shape = shapeOf(schedule, stages, micro);
        if (!schedule.refusal(shape).empty())
          continue;
        Order order = schedule.order(shape);
        std::set<std::tuple<Work, int64_t, int64_t>> seen;
        for (int64_t stage = 0; stage < stages; ++stage)
          for (const Step &step : order[stage]) {
            EXPECT_EQ(schedule.stageOf(step.chunk, stages), stage);
            EXPECT_TRUE(seen.insert({step.work, step.chunk, step.micro}).second);
          }
        EXPECT_EQ(int64_t(seen.size()), shape.chunks * micro * (schedule.splitsBackward ? 3 : 2));
        EXPECT_TRUE(simulate(schedule, shape, order)) << schedule.name << " " << stages << " " << micro;
      }
}

TEST(Schedule, GPipeAnd1F1BIdleTheSame) {
  for (int64_t stages : {1, 2, 4, 8})
    for (int64_t micro : {1, 2, 4, 8, 16, 64}) {
      double expected = double(stages - 1) / double(micro + stages - 1);
      Simulation gpipe = simulated("gpipe", stages, micro), one = simulated("1f1b", stages, micro);
      EXPECT_EQ(gpipe.bubble, expected);
      EXPECT_EQ(one.bubble, expected);
      for (int64_t stage = 0; stage < stages; ++stage) {
        EXPECT_EQ(gpipe.live[stage], micro);
        EXPECT_EQ(one.live[stage], std::min(stages - stage, micro));
      }
    }
}

TEST(Schedule, InterleavedIdlesLessByItsChunks) {
  const Schedule &schedule = *findSchedule("interleaved");
  for (int64_t stages : {2, 4, 8})
    for (int64_t perStage : {2, 4})
      for (int64_t micro : {stages, 2 * stages, 4 * stages}) {
        Shape shape{stages, stages * perStage, micro};
        auto result = simulate(schedule, shape, schedule.order(shape));
        ASSERT_TRUE(result);
        // Idle over the ideal time is (P-1)/(v m).
        EXPECT_NEAR(result->bubble / (1 - result->bubble), double(stages - 1) / double(perStage * micro),
                    1e-12);
      }
}

TEST(Schedule, ZeroBubbleIdlesOnlyWhileItFills) {
  for (auto [stages, micro] :
       {std::pair<int64_t, int64_t>{2, 4}, {4, 4}, {4, 8}, {4, 16}, {8, 16}, {8, 32}}) {
    Simulation result = simulated("zero-bubble", stages, micro);
    EXPECT_EQ(result.makespan, 6 * micro + stages - 1) << stages << " stages, " << micro << " microbatches";
    for (double live : result.live)
      EXPECT_LE(live, stages);
  }
}

// A parameter that both chunks of a stage use (a tied table) has one gradient there, added up in the earlier
// chunk's step.
TEST(Schedule, ZeroBubbleHasALaterChunksWeightsFirst) {
  const Schedule &schedule = *findSchedule("zero-bubble");
  for (int64_t stages : {1, 2, 3, 4, 8})
    for (int64_t micro : {1, 2, 3, 4, 7, 8, 16})
      for (const auto &steps : schedule.order(shapeOf(schedule, stages, micro))) {
        std::map<int64_t, std::set<int64_t>> done; // microbatch -> chunks
        for (const Step &step : steps)
          if (step.work == Work::Weight) {
            EXPECT_TRUE(done[step.micro].empty() || *done[step.micro].rbegin() > step.chunk)
                << stages << " stages, microbatch " << step.micro << " of " << micro;
            done[step.micro].insert(step.chunk);
          }
      }
}

TEST(Schedule, RefusesShapesThatItCannotServe) {
  EXPECT_NE(findSchedule("interleaved")->refusal({4, 8, 6}).find("--microbatches 8"), std::string::npos);
  EXPECT_NE(findSchedule("gpipe")->refusal({4, 8, 4}), "");
  EXPECT_NE(findSchedule("zero-bubble")->refusal({4, 4, 4}), "");
  EXPECT_EQ(findSchedule("pipedream"), nullptr);
}

TEST(Schedule, FewMicrobatchesStandForMany) {
  for (const Schedule &schedule : allSchedules())
    for (int64_t stages : {2, 3, 4, 8}) {
      const int64_t micro = 16 * stages;
      auto found = steadyMicrobatches(schedule, shapeOf(schedule, stages, micro));
      ASSERT_TRUE(found) << schedule.name << " on " << stages << " stages";
      EXPECT_LT(found->few + found->more, micro);
      auto drawn = [&](double few, double more) {
        return few + (more - few) * double(micro - found->few) / double(found->more - found->few);
      };
      const Simulation few = simulated(schedule.name, stages, found->few),
                       more = simulated(schedule.name, stages, found->more),
                       all = simulated(schedule.name, stages, micro);
      EXPECT_EQ(drawn(few.makespan, more.makespan), all.makespan) << schedule.name << " on " << stages;
      for (int64_t stage = 0; stage < stages; ++stage)
        EXPECT_NEAR(drawn(few.live[stage], more.live[stage]), all.live[stage], 1e-9) << schedule.name;
      EXPECT_FALSE(steadyMicrobatches(schedule, shapeOf(schedule, stages, found->few + found->more)));
    }
}

TEST(Schedule, AnOrderThatCannotRunIsFound) {
  const Schedule &schedule = *findSchedule("1f1b");
  Shape shape{2, 2, 1};
  Order order = schedule.order(shape);
  std::swap(order[1][0], order[1][1]); // backward before forward
  EXPECT_FALSE(simulate(schedule, shape, order));
}

} // namespace
