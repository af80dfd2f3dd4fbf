// The links between ranks. See calibrate.h.
#include "runtime/app/calibrate.h"

#include "runtime/comm/nccl_cost.h"
#include "runtime/device/cpu/workspace.h"
#include "runtime/program/engine_communicator.h"

#include <algorithm>
#include <cstdio>
#include <memory>

namespace tessera::rt {
namespace {

/// Elements of a long collective's result, f32.
constexpr int64_t kMany = 4 << 20;
/// What a collective takes to launch, which is assumed.
constexpr double kLaunch = 3e-6;

class Links {
public:
  Links(const Description &description, const CommunicatorMaker &makeCommunicator, const HostLayout &layout,
        Meter &meter)
      : description(description), makeCommunicator(makeCommunicator), layout(layout), meter(meter),
        device(meter.device), engine(meter.engine) {}
  void measure(MachineFile &machine);

private:
  /// What a level of the machine is measured by: groups over some axes, all at the same time.
  struct Groups {
    Axes axes;
    int64_t size = 1;   ///< ranks of each
    int64_t ranks = 1;  ///< of the level
    int64_t ofNode = 1; ///< ranks of a node of the level, each in another group
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
  Groups everyRank() const;
  std::vector<Groups> innermostFirst();
  /// Of f32, with a result of so many elements, about.
  Exchange prepare(const std::string &kind, int64_t elements, const Groups &groups) const;
  /// Returns the seconds of a long all-reduce.
  double measure(const Groups &groups, MachineFile &machine);
  void measureShared(const Groups &groups, double together, double shortest, MachineFile::Level &level);
  void measureTake(double seconds, MachineFile &machine);

  const Description &description;
  const CommunicatorMaker &makeCommunicator;
  const HostLayout &layout;
  Meter &meter;
  Device &device;
  Engine &engine;
};

Links::Groups Links::everyRank() const {
  Groups one{{}, engine.size(), engine.size(), 1, ""};
  for (const auto &[name, size] : description.mesh.axes())
    one.axes.push_back({name, 1, size});
  return one;
}

// Ranks of a host, and one rank of each host: the minor and the major part of the mesh.
std::vector<Links::Groups> Links::innermostFirst() {
  const int64_t ofHost = layout.ranks.value_or(1);
  if (ofHost == 1 || ofHost == engine.size())
    return {everyRank()};
  Groups within{{}, ofHost, ofHost, 1, " on a host"},
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

Links::Exchange Links::prepare(const std::string &kind, int64_t elements, const Groups &groups) const {
  CollectiveRequest request;
  request.kind = kind;
  request.axes = groups.axes;
  const CollectiveTraits &traits = collectiveTraits(parseCollectiveKind(kind));
  // Results are of one size: a source that is joined is a part of it. Rows are what is cut, and joined but by
  // an all-to-all, which joins pieces of rows.
  const int64_t ranks = groups.size, width = elements > 1024 * ranks ? 1024 : 16,
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
double Links::measure(const Groups &groups, MachineFile &machine) {
  constexpr int64_t few = 16;
  const std::vector<std::string> kinds = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"};
  struct Measured {
    CollectiveLoad load;
    double seconds;
  };
  std::vector<Measured> shortest, longest;
  for (const std::string &kind : kinds)
    for (int64_t elements : {few * groups.size, kMany}) {
      Exchange exchange = prepare(kind, elements, groups);
      const double seconds =
          meter.measure(kind + groups.where + " with a result of " + std::to_string(4 * elements) + " bytes",
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
  machine.levels.push_back({groups.ranks, latency, bandwidth});
  std::string off;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const double promised = kLaunch + longest[i].load.seconds(latency, 1 / bandwidth);
    char text[64];
    std::snprintf(text, sizeof text, "%s%s %+.0f %%", off.empty() ? "" : ", ", kinds[i].c_str(),
                  100 * (promised / longest[i].seconds - 1));
    off += text;
  }
  meter.comment("launch is assumed; latency and bandwidth" + groups.where +
                " are those of all four kinds together, and by them the long ones take: " + off);
  if (groups.ofNode > 1)
    measureShared(groups, longest.front().seconds, shortest.front().seconds, machine.levels.back());
  return longest.front().seconds;
}

// How many ranks of a node can send at once as fast as one alone: by all-reduces where all send, and one
// where one does. Where ranks share processors, these may be what they lack.
void Links::measureShared(const Groups &groups, double together, double shortest, MachineFile::Level &level) {
  if (meter.sharesProcessors)
    return meter.comment(
        "what ranks of a host take of each other's links is not measured: they lack processors");
  Exchange exchange = prepare("all_reduce", kMany, groups);
  const bool isFirst = engine.rank() % groups.ofNode == 0;
  const double alone = meter.measure("the same all_reduce of " + std::to_string(4 * kMany) +
                                         " bytes among one rank of each host, alone",
                                     [&] {
                                       if (isFirst)
                                         exchange.communicator->run(exchange.handle);
                                     });
  const int64_t links = ranksWithLinks(groups.ofNode, together, alone, shortest);
  if (links == groups.ofNode)
    return;
  level.links = links;
  level.bandwidth *= double(groups.ofNode) / double(links);
}

// What an all-reduce of all ranks takes of computing that lasts longer: by so much they take longer together
// than that alone. One of the outermost groups takes `seconds`, of all ranks about as long.
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
  if (!layout.ranks)
    meter.comment(
        "hosts have unequal numbers of ranks, or those of one do not follow each other: their links are "
        "not told apart, and what ranks of a host share is left out");
  double seconds = 0;
  for (const Groups &groups : innermostFirst())
    seconds = measure(groups, machine);
  // The ranks of the innermost level are those that share processors.
  if (layout.ranks && *layout.ranks < machine.levels.front().ranks) {
    machine.levels.insert(machine.levels.begin(), machine.levels.front());
    machine.levels.front().ranks = *layout.ranks;
  }
  measureTake(seconds, machine);
}

} // namespace

void measureLinks(const Description &description, const CommunicatorMaker &makeCommunicator,
                  const HostLayout &layout, Meter &meter, MachineFile &machine) {
  Links(description, makeCommunicator, layout, meter).measure(machine);
}

} // namespace tessera::rt
