#include "runtime/simulate/test/programs.h"

namespace tessera::rt::made {

MachineFile machine() {
  return parseMachine(R"(
[device]
per = "device"
bandwidth = 1e9
[rate.products]
f32 = 1e9
bf16 = 4e9
f16 = 2e9
[rate.collectives]
launch = 1e-3
[host]
update = 1e6
down = 1e8
up = 2e8
latency = 1e-2
[disk]
read = 1e7
write = 2e7
latency = 1e-1
[[level]]
ranks = 4
latency = 1e-4
bandwidth = 1e8
[[level]]
ranks = 16
latency = 1e-3
bandwidth = 1e7
)",
                      "made");
}

static Program program(int64_t stage, std::vector<Operation> operations) {
  Program program;
  program.name = "train";
  program.stage = stage;
  program.operations = std::move(operations);
  // For copies: one of a million bytes in each tier.
  for (Tier tier : tiers)
    program.buffers.push_back({tier, 0, 1'000'000, Category::Activations, std::nullopt, 0});
  return program;
}

Description description(std::vector<std::pair<std::string, int64_t>> mesh,
                        std::vector<Operation> operations) {
  Description description;
  description.target = "cpu";
  description.dtype = "f32";
  description.mesh = Mesh(std::move(mesh));
  description.programs.push_back(program(0, std::move(operations)));
  return description;
}

Description pipeline(std::vector<std::pair<std::string, int64_t>> mesh,
                     std::vector<std::vector<Operation>> stages, int64_t micro) {
  Description description = made::description(std::move(mesh), {});
  description.pipelineAxis = "pipe";
  description.micro = micro;
  description.programs.clear();
  for (size_t stage = 0; stage < stages.size(); ++stage)
    description.programs.push_back(program(int64_t(stage), std::move(stages[stage])));
  return description;
}

Operation kernel(int64_t bytes) {
  Operation op{.kind = Operation::Kind::Kernel};
  op.bytesRead = bytes / 2;
  op.bytesWritten = bytes - op.bytesRead;
  op.work.bytes = double(bytes);
  return op;
}

Operation product(double flops, DType type) {
  Operation op{.kind = Operation::Kind::Call};
  op.work.kind = WorkClass::Product;
  op.work.flops = flops;
  op.work.type = type;
  return op;
}

Operation collective(const std::string &kind, const Axes &axes, int64_t elements, int64_t token) {
  Operation op{.kind = Operation::Kind::Collective};
  op.name = op.profile = kind;
  op.collective.request.kind = kind;
  op.collective.request.axes = axes;
  op.collective.request.shape = {elements};
  if (kind == "permute")
    op.collective.request.shift = 1;
  op.collective.token = token;
  return op;
}

Operation send(int64_t stage, int64_t bytes, int64_t token) {
  Operation op{.kind = Operation::Kind::Send};
  op.message = {stage, 0, bytes, token};
  return op;
}

Operation receive(int64_t stage, int64_t bytes) {
  Operation op{.kind = Operation::Kind::Receive};
  op.message = {stage, 0, bytes, -1};
  return op;
}

Operation await(int64_t token) {
  Operation op{.kind = Operation::Kind::Wait};
  op.token = token;
  return op;
}

Operation loop(int64_t times) {
  Operation op{.kind = Operation::Kind::Loop};
  op.times = times;
  return op;
}

Operation end() { return {.kind = Operation::Kind::End}; }

double seconds(const Description &description, const MachineFile &file, const SimulateOptions &options) {
  return simulated(description, file, options).seconds;
}

Simulation simulated(const Description &description, const MachineFile &file,
                     const SimulateOptions &options) {
  return simulate(description, "train", completeMachine(file, file), options);
}

} // namespace tessera::rt::made
