// See outside.h. The constants were measured on an H100 (driver 580, cuBLASLt 13.1, cuDNN 9.19): for training
// of seven models, with and without each library, the sum is what the driver counts, to the byte. NCCL's
// buffers are as the sources of 2.28 have them; they were not measured. A recorded step takes nothing.
#include "runtime/app/outside.h"

#include "runtime/device/cuda/kernels/arguments.h"

#include <algorithm>
#include <set>

namespace tessera::rt {
namespace {

// The driver maps code, and an arena, in pages. A module of ours has one kernel.
constexpr int64_t codePage = int64_t(2) << 20, moduleBytes = int64_t(16) << 10;
// The kernels of a library that a program comes to use, which are loaded one by one.
constexpr int64_t blasBytes = int64_t(2) << 20, dnnBytes = int64_t(8) << 20;
// NCCL: a connection has a buffer for each of its protocols (Simple, LL128, LL), a channel one connection in
// a ring, and two more in a tree.
constexpr int64_t connectionBytes = (int64_t(4) << 20) + 120 * 640 * 8 * 8 + 8 * 512 * 8 * 16;
constexpr int64_t channels = 2, communicatorBytes = int64_t(8) << 20;

int64_t roundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

/// What cuDNN's gradients of attention that have the same bits each time are made in: those of the scores in
/// half precision, in blocks of 64 x 128, a sum for each row, and the gradients of keys and values of every
/// head where heads share them.
int64_t attentionSpace(const nlohmann::json &attrs) {
  auto size = [&](const char *name) { return attrs.at(name).get<int64_t>(); };
  int64_t group = size("group"), heads = size("batch") * size("kv_heads") * group;
  return heads * (2 * roundUp(size("s"), 64) * roundUp(size("t"), 128) + 4 * size("s") +
                  (group > 1 ? 4 * size("t") * size("d") : 0));
}

/// What blocks' sums of squares are kept in until they are added: so little that a page which is there has
/// room for it, unless the space is attention's too.
int64_t squaresSums(const nlohmann::json &attrs) {
  int64_t blocks = 0;
  for (const nlohmann::json &count : attrs.at("counts"))
    blocks += cuda::squaresBlocks(count.get<int64_t>());
  return blocks > 1 ? blocks * 8 : 0;
}

int64_t pages(int64_t bytes) { return roundUp(bytes, codePage); }

} // namespace

OutsideCauses outsideCauses(const Description &description, const Program &program, int64_t rank) {
  OutsideCauses causes;
  std::set<std::string> kernels;
  std::set<std::vector<int>> groups;
  std::set<std::pair<int64_t, Operation::Kind>> messages;
  for (const Operation &op : program.operations) {
    using Kind = Operation::Kind;
    if (op.kind == Kind::Kernel)
      kernels.insert(op.symbol);
    causes.products |= op.kind == Kind::Call && op.symbol == "gemm";
    causes.convolutions |= op.kind == Kind::Call && op.symbol.starts_with("conv");
    if (op.kind == Kind::Call && op.symbol == "attention_backward" && op.attrs->contains("dtype"))
      causes.attention = std::max(causes.attention, attentionSpace(*op.attrs));
    if (op.kind == Kind::Call && op.symbol == "sum_squares")
      causes.squares = std::max(causes.squares, squaresSums(*op.attrs));
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

std::optional<int64_t> promisedOutside(const Description &description, const Program &program, int64_t rank) {
  if (!description.target.starts_with("cuda"))
    return {};
  OutsideCauses causes = outsideCauses(description, program, rank);
  int64_t bytes = codePage; // the runtime's own kernels
  bytes += pages(program.memory.device.peak) - program.memory.device.peak;
  bytes += pages(causes.inputs) + pages(causes.kernels * moduleBytes);
  bytes += (causes.products ? blasBytes : 0) + (causes.convolutions || causes.attention ? dnnBytes : 0) +
           (causes.attention ? pages(std::max(causes.attention, causes.squares)) : 0);
  for (int64_t ranks : causes.groups)
    bytes += communicatorBytes + channels * (ranks > 2 ? 3 : 1) * connectionBytes;
  return bytes;
}

} // namespace tessera::rt
