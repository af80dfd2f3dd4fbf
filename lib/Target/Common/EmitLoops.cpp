// See LoopEmitter.h: loops around statements.

#include "lib/Target/Common/LoopEmitter.h"
#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace tessera::target {

/// Rows that a sum over rows takes at a time.
static constexpr int64_t jammedRows = 4;

scf::ForOp LoopEmitter::createLoop(const Segment &segment, unsigned level, ValueRange initial) {
  Value upper;
  if (static_cast<int>(level) == segment.rangeLoop)
    upper = arith::MinSIOp::create(b, loc, arith::SubIOp::create(b, loc, end, base).getResult(),
                                   constantIndex(k.block));
  else
    upper = constantIndex(segment.extents[level]);
  if (warp && level + 1 == segment.extents.size())
    return scf::ForOp::create(b, loc, warp->lane(), upper, constantIndex(warp->lanes()), initial);
  return scf::ForOp::create(b, loc, zero, upper, constantIndex(1), initial);
}

void LoopEmitter::enterLoop(const Segment &segment, unsigned level, Value iv) {
  Value global =
      static_cast<int>(level) == segment.rangeLoop ? arith::AddIOp::create(b, loc, base, iv).getResult() : iv;
  for (unsigned number : segment.statements) {
    int loop = k.statements[number].loops[level];
    variables[number][loop] = global;
    local[number][loop] = iv;
  }
}

/// Whether the loop at `level` runs over rows that are summed into memory by one inner loop. Then several
/// rows are taken at a time, so that each accumulator is loaded and stored once for all of them.
bool LoopEmitter::canJamRows(const Segment &segment, unsigned level, const Accumulators &acc) {
  if (level + 2 != segment.extents.size() || static_cast<int>(level) == segment.rangeLoop || !acc.empty() ||
      segment.extents[level] < 2 * jammedRows)
    return false;
  bool any = false;
  for (unsigned number : segment.statements) {
    const Statement &s = k.statements[number];
    if (s.reduction[s.loops[level + 1]])
      return false;
    // One that is summed over loops further out has an accumulator for each row.
    if (s.accumulatesInMemory() && !s.reduction[s.loops[level]])
      return false;
    any |= s.reduction[s.loops[level]];
  }
  return any;
}

void LoopEmitter::emitJammedRows(Segment &segment, unsigned level) {
  Accumulators none;
  int64_t rows = segment.extents[level], whole = rows / jammedRows * jammedRows;
  auto outer = scf::ForOp::create(b, loc, zero, constantIndex(whole), constantIndex(jammedRows));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(outer.getBody());
    scf::ForOp inner = createLoop(segment, level + 1);
    b.setInsertionPointToStart(inner.getBody());
    enterLoop(segment, level + 1, inner.getInductionVar());
    Accumulators registers;
    held = &registers;
    for (int64_t row = 0; row < jammedRows; ++row) {
      enterLoop(segment, level, arith::AddIOp::create(b, loc, outer.getInductionVar(), constantIndex(row)));
      emitLevel(segment, level + 2, none);
    }
    held = nullptr;
    for (auto &[key, value] : registers) {
      const Access &to = k.statements[key.first].writes[key.second].to;
      store(to.slot, address(to, key.first), value);
    }
  }
  if (whole == rows)
    return;
  auto rest = scf::ForOp::create(b, loc, constantIndex(whole), constantIndex(rows), constantIndex(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(rest.getBody());
  enterLoop(segment, level, rest.getInductionVar());
  emitLevel(segment, level + 1, none);
}

static SmallVector<Value> valuesOf(const Accumulators &acc) {
  SmallVector<Value> values;
  for (auto &entry : acc)
    values.push_back(entry.second);
  return values;
}

void LoopEmitter::emitInside(scf::ForOp forOp, Segment &segment, unsigned level, ArrayRef<int64_t> offsets,
                             Accumulators &acc) {
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(forOp.getBody());
    for (auto [entry, argument] : llvm::zip(acc, forOp.getRegionIterArgs()))
      entry.second = argument;
    for (int64_t offset : offsets) {
      Value iv = forOp.getInductionVar();
      enterLoop(segment, level,
                offset ? arith::AddIOp::create(b, loc, iv, constantIndex(offset)).getResult() : iv);
      emitLevel(segment, level + 1, acc);
    }
    if (!acc.empty())
      scf::YieldOp::create(b, loc, valuesOf(acc));
  }
  for (auto [entry, result] : llvm::zip(acc, forOp.getResults()))
    entry.second = result;
}

void LoopEmitter::emitLanes(Segment &segment, Accumulators &acc) {
  unsigned level = segment.extents.size() - 1;
  int64_t extent = segment.extents[level], lanes = warp->lanes();
  LanePoints points = lanePoints(segment);
  auto emit = [&](int64_t from, int64_t to, int64_t groups) {
    SmallVector<int64_t> offsets;
    for (int64_t group = 0; group < groups; ++group)
      for (int64_t i = 0; i < points.neighbours; ++i)
        offsets.push_back(group * lanes * points.neighbours + i);
    Value first = arith::MulIOp::create(b, loc, warp->lane(), constantIndex(points.neighbours));
    first = arith::AddIOp::create(b, loc, first, constantIndex(from));
    Value step = constantIndex(lanes * points.neighbours * groups);
    emitInside(scf::ForOp::create(b, loc, first, constantIndex(to), step, valuesOf(acc)), segment, level,
               offsets, acc);
  };
  int64_t once = lanes * points.neighbours * points.groups, whole = extent / once * once;
  if (whole > 0)
    emit(0, whole, points.groups);
  if (whole < extent)
    emit(whole, extent, 1);
}

void LoopEmitter::emitLevel(Segment &segment, unsigned level, Accumulators &acc) {
  SmallVector<std::pair<unsigned, unsigned>> started;
  SmallVector<Value> firstValues;
  unsigned depth = segment.extents.size();
  for (unsigned number : segment.statements) {
    Statement &s = k.statements[number];
    if (level == depth || s.accumulatesInMemory() || accumulateFrom(segment, s) != level)
      continue;
    for (auto [i, write] : llvm::enumerate(s.writes)) {
      if (!s.accumulates(write))
        continue;
      std::pair<unsigned, unsigned> key(number, i);
      acc[key] = write.init.isUndefined()
                     ? arith::ConstantOp::create(
                           b, loc, b.getZeroAttr(s.body->getTerminator()->getOperand(i).getType()))
                           .getResult()
                     : read(write.init, number);
      firstValues.push_back(acc[key]);
      if (warp)
        acc[key] = warp->neutral(combinerOf(s, i));
      started.push_back(key);
    }
  }
  if (level == depth) {
    for (unsigned number : segment.statements)
      emitStatement(number, segment, acc);
    return;
  }
  if (canJamRows(segment, level, acc))
    return emitJammedRows(segment, level);
  if (warp && level + 1 == depth)
    emitLanes(segment, acc);
  else
    emitInside(createLoop(segment, level, valuesOf(acc)), segment, level, {0}, acc);
  for (auto [key, first] : llvm::zip(started, firstValues)) {
    Value value = acc[key];
    if (warp)
      value = warp->reduce(combinerOf(k.statements[key.first], key.second), first, value);
    acc.erase(key);
    finish(key.first, key.second, value, true);
  }
}

void LoopEmitter::emitSegment(Segment &segment) {
  collapseLoops(segment);
  forwarded.clear();
  initialiseMemory(segment);
  Accumulators acc;
  emitLevel(segment, 0, acc);
  forwarded.clear();
  if (warp) // the next segment's lanes read what other lanes have written
    warp->sync();
}

FailureOr<func::FuncOp> LoopEmitter::emit(StringRef name) {
  createFunction(name);
  for (const Statement &s : k.statements) {
    variables.emplace_back(s.extents.size(), zero);
    local.emplace_back(s.extents.size(), zero);
  }
  if (failed(cloneScalars()))
    return failure();
  for (Segment &segment : k.segments)
    if (segment.invariant)
      emitSegment(segment);
  bool inner = k.info.strategy == Strategy::Flat || k.info.strategy == Strategy::Columns;
  auto units = scf::ForOp::create(b, loc, begin, end, constantIndex(inner ? k.block : 1));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(units.getBody());
    base = units.getInductionVar();
    if (k.info.strategy == Strategy::Rows) {
      Value rest = base;
      SmallVector<Value> index(k.rangeExtents.size());
      for (int64_t i = k.rangeExtents.size() - 1; i >= 0; --i) {
        Value extent = constantIndex(k.rangeExtents[i]);
        index[i] = i == 0 ? rest : arith::RemUIOp::create(b, loc, rest, extent).getResult();
        if (i > 0)
          rest = arith::DivUIOp::create(b, loc, rest, extent);
      }
      for (auto [number, s] : llvm::enumerate(k.statements))
        for (auto [i, loop] : llvm::enumerate(s.ranges))
          variables[number][loop] = index[i];
    }
    for (Segment &segment : k.segments)
      if (!segment.invariant)
        emitSegment(segment);
  }
  func::ReturnOp::create(b, loc);
  return target;
}

FailureOr<func::FuncOp> emitLoops(Kernel &kernel, StringRef name) { return LoopEmitter(kernel).emit(name); }

} // namespace tessera::target
