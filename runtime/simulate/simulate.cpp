// See simulate.h.
#include "runtime/simulate/simulate.h"

#include "runtime/simulate/simulator.h"

namespace tessera::rt {

Simulation simulate(const Description &description, const std::string &name, const Machine &machine,
                    const SimulateOptions &options) {
  World world(description, name, machine, options);
  Simulator simulator(world);
  simulator.run();
  Simulation result = simulator.result();
  int64_t threads = options.threads > 0 ? options.threads : description.threads;
  DType type = parseDType(description.dtype).value_or(DType::F32);
  if (result.seconds > 0)
    result.mfu = machine.rates.leastSeconds(result.flops, type, threads) /
                 (double(description.mesh.size()) * result.seconds);
  return result;
}

std::optional<Machine> machineOf(const Description &description, const MachineFile *given) {
  static const MachineFile nothing;
  const MachineFile *said = given ? given : description.rates ? &*description.rates : nullptr;
  if (!said && !description.ownRates)
    return std::nullopt;
  if (said)
    checkProducts(*said, parseDType(description.dtype).value_or(DType::F32));
  return completeMachine(said ? *said : nothing, description.ownRates ? *description.ownRates : nothing);
}

double estimatedSeconds(const Description &description, const std::string &name, int threads) {
  std::optional<Machine> machine = machineOf(description);
  SimulateOptions options;
  options.threads = threads;
  return machine ? simulate(description, name, *machine, options).seconds : 0;
}

} // namespace tessera::rt
