// The command `calibrate`: measures what the compiler estimates by, on the machine and the ranks that it runs
// on.
#include "runtime/app/commands.h"
#include "runtime/app/outputs.h"
#include "runtime/device/cpu/workspace.h"
#include "runtime/device/update_step.h"
#include "runtime/machine/machine_file.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tessera::rt {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr int kRounds = 7;
constexpr double kNoisy = 0.2;

/// Buffers of the device for as long as something is measured.
class Buffers {
public:
  explicit Buffers(Device &device) : device(device) {}
  ~Buffers() {
    for (auto [pointer, bytes] : all)
      device.release(pointer, bytes);
  }
  Buffers(const Buffers &) = delete;
  Buffers &operator=(const Buffers &) = delete;
  void *add(int64_t bytes) {
    all.push_back({device.allocate(bytes), bytes});
    return all.back().first;
  }

private:
  Device &device;
  std::vector<std::pair<void *, int64_t>> all;
};

/// Measures one rank's part. Every rank does the same at the same time: what they share, they share as in a
/// step.
class Calibration {
public:
  Calibration(const Description &description, Session &session)
      : description(description), device(session.hardware()), engine(session.communication()) {}

  MachineFile measure();
  std::vector<std::string> comments;

private:
  double median(const std::string &what, const std::function<void()> &body);
  Work call(Buffers &buffers, std::string_view function, Json attrs, const std::vector<int64_t> &bytes);
  double product(const std::string &type);
  void measureUpdate(MachineFile &machine);
  void measureCopies(MachineFile &machine);
  double reduced(int64_t elements);
  void measureLinks(MachineFile &machine);

  const Description &description;
  Device &device;
  Engine &engine;
};

// Seconds of the middle of the rounds, after one that warms up; on the slowest rank they count, for the
// others wait for it.
double Calibration::median(const std::string &what, const std::function<void()> &body) {
  std::vector<double> seconds;
  for (int round = 0; round <= kRounds; ++round) {
    engine.barrier();
    Clock::time_point begin = Clock::now();
    body();
    device.finish();
    if (round > 0)
      seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  double middle = seconds[kRounds / 2];
  // The outermost rounds do not count: the system does something else now and then.
  double spread = (seconds[kRounds - 2] - seconds[1]) / middle;
  char text[160];
  std::snprintf(text, sizeof text, "%s: %.4g s, the middle of %d, spread %.0f %%%s", what.c_str(), middle,
                kRounds, 100 * spread, spread > kNoisy ? ": noisy" : "");
  comments.push_back(text);
  return middle;
}

Work Calibration::call(Buffers &buffers, std::string_view function, Json attrs,
                       const std::vector<int64_t> &bytes) {
  std::vector<void *> args;
  for (int64_t size : bytes) {
    void *buffer = buffers.add(size);
    std::fill_n(static_cast<float *>(buffer), size / 4, 0.5f);
    args.push_back(buffer);
  }
  return device.prepareCall({function, std::move(attrs), args, bytes, 0});
}

double Calibration::product(const std::string &type) {
  constexpr int64_t n = 1024;
  const int64_t element = type == "f32" ? 4 : 2;
  const int64_t workspace = cpu::gemmWorkspaceBytes(n, n, n, 1, device.threads());
  Buffers buffers(device);
  Work work = call(buffers, "gemm",
                   {{"m", n},
                    {"n", n},
                    {"k", n},
                    {"a", {n, 1}},
                    {"b", {n, 1}},
                    {"c", {n, 1}},
                    {"dtype", type},
                    {"c_dtype", type},
                    {"workspace", workspace}},
                   {element * n * n, element * n * n, element * n * n, workspace});
  double seconds = median("a product of " + std::to_string(n) + " cubed in " + type, [&] { work(nullptr); });
  return 2.0 * n * n * n / seconds / device.threads();
}

// An update reads four arrays and writes three: what kernels do that stream through memory.
void Calibration::measureUpdate(MachineFile &machine) {
  constexpr int64_t count = 8 << 20;
  Buffers buffers(device);
  Work work = call(buffers, "adamw", {{"count", count}, {"decay", 0}},
                   {4 * updateScalars, 4, 4 * count, 4 * count, 4 * count, 4 * count});
  double seconds = median("an update of 8 Mi elements", [&] { work(nullptr); });
  machine.bandwidth = 28.0 * count / seconds / device.threads();
  machine.hostUpdate = count / seconds;
}

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
    return median(what, [&] {
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
  double both = median("copies of 64 MiB both ways at once", [&] {
    down->start();
    up->start();
    down->wait();
    up->wait();
  });
  machine.hostDown = machine.hostUp = double(bytes) / both;
}

// Seconds of an all-reduce over all ranks.
double Calibration::reduced(int64_t elements) {
  CollectiveRequest request;
  request.kind = "all_reduce";
  for (const auto &[name, size] : description.mesh.axes())
    request.axes.push_back({name, 1, size});
  request.shape = {elements};
  Collective collective = makeCollective(request, description.mesh, engine.rank());
  std::vector<char> in(size_t(collective.inBytes())), out(size_t(collective.outBytes())),
      scratch(size_t(collective.scratchBytes()) + 64);
  auto aligned = [](std::vector<char> &bytes) {
    return bytes.data() + (64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64) % 64;
  };
  std::string what = "an all-reduce of " + std::to_string(4 * elements) + " bytes";
  return median(what, [&] { engine.run(collective, in.data(), out.data(), aligned(scratch)); });
}

// By the model of collectives (docs/program-format.md): launch + 2 alpha ceil(log2 n) + beta bytes.
void Calibration::measureLinks(MachineFile &machine) {
  constexpr int64_t few = 16, many = 4 << 20;
  constexpr double launch = 3e-6;
  int64_t ranks = engine.size();
  if (ranks == 1)
    return;
  double shortest = reduced(few), longest = reduced(many);
  double rounds = 2 * std::ceil(std::log2(double(ranks)));
  double sent = 4.0 * double(many - few) * 2 * double(ranks - 1) / double(ranks);
  machine.launch = launch;
  comments.push_back("launch is assumed, and what else an all-reduce takes is latency and bandwidth");
  machine.levels.push_back(
      {ranks, std::max((shortest - launch) / rounds, 1e-9), sent / std::max(longest - shortest, 1e-9)});
}

MachineFile Calibration::measure() {
  MachineFile machine;
  machine.perThread = true;
  machine.productsF32 = product("f32");
  machine.productsBF16 = product("bf16");
  measureUpdate(machine);
  measureCopies(machine);
  measureLinks(machine);
  return machine;
}

} // namespace

void runCalibrate(const CommandContext &context, Transport &transport) {
  const Options &options = context.options;
  if (context.description.target != "cpu")
    throw AgreedError("calibrate measures CPUs; a GPU's rates are in its data sheet (docs/memory.md)");
  const Program &any = context.description.programs.front();
  const Program *program = context.description.findProgram(any.name, transport.rank());
  SessionOptions settings;
  settings.threads = options.threads;
  Session session(context.description, {program}, transport, context.platform, settings);
  checkWritable(session, options.machineOutput);
  Calibration calibration(context.description, session);
  MachineFile machine = calibration.measure();
  int64_t ranks = transport.size();
  int threads = session.threadsPerRank();
  machine.name = "this machine, " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") + " of " +
                 std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  std::vector<std::string> comments = {"Measured by calibrate, by all ranks at once; rank 0 wrote this."};
  comments.insert(comments.end(), calibration.comments.begin(), calibration.comments.end());
  saveText(session, options.machineOutput, machineText(machine, comments));
}

} // namespace tessera::rt
