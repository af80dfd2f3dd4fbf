// See outside.h. The constants are for the driver and cuBLASLt of CUDA 13.0, cuDNN 9.19 and NCCL 2.28; NCCL's
// buffers are as its sources have them, the others are guesses that nobody has measured yet (docs/gpu.md says
// how to).
#include "runtime/app/outside.h"

#include <algorithm>
#include <set>

namespace tessera::rt {
namespace {

// The driver maps code, and an arena, in pages. A module of ours has one kernel.
constexpr int64_t codePage = int64_t(2) << 20, moduleBytes = int64_t(16) << 10;
constexpr int64_t graphNodeBytes = 512;
// The kernels of a library that a program comes to use, which are loaded one by one.
constexpr int64_t blasBytes = int64_t(32) << 20, dnnBytes = int64_t(64) << 20;
// NCCL: a connection has a buffer for each of its protocols (Simple, LL128, LL), a channel one connection in
// a ring, and two more in a tree.
constexpr int64_t connectionBytes = (int64_t(4) << 20) + 120 * 640 * 8 * 8 + 8 * 512 * 8 * 16;
constexpr int64_t channels = 2, communicatorBytes = int64_t(8) << 20;

/// What cuDNN adds up the queries' gradients in, and two numbers a row.
int64_t attentionSums(const nlohmann::json &attrs) {
  int64_t bytes = 4;
  for (const char *size : {"batch", "s", "kv_heads", "group"})
    bytes *= attrs.at(size).get<int64_t>();
  return bytes * (attrs.at("d").get<int64_t>() + 2);
}

int64_t pages(int64_t bytes) { return (bytes + codePage - 1) / codePage * codePage; }

} // namespace

OutsideCauses outsideCauses(const Description &description, const Program &program, int64_t rank) {
  OutsideCauses causes;
  std::set<std::string> kernels;
  std::set<std::vector<int>> groups;
  std::set<std::pair<int64_t, Operation::Kind>> messages;
  int64_t times = 1;
  for (const Operation &op : program.operations) {
    using Kind = Operation::Kind;
    times = op.kind == Kind::Loop ? op.times : op.kind == Kind::End ? 1 : times;
    if (op.kind != Kind::Loop && op.kind != Kind::End && op.kind != Kind::Wait && op.kind != Kind::Step)
      causes.operations += times;
    if (op.kind == Kind::Kernel)
      kernels.insert(op.symbol);
    causes.products |= op.kind == Kind::Call && op.symbol == "gemm";
    causes.convolutions |= op.kind == Kind::Call && op.symbol.starts_with("conv");
    if (op.kind == Kind::Call && op.symbol == "attention_backward" && op.attrs->contains("dtype"))
      causes.attention = std::max(causes.attention, attentionSums(*op.attrs));
    if (op.kind == Kind::Collective)
      groups.insert(description.mesh.group(op.collective.request.axes, rank).ranks);
    if (op.kind == Kind::Send || op.kind == Kind::Receive)
      messages.emplace(op.message.stage, op.kind);
  }
  causes.kernels = int64_t(kernels.size());
  for (const ProgramInput &input : program.inputs)
    causes.inputs += input.buffer < 0 ? 0 : program.buffers[size_t(input.buffer)].bytes;
  for (const std::vector<int> &group : groups)
    if (group.size() > 1)
      causes.groups.push_back(int64_t(group.size()));
  // Each direction of two ranks has one.
  causes.groups.insert(causes.groups.end(), messages.size(), 2);
  return causes;
}

std::optional<int64_t> promisedOutside(const Description &description, const Program &program, int64_t rank,
                                       int places) {
  if (!description.target.starts_with("cuda"))
    return {};
  OutsideCauses causes = outsideCauses(description, program, rank);
  int64_t bytes = codePage; // the runtime's own kernels
  bytes += pages(program.memory.device.peak) - program.memory.device.peak;
  bytes += pages(causes.inputs) + pages(causes.kernels * moduleBytes) +
           pages(places * causes.operations * graphNodeBytes);
  bytes += (causes.products ? blasBytes : 0) + (causes.convolutions || causes.attention ? dnnBytes : 0) +
           pages(causes.attention);
  for (int64_t ranks : causes.groups)
    bytes += communicatorBytes + channels * (ranks > 2 ? 3 : 1) * connectionBytes;
  return bytes;
}

} // namespace tessera::rt
