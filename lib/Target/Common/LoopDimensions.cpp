// Which loops of a kernel's statements are one and the same dimension of its data.

#include "lib/Target/Common/LoopDimensions.h"

using namespace mlir;

namespace tessera::target {

LoopDimensions::LoopDimensions(const Kernel &kernel) : kernel(kernel) {
  for (const Statement &statement : kernel.statements) {
    loopNodes.push_back(extent.size());
    llvm::append_range(extent, statement.extents);
  }
  for (const Slot &slot : kernel.slots) {
    slotNodes.push_back(extent.size());
    llvm::append_range(extent, slot.shape);
  }
  for (unsigned i = 0; i < extent.size(); ++i)
    parent.push_back(i);
  blocked.assign(extent.size(), false);

  for (auto [number, statement] : llvm::enumerate(kernel.statements)) {
    for (const Access &read : statement.reads)
      connect(number, read);
    for (const Write &write : statement.writes) {
      connect(number, write.to);
      connect(number, write.init);
    }
    for (int slot : statement.captured)
      for (unsigned dim = 0; dim < kernel.slots[slot].shape.size(); ++dim)
        blocked[find(slotNodes[slot] + dim)] = true;
  }
  // What is read from the same dimension of an argument, then what is at the same place of equal nests.
  llvm::DenseMap<std::pair<int, unsigned>, int> reader;
  for (auto [number, statement] : llvm::enumerate(kernel.statements))
    for (const Access &read : statement.reads)
      if (read.slot >= 0 && kernel.slots[read.slot].kind == Slot::Argument)
        for (auto [dim, expr] : llvm::enumerate(read.index))
          if (auto variable = dyn_cast<AffineDimExpr>(expr)) {
            int node = loopNodes[number] + variable.getPosition();
            auto [it, isNew] = reader.try_emplace({read.slot, dim}, node);
            if (!isNew)
              joinIfPossible(it->second, node);
          }
  for (unsigned number = 1; number < kernel.statements.size(); ++number)
    for (unsigned other = 0; other < number; ++other)
      if (kernel.statements[other].extents == kernel.statements[number].extents)
        for (unsigned loop = 0; loop < kernel.statements[number].extents.size(); ++loop)
          joinIfPossible(loopNodes[other] + loop, loopNodes[number] + loop);
}

SmallVector<int> LoopDimensions::loopsIn(unsigned statement, int dimension) const {
  SmallVector<int> loops;
  for (unsigned loop = 0; loop < kernel.statements[statement].extents.size(); ++loop)
    if (ofLoop(statement, loop) == dimension)
      loops.push_back(loop);
  return loops;
}

void LoopDimensions::join(int a, int b) {
  a = find(a);
  b = find(b);
  if (a == b)
    return;
  parent[b] = a;
  blocked[a] = blocked[a] || blocked[b];
}

void LoopDimensions::joinIfPossible(int a, int b) {
  a = find(a);
  b = find(b);
  if (a == b || extent[a] != extent[b])
    return;
  for (unsigned number = 0; number < kernel.statements.size(); ++number)
    if (!loopsIn(number, a).empty() && !loopsIn(number, b).empty())
      return;
  join(a, b);
}

void LoopDimensions::connect(unsigned statement, const Access &access) {
  if (access.slot < 0)
    return;
  const Slot &slot = kernel.slots[access.slot];
  if (slot.kind == Slot::Argument || slot.kind == Slot::Constant)
    return;
  for (auto [dim, expr] : llvm::enumerate(access.index)) {
    int node = slotNodes[access.slot] + dim;
    auto variable = dyn_cast<AffineDimExpr>(expr);
    if (variable && extent[loopNodes[statement] + variable.getPosition()] == slot.shape[dim])
      join(node, loopNodes[statement] + variable.getPosition());
    else if (slot.shape[dim] != 1)
      blocked[find(node)] = true;
  }
}

std::optional<SmallVector<int64_t>> coefficients(AffineExpr expr, unsigned loops) {
  SmallVector<int64_t> result(loops + 1, 0);
  if (auto variable = dyn_cast<AffineDimExpr>(expr)) {
    result[variable.getPosition()] = 1;
    return result;
  }
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    result[loops] = constant.getValue();
    return result;
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary || (expr.getKind() != AffineExprKind::Add && expr.getKind() != AffineExprKind::Mul))
    return std::nullopt;
  std::optional<SmallVector<int64_t>> left = coefficients(binary.getLHS(), loops),
                                      right = coefficients(binary.getRHS(), loops);
  if (!left || !right)
    return std::nullopt;
  if (expr.getKind() == AffineExprKind::Add) {
    for (unsigned i = 0; i <= loops; ++i)
      result[i] = (*left)[i] + (*right)[i];
    return result;
  }
  auto isConstant = [&](ArrayRef<int64_t> c) {
    return llvm::all_of(c.drop_back(), [](int64_t v) { return v == 0; });
  };
  if (!isConstant(*right))
    std::swap(left, right);
  if (!isConstant(*right))
    return std::nullopt;
  for (unsigned i = 0; i <= loops; ++i)
    result[i] = (*left)[i] * right->back();
  return result;
}

} // namespace tessera::target
