// Convolutions as linalg: one generic each, which reads the strided operand by computed positions.
#include "dialects/nn/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace tessera::nn;

namespace {
/// Loops: n batch, g group, o and c the channels of a group, then letters for the window (k), result (y) and
/// image (x) positions.
struct ConvEmitter : LinalgEmitter {
  int64_t groups;
  ArrayRef<int64_t> strides, pads, dilations;
  size_t spatial;
  std::string k, y, x;

  template <class Op>
  ConvEmitter(OpBuilder &builder, Op op)
      : LinalgEmitter(builder, op.getLoc()), groups(op.getGroups()), strides(op.getStrides()),
        pads(op.getPads()), dilations(op.getDilations()), spatial(strides.size()) {
    std::string more = freshLetters(3 * spatial, "ngoc");
    k = more.substr(0, spatial);
    y = more.substr(spatial, spatial);
    x = more.substr(2 * spatial);
  }
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
  Value i(arith::CmpIPredicate p, Value l, Value r) { return arith::CmpIOp::create(b, loc, p, l, r); }
  Value both(Value l, Value r) { return arith::AndIOp::create(b, loc, l, r); }
  /// `from` at [n, channel of the group, positions], zero where `inside` is false.
  Value read(Value from, char channel, ArrayRef<Value> positions, Value inside) {
    int64_t size = shapeOf(from)[1] / groups;
    SmallVector<Value> where = {position('n'), add(mul(position('g'), index(size)), position(channel))};
    for (Value p : positions)
      where.push_back(arith::SelectOp::create(b, loc, inside, p, index(0)));
    Value element = tensor::ExtractOp::create(b, loc, from, where);
    return arith::SelectOp::create(b, loc, inside, element, constant(elementOf(from), 0));
  }
  /// The element of the image x that window position k meets at result position y.
  Value readImage(Value image) {
    SmallVector<Value> positions;
    Value inside = constant(b.getI1Type(), 1);
    for (size_t d = 0; d < spatial; ++d) {
      Value p = sub(add(mul(position(y[d]), index(strides[d])), mul(position(k[d]), index(dilations[d]))),
                    index(pads[d]));
      inside = both(inside, i(arith::CmpIPredicate::ult, p, index(shapeOf(image)[2 + d])));
      positions.push_back(p);
    }
    return read(image, 'c', positions, inside);
  }
  /// The element of dy that image position x meets through window position k.
  Value readResult(Value dy) {
    SmallVector<Value> positions;
    Value inside = constant(b.getI1Type(), 1), zero = index(0);
    for (size_t d = 0; d < spatial; ++d) {
      Value p = sub(add(position(x[d]), index(pads[d])), mul(position(k[d]), index(dilations[d])));
      Value stride = index(strides[d]);
      Value at = arith::DivSIOp::create(b, loc, p, stride);
      Value isMultiple = i(arith::CmpIPredicate::eq, Value(arith::RemSIOp::create(b, loc, p, stride)), zero);
      inside = both(inside, both(isMultiple, i(arith::CmpIPredicate::sge, p, zero)));
      inside = both(inside, i(arith::CmpIPredicate::slt, at, index(shapeOf(dy)[2 + d])));
      positions.push_back(at);
    }
    return read(dy, 'o', positions, inside);
  }
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
