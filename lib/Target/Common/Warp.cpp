// See Warp.h.

#include "lib/Target/Common/Warp.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tessera::target {

Operation *combinerOf(const Statement &s, unsigned write) {
  if (!s.body || s.body->getNumArguments() != s.reads.size() + s.writes.size())
    return nullptr;
  SmallVector<Operation *> combiners;
  if (!matchReduction(s.body->getArguments().take_back(s.writes.size()), write, combiners) ||
      combiners.size() != 1)
    return nullptr;
  Operation *op = combiners.front();
  return op->getNumOperands() == 2 && arith::getNeutralElement(op) ? op : nullptr;
}

bool canShareUnits(const Kernel &kernel) {
  if (kernel.info.strategy != Strategy::Rows && kernel.info.strategy != Strategy::Sequential)
    return false;
  for (const Segment &segment : kernel.segments)
    for (unsigned number : segment.statements) {
      const Statement &s = kernel.statements[number];
      if (s.loops.empty())
        continue;
      bool lastReduces = s.reduction[s.loops.back()];
      if (s.accumulatesInMemory() && lastReduces)
        return false;
      for (unsigned write = 0; write < s.writes.size(); ++write)
        if (lastReduces && s.accumulates(s.writes[write]) && !combinerOf(s, write))
          return false;
    }
  return true;
}

WarpEmitter::WarpEmitter(OpBuilder &builder, Location loc, func::FuncOp target, int64_t columns,
                         int64_t sharers)
    : b(builder), loc(loc), target(target), columns(columns), sharers(sharers) {
  thread = call("llvm.nvvm.read.ptx.sreg.tid.x", b.getI32Type(), {});
  Value among = columns ? arith::DivUIOp::create(b, loc, thread, integer(columns)).getResult()
                        : arith::AndIOp::create(b, loc, thread, integer(warpLanes - 1)).getResult();
  laneIndex = arith::IndexCastUIOp::create(b, loc, b.getIndexType(), among);
}

Value WarpEmitter::integer(int64_t value) { return arith::ConstantIntOp::create(b, loc, value, 32); }

Value WarpEmitter::call(StringRef name, Type result, ValueRange arguments) {
  auto module = target->getParentOfType<ModuleOp>();
  TypeRange results = result ? TypeRange(result) : TypeRange();
  if (!module.lookupSymbol(name)) {
    OpBuilder outside = OpBuilder::atBlockEnd(module.getBody());
    func::FuncOp::create(outside, loc, name, b.getFunctionType(arguments.getTypes(), results)).setPrivate();
  }
  auto op = func::CallOp::create(b, loc, name, results, arguments);
  return result ? op.getResult(0) : Value();
}

Value WarpEmitter::sharedMemory(int64_t bytes, int64_t warps) {
  if (bytes == 0)
    return Value();
  Attribute space = b.getI64IntegerAttr(3);
  Type byte = b.getIntegerType(8);
  auto type = MemRefType::get({bytes * warps}, byte, AffineMap(), space);
  OpBuilder outside(target);
  memref::GlobalOp::create(outside, loc, "shared", outside.getStringAttr("private"), type,
                           outside.getUnitAttr(), /*constant=*/false, outside.getI64IntegerAttr(64));
  Value all = memref::GetGlobalOp::create(b, loc, type, "shared");
  Value warp = arith::ShRUIOp::create(b, loc, thread, integer(5));
  Value offset =
      arith::MulIOp::create(b, loc, arith::IndexCastUIOp::create(b, loc, b.getIndexType(), warp).getResult(),
                            arith::ConstantIndexOp::create(b, loc, bytes).getResult());
  return memref::ViewOp::create(b, loc, MemRefType::get({bytes}, byte, AffineMap(), space), all, offset,
                                ValueRange());
}

void WarpEmitter::sync() {
  if (columns)
    call("llvm.nvvm.barrier.cta.sync.aligned.all", Type(), {integer(0)});
  else
    call("llvm.nvvm.bar.warp.sync", Type(), {integer(-1)});
}

void WarpEmitter::onFirstLane(llvm::function_ref<void()> emit) {
  sync();
  Value first = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, laneIndex,
                                      arith::ConstantIndexOp::create(b, loc, 0));
  auto branch = scf::IfOp::create(b, loc, first, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  emit();
}

Value WarpEmitter::neutral(Operation *combiner) {
  return arith::ConstantOp::create(b, loc, *arith::getNeutralElement(combiner));
}

Value WarpEmitter::shuffle(Value value, int64_t distance) {
  Type type = value.getType();
  auto exchange = [&](Value bits) {
    return call("llvm.nvvm.shfl.sync.bfly.i32", b.getI32Type(),
                {integer(-1), bits, integer(distance), integer(warpLanes - 1)});
  };
  if (type.isIndex()) {
    Value bits = arith::IndexCastUIOp::create(b, loc, b.getI64Type(), value);
    return arith::IndexCastUIOp::create(b, loc, type, shuffle(bits, distance));
  }
  unsigned width = type.getIntOrFloatBitWidth();
  if (isa<FloatType>(type)) {
    Value bits = arith::BitcastOp::create(b, loc, b.getIntegerType(width), value);
    return arith::BitcastOp::create(b, loc, type, shuffle(bits, distance));
  }
  if (width == 32)
    return exchange(value);
  if (width < 32) {
    Value wide = arith::ExtUIOp::create(b, loc, b.getI32Type(), value);
    return arith::TruncIOp::create(b, loc, type, exchange(wide));
  }
  Value half = arith::ConstantIntOp::create(b, loc, 32, 64);
  Value high = arith::TruncIOp::create(b, loc, b.getI32Type(),
                                       arith::ShRUIOp::create(b, loc, value, half).getResult());
  Value low = arith::TruncIOp::create(b, loc, b.getI32Type(), value);
  high = arith::ExtUIOp::create(b, loc, type, exchange(high));
  low = arith::ExtUIOp::create(b, loc, type, exchange(low));
  return arith::OrIOp::create(b, loc, arith::ShLIOp::create(b, loc, high, half).getResult(), low);
}

Value WarpEmitter::combine(Operation *combiner, Value a, Value c) {
  Operation *copy = b.clone(*combiner);
  copy->setOperands({a, c});
  return copy->getResult(0);
}

Value WarpEmitter::exchange(Type type) {
  Attribute space = b.getI64IntegerAttr(3);
  int64_t widest = 8;
  auto bytes = MemRefType::get({columns * sharers * widest}, b.getIntegerType(8), AffineMap(), space);
  constexpr llvm::StringLiteral name = "exchanged";
  if (!target->getParentOfType<ModuleOp>().lookupSymbol(name)) {
    OpBuilder outside(target);
    memref::GlobalOp::create(outside, loc, name, outside.getStringAttr("private"), bytes,
                             outside.getUnitAttr(), /*constant=*/false, outside.getI64IntegerAttr(64));
  }
  Value all = memref::GetGlobalOp::create(b, loc, bytes, name);
  Value first = arith::ConstantIndexOp::create(b, loc, 0);
  return memref::ViewOp::create(b, loc, MemRefType::get({sharers, columns}, type, AffineMap(), space), all,
                                first, ValueRange());
}

/// Every thread adds up the values of its unit in the order of the lanes.
Value WarpEmitter::reduceApart(Operation *combiner, Value value) {
  Type type = value.getType(), kept = type;
  if (type.isIndex())
    kept = b.getI64Type();
  else if (!isa<FloatType>(type) && type.getIntOrFloatBitWidth() < 8)
    kept = b.getI8Type();
  auto to = [&](Value v, Type wanted) -> Value {
    if (v.getType() == wanted)
      return v;
    if (v.getType().isIndex() || wanted.isIndex())
      return arith::IndexCastUIOp::create(b, loc, wanted, v);
    return wanted == type ? arith::TruncIOp::create(b, loc, wanted, v).getResult()
                          : arith::ExtUIOp::create(b, loc, wanted, v).getResult();
  };
  Value values = exchange(kept);
  Value column = arith::IndexCastUIOp::create(
      b, loc, b.getIndexType(), arith::RemUIOp::create(b, loc, thread, integer(columns)).getResult());
  memref::StoreOp::create(b, loc, to(value, kept), values, ValueRange{laneIndex, column});
  sync();
  Value sum;
  for (int64_t lane = 0; lane < sharers; ++lane) {
    Value at = arith::ConstantIndexOp::create(b, loc, lane);
    Value next = to(memref::LoadOp::create(b, loc, values, ValueRange{at, column}), type);
    sum = sum ? combine(combiner, sum, next) : next;
  }
  sync(); // before others are exchanged there
  return sum;
}

Value WarpEmitter::reduce(Operation *combiner, Value initial, Value value) {
  if (columns)
    return combine(combiner, initial, reduceApart(combiner, value));
  for (int64_t distance = warpLanes / 2; distance > 0; distance /= 2)
    value = combine(combiner, value, shuffle(value, distance));
  return combine(combiner, initial, value);
}

} // namespace tessera::target
