// See Room.h.
#include "passes/Schedule/Room.h"

using namespace mlir;
using namespace tessera;

Room::Room(func::FuncOp func, ModuleOp kernels, const nn::Library &library, int64_t threads)
    : storage(func, kernels, library, threads) {
  const Liveness &positions = storage.positions();
  for (int64_t bytes : storage.liveBytes())
    moments.push_back({bytes, 0});
  std::vector<int64_t> underWay(moments.size() + 1); // changes
  func.walk([&](Operation *op) {
    if (op == func)
      return;
    spans[op] = {positions.start(op), positions.end(op)};
    // What a loop carries need not be on the device together.
    if (op->getNumRegions() == 0 && !op->hasTrait<OpTrait::IsTerminator>())
      moments[positions.start(op)].needed += bytesOf(op);
    auto collective = dyn_cast<dist::CollectiveOp>(op);
    if (!collective)
      return;
    int64_t read = positions.start(op->getBlock()->getTerminator());
    for (Operation *user : op->getUsers())
      read = std::min(read, positions.start(op->getBlock()->findAncestorOpInBlock(*user)));
    if (int64_t begin = positions.end(op) + 1, bytes = bytesOf(op); begin < read) {
      underWay[begin] += bytes;
      underWay[read] -= bytes;
    }
  });
  int64_t now = 0;
  for (auto [moment, change] : llvm::zip(moments, underWay))
    moment.needed += now += change;
  for (Held moment : moments)
    most = {std::max(most.live, moment.live), std::max(most.needed, moment.needed)};
}

// Of an operator's operands and results, and of what it needs beside.
int64_t Room::bytesOf(Operation *op) const {
  llvm::SmallSetVector<int, 8> buffers;
  for (ValueRange values : {ValueRange(op->getOperands()), ValueRange(op->getResults())})
    for (Value value : values)
      if (storage.has(value)) // scalars have none
        buffers.insert(storage.of(value));
  if (int extra = storage.extraOf(op); extra >= 0)
    buffers.insert(extra);
  int64_t bytes = 0;
  for (int buffer : buffers)
    bytes += llvm::alignTo(storage.buffers()[buffer].bytes, kBufferAlignment);
  return bytes;
}

Room::Held Room::held(dist::CollectiveOp op) const {
  int64_t all = bytesOf(op), source = 0; // which is live anyway
  if (storage.has(op.getSource()))
    source = llvm::alignTo(storage.buffers()[storage.of(op.getSource())].bytes, kBufferAlignment);
  return {all - source, all};
}

bool Room::has(Operation *op, Held more) const {
  auto [start, end] = spans.lookup_or(op, {0, -1});
  for (int64_t at = start; at <= end; ++at)
    if (moments[at].live + more.live > most.live || moments[at].needed + more.needed > most.needed)
      return false;
  return true;
}

void Room::take(Operation *op, Held more) {
  auto [start, end] = spans.lookup_or(op, {0, -1});
  for (int64_t at = start; at <= end; ++at) {
    moments[at].live += more.live;
    moments[at].needed += more.needed;
  }
}
