// See Room.h.
#include "passes/Schedule/Room.h"

using namespace mlir;
using namespace tessera;

Room::Room(func::FuncOp func, ModuleOp kernels, const nn::Library &library, int64_t threads)
    : storage(func, kernels, library, threads) {
  const Liveness &positions = storage.positions();
  for (int64_t bytes : storage.liveBytes())
    moments.push_back({bytes, 0});
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
    for (int64_t at = positions.end(op) + 1; at < read; ++at)
      moments[at].needed += bytesOf(op);
  });
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
  Value source = op.getSource();
  int64_t all = bytesOf(op);
  if (!storage.has(source))
    return {all, all};
  // The source is live anyway; but where others read it meanwhile, nothing is reduced in its place.
  bool isWrittenOver = storage.has(op.getResult()) && storage.of(source) == storage.of(op.getResult());
  int64_t bytes = llvm::alignTo(storage.buffers()[storage.of(source)].bytes, kBufferAlignment);
  return {isWrittenOver && !source.hasOneUse() ? all : all - bytes, all};
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
