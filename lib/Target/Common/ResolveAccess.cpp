// Where a value lies: an affine function of loop variables into an argument, a result, a temporary or a
// constant, through whatever slices and reshapes lie between.

#include "lib/Target/Common/LoopDimensions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tessera::target {

int64_t Slot::elements() const {
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  return n;
}

AffineExpr linearise(ArrayRef<AffineExpr> index, ArrayRef<int64_t> shape, MLIRContext *context) {
  AffineExpr position = getAffineConstantExpr(0, context);
  for (auto [expr, extent] : llvm::zip(index, shape))
    if (extent != 1) // its only index is 0
      position = position * extent + expr;
  return position;
}

static SmallVector<AffineExpr> delinearise(AffineExpr position, ArrayRef<int64_t> shape) {
  SmallVector<AffineExpr> index(shape.size());
  for (int64_t i = shape.size() - 1; i >= 0; --i) {
    index[i] = i == 0 ? position : position % shape[i];
    position = position.floorDiv(shape[i]);
  }
  return index;
}

bool isConversion(Operation *op) {
  return isa_and_nonnull<arith::ExtFOp, arith::TruncFOp>(op) &&
         isa<RankedTensorType>(op->getResult(0).getType());
}

static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

AffineExpr Kernel::offsetExpr(OpFoldResult offset) {
  MLIRContext *context = func.getContext();
  if (std::optional<int64_t> constant = getConstantIntValue(offset))
    return getAffineConstantExpr(*constant, context);
  Value value = cast<Value>(offset);
  auto *it = llvm::find(symbols, value);
  if (it == symbols.end()) {
    symbols.push_back(value);
    return getAffineSymbolExpr(symbols.size() - 1, context);
  }
  return getAffineSymbolExpr(it - symbols.begin(), context);
}

namespace {

/// Follows an element of a tensor back to where it is stored.
class Resolver {
public:
  Resolver(Kernel &kernel, Value value, SmallVector<AffineExpr> index)
      : kernel(kernel), context(kernel.func.getContext()), value(value), index(std::move(index)),
        linear(linearise(this->index, shapeOf(value), context)) {}
  FailureOr<Access> run();

private:
  /// Whether the element is stored here, and how: a scalar, a slot.
  FailureOr<bool> isStored(Access &access);
  /// A slot of the kernel for a constant that is no splat.
  void addConstant(ElementsAttr elements);
  void throughSlice(tensor::ExtractSliceOp slice);
  void throughExpand(tensor::ExpandShapeOp expand);
  void throughCollapse(tensor::CollapseShapeOp collapse);
  InFlightDiagnostic error(Operation *op) {
    return op->emitError("kernel '") << kernel.func.getName() << "': ";
  }

  Kernel &kernel;
  MLIRContext *context;
  Value value;
  SmallVector<AffineExpr> index; // in the dimensions of `value`
  AffineExpr linear;             // the element's place in row-major order
};

} // namespace

FailureOr<bool> Resolver::isStored(Access &access) {
  if (auto fill = value.getDefiningOp<linalg::FillOp>();
      fill && fill.value().getType() == cast<RankedTensorType>(value.getType()).getElementType()) {
    access.scalar = fill.value();
    return true;
  }
  if (auto it = kernel.slotOf.find(value); it != kernel.slotOf.end()) {
    access.slot = it->second;
    access.index = index;
    access.linear = linear;
    return true;
  }
  Operation *op = value.getDefiningOp();
  if (!op)
    return error(kernel.func) << "unexpected tensor block argument";
  if (isa<tensor::EmptyOp>(op))
    return true;
  if (auto splat = dyn_cast<tensor::SplatOp>(op)) {
    access.scalar = splat.getInput();
    return true;
  }
  auto constant = dyn_cast<arith::ConstantOp>(op);
  if (!constant)
    return false;
  auto elements = dyn_cast<ElementsAttr>(constant.getValue());
  if (!elements)
    return error(op) << "a tensor constant must be a dense constant";
  if (elements.isSplat()) {
    access.constant = cast<TypedAttr>(elements.getSplatValue<Attribute>());
    return true;
  }
  addConstant(elements);
  return isStored(access);
}

void Resolver::addConstant(ElementsAttr elements) {
  Slot slot;
  slot.kind = Slot::Constant;
  slot.element = elements.getElementType();
  slot.shape = llvm::to_vector(shapeOf(value));
  slot.constant = elements;
  kernel.slotOf[value] = kernel.slots.size();
  kernel.slots.push_back(slot);
}

// The element of the slice's source.
void Resolver::throughSlice(tensor::ExtractSliceOp slice) {
  llvm::SmallBitVector dropped = slice.getDroppedDims();
  SmallVector<AffineExpr> source;
  unsigned next = 0;
  for (auto [dim, offset, stride] : llvm::enumerate(slice.getMixedOffsets(), slice.getMixedStrides())) {
    AffineExpr expr = kernel.offsetExpr(offset);
    if (!dropped.test(dim))
      expr = expr + index[next++] * kernel.offsetExpr(stride);
    source.push_back(expr);
  }
  value = slice.getSource();
  index = source;
  linear = linearise(index, shapeOf(value), context);
}

// Reshapes keep an element's place in row-major order.
void Resolver::throughExpand(tensor::ExpandShapeOp expand) {
  SmallVector<AffineExpr> source;
  ArrayRef<int64_t> shape = shapeOf(value);
  for (const ReassociationIndices &group : expand.getReassociationIndices()) {
    SmallVector<AffineExpr> parts;
    SmallVector<int64_t> extents;
    for (int64_t dim : group) {
      parts.push_back(index[dim]);
      extents.push_back(shape[dim]);
    }
    source.push_back(linearise(parts, extents, context));
  }
  value = expand.getSrc();
  index = source;
}

void Resolver::throughCollapse(tensor::CollapseShapeOp collapse) {
  SmallVector<AffineExpr> source;
  ArrayRef<int64_t> shape = shapeOf(collapse.getSrc());
  SmallVector<ReassociationIndices> groups = collapse.getReassociationIndices();
  if (groups.empty())
    source.assign(shape.size(), getAffineConstantExpr(0, context));
  for (auto [dim, group] : llvm::enumerate(groups)) {
    // Extents of 1 take no part, so that a group with one real dimension stays a plain loop variable.
    SmallVector<int64_t> extents;
    for (int64_t d : group)
      if (shape[d] != 1)
        extents.push_back(shape[d]);
    SmallVector<AffineExpr> parts = delinearise(index[dim], extents);
    unsigned next = 0;
    for (int64_t d : group)
      source.push_back(shape[d] == 1 ? getAffineConstantExpr(0, context) : parts[next++]);
  }
  value = collapse.getSrc();
  index = source;
}

FailureOr<Access> Resolver::run() {
  Access access;
  access.element = cast<RankedTensorType>(value.getType()).getElementType();
  while (true) {
    FailureOr<bool> stored = isStored(access);
    if (failed(stored))
      return failure();
    if (*stored)
      return access;
    Operation *op = value.getDefiningOp();
    if (isa<tensor::CastOp>(op) || isConversion(op)) {
      value = op->getOperand(0);
    } else if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
      throughSlice(slice);
    } else if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
      throughExpand(expand);
    } else if (auto reshape = dyn_cast<tensor::ReshapeOp>(op)) {
      value = reshape.getSource();
      index = delinearise(linear, shapeOf(value));
    } else if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
      throughCollapse(collapse);
    } else {
      return error(op) << "operation '" << op->getName() << "' cannot be compiled inside a kernel";
    }
  }
}

FailureOr<Access> Kernel::resolve(Value value, SmallVector<AffineExpr> index) {
  return Resolver(*this, value, std::move(index)).run();
}

} // namespace tessera::target
