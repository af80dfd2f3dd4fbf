// See Buffers.h.
#include "passes/Memory/Buffers.h"
#include "dialects/dist/Dist.h"
#include "dialects/dist/Reshard.h"

using namespace mlir;
using namespace tessera;

int64_t tessera::bytesOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() * int64_t(dist::elementBytes(tensor.getElementType()));
}

Buffers::Buffers(func::FuncOp func, Block *program)
    : liveness(func), b(func.getContext()), body(&func.getBody().front()), program(program), loc(func.getLoc()) {
  findGradients(func);
}

// The gradients that updates read, and what these are views or reductions of.
void Buffers::findGradients(func::FuncOp func) {
  func.walk([&](nn::UpdateOp update) {
    for (Value v = update.getGradient(); v;) {
      gradients.insert(v);
      Operation *def = v.getDefiningOp();
      bool passes = def && def->getNumOperands() == 1 && def->getNumResults() == 1 &&
                    (isa<dist::CollectiveOp, dist::CollectiveWaitOp, dist::CollectiveStartOp, dist::FlattenOp>(def) || isView(def));
      v = passes ? def->getOperand(0) : Value();
    }
  });
}

int Buffers::create(int64_t bytes, int64_t start, int64_t end, StringRef category) {
  b.setInsertionPointToStart(program);
  if (!buffers.empty())
    b.setInsertionPointAfter(buffers.back().op);
  auto op = exec::BufferOp::create(b, loc, exec::BufferType::get(b.getContext()), 0, bytes, category, FlatSymbolRefAttr());
  buffers.push_back({start, end, bytes, category.str(), nullptr, op});
  return buffers.size() - 1;
}

int Buffers::ofVariable(nn::VariableOp variable) {
  auto [it, isNew] = variables.try_emplace(variable.getSymName(), 0);
  if (isNew) {
    StringRef category = variable.getRole() == "optimizer" ? "optimizer" : "parameters";
    it->second = create(bytesOf(dist::localType(cast<RankedTensorType>(variable.getType()))), 0, 0, category);
    buffers[it->second].variable = variable;
    buffers[it->second].op.setVariable(variable.getSymName());
  }
  return it->second;
}

void Buffers::define(Value value) {
  Operation *op = value.getDefiningOp();
  int64_t start = op ? liveness.start(op) : 0;
  bind(value, create(bytesOf(value.getType()), start, start + 1, categoryOf(value)));
}

void Buffers::bind(Value value, int buffer) {
  root[value] = buffer;
  extend(buffer, liveness.lastUse(value) + 1);
}

void Buffers::extend(int buffer, int64_t end) {
  if (!isVariable(buffer))
    buffers[buffer].end = std::max(buffers[buffer].end, end);
}

bool Buffers::diesAt(Value value, Operation *op) const {
  int buffer = of(value);
  if (isVariable(buffer) || (isa<BlockArgument>(value) && value.getParentBlock() == body))
    return false;
  // A value from outside the loop is read again in the next iteration.
  if (value.getParentBlock() != op->getBlock())
    return false;
  return buffers[buffer].end <= liveness.start(op) + 1;
}

StringRef Buffers::categoryOf(Value value) const { return gradients.contains(value) ? "gradients" : "activations"; }
