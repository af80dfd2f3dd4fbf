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

FailureOr<Access> Kernel::resolve(Value value, SmallVector<AffineExpr> index) {
  MLIRContext *context = func.getContext();
  AffineExpr linear = linearise(index, shapeOf(value), context);
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  while (true) {
    Access access;
    access.element = element;
    if (auto fill = value.getDefiningOp<linalg::FillOp>();
        fill && fill.value().getType() == cast<RankedTensorType>(value.getType()).getElementType()) {
      access.scalar = fill.value();
      return access;
    }
    if (auto it = slotOf.find(value); it != slotOf.end()) {
      access.slot = it->second;
      access.index = index;
      access.linear = linear;
      return access;
    }
    Operation *op = value.getDefiningOp();
    if (!op)
      return func.emitError("kernel '") << func.getName() << "': unexpected tensor block argument";
    if (isa<tensor::EmptyOp>(op))
      return access;
    if (auto splat = dyn_cast<tensor::SplatOp>(op)) {
      access.scalar = splat.getInput();
      return access;
    }
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      auto elements = dyn_cast<ElementsAttr>(constant.getValue());
      if (!elements)
        return op->emitError("kernel '") << func.getName() << "': a tensor constant must be a dense constant";
      if (elements.isSplat()) {
        access.constant = cast<TypedAttr>(elements.getSplatValue<Attribute>());
        return access;
      }
      Slot slot;
      slot.kind = Slot::Constant;
      slot.element = elements.getElementType();
      slot.shape = llvm::to_vector(shapeOf(value));
      slot.constant = elements;
      slotOf[value] = slots.size();
      slots.push_back(slot);
      continue;
    }
    if (isa<tensor::CastOp>(op) || isConversion(op)) {
      value = op->getOperand(0);
      continue;
    }
    if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
      llvm::SmallBitVector dropped = slice.getDroppedDims();
      SmallVector<AffineExpr> source;
      unsigned next = 0;
      for (auto [dim, offset, stride] : llvm::enumerate(slice.getMixedOffsets(), slice.getMixedStrides())) {
        AffineExpr expr = offsetExpr(offset);
        if (!dropped.test(dim))
          expr = expr + index[next++] * offsetExpr(stride);
        source.push_back(expr);
      }
      value = slice.getSource();
      index = source;
      linear = linearise(index, shapeOf(value), context);
      continue;
    }
    if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
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
      continue;
    }
    if (auto reshape = dyn_cast<tensor::ReshapeOp>(op)) {
      value = reshape.getSource();
      index = delinearise(linear, shapeOf(value));
      continue;
    }
    if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
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
      continue;
    }
    return op->emitError("kernel '") << func.getName() << "': operation '" << op->getName()
                                     << "' cannot be compiled inside a kernel";
  }
}

} // namespace tessera::target
