// Descriptions made by hand, to be simulated.
#pragma once

#include "runtime/simulate/simulate.h"

namespace tessera::rt::made {

/// A machine of round figures: 1e9 operations and bytes a second; two levels, of 4 ranks and of 16.
MachineFile machine();
constexpr double launch = 1e-3;

/// One program for all ranks of a mesh.
Description description(std::vector<std::pair<std::string, int64_t>> mesh, std::vector<Operation> operations);
/// One for each stage of the axis `pipe`.
Description pipeline(std::vector<std::pair<std::string, int64_t>> mesh,
                     std::vector<std::vector<Operation>> stages, int64_t micro);

Operation kernel(int64_t bytes);
Operation product(double flops, DType type = DType::F32);
/// Over whole axes of the mesh, of f32 elements.
Operation collective(const std::string &kind, const Axes &axes, int64_t elements, int64_t token = -1);
Operation send(int64_t stage, int64_t bytes, int64_t token);
Operation receive(int64_t stage, int64_t bytes);
Operation await(int64_t token);
Operation loop(int64_t times);
Operation end();

/// Seconds of a step on `machine`.
double seconds(const Description &description, const MachineFile &file = machine(),
               const SimulateOptions &options = {});
Simulation simulated(const Description &description, const MachineFile &file = machine(),
                     const SimulateOptions &options = {});

} // namespace tessera::rt::made
