// Every figure of a machine's file moves what a step takes.
#include "runtime/simulate/test/programs.h"

#include <gtest/gtest.h>

using namespace tessera::rt;
using namespace tessera::rt::made;

namespace {

Operation copy(Tier from, Tier to, int64_t token) {
  Operation op{.kind = Operation::Kind::Copy};
  op.copy = {int64_t(from), int64_t(to), token};
  return op;
}

Operation update(int64_t elements, int64_t token) {
  Operation op{.kind = Operation::Kind::HostCall};
  op.symbol = "adamw";
  op.attrs = std::make_shared<const nlohmann::json>(nlohmann::json{{"count", elements}});
  op.token = token;
  return op;
}

Operation of(WorkClass kind, Operation op) {
  op.work.kind = kind;
  return op;
}

/// One after the other all that a machine has figures for.
Description everything() {
  std::vector<Operation> list = {kernel(1'000'000), product(1e6), product(1e6, DType::BF16),
                                 product(1e6, DType::F16)};
  for (WorkClass kind : {WorkClass::Row, WorkClass::Gather, WorkClass::Update})
    list.push_back(of(kind, kernel(1'000'000)));
  list.front().work.functions = 1e6;
  list.push_back(kernel(1'000'000));
  list[1].work.bytes = 1e5;
  list.push_back(product(0)); // moves only
  list.back().work.bytes = 1e6;
  // Not of the measured shape itself, but as near to it as no other.
  for (WorkClass kind : {WorkClass::Product, WorkClass::Attention, WorkClass::AttentionBackward,
                         WorkClass::Convolution, WorkClass::ConvolutionBackward}) {
    list.push_back(of(kind, product(1e6)));
    list.back().work.shape = {2, 30, 40, 50};
  }
  for (auto [from, to] : {std::pair{Tier::Device, Tier::Host},
                          {Tier::Host, Tier::Device},
                          {Tier::Host, Tier::Nvme},
                          {Tier::Nvme, Tier::Host}}) {
    list.push_back(copy(from, to, 0));
    list.push_back(await(0));
  }
  list.push_back(update(10'000, 0));
  list.push_back(await(0));
  list.push_back(collective("all_reduce", {{"in", 1, 4}}, 10'000));
  list.push_back(collective("all_reduce", {{"out", 1, 2}}, 10'000));
  list.push_back(collective("all_reduce", {{"out", 1, 2}}, 10'000, 0));
  list.push_back(kernel(1'000'000'000));
  list.push_back(await(0));
  return description({{"out", 2}, {"in", 4}}, list);
}

struct Key {
  const char *name;
  bool isTime; ///< doubled, a step takes longer
  std::function<void(MachineFile &)> twice;
};

TEST(Keys, EachDoubledMovesAStep) {
  auto figure = [](std::optional<double> MachineFile::*which) {
    return [which](MachineFile &file) { file.*which = 2 * *(file.*which); };
  };
  using M = MachineFile;
  const Key keys[] = {
      {"products.f32", false, figure(&M::productsF32)},
      {"products.bf16", false, figure(&M::productsBF16)},
      {"products.f16", false, figure(&M::productsF16)},
      {"collectives.launch", true, figure(&M::launch)},
      {"collectives.take", true, figure(&M::collectivesTake)},
      {"host.down", false, figure(&M::hostDown)},
      {"host.up", false, figure(&M::hostUp)},
      {"host.latency", true, figure(&M::hostLatency)},
      {"disk.read", false, figure(&M::diskRead)},
      {"disk.write", false, figure(&M::diskWrite)},
      {"disk.latency", true, figure(&M::diskLatency)},
      // Doubled, twice as many share a host; what each of them has of it stays as it was.
      {"level 0 ranks", false,
       [](MachineFile &file) {
         file.levels[0].ranks *= 2;
         *file.hostCores *= 2;
         *file.hostBandwidth *= 2;
       }},
      {"level 0 latency", true, [](MachineFile &file) { file.levels[0].latency *= 2; }},
      {"level 0 bandwidth", false, [](MachineFile &file) { file.levels[0].bandwidth *= 2; }},
      {"level 0 oversubscription", true, [](MachineFile &file) { file.levels[0].oversubscription *= 2; }},
      {"level 1 latency", true, [](MachineFile &file) { file.levels[1].latency *= 2; }},
      {"level 1 bandwidth", false, [](MachineFile &file) { file.levels[1].bandwidth *= 2; }},
      {"level 1 links", false, [](MachineFile &file) { file.levels[1].links *= 2; }},
      {"host.update", false, figure(&M::hostUpdate)},
      {"level 1 oversubscription", true, [](MachineFile &file) { file.levels[1].oversubscription *= 2; }},
      {"device.bandwidth", false, figure(&M::bandwidth)},
      {"host.cores", false, figure(&M::hostCores)},
      {"host.bandwidth", false, figure(&M::hostBandwidth)},
      {"kernels.launch", true, figure(&M::kernelLaunch)},
      {"kernels.stream", false, figure(&M::stream)},
      {"kernels.row", false, figure(&M::row)},
      {"kernels.gather", false, figure(&M::gather)},
      {"kernels.update", false, figure(&M::update)},
      {"kernels.functions", false, figure(&M::functions)},
      {"product", false, [](MachineFile &file) { file.points[0].rate *= 2; }},
      {"row, by bytes", false,
       [](MachineFile &file) {
         file.points.push_back({WorkClass::Row, DType::F32, kernelShape(1e6), 2 * *file.row});
       }},
      {"attention", false, [](MachineFile &file) { file.points[1].rate *= 2; }},
      {"attention_backward", false, [](MachineFile &file) { file.points[2].rate *= 2; }},
      {"convolution", false, [](MachineFile &file) { file.points[3].rate *= 2; }},
      {"convolution_backward", false, [](MachineFile &file) { file.points[4].rate *= 2; }},
      {"per", false, [](MachineFile &file) { file.perThread = !*file.perThread; }},
  };
  MachineFile file = machine();
  file.levels[1].links = 1;
  file.kernelLaunch = 1e-4;
  file.collectivesTake = 0.25;
  file.hostCores = 4;
  file.hostBandwidth = 1.6e9;
  file.stream = 4e10;
  file.row = file.gather = file.update = 3e9;
  file.functions = 1e9;
  for (WorkClass kind : {WorkClass::Product, WorkClass::Attention, WorkClass::AttentionBackward,
                         WorkClass::Convolution, WorkClass::ConvolutionBackward})
    file.points.push_back({kind, DType::F32, {2, 32, 32, 32}, 5e8});
  SimulateOptions options;
  options.threads = 2;
  double before = seconds(everything(), file, options);
  for (const Key &key : keys) {
    MachineFile other = file;
    key.twice(other);
    double after = seconds(everything(), other, options);
    if (key.isTime)
      EXPECT_GT(after, before * (1 + 1e-6)) << key.name;
    else
      EXPECT_LT(after, before * (1 - 1e-6)) << key.name;
  }
  MachineFile other = file;
  other.levels[1].ranks *= 2;
  EXPECT_EQ(seconds(everything(), other, options), before) << "there is room for more ranks, nothing else";
}

TEST(Keys, UpdatesOnTheHostAreOneAfterTheOtherBesideComputing) {
  SimulateOptions options;
  const auto step = [&](const std::vector<Operation> &operations) {
    return seconds(description({{"out", 1}}, operations), machine(), options);
  };
  const double alone = 1e-2; // 10,000 elements
  EXPECT_NEAR(step({update(10'000, 0), await(0)}), alone, 1e-9);
  EXPECT_NEAR(step({update(10'000, 0), update(10'000, 1), await(0), await(1)}), 2 * alone, 1e-9);
  EXPECT_NEAR(step({update(10'000, 0), product(5e6), await(0)}), alone, 1e-9);
  EXPECT_NEAR(step({update(10'000, 0), product(2e7), await(0)}), 2e-2, 1e-9);
  EXPECT_NEAR(step({update(10'000, 0)}), alone, 1e-9) << "a step ends when all has ended";
}

TEST(Keys, WhatAFileLeavesOutIsTheTargets) {
  MachineFile given;
  given.launch = 5e-2;
  given.hostUp = 1e6;
  Machine machine = completeMachine(given, made::machine());
  EXPECT_EQ(machine.launch, 5e-2);
  EXPECT_EQ(machine.rates.bandwidth, 1e9);
  EXPECT_EQ(machine.ways.hostToDevice.bandwidth, 1e6);
  EXPECT_EQ(machine.ways.deviceToHost.bandwidth, 1e6) << "one stands for the other";
  EXPECT_EQ(machine.places(), 16);
}

} // namespace
