// The links between ranks. See calibrate.h.
#include "runtime/app/calibrate.h"

#include "runtime/comm/nccl_cost.h"
#include "runtime/core/host_name.h"
#include "runtime/device/cpu/workspace.h"
#include "runtime/program/engine_communicator.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <set>

namespace tessera::rt {
namespace {

/// Elements of a long collective's result, f32.
constexpr int64_t kMany = 4 << 20;
/// What a collective takes to launch, which is assumed.
constexpr double kLaunch = 3e-6;

class Links {
public:
  Links(const Description &description, const CommunicatorMaker &makeCommunicator, Meter &meter)
      : description(description), makeCommunicator(makeCommunicator), meter(meter), device(meter.device),
        engine(meter.engine) {}
  void measure(MachineFile &machine);

private:
  /// A level as it is measured: in groups over some axes, all at the same time.
  struct Level {
    Axes axes;
    int64_t group = 1;  ///< ranks of each
    int64_t ranks = 1;  ///< that the level has
    int64_t ofNode = 1; ///< ranks of a node of it, each in another group
    std::string where;
  };
  /// A collective over such groups, ready to run, and what takes its time.
  struct Exchange {
    std::unique_ptr<Collective> collective;
    CollectiveLoad load;
    std::unique_ptr<CountingAllocator> memory;
    std::unique_ptr<Buffers> buffers;
    std::unique_ptr<Communicator> communicator;
    Communicator::Handle handle = 0;
  };
  Level everyRank() const;
  std::vector<Level> levels();
  /// Of f32, with a result of so many elements, about.
  Exchange prepare(const std::string &kind, int64_t elements, const Level &level) const;
  /// Returns the seconds of a long all-reduce.
  double measure(const Level &level, MachineFile &machine);
  void measureShared(const Level &level, double seconds, double shortest, MachineFile::Level &links);
  void measureTake(double seconds, MachineFile &machine);

  const Description &description;
  const CommunicatorMaker &makeCommunicator;
  Meter &meter;
  Device &device;
  Engine &engine;
};

Links::Level Links::everyRank() const {
  Level level{{}, engine.size(), engine.size(), 1, ""};
  for (const auto &[name, size] : description.mesh.axes())
    level.axes.push_back({name, 1, size});
  return level;
}

// Ranks of a host, and one rank of each host: the minor and the major part of the mesh.
std::vector<Links::Level> Links::levels() {
  const int64_t ofHost = ranksOfHost(engine);
  if (ofHost == 1 || ofHost == engine.size())
    return {everyRank()};
  Level within{{}, ofHost, ofHost, 1, " on a host"},
      between{{}, engine.size() / ofHost, engine.size(), ofHost, " between hosts"};
  int64_t left = ofHost; // of a host, and of no axis yet
  const auto &axes = description.mesh.axes();
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const auto &[name, size] = *axis;
    const int64_t minor = std::min(left, size);
    if (left % minor != 0 || size % minor != 0) {
      meter.comment("hosts end within axes: links within them and between them are not told apart");
      return {everyRank()};
    }
    if (minor > 1)
      within.axes.insert(within.axes.begin(), {name, size / minor, minor});
    if (minor < size)
      between.axes.insert(between.axes.begin(), {name, 1, size / minor});
    left /= minor;
  }
  return {within, between};
}

Links::Exchange Links::prepare(const std::string &kind, int64_t elements, const Level &level) const {
  CollectiveRequest request;
  request.kind = kind;
  request.axes = level.axes;
  const CollectiveTraits &traits = collectiveTraits(parseCollectiveKind(kind));
  // Results are of one size: a source that is joined is a part of it. Rows are what is cut, and joined but by
  // an all-to-all, which joins pieces of rows.
  const int64_t ranks = level.group, width = elements > 1024 * ranks ? 1024 : 16,
                rows = std::max<int64_t>(1, elements / width / ranks);
  const bool isGather = traits.joins && !traits.splits;
  request.shape = {isGather ? rows : rows * ranks, width};
  request.concat = traits.joins && traits.splits ? 1 : 0;
  Exchange exchange{std::make_unique<Collective>(makeCollective(request, description.mesh, engine.rank()))};
  const Collective &collective = *exchange.collective;
  const double bytes = double(collective.size.bytes());
  // NCCL's where each rank of the group has a node.
  exchange.load = device.isHost() ? collectiveLoad(collective.size.kind, ranks, bytes, collective.algorithm)
                                  : ncclLoads(collective.size.kind, ranks, ranks, bytes).between;
  exchange.memory = std::make_unique<CountingAllocator>(device, Tier::Device);
  exchange.communicator = makeCommunicator
                              ? makeCommunicator(engine, device)
                              : std::make_unique<EngineCommunicator>(engine, device, *exchange.memory);
  exchange.buffers = std::make_unique<Buffers>(device);
  auto add = [&](int64_t size) { return exchange.buffers->add(size); };
  exchange.handle = exchange.communicator->prepareCollective(
      collective, add(collective.inBytes()), add(collective.outBytes()), add(collective.scratchBytes()));
  exchange.communicator->connect();
  return exchange;
}

// By the model of collectives (docs/program-format.md): launch + alpha rounds + beta bytes. What they take to
// launch shows on no rank alone.
double Links::measure(const Level &level, MachineFile &machine) {
  constexpr int64_t few = 16;
  const std::vector<std::string> kinds = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"};
  struct Measured {
    CollectiveLoad load;
    double seconds;
  };
  std::vector<Measured> shortest, longest;
  for (const std::string &kind : kinds)
    for (int64_t elements : {few * level.group, kMany}) {
      Exchange exchange = prepare(kind, elements, level);
      const double seconds =
          meter.measure(kind + level.where + " with a result of " + std::to_string(4 * elements) + " bytes",
                        [&] { exchange.communicator->run(exchange.handle); });
      (elements == kMany ? longest : shortest).push_back({exchange.load, seconds});
    }
  double rounds = 0, bytes = 0, waiting = 0, sending = 0;
  for (size_t i = 0; i < kinds.size(); ++i) {
    rounds += shortest[i].load.rounds;
    waiting += shortest[i].seconds - kLaunch;
    bytes += longest[i].load.bytes - shortest[i].load.bytes;
    sending += longest[i].seconds - shortest[i].seconds;
  }
  const double latency = std::max(waiting / rounds, 1e-9), bandwidth = bytes / std::max(sending, 1e-9);
  machine.levels.push_back({level.ranks, latency, bandwidth});
  std::string off;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const double promised = kLaunch + longest[i].load.seconds(latency, 1 / bandwidth);
    char text[64];
    std::snprintf(text, sizeof text, "%s%s %+.0f %%", off.empty() ? "" : ", ", kinds[i].c_str(),
                  100 * (promised / longest[i].seconds - 1));
    off += text;
  }
  meter.comment(
      "launch is assumed; latency and bandwidth are those of all four kinds together, and by them the "
      "long ones take: " +
      off);
  if (level.ofNode > 1)
    measureShared(level, longest.front().seconds, shortest.front().seconds, machine.levels.back());
  return longest.front().seconds;
}

// How many ranks of a node can send at once as fast as one alone, by a long all-reduce that takes `seconds`
// where all do, and a short one.
void Links::measureShared(const Level &level, double seconds, double shortest, MachineFile::Level &links) {
  Exchange exchange = prepare("all_reduce", kMany, level);
  const bool isFirst = engine.rank() % level.ofNode == 0;
  const double alone = meter.measure(
      "the same all_reduce of " + std::to_string(4 * kMany) + " bytes of one rank of each", [&] {
        if (isFirst)
          exchange.communicator->run(exchange.handle);
      });
  const double together = std::max(seconds - shortest, 1e-9) / std::max(alone - shortest, 1e-9);
  const auto count = std::clamp<int64_t>(std::llround(double(level.ofNode) / together), 1, level.ofNode);
  if (count == level.ofNode)
    return;
  links.links = count;
  links.bandwidth *= double(level.ofNode) / double(count);
}

// What an all-reduce takes of computing that lasts longer: by so much they take longer together than that
// alone. Of `seconds` a short one takes.
void Links::measureTake(double seconds, MachineFile &machine) {
  constexpr double enough = 0.04; // the system gives threads turns of milliseconds
  constexpr int64_t side = 512, most = 8;
  constexpr int rounds = 7;
  const auto more = std::clamp(int64_t(enough / seconds), int64_t(1), most);
  Exchange exchange =
      prepare("all_reduce", kMany * std::stoll(engine.exchange(std::to_string(more)).front()), everyRank());
  Buffers buffers(device);
  const int64_t workspace = cpu::gemmWorkspaceBytes(side, side, side, 1, device.threads()),
                bytes = 4 * side * side;
  Work product = meter.call(buffers, "gemm",
                            {{"m", side},
                             {"n", side},
                             {"k", side},
                             {"a", {side, 1}},
                             {"b", {1, side}},
                             {"c", {side, 1}},
                             {"dtype", "f32"},
                             {"workspace", workspace}},
                            {bytes, bytes, bytes, workspace});
  const double once = meter.measure([&](int) { product(nullptr); }, rounds).seconds,
               whole =
                   meter.measure([&](int) { exchange.communicator->run(exchange.handle); }, rounds).seconds;
  const int times = std::clamp(int(1.2 * whole / once), 1, 1000);
  auto compute = [&] {
    for (int i = 0; i < times; ++i)
      product(nullptr);
  };
  const double alone = meter.measure([&](int) { compute(); }, rounds).seconds,
               both = meter
                          .measure(
                              [&](int) {
                                exchange.communicator->start(exchange.handle);
                                compute();
                                exchange.communicator->wait(exchange.handle);
                              },
                              rounds)
                          .seconds;
  const double take = std::clamp((both - alone) / whole, 0.0, 1.0);
  char text[200];
  std::snprintf(
      text, sizeof text,
      "an all-reduce of %.3g s beside products of %.3g s: %.3g s, so it takes %.0f %% of the computing",
      whole, alone, both, 100 * take);
  meter.comment(text);
  // What processors leave follows from how many there are.
  if (!device.isHost())
    machine.collectivesTake = take;
}

void Links::measure(MachineFile &machine) {
  if (engine.size() == 1)
    return;
  machine.launch = kLaunch;
  double longest = 0;
  for (const Level &level : levels())
    longest = measure(level, machine);
  // What ranks of a host share is of those of the innermost level.
  if (ranksOfHost(engine) == 1) {
    machine.levels.insert(machine.levels.begin(), machine.levels.front());
    machine.levels.front().ranks = 1;
  }
  measureTake(longest, machine);
}

} // namespace

int64_t ranksOfHost(Engine &engine) {
  const std::vector<std::string> hosts = engine.exchange(hostName());
  const size_t ranks = hosts.size() / std::set<std::string>(hosts.begin(), hosts.end()).size();
  for (size_t rank = 0; rank < hosts.size(); ++rank)
    if (hosts.size() % ranks != 0 || hosts[rank] != hosts[rank / ranks * ranks])
      return engine.size();
  return int64_t(ranks);
}

void measureLinks(const Description &description, const CommunicatorMaker &makeCommunicator, Meter &meter,
                  MachineFile &machine) {
  Links(description, makeCommunicator, meter).measure(machine);
}

} // namespace tessera::rt
