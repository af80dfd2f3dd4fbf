// Losses over class labels.
#include "dialects/nn/LibraryCalls.h"
#include "dialects/nn/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace tessera::nn;

/// The label that is not counted.
static constexpr int64_t ignoredLabel = -100;

namespace {
struct Words {
  std::string rows, all;
  explicit Words(Value logits) : rows(freshLetters(shapeOf(logits).size() - 1, "V")), all(rows + "V") {}
};
} // namespace

/// Of a number for each row.
static RankedTensorType rowsType(Value logits) {
  return RankedTensorType::get(shapeOf(logits).drop_back(), wideOf(elementOf(logits)));
}

static LogicalResult checkLabels(std::optional<Location> location, Value logits, Value labels) {
  if (shapeOf(logits).empty() || shapeOf(labels) != shapeOf(logits).drop_back())
    return inferError(location, "labels " + shapeText(shapeOf(labels)) + " must have the shape of logits " +
                                    shapeText(shapeOf(logits)) + " without its last dimension");
  return success();
}

static int64_t rowCount(Value logits) { return rowsType(logits).getNumElements(); }

//===- cross_entropy

TESSERA_INFER(CrossEntropyOp) {
  Value logits = adaptor.getLogits();
  if (failed(checkLabels(location, logits, adaptor.getLabels())))
    return failure();
  types.append({RankedTensorType::get({}, wideOf(elementOf(logits))), rowsType(logits)});
  return success();
}
LogicalResult CrossEntropyOp::verify() {
  return elementOf(getLabels()).getIntOrFloatBitWidth() >= 16 ? success()
                                                              : emitOpError("labels need at least 16 bits");
}
FactorRule CrossEntropyOp::getFactorRule() {
  Words w(getLogits());
  return lettersRule(*this, {w.all, w.rows}, {"", w.rows}, "V", "", "V");
}
std::optional<double> CrossEntropyOp::getNeutral(unsigned operand, unsigned factor) {
  bool isClass = int(factor) == getFactorRule().find("V");
  if (operand == 0 && isClass)
    return lowest(elementOf(getLogits()));
  return operand == 1 && !isClass ? std::optional<double>(double(ignoredLabel)) : std::nullopt;
}

LogicalResult CrossEntropyOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                          SmallVectorImpl<Value> &results) {
  Location loc = builder.loc();
  // Apart from the sum of all rows, even on one rank: it alone would make a kernel sequential.
  int classes = getFactorRule().find("V");
  bool isSplit = builder.isSplit(classes);
  Value logits = operands[0], labels = operands[1];
  int64_t rank = shapeOf(logits).size();
  Value max = ReduceOp::create(builder, loc, logits, ArrayRef<int64_t>{rank - 1}, "max");
  if (isSplit)
    max = builder.allReduce(max, classes, "max");
  Type number = wideOf(elementOf(logits));
  max = castTo(builder, loc, max, number);
  auto sums = SoftmaxSumsOp::create(builder, loc, logits, labels, max,
                                    isSplit ? builder.blockStart(classes) : Value());
  SmallVector<Value> both = {sums.getSum(), sums.getPicked()};
  if (isSplit)
    both = allReduceTogether(builder, both, classes);
  Value log = LogOp::create(builder, loc, both[0]);
  Value isCounted = CompareOp::create(
      builder, loc, labels, scalarConstant(builder, loc, elementOf(labels), double(ignoredLabel)), "ne");
  Value row = SelectOp::create(builder, loc, isCounted, SubOp::create(builder, loc, log, both[1]),
                               scalarConstant(builder, loc, number, 0));
  SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(0, rank - 1));
  results.append({sumOver(builder, loc, row, all), AddOp::create(builder, loc, max, log)});
  return success();
}

LogicalResult CrossEntropyOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  if (cotangents[1])
    return emitOpError("lse is not differentiated");
  grad.add(0, CrossEntropyGradOp::create(grad, grad.loc(), getLogits(), getLabels(), getLse(), cotangents[0],
                                         Value()));
  return success();
}

namespace {
/// Bodies that compare columns with labels.
struct LossEmitter : LinalgEmitter {
  Words w;
  SmallVector<int64_t> rows;
  Type element;
  Value start;

  LossEmitter(OpBuilder &builder, Location loc, Value logits, Value start)
      : LinalgEmitter(builder, loc), w(logits), rows(shapeOf(logits).drop_back()), element(elementOf(logits)),
        start(start) {}

  Value isIgnored(Value label) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, label,
                                 constant(label.getType(), double(ignoredLabel)));
  }
  /// Whether the class of this column is the label.
  Value isLabel(Value label) {
    Type i64 = b.getI64Type();
    Value column = arith::IndexCastOp::create(b, loc, i64, position('V'));
    if (start)
      column = add(column, start);
    if (label.getType() != i64)
      label = arith::ExtSIOp::create(b, loc, i64, label);
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, column, label);
  }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, loc, c, x, y); }
  /// The sums of exp(x - max), and x - max at the label, by rows.
  SmallVector<Value> sums(Value logits, Value labels, Value max) {
    Value zero = filled(rows, element, 0);
    return generic({{logits, w.all}, {labels, w.rows}, {max, w.rows}}, {{zero, w.rows}, {zero, w.rows}},
                   [&](ArrayRef<Value> a) {
                     // Both are sums, so that the lanes of a GPU's warp can share a row.
                     Value x = sub(a[0], a[2]), picked = select(isLabel(a[1]), x, constant(element, 0));
                     return SmallVector<Value>{add(a[3], exp(x)), add(a[4], picked)};
                   });
  }
};
} // namespace

FailureOr<SmallVector<Value>> CrossEntropyOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LossEmitter e(builder, getLoc(), operands[0], Value());
  Value max = e.max({operands[0], e.w.all}, e.w.rows, e.rows);
  SmallVector<Value> sums = e.sums(operands[0], operands[1], max);
  auto log = [&](Value x) -> Value { return math::LogOp::create(builder, getLoc(), x); };
  Value lse = e.map({{max, e.w.rows}, {sums[0], e.w.rows}}, e.w.rows, e.rows, e.element,
                    [&](ArrayRef<Value> a) { return e.add(a[0], log(a[1])); });
  Value loss = e.sum({{sums[0], e.w.rows}, {sums[1], e.w.rows}, {operands[1], e.w.rows}}, "", {}, e.element,
                     [&](ArrayRef<Value> a) {
                       return e.select(e.isIgnored(a[2]), e.constant(e.element, 0), e.sub(log(a[0]), a[1]));
                     });
  return SmallVector<Value>{loss, lse};
}

//===- softmax_sums

TESSERA_INFER(SoftmaxSumsOp) {
  Value logits = adaptor.getLogits();
  if (failed(checkLabels(location, logits, adaptor.getLabels())))
    return failure();
  if (plainType(adaptor.getMax()) != rowsType(logits))
    return inferError(location, "max must have one element a row of logits");
  types.append(2, rowsType(logits));
  return success();
}
FactorRule SoftmaxSumsOp::getFactorRule() {
  Words w(getLogits());
  SmallVector<std::string> words = {w.all, w.rows, w.rows};
  if (getStart())
    words.push_back("");
  return lettersRule(*this, words, {w.rows, w.rows}, "", "", "V");
}
FailureOr<SmallVector<Value>> SoftmaxSumsOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LossEmitter e(builder, getLoc(), operands[0], getStart() ? operands[3] : Value());
  return e.sums(operands[0], operands[1], operands[2]);
}
std::optional<LibraryCall> SoftmaxSumsOp::getLibraryCall() {
  if (!isAllF32(*this) || !elementOf(getLabels()).isInteger(64))
    return std::nullopt;
  CallAttrs attrs(getContext());
  attrs.set("rows", rowCount(getLogits()));
  attrs.set("cols", shapeOf(getLogits()).back());
  int results = getNumOperands();
  return attrs.call("softmax_sums", {0, 1, 2, results, results + 1});
}
double SoftmaxSumsOp::getFunctions() { return double(plainType(getLogits()).getNumElements()); }
double SoftmaxSumsOp::getFlops() { return 2.0 * plainType(getLogits()).getNumElements(); }

//===- cross_entropy_grad

TESSERA_INFER(CrossEntropyGradOp) {
  Value logits = adaptor.getLogits();
  if (failed(checkLabels(location, logits, adaptor.getLabels())))
    return failure();
  if (plainType(adaptor.getLse()) != rowsType(logits) || !shapeOf(adaptor.getScale()).empty() ||
      elementOf(adaptor.getScale()) != wideOf(elementOf(logits)))
    return inferError(location, "lse must have one element a row of logits, and scale must be a scalar");
  types.push_back(plainType(logits));
  return success();
}
FactorRule CrossEntropyGradOp::getFactorRule() {
  Words w(getLogits());
  SmallVector<std::string> words = {w.all, w.rows, w.rows, ""};
  if (getStart())
    words.push_back("");
  return lettersRule(*this, words, {w.all}, "", "", "V");
}
LogicalResult CrossEntropyGradOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                              SmallVectorImpl<Value> &results) {
  int classes = getFactorRule().find("V");
  Value start = builder.isSplit(classes) ? builder.blockStart(classes) : Value();
  results.push_back(CrossEntropyGradOp::create(builder, builder.loc(), operands[0], operands[1], operands[2],
                                               operands[3], start));
  return success();
}
FailureOr<SmallVector<Value>> CrossEntropyGradOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LossEmitter e(builder, getLoc(), operands[0], getStart() ? operands[4] : Value());
  return SmallVector<Value>{
      e.map({{operands[0], e.w.all}, {operands[1], e.w.rows}, {operands[2], e.w.rows}, {operands[3], ""}},
            e.w.all, shapeOf(operands[0]), e.element, [&](ArrayRef<Value> a) {
              Value p = e.exp(e.sub(a[0], a[2]));
              Value difference = e.select(e.isLabel(a[1]), e.sub(p, e.constant(e.element, 1)), p);
              return e.select(e.isIgnored(a[1]), e.constant(e.element, 0), e.mul(difference, a[3]));
            })};
}
std::optional<LibraryCall> CrossEntropyGradOp::getLibraryCall() {
  if (!isAllF32(*this) || !elementOf(getLabels()).isInteger(64))
    return std::nullopt;
  CallAttrs attrs(getContext());
  attrs.set("rows", rowCount(getLogits()));
  attrs.set("cols", shapeOf(getLogits()).back());
  LibraryCall call = attrs.call("cross_entropy_backward", {0, 1, 2, 3, int(getNumOperands())});
  call.inPlace = {0};
  return call;
}
double CrossEntropyGradOp::getFunctions() { return double(plainType(getLogits()).getNumElements()); }
double CrossEntropyGradOp::getFlops() { return 3.0 * plainType(getLogits()).getNumElements(); }

//===- count_valid

FactorRule CountValidOp::getFactorRule() {
  return lettersRule(*this, {freshLetters(shapeOf(getLabels()).size())}, {""});
}
std::optional<double> CountValidOp::getNeutral(unsigned, unsigned) { return double(ignoredLabel); }
LogicalResult CountValidOp::verify() {
  return shapeOf(getCount()).empty() ? success() : emitOpError("the count must be a scalar");
}
FailureOr<SmallVector<Value>> CountValidOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgEmitter e(builder, getLoc());
  Type element = elementOf(getCount());
  return SmallVector<Value>{
      e.sum({{operands[0], freshLetters(shapeOf(operands[0]).size())}}, "", {}, element,
            [&](ArrayRef<Value> a) -> Value {
              Value isIgnored = arith::CmpIOp::create(builder, getLoc(), arith::CmpIPredicate::eq, a[0],
                                                      e.constant(a[0].getType(), double(ignoredLabel)));
              return arith::SelectOp::create(builder, getLoc(), isIgnored, e.constant(element, 0),
                                             e.constant(element, 1));
            })};
}
