// The command `calibrate`: measures what the compiler estimates by, on the machine and the ranks that it runs
// on.
#include "runtime/app/calibrate.h"

#include "runtime/app/commands.h"
#include "runtime/app/outputs.h"
#include "runtime/comm/nccl_cost.h"
#include "runtime/core/error.h"
#include "runtime/device/cpu/workspace.h"
#include "runtime/program/engine_communicator.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <thread>

namespace tessera::rt {
namespace {

/// Measures one rank's part of what is no work: copies, links, and what ranks share.
class Calibration {
public:
  Calibration(const Description &description, const CommunicatorMaker &makeCommunicator, Meter &meter)
      : description(description), makeCommunicator(makeCommunicator), meter(meter), device(meter.device),
        engine(meter.engine) {}

  void measureCopies(MachineFile &machine);
  void measureDisk(const std::string &folder, MachineFile &machine);
  void measureLinks(MachineFile &machine);
  void measureHost(MachineFile &machine);

private:
  /// A collective over all ranks, ready to run, and what takes its time.
  struct Exchange {
    std::unique_ptr<Collective> collective;
    CollectiveLoad load;
    std::unique_ptr<CountingAllocator> memory;
    std::unique_ptr<Buffers> buffers;
    std::unique_ptr<Communicator> communicator;
    Communicator::Handle handle = 0;
  };
  /// Of f32, with a result of so many elements, about.
  Exchange prepare(const std::string &kind, int64_t elements) const;
  void measureTake(int64_t elements, double seconds, MachineFile &machine);

  const Description &description;
  const CommunicatorMaker &makeCommunicator;
  Meter &meter;
  Device &device;
  Engine &engine;
};

void Calibration::measureCopies(MachineFile &machine) {
  constexpr int64_t bytes = 64 << 20, small = 64;
  Buffers buffers(device);
  void *of[2] = {buffers.add(bytes), buffers.add(bytes)};
  HostMemory below[2] = {device.allocateHost(bytes), device.allocateHost(bytes)};
  auto copies = [&](int64_t size) {
    return std::pair(device.prepareCopy(below[0].get(), of[0], size, Direction::DeviceToHost),
                     device.prepareCopy(of[1], below[1].get(), size, Direction::HostToDevice));
  };
  auto measured = [&](const std::string &what, SideWork &copy) {
    return meter.measure(what, [&] {
      copy.start();
      copy.wait();
    });
  };
  auto [down, up] = copies(bytes);
  auto [shortDown, shortUp] = copies(small);
  machine.hostLatency = measured("a copy of 64 bytes to the host", *shortDown);
  measured("a copy of 64 MiB to the host, alone", *down);
  measured("a copy of 64 MiB to the device, alone", *up);
  // The memory is shared: a plan counts on what both have at once.
  double both = meter.measure("copies of 64 MiB both ways at once", [&] {
    down->start();
    up->start();
    down->wait();
    up->wait();
  });
  machine.hostDown = machine.hostUp = double(bytes) / both;
}

// The disk that has the folder, past the system's cache where it can be. One without room is not measured.
void Calibration::measureDisk(const std::string &folder, MachineFile &machine) {
  constexpr int64_t bytes = 32 << 20;
  char *below = nullptr;
  std::string why;
  try {
    below = device.allocateNvme(bytes, folder);
  } catch (const Error &error) {
    why = error.what();
  }
  for (const std::string &each : engine.exchange(why))
    if (!each.empty())
      return meter.comment("the disk is not measured: " + each);
  HostMemory memory = device.allocateHost(bytes);
  auto measured = [&](const std::string &what, int64_t size, bool isRead) {
    char *to = isRead ? memory.get() : below, *from = isRead ? below : memory.get();
    auto copy = device.prepareCopy(to, from, size, isRead ? Direction::NvmeRead : Direction::NvmeWrite);
    return meter.measure(what, [&] {
      copy->start();
      copy->wait();
    });
  };
  machine.diskLatency = measured("a read of 4 KiB from the disk of " + folder, nvmeBlock, true);
  machine.diskWrite = double(bytes) / measured("a write of 32 MiB there", bytes, false);
  machine.diskRead = double(bytes) / measured("a read of 32 MiB there", bytes, true);
}

Calibration::Exchange Calibration::prepare(const std::string &kind, int64_t elements) const {
  CollectiveRequest request;
  request.kind = kind;
  for (const auto &[name, size] : description.mesh.axes())
    request.axes.push_back({name, 1, size});
  const CollectiveTraits &traits = collectiveTraits(parseCollectiveKind(kind));
  // Results are of one size: a source that is joined is a part of it. Rows are what is cut, and joined but by
  // an all-to-all, which joins pieces of rows.
  const int64_t ranks = engine.size(), width = elements > 1024 * ranks ? 1024 : 16,
                rows = std::max<int64_t>(1, elements / width / ranks);
  const bool isGather = traits.joins && !traits.splits;
  request.shape = {isGather ? rows : rows * ranks, width};
  request.concat = traits.joins && traits.splits ? 1 : 0;
  Exchange exchange{std::make_unique<Collective>(makeCollective(request, description.mesh, engine.rank()))};
  const Collective &collective = *exchange.collective;
  const double bytes = double(collective.size.bytes());
  // NCCL's where each rank has a node of the innermost level, which is itself.
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
void Calibration::measureLinks(MachineFile &machine) {
  constexpr int64_t few = 16, many = 4 << 20;
  constexpr double launch = 3e-6;
  const std::vector<std::string> kinds = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"};
  if (engine.size() == 1)
    return;
  struct Measured {
    CollectiveLoad load;
    double seconds;
  };
  std::vector<Measured> shortest, longest;
  for (const std::string &kind : kinds)
    for (int64_t elements : {few * engine.size(), many}) {
      Exchange exchange = prepare(kind, elements);
      const double seconds =
          meter.measure(kind + " with a result of " + std::to_string(4 * elements) + " bytes",
                        [&] { exchange.communicator->run(exchange.handle); });
      (elements == many ? longest : shortest).push_back({exchange.load, seconds});
    }
  double rounds = 0, bytes = 0, waiting = 0, sending = 0;
  for (size_t i = 0; i < kinds.size(); ++i) {
    rounds += shortest[i].load.rounds;
    waiting += shortest[i].seconds - launch;
    bytes += longest[i].load.bytes - shortest[i].load.bytes;
    sending += longest[i].seconds - shortest[i].seconds;
  }
  machine.launch = launch;
  const double latency = std::max(waiting / rounds, 1e-9), bandwidth = bytes / std::max(sending, 1e-9);
  machine.levels.push_back({engine.size(), latency, bandwidth});
  std::string off;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const double promised = launch + longest[i].load.seconds(latency, 1 / bandwidth);
    char text[64];
    std::snprintf(text, sizeof text, "%s%s %+.0f %%", off.empty() ? "" : ", ", kinds[i].c_str(),
                  100 * (promised / longest[i].seconds - 1));
    off += text;
  }
  meter.comment(
      "launch is assumed; latency and bandwidth are those of all four kinds together, and by them the "
      "long ones take: " +
      off);
  measureTake(many, longest.front().seconds, machine);
}

// What an all-reduce takes of computing that lasts longer: by so much they take longer together than that
// alone. Of `seconds` a short one takes.
void Calibration::measureTake(int64_t elements, double seconds, MachineFile &machine) {
  constexpr double enough = 0.04; // the system gives threads turns of milliseconds
  constexpr int64_t side = 512, most = 8;
  constexpr int rounds = 7;
  const auto more = std::clamp(int64_t(enough / seconds), int64_t(1), most);
  Exchange exchange =
      prepare("all_reduce", elements * std::stoll(engine.exchange(std::to_string(more)).front()));
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

// What one thread moves alone, and what all threads of all ranks move together: sums of two arrays, each
// thread on its own. Ranks of a rate are measured together anyhow; that they share is known where it shows.
void Calibration::measureHost(MachineFile &machine) {
  constexpr size_t count = 4 << 20;
  constexpr double bytes = 12.0 * count, kShared = 0.9;
  const auto threads = size_t(device.threads());
  std::vector<std::vector<float>> arrays(3 * threads, std::vector<float>(count, 0.5f));
  auto sum = [&](size_t thread) {
    const float *a = arrays[3 * thread].data(), *b = arrays[3 * thread + 1].data();
    float *c = arrays[3 * thread + 2].data();
    for (size_t i = 0; i < count; ++i)
      c[i] = a[i] + b[i];
  };
  bool isFirst = engine.rank() == 0;
  double alone = meter.measure("sums of 2 x 16 MiB by one thread", [&] {
    if (isFirst)
      sum(0);
    engine.barrier();
  });
  double all = meter.measure("the same by all threads at once", [&] {
    std::vector<std::thread> others;
    for (size_t thread = 1; thread < threads; ++thread)
      others.emplace_back(sum, thread);
    sum(0);
    for (std::thread &other : others)
      other.join();
    engine.barrier();
  });
  const double together = double(threads) * double(engine.size());
  machine.hostCores = std::max(1u, std::thread::hardware_concurrency());
  meter.sharesProcessors = together > *machine.hostCores;
  if (meter.sharesProcessors)
    meter.comment("there are more threads than processors: rates are those of a thread that has one");
  if (all > alone / kShared && !meter.sharesProcessors)
    machine.hostBandwidth = together * bytes / all;
}

MachineFile measure(const CommandContext &context, const Program &program, Session &session, Meter &meter,
                    const std::string &folder) {
  MachineFile machine;
  Calibration calibration(context.description, context.platform.makeCommunicator, meter);
  // Rates are those of a thread that has a processor, or of a whole card.
  double threads = 1;
  machine.perThread = meter.device.isHost();
  if (meter.device.isHost()) {
    calibration.measureHost(machine);
    threads = session.threadsPerRank();
  }
  measureWork(meter, threads, context.options.calibrationSeconds, machine);
  measureKernels(context.description, program, session, meter, threads, machine);
  calibration.measureCopies(machine);
  calibration.measureLinks(machine);
  calibration.measureDisk(folder, machine);
  return machine;
}

} // namespace

void runCalibrate(const CommandContext &context, Transport &transport) {
  const Options &options = context.options;
  // Training has all kernels that inference has.
  const Program *program = context.description.findProgram("train", transport.rank());
  if (!program)
    program = context.description.findProgram(context.description.programs.front().name, transport.rank());
  SessionOptions settings;
  settings.threads = options.threads;
  Session session(context.description, {program}, transport, context.platform, settings);
  checkWritable(session, options.machineOutput);
  Meter meter(session.hardware(), session.communication());
  std::filesystem::path folder = std::filesystem::path(options.machineOutput).parent_path();
  MachineFile machine = measure(context, *program, session, meter, folder.empty() ? "." : folder.string());
  auto counted = [](int64_t count, const std::string &what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
  };
  machine.name = "this machine, " + counted(transport.size(), "rank") + " of " +
                 (session.hardware().isHost() ? counted(session.threadsPerRank(), "thread") : "a GPU");
  std::vector<std::string> comments = {"Measured by calibrate, by all ranks at once; rank 0 wrote this."};
  comments.insert(comments.end(), meter.comments().begin(), meter.comments().end());
  saveText(session, options.machineOutput, machineText(machine, comments));
}

} // namespace tessera::rt
