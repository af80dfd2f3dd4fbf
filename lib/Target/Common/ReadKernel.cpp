// Reads a function on tensors into loop statements: every operand becomes an affine function of the loop
// variables into an argument, a result, a temporary or a constant, through whatever slices and reshapes lie
// between.

#include "lib/Target/Common/LoopDimensions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tessera::target {

static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

namespace {
/// Appends the statements of one operation after another.
class Reader {
public:
  explicit Reader(Kernel &kernel) : k(kernel), context(kernel.func.getContext()) {}

  LogicalResult read();

private:
  SmallVector<AffineExpr> dims(unsigned n) {
    SmallVector<AffineExpr> result;
    for (unsigned i = 0; i < n; ++i)
      result.push_back(getAffineDimExpr(i, context));
    return result;
  }
  int newSlot(Slot::Kind kind, RankedTensorType type) {
    Slot slot;
    slot.kind = kind;
    slot.element = type.getElementType();
    slot.shape = llvm::to_vector(type.getShape());
    k.slots.push_back(slot);
    return k.slots.size() - 1;
  }
  Access position(int slot, SmallVector<AffineExpr> index) {
    Access access;
    access.slot = slot;
    access.linear = linearise(index, k.slots[slot].shape, context);
    access.index = std::move(index);
    return access;
  }
  void addStatement(Statement statement);
  LogicalResult readArguments();
  void readReturns(func::ReturnOp op);
  LogicalResult readLinalg(linalg::LinalgOp op);
  LogicalResult addCopy(Operation *op, Value source, SmallVector<AffineExpr> from, int slot,
                        SmallVector<AffineExpr> to, ArrayRef<int64_t> extents);
  LogicalResult readInsert(tensor::InsertSliceOp op);
  LogicalResult readConcat(tensor::ConcatOp op);
  LogicalResult readPad(tensor::PadOp op);
  /// The slot that `result` is written to: a result's if it is returned (perhaps reshaped), else a temporary.
  /// A value that is only inserted into is written where the insertion's result goes.
  int outputSlot(Value result) {
    Value final = result;
    while (final.hasOneUse()) {
      auto insert = dyn_cast<tensor::InsertSliceOp>(*final.user_begin());
      if (!insert || insert.getDest() != final || insert.getSource() == final)
        break;
      final = insert.getResult();
    }
    auto [it, isNew] = k.slotOf.try_emplace(final, 0);
    if (isNew)
      it->second = newSlot(Slot::Temporary, cast<RankedTensorType>(final.getType()));
    return k.slotOf[result] = k.slotOf[final];
  }

  Kernel &k;
  MLIRContext *context;
  SmallVector<std::pair<Value, int>> copiedResults; ///< returned values that no statement writes in place
};
} // namespace

/// Simplifies a statement: loops of extent 1 disappear from its accesses, and the loops are put in the order
/// of memory. Where there are reductions, that is the order of the largest operand read, so that the
/// innermost loop is contiguous and can be vectorised (sums over rows stream the rows); else the order of the
/// operation, which is that of its result.
void Reader::addStatement(Statement s) {
  auto forEachAccess = [&](auto &&change) {
    auto one = [&](Access &access) {
      for (AffineExpr &expr : access.index)
        expr = change(expr);
      if (access.linear)
        access.linear = change(access.linear);
    };
    llvm::for_each(s.reads, one);
    for (Write &write : s.writes) {
      one(write.to);
      one(write.init);
    }
  };
  SmallVector<AffineExpr> unit = dims(s.extents.size());
  for (auto [expr, extent] : llvm::zip(unit, s.extents))
    if (extent == 1)
      expr = getAffineConstantExpr(0, context);
  forEachAccess([&](AffineExpr expr) { return expr.replaceDims(unit); });

  s.loopOfDim = llvm::to_vector(llvm::seq<int>(0, s.extents.size()));
  const Access *largest = nullptr;
  if (llvm::is_contained(s.reduction, true))
    for (const Access &read : s.reads)
      if (read.slot >= 0 && (!largest || k.slots[read.slot].elements() > k.slots[largest->slot].elements()))
        largest = &read;
  std::optional<SmallVector<int64_t>> strides, written;
  if (largest) {
    strides = coefficients(largest->linear, s.extents.size());
    written = coefficients(s.writes[0].to.linear, s.extents.size());
  }
  if (strides && written) {
    SmallVector<int> order = s.loopOfDim; // new place -> old loop
    // A loop the operand lacks repeats it: innermost if it is contiguous in the result, else outermost.
    auto stride = [&](int loop) {
      if ((*strides)[loop] != 0)
        return (*strides)[loop];
      return (*written)[loop] == 1 ? 0 : std::numeric_limits<int64_t>::max();
    };
    llvm::sort(order, [&](int a, int b) { return std::pair(-stride(a), a) < std::pair(-stride(b), b); });
    SmallVector<AffineExpr> renamed(order.size());
    Statement old = s;
    for (auto [place, loop] : llvm::enumerate(order)) {
      s.extents[place] = old.extents[loop];
      s.reduction[place] = old.reduction[loop];
      s.loopOfDim[loop] = place;
      renamed[loop] = getAffineDimExpr(place, context);
    }
    forEachAccess([&](AffineExpr expr) { return expr.replaceDims(renamed); });
  }
  k.statements.push_back(std::move(s));
}

LogicalResult Reader::readArguments() {
  for (BlockArgument argument : k.func.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type) {
      if (!argument.getType().isInteger(64) && !argument.getType().isIndex())
        return k.func.emitError("kernel '")
               << k.func.getName() << "': argument " << argument.getArgNumber() << " has type "
               << argument.getType() << "; expected a tensor, i64 or index";
      continue;
    }
    if (!type.hasStaticShape())
      return k.func.emitError("kernel '") << k.func.getName() << "': argument " << argument.getArgNumber()
                                          << " has the dynamic type " << type << "; shapes must be static";
    int slot = newSlot(Slot::Argument, type);
    k.slots[slot].argument = argument.getArgNumber();
    k.slotOf[argument] = slot;
  }
  return success();
}

/// Gives each returned value its slot. A value reached only through reshapes from the operation that makes it
/// is written by that operation; anything else (an argument, a slice, a value returned twice) is copied at
/// the end. So is a sum that is rounded: it would be in each step.
void Reader::readReturns(func::ReturnOp op) {
  for (auto [number, returned] : llvm::enumerate(op.getOperands())) {
    Value maker = returned;
    bool isRounded = false;
    while (Operation *def = maker.getDefiningOp()) {
      if (!isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ReshapeOp, tensor::CastOp>(def) &&
          !isConversion(def))
        break;
      isRounded |= isConversion(def);
      maker = def->getOperand(0);
    }
    Operation *def = maker.getDefiningOp();
    auto sum = dyn_cast_or_null<linalg::LinalgOp>(def);
    bool isRoundedSum = isRounded && sum && sum.getNumReductionLoops() > 0;
    bool direct =
        isa_and_nonnull<linalg::LinalgOp, tensor::InsertSliceOp, tensor::ConcatOp, tensor::PadOp>(def) &&
        !k.slotOf.count(maker) && !isRoundedSum;
    // The maker's shape, in which it is written, and the element type of what is returned.
    auto type = cast<RankedTensorType>((direct ? maker : returned).getType());
    int slot = newSlot(Slot::Result, type.clone(cast<RankedTensorType>(returned.getType()).getElementType()));
    k.slots[slot].result = number;
    if (direct)
      k.slotOf[maker] = slot;
    else
      copiedResults.push_back({returned, slot});
  }
}

LogicalResult Reader::readLinalg(linalg::LinalgOp op) {
  if (auto fill = dyn_cast<linalg::FillOp>(op.getOperation()))
    if (!k.slotOf.count(fill.result()) &&
        fill.value().getType() == cast<RankedTensorType>(fill.result().getType()).getElementType())
      return success(); // readers see the scalar
  Statement statement;
  statement.op = op;
  statement.body = op.getBlock();
  statement.extents = op.getStaticLoopRanges();
  for (utils::IteratorType type : op.getIteratorTypesArray())
    statement.reduction.push_back(type != utils::IteratorType::parallel);
  auto access = [&](OpOperand &operand) -> FailureOr<Access> {
    if (!isa<RankedTensorType>(operand.get().getType())) {
      Access scalar;
      scalar.scalar = operand.get();
      return scalar;
    }
    return k.resolve(operand.get(), llvm::to_vector(op.getMatchingIndexingMap(&operand).getResults()));
  };
  for (OpOperand *operand : op.getDpsInputOperands()) {
    FailureOr<Access> read = access(*operand);
    if (failed(read))
      return failure();
    statement.reads.push_back(*read);
  }
  for (OpOperand &operand : op.getDpsInitsMutable()) {
    FailureOr<Access> init = access(operand);
    if (failed(init))
      return failure();
    int slot = outputSlot(op.getTiedOpResult(&operand));
    ++k.slots[slot].writers;
    statement.writes.push_back(
        {position(slot, llvm::to_vector(op.getMatchingIndexingMap(&operand).getResults())), *init});
  }
  WalkResult walked = op->walk([&](Operation *inner) {
    if (isa<linalg::IndexOp>(inner))
      statement.usesIndex = true;
    // A body that does anything else with a tensor is bufferized (needsBufferization).
    if (auto extract = dyn_cast<tensor::ExtractOp>(inner)) {
      auto type = cast<RankedTensorType>(extract.getTensor().getType());
      FailureOr<Access> read = k.resolve(extract.getTensor(), dims(type.getRank()));
      if (failed(read))
        return WalkResult::interrupt();
      if (read->slot >= 0)
        statement.captured.push_back(read->slot);
    }
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  addStatement(std::move(statement));
  return success();
}

LogicalResult Reader::addCopy(Operation *op, Value source, SmallVector<AffineExpr> from, int slot,
                              SmallVector<AffineExpr> to, ArrayRef<int64_t> extents) {
  FailureOr<Access> read = k.resolve(source, std::move(from));
  if (failed(read))
    return failure();
  if (read->isUndefined())
    return success();
  Statement statement;
  statement.op = op;
  statement.extents = llvm::to_vector(extents);
  statement.reduction.assign(extents.size(), false);
  statement.reads.push_back(*read);
  statement.writes.push_back({position(slot, std::move(to)), Access()});
  ++k.slots[slot].writers;
  addStatement(std::move(statement));
  return success();
}

LogicalResult Reader::readInsert(tensor::InsertSliceOp op) {
  int slot = outputSlot(op.getResult());
  unsigned rank = op.getDestType().getRank();
  auto written = k.slotOf.find(op.getDest());
  bool inPlace = written != k.slotOf.end() && written->second == slot;
  if (!inPlace &&
      failed(addCopy(op, op.getDest(), dims(rank), slot, dims(rank), op.getDestType().getShape())))
    return failure();
  SmallVector<AffineExpr> from, to;
  SmallVector<int64_t> extents;
  llvm::SmallBitVector dropped = op.getDroppedDims();
  for (auto [dim, size, offset, stride] :
       llvm::enumerate(op.getMixedSizes(), op.getMixedOffsets(), op.getMixedStrides())) {
    std::optional<int64_t> extent = getConstantIntValue(size), step = getConstantIntValue(stride);
    if (!extent || !step)
      return op.emitError("kernel '")
             << k.func.getName() << "': tensor.insert_slice needs static sizes and strides";
    AffineExpr variable = getAffineDimExpr(dim, context);
    extents.push_back(*extent);
    if (!dropped.test(dim))
      from.push_back(variable);
    to.push_back(k.offsetExpr(offset) + variable * *step);
  }
  return addCopy(op, op.getSource(), from, slot, to, extents);
}

LogicalResult Reader::readConcat(tensor::ConcatOp op) {
  int slot = outputSlot(op.getResult());
  int64_t offset = 0;
  for (Value input : op.getInputs()) {
    ArrayRef<int64_t> shape = shapeOf(input);
    SmallVector<AffineExpr> to = dims(shape.size());
    to[op.getDim()] = to[op.getDim()] + offset;
    if (failed(addCopy(op, input, dims(shape.size()), slot, to, shape)))
      return failure();
    offset += shape[op.getDim()];
  }
  return success();
}

LogicalResult Reader::readPad(tensor::PadOp op) {
  Value padding = op.getConstantPaddingValue();
  if (!padding)
    return op.emitError("kernel '") << k.func.getName()
                                    << "': tensor.pad needs one value for all of its padding";
  int slot = outputSlot(op.getResult());
  ArrayRef<int64_t> shape = op.getResultType().getShape(), inner = op.getSourceType().getShape();
  Statement fill;
  fill.op = op;
  fill.extents = llvm::to_vector(shape);
  fill.reduction.assign(shape.size(), false);
  Access value;
  value.scalar = padding;
  Attribute constant;
  if (matchPattern(padding, m_Constant(&constant)))
    value = Access{-1, padding.getType(), Value(), cast<TypedAttr>(constant), {}, AffineExpr()};
  fill.reads.push_back(value);
  fill.writes.push_back({position(slot, dims(shape.size())), Access()});
  ++k.slots[slot].writers;
  addStatement(std::move(fill));
  SmallVector<AffineExpr> to = dims(shape.size());
  for (auto [expr, low] : llvm::zip(to, op.getMixedLowPad())) {
    std::optional<int64_t> constantLow = getConstantIntValue(low);
    if (!constantLow)
      return op.emitError("kernel '") << k.func.getName() << "': tensor.pad needs static padding";
    expr = expr + *constantLow;
  }
  return addCopy(op, op.getSource(), dims(shape.size()), slot, to, inner);
}

LogicalResult Reader::read() {
  if (!k.func.getBody().hasOneBlock())
    return k.func.emitError("kernel '") << k.func.getName() << "': expected one block";
  if (failed(readArguments()))
    return failure();
  auto returnOp = cast<func::ReturnOp>(k.func.getBody().front().getTerminator());
  readReturns(returnOp);
  for (Operation &op : k.func.getBody().front().without_terminator()) {
    LogicalResult done = success();
    if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op))
      done = readLinalg(linalgOp);
    else if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
      done = readInsert(insert);
    else if (auto concat = dyn_cast<tensor::ConcatOp>(op))
      done = readConcat(concat);
    else if (auto pad = dyn_cast<tensor::PadOp>(op))
      done = readPad(pad);
    else if (isa<tensor::ExtractOp>(op)) {
      FailureOr<Access> read = k.resolve(op.getOperand(0), dims(shapeOf(op.getOperand(0)).size()));
      if (failed(read))
        return failure();
      if (read->slot >= 0 && k.slots[read->slot].kind != Slot::Argument)
        return op.emitError("kernel '")
               << k.func.getName() << "': tensor.extract outside a linalg body can only read "
               << "an argument; make the value an operand of the linalg operation";
    } else if (llvm::none_of(op.getResultTypes(), llvm::IsaPred<RankedTensorType>)) {
      if (!isMemoryEffectFree(&op) || op.getNumRegions() != 0)
        return op.emitError("kernel '") << k.func.getName() << "': operation '" << op.getName()
                                        << "' cannot be compiled inside a kernel";
    }
    if (failed(done))
      return failure();
  }
  for (auto [value, slot] : copiedResults) {
    ArrayRef<int64_t> shape = shapeOf(value);
    if (failed(addCopy(returnOp, value, dims(shape.size()), slot, dims(shape.size()), shape)))
      return failure();
  }
  return success();
}

bool needsBufferization(func::FuncOp func) {
  for (Operation &op : func.getBody().front().without_terminator()) {
    if (isa<scf::SCFDialect>(op.getDialect()) || isa<tensor::InsertOp, tensor::ScatterOp>(op))
      return true;
    if (isa<linalg::LinalgOp>(op) && op.walk([&](Operation *inner) {
                                         bool scalar = inner == &op || isa<tensor::ExtractOp>(inner) ||
                                                       llvm::none_of(inner->getOperandTypes(),
                                                                     llvm::IsaPred<RankedTensorType>);
                                         return scalar ? WalkResult::advance() : WalkResult::interrupt();
                                       }).wasInterrupted())
      return true;
  }
  return false;
}

FailureOr<Kernel> readKernel(func::FuncOp func) {
  Kernel kernel;
  kernel.func = func;
  if (failed(Reader(kernel).read()))
    return failure();
  return kernel;
}

} // namespace tessera::target
