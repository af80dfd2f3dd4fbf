// The command `calibrate`: measures what the compiler estimates by, on the machine and the ranks that it runs
// on.
#include "runtime/app/calibrate.h"

#include "runtime/app/commands.h"
#include "runtime/app/outputs.h"
#include "runtime/core/error.h"
#include "runtime/core/host_name.h"

#include <algorithm>
#include <filesystem>
#include <thread>

namespace tessera::rt {
namespace {

/// Measures one rank's part of what is neither work nor links: copies, and what ranks share.
class Calibration {
public:
  explicit Calibration(Meter &meter) : meter(meter), device(meter.device), engine(meter.engine) {}

  void measureCopies(MachineFile &machine);
  void measureDisk(const std::string &folder, MachineFile &machine);
  /// Returns how many threads of the ranks of a host there are for each of its processors, at least 1.
  double measureHost(const HostLayout &layout, MachineFile &machine);

private:
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

// What one thread moves alone, and what all threads of all ranks move together: sums of two arrays, each
// thread on its own. Ranks of a rate are measured together anyhow; that they share is known where it shows.
double Calibration::measureHost(const HostLayout &layout, MachineFile &machine) {
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
  const OwnHost own = findOwnHost(engine);
  const double together = double(threads) * double(own.ranks), crowd = together / double(own.processors);
  meter.sharesProcessors = engine.anyRank(crowd > 1);
  if (meter.sharesProcessors)
    meter.comment("there are more threads than processors: rates are those of a thread that has one");
  if (layout.ranks)
    machine.hostCores = double(own.processors);
  if (layout.ranks && all > alone / kShared && !meter.sharesProcessors)
    machine.hostBandwidth = together * bytes / all;
  return std::max(1.0, crowd);
}

MachineFile measure(const CommandContext &context, const Program &program, Session &session, Meter &meter,
                    const HostLayout &layout, const std::string &folder) {
  MachineFile machine;
  Calibration calibration(meter);
  // Rates are those of a thread that has a processor, or of a whole card.
  double threads = 1, crowd = 1;
  machine.perThread = meter.device.isHost();
  if (meter.device.isHost()) {
    crowd = calibration.measureHost(layout, machine);
    threads = session.threadsPerRank();
    if (!meter.countsProcessorTime())
      threads /= crowd;
  }
  measureWork(meter, threads, context.options.calibrationSeconds, machine);
  // What updates on the host is simulated beside whatever shares the processors: as if all ranks did.
  if (meter.countsProcessorTime() && machine.hostUpdate)
    *machine.hostUpdate /= crowd;
  measureKernels(context.description, program, session, meter, threads, machine);
  calibration.measureCopies(machine);
  measureLinks(context.description, context.platform.makeCommunicator, layout, meter, machine);
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
  const HostLayout layout = layoutOf(session.communication().exchange(hostName()));
  MachineFile machine =
      measure(context, *program, session, meter, layout, folder.empty() ? "." : folder.string());
  auto counted = [](int64_t count, const std::string &what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
  };
  machine.name = (layout.hosts == 1 ? "this machine" : counted(layout.hosts, "host")) + ", " +
                 counted(transport.size(), "rank") + " of " +
                 (session.hardware().isHost() ? counted(session.threadsPerRank(), "thread") : "a GPU");
  std::vector<std::string> comments = {"Measured by calibrate, by all ranks at once; rank 0 wrote this."};
  comments.insert(comments.end(), meter.comments().begin(), meter.comments().end());
  saveText(session, options.machineOutput, machineText(machine, comments));
}

} // namespace tessera::rt
