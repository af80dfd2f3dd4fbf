// Convolutions as linalg: one generic each, which reads the strided operand by computed positions.
#include "dialects/nn/Window.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace tessera::nn;

namespace {
/// Loops: n batch, g group, o and c the channels of a group, and those of the window.
struct ConvEmitter : WindowEmitter {
  int64_t groups;

  template <class Op>
  ConvEmitter(OpBuilder &builder, Op op) : WindowEmitter(builder, op, "ngoc"), groups(op.getGroups()) {}
  /// A shape with dimension d in `groups` parts.
  SmallVector<int64_t> groupedShape(ArrayRef<int64_t> shape, size_t d) {
    SmallVector<int64_t> out(shape);
    out[d] /= groups;
    out.insert(out.begin() + d, groups);
    return out;
  }
  SmallVector<ReassociationIndices> parts(size_t rank, size_t d) {
    SmallVector<ReassociationIndices> out;
    for (size_t i = 0; i < rank; ++i) {
      int64_t at = i + (i > d ? 1 : 0);
      out.push_back(i == d ? ReassociationIndices{at, at + 1} : ReassociationIndices{at});
    }
    return out;
  }
  Value grouped(Value value, size_t d) {
    auto type = RankedTensorType::get(groupedShape(shapeOf(value), d), elementOf(value));
    return tensor::ExpandShapeOp::create(b, loc, type, value, parts(shapeOf(value).size(), d));
  }
  Value ungrouped(Value value, RankedTensorType type, size_t d) {
    return tensor::CollapseShapeOp::create(b, loc, type, value, parts(type.getRank(), d));
  }
  Value readGrouped(Value from, char channel, const Place &place) {
    int64_t size = shapeOf(from)[1] / groups;
    Value first = mul(position('g'), index(size));
    return read(from, {position('n'), add(first, position(channel))}, place, 0);
  }
  Value readImage(Value image) { return readGrouped(image, 'c', imagePlace(shapeOf(image).drop_front(2))); }
  Value readResult(Value dy) { return readGrouped(dy, 'o', resultPlace(shapeOf(dy).drop_front(2))); }
};
} // namespace

FailureOr<SmallVector<Value>> ConvOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  ConvEmitter e(builder, *this);
  auto type = plainType(getResult());
  std::string out = "ngo" + e.y;
  SmallVector<int64_t> shape = e.groupedShape(type.getShape(), 1);
  Value y = e.sum({{e.grouped(operands[1], 0), "goc" + e.k}}, out, shape, type.getElementType(),
                  [&](ArrayRef<Value> a) { return e.mul(a[0], e.readImage(operands[0])); });
  if (getBias())
    y = e.map({{y, out}, {e.grouped(operands[2], 0), "go"}}, out, shape, type.getElementType(),
              [&](ArrayRef<Value> a) { return e.add(a[0], a[1]); });
  return SmallVector<Value>{e.ungrouped(y, type, 1)};
}

FailureOr<SmallVector<Value>> ConvGradInputOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  ConvEmitter e(builder, *this);
  auto type = plainType(getDx());
  Value dx =
      e.sum({{e.grouped(operands[0], 0), "goc" + e.k}}, "ngc" + e.x, e.groupedShape(type.getShape(), 1),
            type.getElementType(), [&](ArrayRef<Value> a) { return e.mul(a[0], e.readResult(operands[1])); });
  return SmallVector<Value>{e.ungrouped(dx, type, 1)};
}

FailureOr<SmallVector<Value>> ConvGradWeightsOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  ConvEmitter e(builder, *this);
  auto type = plainType(getDw());
  Value dw =
      e.sum({{e.grouped(operands[1], 1), "ngo" + e.y}}, "goc" + e.k, e.groupedShape(type.getShape(), 0),
            type.getElementType(), [&](ArrayRef<Value> a) { return e.mul(a[0], e.readImage(operands[0])); });
  return SmallVector<Value>{e.ungrouped(dw, type, 0)};
}
