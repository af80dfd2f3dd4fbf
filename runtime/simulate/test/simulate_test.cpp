// The physics of a step: closed forms.
#include "runtime/simulate/simulate.h"

#include "runtime/core/error.h"
#include "runtime/simulate/test/programs.h"

#include <gtest/gtest.h>

using namespace tessera::rt;
using namespace tessera::rt::made;

namespace {

constexpr double kClose = 1e-9;
/// Of machine(): of each of its levels.
constexpr double kLatency[] = {1e-4, 1e-3}, kBandwidth[] = {1e8, 1e7};
const Axes kInner = {{"in", 1, 4}}, kOuter = {{"out", 1, 4}};

/// All programs of this mesh have groups of four ranks within a level, and across.
Description onSixteen(std::vector<Operation> operations) {
  return description({{"out", 4}, {"in", 4}}, std::move(operations));
}

std::string problemOf(const Description &description, const SimulateOptions &options = {}) {
  try {
    (void)simulated(description, machine(), options);
  } catch (const Error &error) {
    return error.what();
  }
  return "none";
}

TEST(Simulate, WorkTakesItsOperationsAndItsBytes) {
  EXPECT_NEAR(seconds(description({}, {kernel(3'000'000)})), 3e-3, kClose);
  EXPECT_NEAR(seconds(description({}, {product(5e6), product(8e6, DType::BF16), product(2e6, DType::F16)})),
              5e-3 + 2e-3 + 1e-3, kClose);
  EXPECT_NEAR(seconds(description({}, {loop(7), kernel(1'000'000), end(), kernel(500'000)})), 7.5e-3, kClose);
  EXPECT_NEAR(seconds(description({}, {loop(0), kernel(1'000'000), end()})), 0, kClose);
}

TEST(Simulate, RatesOfAThreadCountThreads) {
  MachineFile file = machine();
  file.perThread = true;
  Description two = description({}, {kernel(1'000'000), product(1e6)});
  two.threads = 2;
  EXPECT_NEAR(seconds(two, file), 1e-3, kClose);
  SimulateOptions options;
  options.threads = 4;
  EXPECT_NEAR(seconds(two, file, options), 5e-4, kClose);
}

// ---- Ranks that share their host's processors

/// machine(), whose hosts of four ranks have so many processors.
MachineFile withCores(double cores) {
  MachineFile file = machine();
  file.hostCores = cores;
  return file;
}

TEST(Simulate, RanksThatAllWorkTakeTurns) {
  Description made = onSixteen({kernel(1'000'000), product(3e6)});
  EXPECT_NEAR(seconds(made, withCores(4)), 4e-3, kClose) << "each has its own";
  EXPECT_NEAR(seconds(made, withCores(2)), 8e-3, kClose);
  EXPECT_NEAR(seconds(made, withCores(3)), 4e-3 * 4 / 3, kClose);
  SimulateOptions options;
  options.threads = 2;
  EXPECT_NEAR(seconds(made, withCores(4), options), 8e-3, kClose) << "of two threads each";
  EXPECT_NEAR(seconds(description({{"in", 2}}, {kernel(1'000'000)}), withCores(2)), 1e-3, kClose)
      << "there are no more";
  EXPECT_NEAR(seconds(description({{"out", 3}, {"in", 2}}, {kernel(1'000'000)}), withCores(2)), 2e-3, kClose)
      << "and two on the last host";
  made.target = "cuda:sm_90";
  EXPECT_NEAR(seconds(made, withCores(1)), 4e-3, kClose) << "cards have their own";
}

TEST(Simulate, WhoWaitsLeavesItsProcessorToOthers) {
  Description two = pipeline({{"pipe", 2}}, {{kernel(1'000'000)}, {kernel(3'000'000)}}, 1);
  std::vector<double> ends = simulated(two, withCores(1)).ends;
  EXPECT_NEAR(ends[0], 2e-3, kClose) << "half of one";
  EXPECT_NEAR(ends[1], 4e-3, kClose) << "and then all of it";
  Description after = pipeline(
      {{"pipe", 2}},
      {{kernel(2'000'000), send(1, 1'000'000, 0), await(0)}, {receive(0, 1'000'000), kernel(1'000'000)}}, 1);
  EXPECT_NEAR(seconds(after, withCores(1)), seconds(after), kClose) << "they never work at the same time";
}

TEST(Simulate, HostsShareWithNoOther) {
  SimulateOptions options;
  options.slow[5] = 3;
  std::vector<double> ends = simulated(onSixteen({kernel(1'000'000)}), withCores(2), options).ends;
  for (size_t rank = 0; rank < ends.size(); ++rank)
    EXPECT_NEAR(ends[rank], rank == 5 ? 4e-3 : 2e-3, kClose) << rank;
}

TEST(Simulate, WhatATransferTakesOfSharedProcessorsComesBehind) {
  Description made = description(
      {{"in", 2}}, {collective("permute", {{"in", 1, 2}}, 25'000, 0), kernel(10'000'000), await(0)});
  Simulation whole = simulated(made, withCores(1));
  EXPECT_NEAR(whole.seconds, 2 * 10e-3 + launch + kLatency[0] + 1e5 / kBandwidth[0], kClose);
  EXPECT_NEAR(whole.computing, 2 * 10e-3, kClose);
}

/// What a collective of `elements` f32 elements on each of four ranks takes: rounds, and bytes on a link.
struct Alone {
  const char *kind, *algorithm;
  double rounds, shares;
};

TEST(Simulate, EachCollectiveAloneOnEachLevel) {
  constexpr int64_t elements = 1000;
  for (const Alone &alone :
       {Alone{"all_reduce", "chain", 4, 1.5}, Alone{"all_gather", "chain", 2, 3},
        Alone{"reduce_scatter", "chain", 2, 0.75}, Alone{"all_to_all", "chain", 2, 0.75},
        Alone{"broadcast", "direct", 1, 3}, Alone{"broadcast", "tree", 2, 2},
        Alone{"broadcast", "chain", 3, 3}, Alone{"reduce", "chain", 1, 3}, Alone{"permute", "chain", 1, 1}})
    for (int level : {0, 1}) {
      Operation op = collective(alone.kind, level == 0 ? kInner : kOuter, elements);
      op.collective.request.algorithm = alone.algorithm;
      EXPECT_NEAR(seconds(onSixteen({op})),
                  launch + kLatency[level] * alone.rounds + 4 * elements * alone.shares / kBandwidth[level],
                  kClose)
          << alone.kind << " " << alone.algorithm << " on level " << level;
    }
}

/// What NCCL takes of the links between four nodes of four ranks, and of those within them.
struct OverNodes {
  const char *kind;
  double rounds, shares, roundsWithin, sharesWithin;
};

TEST(Simulate, NcclLeavesANodeOnceForAllOfItsRanks) {
  constexpr int64_t elements = 1600;
  const Axes all = {{"out", 1, 4}, {"in", 1, 4}};
  MachineFile oneLink = machine(), slowWithin = machine();
  oneLink.levels[1].links = 1;
  slowWithin.levels[0].bandwidth = 1e6;
  for (const OverNodes &over :
       {OverNodes{"all_reduce", 4, 1.875 / 4, 4, 1.875 * 3 / 4},
        OverNodes{"all_gather", 3, 15.0 / 4, 2, 45.0 / 4},
        OverNodes{"reduce_scatter", 3, 0.9375 / 4, 2, 0.9375 * 3 / 4},
        OverNodes{"all_to_all", 2, 0.75, 2, 0.1875}, OverNodes{"broadcast", 3, 0.25, 2, 0.75},
        OverNodes{"reduce", 3, 0.25, 2, 0.75}, OverNodes{"permute", 1, 1, 0, 0}}) {
    Description made = onSixteen({collective(over.kind, all, elements)});
    made.target = "cuda:sm_90";
    const double waits = launch + kLatency[1] * over.rounds + kLatency[0] * over.roundsWithin,
                 between = 4 * elements * over.shares / kBandwidth[1];
    EXPECT_NEAR(seconds(made), waits + between, kClose) << over.kind;
    EXPECT_NEAR(seconds(made, oneLink), waits + 4 * between, kClose) << over.kind << ", one link a node";
    EXPECT_NEAR(seconds(made, slowWithin), waits + std::max(between, 4 * elements * over.sharesWithin / 1e6),
                kClose)
        << over.kind << ", slow within nodes";
  }
}

TEST(Simulate, NcclHasTreesWhereEachRankHasANode) {
  Description made = onSixteen({collective("all_gather", kOuter, 1000)});
  made.target = "cuda:sm_90";
  EXPECT_NEAR(seconds(made), launch + kLatency[1] * 2 + 4000 * 3 / kBandwidth[1], kClose);
}

TEST(Simulate, AChainGoesInSegments) {
  constexpr int64_t elements = 1 << 20; // four of a MiB
  Operation op = collective("broadcast", kInner, elements);
  EXPECT_NEAR(seconds(onSixteen({op})), launch + (4 + 2) * (kLatency[0] + (1 << 20) / kBandwidth[0]), kClose);
}

TEST(Simulate, AGroupOfOneTakesNoTime) {
  EXPECT_EQ(seconds(description({{"in", 1}}, {collective("all_reduce", {{"in", 1, 1}}, 100)})), 0);
}

TEST(Simulate, AMessageIsThereAfterItsWay) {
  Description made = pipeline(
      {{"pipe", 2}},
      {{kernel(2'000'000), send(1, 1'000'000, 0), await(0)}, {receive(0, 1'000'000), kernel(1'000'000)}}, 1);
  EXPECT_NEAR(seconds(made), 2e-3 + launch + kLatency[0] + 1e-2 + 1e-3, kClose);
}

TEST(Simulate, MessagesTravelAheadOfWhatAsksForThem) {
  constexpr double way = launch + 1e-4 + 1e-2;
  Description made =
      pipeline({{"pipe", 2}},
               {{send(1, 1'000'000, 0), send(1, 1'000'000, 1), await(0), await(1)},
                {kernel(5'000'000), receive(0, 1'000'000), kernel(20'000'000), receive(0, 1'000'000)}},
               1);
  EXPECT_NEAR(seconds(made), 5e-3 + way + 20e-3, kClose)
      << "the first when it is asked for, the second beside work";
  made.target = "cuda:sm_90";
  EXPECT_NEAR(seconds(made), 5e-3 + way + 20e-3 + way, kClose) << "none ahead";
}

TEST(Simulate, TwoOnOneLinkHaveHalfOfIt) {
  Description made = pipeline({{"pipe", 3}},
                              {{send(1, 1'000'000, 0), send(2, 500'000, 1), await(0), await(1)},
                               {receive(0, 1'000'000)},
                               {receive(0, 500'000)}},
                              1);
  std::vector<double> ends = simulated(made).ends;
  EXPECT_NEAR(ends[2], launch + kLatency[0] + 2 * 5e-3, kClose);
  EXPECT_NEAR(ends[1], launch + kLatency[0] + 1e-2 + 5e-3, kClose);
}

TEST(Simulate, NodesShareTheirLinks) {
  Description made = onSixteen({collective("all_reduce", kOuter, 1000)});
  MachineFile file = machine();
  double latency = launch + 4 * kLatency[1], moving = 6000 / kBandwidth[1];
  EXPECT_NEAR(seconds(made, file), latency + moving, kClose);
  file.levels[1].links = 2; // for four ranks
  EXPECT_NEAR(seconds(made, file), latency + 2 * moving, kClose);
  file.levels[1].links = 0;
  file.levels[1].oversubscription = 4;
  EXPECT_NEAR(seconds(made, file), latency + 4 * moving, kClose);
  EXPECT_NEAR(seconds(onSixteen({collective("all_reduce", kInner, 1000)}), file),
              launch + 4 * kLatency[0] + 6000 / kBandwidth[0], kClose)
      << "within a node nothing is scarce";
}

TEST(Simulate, WhatIsStartedRunsBesideWork) {
  double alone = launch + 4 * kLatency[0] + 6000 / kBandwidth[0];
  Operation start = collective("all_reduce", kInner, 1000, 0);
  EXPECT_NEAR(seconds(onSixteen({start, kernel(9'000'000), await(0)})), 9e-3, kClose);
  EXPECT_NEAR(seconds(onSixteen({start, kernel(1'000'000), await(0)})), alone, kClose);
  Operation second = collective("all_reduce", kInner, 1000, 1);
  EXPECT_NEAR(seconds(onSixteen({start, second, await(0), kernel(1'000'000), await(1)})), 2 * alone, kClose)
      << "one after the other";
}

TEST(Simulate, WhatCommunicationTakesIsComputedLater) {
  const double alone = launch + 4 * kLatency[0] + 6000 / kBandwidth[0];
  const Operation start = collective("all_reduce", kInner, 1000, 0);
  const Description hidden = onSixteen({start, kernel(9'000'000), await(0), kernel(1'000'000)});
  MachineFile file = machine();
  file.collectivesTake = 0.25;
  Simulation step = simulated(hidden, file);
  EXPECT_NEAR(step.seconds, 10e-3 + alone / 4, kClose);
  EXPECT_NEAR(step.computing, 10e-3, kClose);
  EXPECT_NEAR(step.communication.at("in").exposed, alone / 4, kClose);
  EXPECT_NEAR(step.communication.at("in").hidden, alone * 3 / 4, kClose);
  // What would be done before the transfer is over has time for the share.
  EXPECT_NEAR(seconds(onSixteen({start, kernel(1'000'000), await(0)}), file), alone, kClose);
  // It goes on beside all that is left.
  EXPECT_NEAR(seconds(onSixteen({kernel(1'000'000), start, kernel(9'000'000)}), file), 10e-3 + alone / 4,
              kClose);
  // Of a wait in the midst nothing is taken.
  const Operation message = collective("all_reduce", kOuter, 1000);
  EXPECT_NEAR(seconds(onSixteen({start, message, await(0)}), file),
              seconds(onSixteen({start, message, await(0)})), kClose);
}

TEST(Simulate, ProcessorsThatAreLeftAreForCommunication) {
  const double alone = launch + 4 * kLatency[0] + 6000 / kBandwidth[0];
  Description made = onSixteen({collective("all_reduce", kInner, 1000, 0), kernel(9'000'000), await(0)});
  MachineFile file = machine();
  auto take = [&](double cores) {
    file.hostCores = cores;
    return (seconds(made, file) - 9e-3) / alone;
  };
  // Four ranks of a thread share a host.
  EXPECT_NEAR(take(8), 0, 1e-9);
  EXPECT_NEAR(take(6), 0.5, 1e-9);
  EXPECT_NEAR(take(4), 1, 1e-9);
  made.target = "cuda:sm_90";
  EXPECT_NEAR(take(4), 0, 1e-9);
}

TEST(Simulate, GroupsOfGpusDoNotWaitForEachOther) {
  Description made = onSixteen({collective("all_reduce", kInner, 1000, 0),
                                collective("all_reduce", kOuter, 1000, 1), await(0), await(1)});
  double outer = launch + 4 * kLatency[1] + 6000 / kBandwidth[1];
  EXPECT_NEAR(seconds(made), launch + 4 * kLatency[0] + 6000 / kBandwidth[0] + outer, kClose);
  made.target = "cuda:sm_90";
  EXPECT_NEAR(seconds(made), outer, kClose);
}

TEST(Simulate, CopiesHaveAStreamForEachWay) {
  auto copy = [](Tier from, Tier to, int64_t token) {
    Operation op{.kind = Operation::Kind::Copy};
    op.copy = {int64_t(from), int64_t(to), token};
    return op;
  };
  Operation down = copy(Tier::Device, Tier::Host, 0), up = copy(Tier::Host, Tier::Device, 1);
  double downSeconds = 1e-2 + 1e-2, upSeconds = 1e-2 + 5e-3;
  EXPECT_NEAR(seconds(description({}, {down, await(0), up, await(1)})), downSeconds + upSeconds, kClose);
  EXPECT_NEAR(seconds(description({}, {down, up, await(0), await(1)})), downSeconds, kClose);
  Operation again = copy(Tier::Device, Tier::Host, 2);
  EXPECT_NEAR(seconds(description({}, {down, again, kernel(1'000'000), await(0), await(2)})), 2 * downSeconds,
              kClose);
  Operation read = copy(Tier::Nvme, Tier::Host, 3), write = copy(Tier::Host, Tier::Nvme, 4);
  EXPECT_NEAR(seconds(description({}, {read, await(3)})), 0.1 + 0.1, kClose);
  EXPECT_NEAR(seconds(description({}, {write, await(4)})), 0.1 + 0.05, kClose);
}

/// The steps of a stage: forwards are numbered from 0, backwards below.
std::vector<int64_t> scheduleOf(bool gpipe, int64_t stage, int64_t stages, int64_t micro) {
  std::vector<int64_t> order;
  int64_t ahead = gpipe ? micro : std::min(stages - stage - 1, micro), forward = 0, backward = 0;
  while (forward < ahead)
    order.push_back(forward++);
  while (forward < micro) {
    order.push_back(forward++);
    order.push_back(-1 - backward++);
  }
  while (backward < micro)
    order.push_back(-1 - backward++);
  return order;
}

TEST(Simulate, BubblesAreThoseOfTheSchedules) {
  MachineFile file = machine();
  file.launch = 1e-12;
  file.levels = {{64, 1e-12, 1e18}};
  for (bool gpipe : {true, false})
    for (auto [stages, micro] : {std::pair<int64_t, int64_t>{2, 3}, {4, 8}, {4, 2}, {8, 8}}) {
      std::vector<std::vector<Operation>> programs;
      for (int64_t stage = 0; stage < stages; ++stage) {
        std::vector<Operation> &list = programs.emplace_back();
        int64_t token = 0;
        for (int64_t each : scheduleOf(gpipe, stage, stages, micro)) {
          int64_t from = each >= 0 ? stage - 1 : stage + 1, to = each >= 0 ? stage + 1 : stage - 1;
          if (from >= 0 && from < stages)
            list.push_back(receive(from, 8));
          list.push_back(kernel(1'000'000'000));
          if (to >= 0 && to < stages)
            list.push_back(send(to, 8, token++));
        }
        while (token > 0)
          list.push_back(await(--token));
      }
      Simulation step = simulated(pipeline({{"pipe", stages}}, programs, micro), file);
      EXPECT_NEAR(step.seconds, 2 * double(micro + stages - 1), 1e-9 * step.seconds)
          << gpipe << " " << stages << " " << micro;
      EXPECT_NEAR(1 - step.computing / step.seconds, double(stages - 1) / double(micro + stages - 1), kClose);
    }
}

TEST(Simulate, AStragglerDelaysItsGroupAndNoOther) {
  Description made = onSixteen({kernel(10'000'000), collective("all_reduce", kInner, 1000)});
  SimulateOptions options;
  options.slow = {{6, 1.5}};
  Simulation step = simulated(made, machine(), options);
  double alone = launch + 4 * kLatency[0] + 6000 / kBandwidth[0];
  for (int rank = 0; rank < 16; ++rank)
    EXPECT_NEAR(step.ends[size_t(rank)], (rank / 4 == 1 ? 15e-3 : 10e-3) + alone, kClose) << rank;
  EXPECT_EQ(step.classes, 3);
}

TEST(Simulate, JitterIsWithinItsBoundsAndTheSameForASeed) {
  Description made = onSixteen({kernel(10'000'000)});
  SimulateOptions options;
  options.jitter = 0.05;
  options.seed = 1;
  Simulation step = simulated(made, machine(), options);
  EXPECT_EQ(step.classes, 16);
  auto [least, most] = std::minmax_element(step.ends.begin(), step.ends.end());
  EXPECT_GE(*least, 9.5e-3);
  EXPECT_LE(*most, 10.5e-3);
  EXPECT_GT(*most, *least);
  EXPECT_EQ(simulated(made, machine(), options).ends, step.ends);
  options.seed = 2;
  EXPECT_NE(simulated(made, machine(), options).ends, step.ends);
}

/// Two stages of two ranks, with work, collectives and a message.
static Description twoStages() {
  return pipeline({{"pipe", 2}, {"in", 2}},
                  {{kernel(2'000'000), collective("all_reduce", {{"in", 1, 2}}, 1000, 5), kernel(100'000),
                    await(5), send(1, 1'000'000, 0), await(0)},
                   {receive(0, 1'000'000), kernel(1'000'000), collective("all_gather", {{"in", 1, 2}}, 100)}},
                  1);
}

TEST(Simulate, AllOfAStepIsWorkCommunicationOrWaiting) {
  Description made = twoStages();
  MachineFile file = machine();
  file.collectivesTake = 0.3;
  SimulateOptions options;
  options.slow = {{1, 1.5}};
  Simulation step = simulated(made, file, options);
  double sum =
      step.computing + step.waitsForRanks + step.waitsForStages + step.waitsForCopies + step.waitsForEnd;
  for (const auto &[axes, over] : step.communication)
    sum += over.exposed;
  EXPECT_NEAR(sum, step.seconds, kClose);
  EXPECT_GT(step.waitsForRanks, 0);
  EXPECT_GT(step.waitsForStages, 0);
  EXPECT_GT(step.waitsForEnd, 0);
  EXPECT_GT(step.communication.at("in").hidden, 0);
  EXPECT_GT(step.communication.at("pipe").exposed, 0);
  EXPECT_EQ(step.sent.at("in").at("all_reduce").bytes, 2000) << "the mean of both stages";
  EXPECT_EQ(step.sent.at("pipe").at("send").bytes, 500'000);
  file.hostCores = 1.5;
  Simulation crowded = simulated(made, file, options);
  sum = crowded.computing + crowded.waitsForRanks + crowded.waitsForStages + crowded.waitsForCopies +
        crowded.waitsForEnd;
  for (const auto &[axes, over] : crowded.communication)
    sum += over.exposed;
  EXPECT_NEAR(sum, crowded.seconds, kClose) << "of ranks that share processors";
  EXPECT_GT(crowded.computing, step.computing * 1.2);
}

TEST(Simulate, TrafficIsByKindAndLevel) {
  // Of 8 ranks in nodes of 4 those along `a` are in two nodes, those along `b` in one.
  Operation inner = collective("all_reduce", {{"b", 1, 4}}, 1000);
  Description made = description(
      {{"a", 2}, {"b", 4}}, {inner, inner, collective("all_gather", {{"b", 1, 4}}, 1000),
                             collective("all_reduce", {{"a", 1, 2}}, 500, 3), kernel(1'000'000), await(3)});
  Simulation step = simulated(made);
  using Row = std::tuple<std::string, std::string, size_t, int64_t, int64_t>;
  std::vector<Row> rows;
  std::map<std::string, double> exposed, hidden;
  for (const Simulation::Traffic &each : step.traffic) {
    if (each.sent.count > 0)
      rows.emplace_back(each.axes, each.kind, each.level, each.sent.count, each.sent.bytes);
    exposed[each.axes] += each.over.exposed;
    hidden[each.axes] += each.over.hidden;
  }
  EXPECT_EQ(rows, (std::vector<Row>{{"b", "all_reduce", 0, 2, step.sent.at("b").at("all_reduce").bytes},
                                    {"b", "all_gather", 0, 1, step.sent.at("b").at("all_gather").bytes},
                                    {"a", "all_reduce", 1, 1, step.sent.at("a").at("all_reduce").bytes}}));
  for (const auto &[axes, over] : step.communication) {
    EXPECT_NEAR(exposed.at(axes), over.exposed, kClose);
    EXPECT_NEAR(hidden.at(axes), over.hidden, kClose);
  }
  EXPECT_NEAR(hidden.at("a"), 1e-3, kClose) << "beside the kernel";
}

void expectTimelineOfAll(MachineFile file) {
  Description made = twoStages();
  file.collectivesTake = 0.3;
  SimulateOptions options;
  options.slow = {{1, 1.5}};
  EXPECT_TRUE(simulated(made, file, options).timelines.empty());
  options.records = true;
  Simulation step = simulated(made, file, options);
  ASSERT_EQ(step.timelines.size(), size_t(step.classes));
  double computing = 0, exposed = 0, ranks = 0, stages = 0;
  for (const RankTimeline &each : step.timelines) {
    double until = 0;
    for (const TimelineEvent &event : each.events) {
      if (laneOf(event, step) != "compute")
        continue;
      EXPECT_NEAR(event.begin, until, kClose) << "one behind the other";
      until = event.end;
      double share = (event.end - event.begin) * double(each.ranks) / 4;
      bool waits = event.stream == TimelineEvent::Stream::Wait;
      (!waits                               ? computing
       : event.cause == WaitCause::Transfer ? exposed
       : event.cause == WaitCause::Ranks    ? ranks
                                            : stages) += share;
    }
    EXPECT_NEAR(until, step.ends[size_t(each.rank)], kClose);
  }
  EXPECT_NEAR(computing, step.computing, kClose);
  EXPECT_NEAR(ranks, step.waitsForRanks, kClose);
  EXPECT_NEAR(stages, step.waitsForStages, kClose);
  EXPECT_NEAR(exposed, step.communication.at("in").exposed + step.communication.at("pipe").exposed, kClose);
}

TEST(Simulate, TheTimelineIsAllOfTheStep) {
  expectTimelineOfAll(machine());
  expectTimelineOfAll(withCores(1.5));
}

TEST(Simulate, SaysWhyThereIsNoStep) {
  EXPECT_EQ(problemOf(description({{"a", 32}}, {kernel(1)})),
            "the machine has places for 16 ranks, and there are 32; the last [[level]] says how many "
            "there are");
  SimulateOptions options;
  options.slow = {{4, 2.0}};
  EXPECT_EQ(problemOf(description({{"a", 4}}, {kernel(1)}), options),
            "there is no rank 4 to be slow; the ranks are 0 to 3");
  EXPECT_EQ(problemOf(pipeline({{"pipe", 2}}, {{kernel(1)}}, 1)), "there is no program 'train' for rank 1");
  EXPECT_EQ(problemOf(pipeline({{"pipe", 2}}, {{receive(1, 8)}, {receive(0, 8)}}, 1)),
            "the step never ends: rank 0 waits for ever in '', which others do not come to");
  EXPECT_NE(problemOf(pipeline({{"pipe", 2}}, {{send(1, 8, 0), await(0)}, {receive(0, 16)}}, 1))
                .find("receives 16 bytes in '', and is sent 8"),
            std::string::npos);
  EXPECT_NE(problemOf(pipeline({{"pipe", 2}},
                               {{collective("all_reduce", {{"pipe", 1, 2}}, 8)},
                                {collective("all_gather", {{"pipe", 1, 2}}, 8)}},
                               1))
                .find("is in 'all_gather' when rank 0 of its group is in 'all_reduce'"),
            std::string::npos);
  options = {};
  options.mostOperations = 1000;
  EXPECT_EQ(problemOf(description({}, {loop(500), kernel(1), end()}), options),
            "a step of rank 0 has more than 1000 operations, too many to be simulated");
}

} // namespace
