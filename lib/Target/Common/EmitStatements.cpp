// See LoopEmitter.h: the function, what its values lie in, and the statements.

#include "lib/Target/Common/LoopEmitter.h"
#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace tessera::target {

void LoopEmitter::createFunction(StringRef name) {
  SmallVector<Type> inputs;
  SmallVector<int> bufferSlots;
  for (auto [number, slot] : llvm::enumerate(k.slots))
    if (slot.kind == Slot::Argument || (slot.kind == Slot::Result && slot.inPlaceOf < 0))
      bufferSlots.push_back(number);
  llvm::sort(bufferSlots, [&](int a, int b) {
    const Slot &x = k.slots[a], &y = k.slots[b];
    if (x.kind != y.kind)
      return x.kind == Slot::Argument;
    return x.kind == Slot::Argument ? x.argument < y.argument : x.result < y.result;
  });
  for (int slot : bufferSlots)
    inputs.push_back(MemRefType::get({k.slots[slot].elements()}, storageType(k.slots[slot].element)));
  if (k.info.workspace)
    inputs.push_back(MemRefType::get({k.info.workspace}, b.getIntegerType(8)));
  SmallVector<Value> scalarArguments;
  for (BlockArgument argument : k.func.getArguments())
    if (!isa<RankedTensorType>(argument.getType())) {
      scalarArguments.push_back(argument);
      inputs.push_back(argument.getType());
    }
  inputs.append(2, b.getIndexType());
  b.setInsertionPoint(k.func);
  target = func::FuncOp::create(b, loc, name, b.getFunctionType(inputs, {}));
  Block *entry = target.addEntryBlock();
  memory.assign(k.slots.size(), Value());
  unsigned next = 0;
  for (int slot : bufferSlots)
    memory[slot] = entry->getArgument(next++);
  for (auto [number, slot] : llvm::enumerate(k.slots))
    if (slot.inPlaceOf >= 0)
      memory[number] = memory[slot.inPlaceOf];
  Value workspace = k.info.workspace ? entry->getArgument(next++) : Value();
  for (Value argument : scalarArguments)
    scalars.map(argument, entry->getArgument(next++));
  begin = entry->getArgument(next++);
  end = entry->getArgument(next);
  b.setInsertionPointToStart(entry);
  zero = constantIndex(0);
  if (k.columns) {
    warp.emplace(b, loc, target, k.columns, k.sharers);
  } else if (k.warps) {
    warp.emplace(b, loc, target, 0, 0);
    workspace = workspace ? workspace : warp->sharedMemory(k.temporaryBytes(), k.warps);
  }
  // Temporaries and constants.
  int64_t used = 0;
  for (auto [number, slot] : llvm::enumerate(k.slots)) {
    if (slot.kind == Slot::Constant) {
      std::string symbol = ("constant_" + Twine(number)).str();
      OpBuilder outside(target);
      auto type = MemRefType::get({slot.elements()}, storageType(slot.element));
      auto flat = cast<DenseElementsAttr>(slot.constant)
                      .reshape(RankedTensorType::get({slot.elements()}, slot.element));
      if (slot.element.isInteger(1))
        flat = flat.mapValues(b.getIntegerType(8), [](const APInt &v) { return v.zext(8); });
      if (slot.element.isBF16())
        flat = flat.bitcast(b.getIntegerType(16));
      memref::GlobalOp::create(outside, loc, symbol, outside.getStringAttr("private"), type, flat,
                               /*constant=*/true, outside.getI64IntegerAttr(64));
      memory[number] = memref::GetGlobalOp::create(b, loc, type, symbol);
    }
    if (slot.kind != Slot::Temporary || !slot.stored)
      continue;
    int64_t elements = 1;
    for (int64_t extent : k.storageShape(number))
      elements *= extent;
    auto type = MemRefType::get({elements}, storageType(slot.element));
    if (workspace)
      memory[number] =
          memref::ViewOp::create(b, loc,
                                 MemRefType::get({elements}, type.getElementType(), AffineMap(),
                                                 cast<MemRefType>(workspace.getType()).getMemorySpace()),
                                 workspace, constantIndex(used), ValueRange());
    else
      memory[number] = memref::AllocaOp::create(b, loc, type, b.getI64IntegerAttr(64));
    used += llvm::alignTo(elements * ((slot.element.getIntOrFloatBitWidth() + 7) / 8), 64);
  }
}

/// Clones the scalar operations of the kernel's top level; all are pure.
LogicalResult LoopEmitter::cloneScalars() {
  for (Operation &op : k.func.getBody().front().without_terminator()) {
    if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
      SmallVector<AffineExpr> dims;
      SmallVector<Value> indices;
      for (auto [i, index] : llvm::enumerate(extract.getIndices())) {
        dims.push_back(b.getAffineDimExpr(i));
        indices.push_back(topLevel(index));
      }
      FailureOr<Access> access = k.resolve(extract.getTensor(), dims);
      if (failed(access))
        return failure();
      Value value = access->slot >= 0
                        ? widened(load(access->slot, position(access->linear, indices)), access->element)
                        : read(*access, 0);
      scalars.map(extract.getResult(), value);
      continue;
    }
    if (op.getNumResults() == 0 || op.getNumRegions() != 0 ||
        llvm::any_of(op.getResultTypes(), llvm::IsaPred<RankedTensorType>))
      continue;
    b.clone(op, scalars);
  }
  return success();
}

Value LoopEmitter::position(AffineExpr expr, ArrayRef<Value> vars) {
  SmallVector<Value> symbols;
  for (Value symbol : k.symbols)
    symbols.push_back(topLevel(symbol));
  return affine::expandAffineExpr(b, loc, simplifyAffineExpr(expr, vars.size(), symbols.size()), vars,
                                  symbols);
}

Value LoopEmitter::load(int slot, Value at) {
  Value value = memref::LoadOp::create(b, loc, memory[slot], ValueRange{at});
  if (k.slots[slot].element.isBF16())
    return arith::BitcastOp::create(b, loc, k.slots[slot].element, value);
  if (!k.slots[slot].element.isInteger(1))
    return value;
  Value none = arith::ConstantIntOp::create(b, loc, 0, 8);
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value, none);
}

void LoopEmitter::store(int slot, Value at, Value value) {
  if (k.slots[slot].element.isInteger(1))
    value = arith::ExtUIOp::create(b, loc, b.getIntegerType(8), value);
  else if (value.getType() != k.slots[slot].element) {
    if (value.getType().isBF16() || value.getType().isF16()) // the one as the other
      value = arith::ExtFOp::create(b, loc, b.getF32Type(), value);
    value = arith::TruncFOp::create(b, loc, k.slots[slot].element, value);
  }
  if (k.slots[slot].element.isBF16())
    value = arith::BitcastOp::create(b, loc, b.getIntegerType(16), value);
  memref::StoreOp::create(b, loc, value, memory[slot], ValueRange{at});
}

Value LoopEmitter::widened(Value value, Type element) {
  bool isNarrower = element && isa<FloatType>(element) &&
                    value.getType().getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth();
  return isNarrower ? Value(arith::ExtFOp::create(b, loc, element, value)) : value;
}

Value LoopEmitter::address(const Access &access, unsigned statement) {
  if (k.slots[access.slot].kind != Slot::Temporary)
    return position(access.linear, variables[statement]);
  // A range dimension of a temporary holds one unit or block, so it is indexed by the place in that; the
  // others by the loop.
  unsigned loops = variables[statement].size();
  SmallVector<Value> both(variables[statement]);
  both.append(local[statement]);
  SmallVector<AffineExpr> index(access.index);
  for (auto [expr, range] : llvm::zip(index, k.slotRanges[access.slot]))
    if (range >= 0)
      expr = expr.shiftDims(loops, loops);
  return position(linearise(index, k.storageShape(access.slot), b.getContext()), both);
}

Value LoopEmitter::read(const Access &access, unsigned statement) {
  if (access.scalar)
    return topLevel(access.scalar);
  if (access.constant)
    return arith::ConstantOp::create(b, loc, access.constant);
  if (Value value = forwarded.lookup(access.slot))
    return value;
  if (Value value = unitScalars.lookup(access.slot))
    return value;
  return widened(load(access.slot, address(access, statement)), access.element);
}

/// The first loop of the segment that `s` reduces over; all after it are reductions too.
unsigned LoopEmitter::accumulateFrom(const Segment &segment, const Statement &s) {
  unsigned level = s.loops.size();
  while (level > 0 && s.reduction[s.loops[level - 1]])
    --level;
  return level;
}

/// Makes one loop of two adjacent ones where every access runs through memory in their order.
void LoopEmitter::collapseLoops(Segment &segment) {
  auto strides = [&](const Access &access, const Statement &s, unsigned level) -> bool {
    if (access.slot < 0)
      return true;
    AffineExpr linear = access.linear;
    if (k.slots[access.slot].kind == Slot::Temporary)
      linear = linearise(access.index, k.storageShape(access.slot), b.getContext());
    std::optional<SmallVector<int64_t>> found = coefficients(linear, s.extents.size());
    int outer = s.loops[level], inner = s.loops[level + 1];
    return found && (*found)[outer] == (*found)[inner] * segment.extents[level + 1];
  };
  for (int level = static_cast<int>(segment.extents.size()) - 2; level >= 0; --level) {
    if (level == segment.rangeLoop || level + 1 == segment.rangeLoop)
      continue;
    bool possible = true;
    for (unsigned number : segment.statements) {
      const Statement &s = k.statements[number];
      possible &= !s.usesIndex && s.reduction[s.loops[level]] == s.reduction[s.loops[level + 1]];
      for (const Access &access : s.reads)
        possible = possible && strides(access, s, level);
      for (const Write &write : s.writes)
        possible = possible && strides(write.to, s, level) && strides(write.init, s, level);
    }
    if (!possible)
      continue;
    segment.extents[level + 1] *= segment.extents[level];
    segment.extents.erase(segment.extents.begin() + level);
    if (segment.rangeLoop > level)
      --segment.rangeLoop;
    for (unsigned number : segment.statements)
      k.statements[number].loops.erase(k.statements[number].loops.begin() + level);
  }
}

/// Reductions whose inner loops are parallel accumulate in memory: writes their first values.
void LoopEmitter::initialiseMemory(Segment &segment) {
  for (unsigned number : segment.statements) {
    Statement &s = k.statements[number];
    if (!s.accumulatesInMemory())
      continue;
    OpBuilder::InsertionGuard guard(b);
    for (auto [level, loop] : llvm::enumerate(s.loops)) {
      if (s.reduction[loop])
        continue;
      scf::ForOp forOp = createLoop(segment, level);
      b.setInsertionPointToStart(forOp.getBody());
      enterLoop(segment, level, forOp.getInductionVar());
    }
    for (Write &write : s.writes)
      if (s.accumulates(write))
        store(write.to.slot, address(write.to, number), read(write.init, number));
  }
}

void LoopEmitter::finish(unsigned number, unsigned writeNumber, Value value, bool onEveryLane) {
  const Statement &s = k.statements[number];
  const Access &to = s.writes[writeNumber].to;
  const Slot &slot = k.slots[to.slot];
  auto write = [&] { store(to.slot, address(to, number), value); };
  if (slot.kind == Slot::Result || slot.stored) {
    if (warp && onEveryLane)
      warp->onFirstLane(write);
    else
      write();
  }
  bool unit = slot.writers == 1 && (s.loops.empty() || s.accumulates(s.writes[writeNumber])) &&
              llvm::all_of(s.loops, [&](int loop) { return s.reduction[loop]; });
  if (unit)
    unitScalars[to.slot] = value;
}

void LoopEmitter::cloneOp(Operation &op, IRMapping &map, unsigned number) {
  if (auto index = dyn_cast<linalg::IndexOp>(op)) {
    map.map(index.getResult(), variables[number][k.statements[number].loopOfDim[index.getDim()]]);
    return;
  }
  if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
    SmallVector<AffineExpr> dims;
    SmallVector<Value> indices;
    for (auto [i, index] : llvm::enumerate(extract.getIndices())) {
      dims.push_back(b.getAffineDimExpr(i));
      indices.push_back(map.lookupOrDefault(topLevel(index)));
    }
    Access access = *k.resolve(extract.getTensor(), dims); // resolved once before, so it succeeds
    Value value;
    if (access.slot >= 0)
      value = widened(load(access.slot, position(access.linear, indices)), access.element);
    else
      value = read(access, number);
    map.map(extract.getResult(), value);
    return;
  }
  Operation *copy = b.cloneWithoutRegions(op, map);
  for (auto [from, to] : llvm::zip(op.getRegions(), copy->getRegions())) {
    for (Block &block : from) {
      Block *created = new Block;
      to.push_back(created);
      map.map(&block, created);
      for (BlockArgument argument : block.getArguments())
        map.map(argument, created->addArgument(argument.getType(), argument.getLoc()));
    }
    OpBuilder::InsertionGuard guard(b);
    for (Block &block : from) {
      b.setInsertionPointToEnd(map.lookup(&block));
      for (Operation &inner : block)
        cloneOp(inner, map, number);
    }
  }
}

void LoopEmitter::emitStatement(unsigned number, Segment &segment, Accumulators &acc) {
  Statement &s = k.statements[number];
  bool memoryReduction = s.accumulatesInMemory();
  SmallVector<Value> results;
  if (!s.body) {
    results.push_back(read(s.reads[0], number));
  } else {
    IRMapping map = scalars;
    for (auto [i, access] : llvm::enumerate(s.reads))
      if (!s.body->getArgument(i).use_empty())
        map.map(s.body->getArgument(i), read(access, number));
    for (auto [i, write] : llvm::enumerate(s.writes)) {
      unsigned argument = s.reads.size() + i;
      if (argument >= s.body->getNumArguments() || s.body->getArgument(argument).use_empty())
        continue;
      Value current;
      std::pair<unsigned, unsigned> key(number, i);
      bool inPlace = memoryReduction && s.accumulates(write);
      if (inPlace && held && held->count(key))
        current = held->lookup(key);
      else if (inPlace)
        current = load(write.to.slot, address(write.to, number));
      else if (auto it = acc.find({number, static_cast<unsigned>(i)}); it != acc.end())
        current = it->second;
      else if (!write.init.isUndefined())
        current = read(write.init, number);
      else
        current = arith::ConstantOp::create(b, loc, b.getZeroAttr(s.body->getArgument(argument).getType()));
      map.map(s.body->getArgument(argument), current);
    }
    for (Operation &op : s.body->without_terminator())
      cloneOp(op, map, number);
    for (Value yielded : s.body->getTerminator()->getOperands())
      results.push_back(map.lookupOrDefault(yielded));
  }
  for (auto [i, value] : llvm::enumerate(results)) {
    unsigned writeNumber = i;
    if (!s.accumulates(s.writes[i])) {
      forwarded[s.writes[i].to.slot] = value;
      finish(number, i, value, s.loops.empty());
    } else if (memoryReduction && held) {
      (*held)[{number, writeNumber}] = value;
    } else if (memoryReduction) {
      store(s.writes[i].to.slot, address(s.writes[i].to, number), value);
    } else {
      acc[{number, writeNumber}] = value;
    }
  }
}

} // namespace tessera::target
