// The ways of cutting a kernel into ranges, one of which its schedule follows.

#include "lib/Target/Common/KernelRanges.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace tessera::target {

/// Units per step of the loop over a Flat or Columns range. Large enough to stream, small enough for
/// accumulators in L1.
static constexpr int64_t columnBlock = 1024, flatBlock = 1024;
/// Work (roughly: vectorised element operations) below which a call of its own costs more than it saves.
static constexpr int64_t leastWork = 256 * 1024;

bool flattenLoops(Kernel &k) {
  if (k.statements.empty())
    return false;
  auto product = [](ArrayRef<int64_t> extents) {
    int64_t n = 1;
    for (int64_t e : extents)
      n *= e;
    return n;
  };
  int64_t total = product(k.statements.front().extents);
  if (total <= 1)
    return false;
  auto isFlat = [&](const Statement &s, const Access &access, bool written) {
    if (access.slot < 0)
      return !written;
    if (k.slots[access.slot].elements() == 1 && !written)
      return true;
    std::optional<SmallVector<int64_t>> found = coefficients(access.linear, s.extents.size());
    if (!found || found->back() != 0 || k.slots[access.slot].elements() != total)
      return false;
    int64_t stride = 1;
    for (int64_t loop = s.extents.size() - 1; loop >= 0; stride *= s.extents[loop--])
      if (s.extents[loop] != 1 && (*found)[loop] != stride)
        return false;
    return true;
  };
  for (const Statement &s : k.statements) {
    if (s.usesIndex || !s.captured.empty() || product(s.extents) != total ||
        llvm::is_contained(s.reduction, true))
      return false;
    for (const Access &read : s.reads)
      if (!isFlat(s, read, false))
        return false;
    for (const Write &write : s.writes)
      if (!isFlat(s, write.to, true) || !isFlat(s, write.init, false))
        return false;
  }
  MLIRContext *context = k.func.getContext();
  auto rewrite = [&](Access &access) {
    if (access.slot < 0)
      return;
    bool one = k.slots[access.slot].elements() == 1;
    access.linear = one ? getAffineConstantExpr(0, context) : getAffineDimExpr(0, context);
    access.index = {access.linear};
    k.slots[access.slot].shape = {one ? 1 : total};
  };
  for (Statement &s : k.statements) {
    s.extents = {total};
    s.reduction = {false};
    llvm::for_each(s.reads, rewrite);
    for (Write &write : s.writes) {
      rewrite(write.to);
      rewrite(write.init);
    }
  }
  return true;
}

std::vector<Cut> possibleCuts(const Kernel &k, const LoopDimensions &dims) {
  std::vector<Cut> result;
  unsigned anchor = 0;
  int64_t largest = -1;
  for (auto [number, s] : llvm::enumerate(k.statements)) {
    int64_t points = 1;
    for (int64_t e : s.extents)
      points *= e;
    if (points >= largest) {
      largest = points;
      anchor = number;
    }
  }
  const Statement &s = k.statements[anchor];
  SmallVector<int> loops;
  for (auto [loop, extent] : llvm::enumerate(s.extents))
    if (extent != 1)
      loops.push_back(loop);
  if (loops.empty())
    return result;
  // Leading loops as rows: as many as leave a row of decent length, then the others.
  SmallVector<Cut> shortRows;
  int64_t rowLength = 1, rows = largest;
  for (int count = loops.size() - 1; count > 0; --count) {
    rowLength *= s.extents[loops[count]];
    rows /= s.extents[loops[count]];
    Cut cut{Strategy::Rows, {}};
    for (int i = 0; i < count; ++i)
      cut.dimensions.push_back(dims.ofLoop(anchor, loops[i]));
    if (rowLength < 128 || rows < 16)
      shortRows.push_back(cut);
    else
      result.push_back(cut);
  }
  std::vector<Cut> single;
  for (int loop : llvm::reverse(loops))
    single.push_back(
        {loop == loops.back() ? Strategy::Columns : Strategy::Rows, {dims.ofLoop(anchor, loop)}});
  // Few long rows are cut by columns; few short ones stay rows.
  bool longRows = s.extents[loops.back()] >= 4096;
  if (longRows)
    result.push_back(single.front());
  llvm::append_range(result, shortRows);
  llvm::append_range(result, single);
  return result;
}

bool applyCut(Kernel &k, const Cut &cut, const LoopDimensions &dims) {
  k.rangeExtents.clear();
  k.info.strategy = cut.strategy;
  k.block = cut.strategy == Strategy::Flat ? flatBlock : cut.strategy == Strategy::Columns ? columnBlock : 1;
  for (int dimension : cut.dimensions)
    if (dims.isBlocked(dimension))
      return false;
  int64_t repeated = 0, divided = 0;
  for (auto [number, s] : llvm::enumerate(k.statements)) {
    s.ranges.clear();
    for (int dimension : cut.dimensions) {
      SmallVector<int> loops = dims.loopsIn(number, dimension);
      if (loops.size() > 1 || (loops.size() == 1 && s.reduction[loops[0]]))
        return false;
      if (loops.size() == 1)
        s.ranges.push_back(loops[0]);
    }
    s.invariant = s.ranges.empty() && !cut.dimensions.empty();
    if (!s.invariant && s.ranges.size() != cut.dimensions.size())
      return false;
    int64_t points = 1;
    for (int64_t e : s.extents)
      points *= e;
    (s.invariant ? repeated : divided) += points;
    for (const Write &write : s.writes) {
      if (s.invariant && k.slots[write.to.slot].kind == Slot::Result)
        return false;
      for (int loop : s.ranges)
        if (!llvm::is_contained(write.to.index, getAffineDimExpr(loop, k.func.getContext())))
          return false;
    }
    if (!s.invariant && k.rangeExtents.empty())
      for (int loop : s.ranges)
        k.rangeExtents.push_back(s.extents[loop]);
  }
  // Every call repeats the invariant statements, so they must be few.
  if (repeated > divided / 4)
    return false;
  k.slotRanges.assign(k.slots.size(), {});
  for (auto [number, slot] : llvm::enumerate(k.slots))
    for (unsigned dim = 0; dim < slot.shape.size(); ++dim) {
      int range = -1;
      if (slot.kind == Slot::Temporary)
        for (auto [i, dimension] : llvm::enumerate(cut.dimensions))
          if (dims.ofSlot(number, dim) == dimension)
            range = i;
      k.slotRanges[number].push_back(range);
    }
  return true;
}

void chooseGrain(Kernel &k) {
  k.info.extent = 1;
  for (int64_t extent : k.rangeExtents)
    k.info.extent *= extent;
  int64_t work = 0;
  for (const Statement &s : k.statements) {
    int64_t points = 1, cost = 1;
    for (int64_t e : s.extents)
      points *= e;
    if (s.body)
      for (Operation &op : *s.body)
        cost += isa_and_nonnull<math::MathDialect>(op.getDialect()) && !isa<math::SqrtOp, math::AbsFOp>(op)
                    ? 8
                    : 1;
    work += points * cost;
  }
  int64_t perUnit = std::max<int64_t>(1, work / std::max<int64_t>(k.info.extent, 1));
  int64_t least = k.info.strategy == Strategy::Rows      ? 1
                  : k.info.strategy == Strategy::Columns ? 64
                  : k.info.strategy == Strategy::Flat    ? flatBlock
                                                         : 1;
  k.info.grain = std::min(k.info.extent, std::max(least, leastWork / perUnit));
}

} // namespace tessera::target
