// Operators that move or regroup elements, as linalg and tensor operators and as library calls.
#include "dialects/nn/LibraryCalls.h"
#include "dialects/nn/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"

using namespace mlir;
using namespace tessera::nn;

static SmallVector<OpFoldResult> indices(OpBuilder &b, ArrayRef<int64_t> values) {
  return getAsIndexOpFoldResult(b.getContext(), values);
}

FailureOr<SmallVector<Value>> ReshapeOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  auto from = loweredTensor(operands[0]), to = loweredTensor(getResult());
  if (from == to)
    return SmallVector<Value>{operands[0]};
  if (auto groups = getReassociationIndicesForReshape(from, to)) {
    if (from.getRank() > to.getRank())
      return SmallVector<Value>{tensor::CollapseShapeOp::create(builder, getLoc(), to, operands[0], *groups)};
    return SmallVector<Value>{tensor::ExpandShapeOp::create(builder, getLoc(), to, operands[0], *groups)};
  }
  // Through the flat array.
  Value flat = operands[0];
  auto flatType = RankedTensorType::get({from.getNumElements()}, from.getElementType());
  auto group = [](int64_t rank) {
    SmallVector<ReassociationIndices> all(1);
    for (int64_t d = 0; d < rank; ++d)
      all[0].push_back(d);
    return all;
  };
  if (from.getRank() != 1)
    flat = from.getRank() == 0 ? Value(tensor::ExpandShapeOp::create(builder, getLoc(), flatType, flat,
                                                                     ArrayRef<ReassociationIndices>()))
                               : Value(tensor::CollapseShapeOp::create(builder, getLoc(), flatType, flat,
                                                                       group(from.getRank())));
  if (to.getRank() == 1)
    return SmallVector<Value>{flat};
  if (to.getRank() == 0)
    return SmallVector<Value>{
        tensor::CollapseShapeOp::create(builder, getLoc(), to, flat, ArrayRef<ReassociationIndices>())};
  return SmallVector<Value>{tensor::ExpandShapeOp::create(builder, getLoc(), to, flat, group(to.getRank()))};
}
FusionKind ReshapeOp::getFusionKind() { return FusionKind::Alone; }

FailureOr<SmallVector<Value>> TransposeOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgEmitter e(builder, getLoc());
  auto type = plainType(getResult());
  std::string out = freshLetters(type.getRank()), in(out);
  for (auto [i, d] : llvm::enumerate(getPerm()))
    in[d] = out[i];
  return SmallVector<Value>{e.map({{operands[0], in}}, out, type.getShape(), type.getElementType(),
                                  [](ArrayRef<Value> a) { return a[0]; })};
}

std::optional<LibraryCall> TransposeOp::getLibraryCall() {
  StringRef dtype = dtypeName(elementOf(getOperand()));
  if (dtype.empty() || elementOf(getResult()) != elementOf(getOperand()))
    return std::nullopt;
  CallAttrs attrs(getContext());
  attrs.set("shape", shapeOf(getOperand()));
  attrs.set("perm", getPerm());
  attrs.set("dtype", dtype);
  return attrs.call("transpose", {0, 1});
}

FailureOr<SmallVector<Value>> BroadcastOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgEmitter e(builder, getLoc());
  auto type = plainType(getResult());
  std::string out = freshLetters(type.getRank()), in;
  for (int64_t d : getDims())
    in.push_back(out[d]);
  return SmallVector<Value>{e.map({{operands[0], in}}, out, type.getShape(), type.getElementType(),
                                  [](ArrayRef<Value> a) { return a[0]; })};
}

FailureOr<SmallVector<Value>> SliceOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  return SmallVector<Value>{
      tensor::ExtractSliceOp::create(builder, getLoc(), operands[0], indices(builder, getStarts()),
                                     indices(builder, getSizes()), indices(builder, getSteps()))};
}

std::optional<double> SliceOp::getBytesRead() { return bytesOf(getResult().getType()); }
std::optional<LibraryCall> SliceOp::getLibraryCall() {
  StringRef dtype = dtypeName(elementOf(getOperand()));
  if (dtype.empty() || elementOf(getResult()) != elementOf(getOperand()))
    return std::nullopt;
  SmallVector<int64_t> strides = rowMajorStrides(shapeOf(getOperand()));
  int64_t offset = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    offset += getStarts()[d] * strides[d];
    strides[d] *= getSteps()[d];
  }
  CallAttrs attrs(getContext());
  attrs.set("shape", getSizes());
  attrs.set("source_strides", strides);
  attrs.set("target_strides", rowMajorStrides(getSizes()));
  attrs.set("source_offset", offset);
  attrs.set("dtype", dtype);
  return attrs.call("copy_box", {0, 1});
}

FailureOr<SmallVector<Value>> PadOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgEmitter e(builder, getLoc());
  auto type = plainType(getResult());
  SmallVector<int64_t> steps;
  for (int64_t interior : getInterior())
    steps.push_back(interior + 1);
  Value around = e.filled(type.getShape(), type.getElementType(), getValue().convertToDouble());
  return SmallVector<Value>{
      tensor::InsertSliceOp::create(builder, getLoc(), operands[0], around, indices(builder, getLow()),
                                    indices(builder, shapeOf(operands[0])), indices(builder, steps))};
}

FailureOr<SmallVector<Value>> ConcatOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgEmitter e(builder, getLoc());
  auto type = plainType(getResult());
  Value result = e.empty(type.getShape(), type.getElementType());
  SmallVector<int64_t> starts(type.getRank(), 0), ones(type.getRank(), 1);
  for (Value operand : operands) {
    result = tensor::InsertSliceOp::create(builder, getLoc(), operand, result, indices(builder, starts),
                                           indices(builder, shapeOf(operand)), indices(builder, ones));
    starts[getDim()] += shapeOf(operand)[getDim()];
  }
  return SmallVector<Value>{result};
}

std::optional<LibraryCall> InsertSliceOp::getLibraryCall() {
  StringRef dtype = dtypeName(elementOf(getInto()));
  if (dtype.empty() || elementOf(getResult()) != elementOf(getInto()))
    return std::nullopt;
  SmallVector<int64_t> strides = rowMajorStrides(shapeOf(getInto()));
  CallAttrs attrs(getContext());
  attrs.set("shape", shapeOf(getSlice()));
  attrs.set("source_strides", rowMajorStrides(shapeOf(getSlice())));
  attrs.set("target_strides", strides);
  attrs.set("dtype", dtype);
  LibraryCall call = attrs.call("copy_box", {1, 0});
  call.inPlace = {0};
  call.scalars = {{-1, 0}, {2, strides[getDim()]}};
  return call;
}
