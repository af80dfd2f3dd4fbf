// The entry of executables for the CPU.
#include "tessera-rt/main.h"

#include "runtime/app/commands.h"
#include "runtime/device/cpu/cpu.h"
#include "runtime/machine/machine_file.h"

#include <unordered_map>

namespace tessera::rt {
namespace {

/// The kernels by symbol, for the highest level that this machine has.
KernelResolver makeResolver(const tsr_kernel *kernels, size_t count) {
  struct Entry {
    int level;
    KernelFunction function;
  };
  int highest = int(cpu::cpuLevel());
  std::unordered_map<std::string_view, Entry> table;
  for (size_t i = 0; i < count; ++i) {
    if (kernels[i].level > highest)
      continue;
    Entry &entry = table[kernels[i].symbol];
    if (!entry.function || kernels[i].level > entry.level)
      entry = {kernels[i].level, kernels[i].function};
  }
  return [table = std::move(table)](std::string_view symbol) {
    auto it = table.find(symbol);
    return it == table.end() ? nullptr : it->second.function;
  };
}

/// What --pace says of what the program copies.
Pace paceOf(const Description &description, const Options &options) {
  if (options.pace.empty())
    return {};
  MachineFile machine = readMachine(options.pace);
  if (!machine.hostUp && !machine.hostDown)
    throw Error("--pace ", options.pace,
                ": the file has no \"down\" and \"up\" in [host], which copies are paced by");
  if (!machine.diskRead && !machine.diskWrite && usesTier(description, options, Tier::Nvme))
    throw Error("--pace ", options.pace,
                ": the file has no \"read\" and \"write\" in [disk], which copies to and from NVMe are paced "
                "by");
  auto pace = [](std::optional<double> latency, std::optional<double> rate, std::optional<double> other) {
    if (!rate)
      rate = other;
    return rate ? Pace::Link{latency.value_or(0), 1 / *rate} : Pace::Link();
  };
  return {{pace(machine.hostLatency, machine.hostUp, machine.hostDown),
           pace(machine.hostLatency, machine.hostDown, machine.hostUp),
           pace(machine.diskLatency, machine.diskRead, machine.diskWrite),
           pace(machine.diskLatency, machine.diskWrite, machine.diskRead)},
          machine.hostUpdate ? 1 / *machine.hostUpdate : 0};
}

} // namespace
} // namespace tessera::rt

extern "C" int tsr_main(int argc, char **argv, const char *description, size_t length,
                        const tsr_kernel *kernels, size_t num_kernels) {
  using namespace tessera::rt;
  KernelResolver resolve;
  return runExecutable(
      argc, argv, {description, length}, [&](const Description &program, const Options &options) -> Platform {
        if (program.target != "cpu")
          throw Error("the program was compiled for ", program.target,
                      ", this executable's kernels are for cpu");
        if (options.communication == "nccl")
          throw UsageError("--comm nccl is for programs of GPUs, this one was compiled for cpu");
        resolve = makeResolver(kernels, num_kernels);
        return {[&resolve, pace = paceOf(program, options)](const DevicePlace &place) {
                  return std::make_unique<HostDevice>(place.threads, resolve, pace);
                },
                {}};
      });
}
