// Attention and its gradient: types, factor rules, per-rank form, gradient. Lowerings are in
// AttentionLowering.cpp, library calls in AttentionLibrary.cpp.
#include "dialects/nn/LocalAttention.h"
#include "dialects/nn/OpSupport.h"
#include "dialects/nn/Size.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace tessera::nn;

/// Shapes of q, k, v and the bias fit together.
static LogicalResult checkShapes(std::optional<Location> location, Value qv, Value kv, Value vv,
                                 Value biasValue, size_t rangeSize, int64_t zigzag) {
  ArrayRef<int64_t> q = shapeOf(qv), k = shapeOf(kv), v = shapeOf(vv);
  if (q.size() != 5 || k.size() != 4 || v.size() != 4)
    return inferError(location, "q must be [b, s, m, g, d], k and v [b, t, m, d]; they have ranks " +
                                    Twine(q.size()) + ", " + Twine(k.size()) + " and " + Twine(v.size()));
  if (k[0] != q[0] || v[0] != q[0] || k[2] != q[2] || v[2] != q[2] || k[3] != q[4] || v[1] != k[1])
    return inferError(location, "q " + shapeText(q) + ", k " + shapeText(k) + " and v " + shapeText(v) +
                                    " must agree in batch, key/value heads, head size and number of keys");
  if (elementOf(kv) != elementOf(qv) || elementOf(vv) != elementOf(qv))
    return inferError(location, "q, k and v have different element types");
  if (biasValue) {
    ArrayRef<int64_t> bias = shapeOf(biasValue);
    const int64_t full[] = {q[0], q[2], q[3], q[1], k[1]};
    bool fits = bias.size() == 5 && bias[4] == k[1];
    for (size_t d = 0; fits && d < 4; ++d)
      fits = bias[d] == 1 || bias[d] == full[d];
    if (!fits)
      return inferError(location, "bias " + shapeText(bias) +
                                      " must broadcast to [b, m, g, s, t] = " + shapeText(full));
    if (elementOf(biasValue) != elementOf(qv) && elementOf(biasValue) != wideOf(elementOf(qv)))
      return inferError(location, "bias has another element type than q");
  }
  if (rangeSize != 0 && rangeSize != 4)
    return inferError(location, "range must be empty or valid_s, valid_t, start_s, start_t");
  if (zigzag < 0 || (zigzag > 0 && (rangeSize == 0 || q[1] != k[1] || q[1] % 2 != 0 ||
                                    zigzag > maxElements / std::max<int64_t>(q[1], 1))))
    return inferError(location,
                      "zigzag = " + Twine(zigzag) +
                          " takes a range and blocks of as many queries as keys, an even number; there are " +
                          Twine(q[1]) + " and " + Twine(k[1]));
  return success();
}

TESSERA_INFER(AttentionOp) {
  Value q = adaptor.getQ(), v = adaptor.getV();
  if (failed(checkShapes(location, q, adaptor.getK(), v, adaptor.getBias(), adaptor.getRange().size(),
                         int64_t(adaptor.getZigzag()))))
    return failure();
  SmallVector<int64_t> o(shapeOf(q));
  o.back() = shapeOf(v).back();
  types.append({RankedTensorType::get(o, elementOf(q)),
                RankedTensorType::get(shapeOf(q).drop_back(), wideOf(elementOf(q)))});
  return success();
}

/// What a dropout of the weights takes is there, and nothing else.
template <class Op> static LogicalResult verifyDropout(Op op) {
  double ratio = op.getRatio().convertToDouble();
  ValueRange random = op.getRandom();
  if (!(ratio >= 0 && ratio < 1) || (ratio > 0) == random.empty())
    return op.emitOpError("has a ratio of ")
           << ratio << " and " << random.size()
           << " operands for it, expected a ratio in [0, 1), and a key where it is not 0";
  if (random.empty())
    return success();
  auto isTensor = [](Value value, ArrayRef<int64_t> shape) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.getShape() == shape && type.getElementType().isInteger(64);
  };
  if (!isTensor(random[0], {}))
    return op.emitOpError("has a key of type ") << random[0].getType() << ", expected a tensor of one i64";
  bool isLocal = random.size() == 3 && random[1].getType().isInteger(64) &&
                 isTensor(random[2], shapeOf(op.getQ()).drop_back()) && !op.getRange().empty();
  return random.size() == 1 || isLocal
             ? success()
             : op.emitOpError(
                   "of a rank needs a key, an id, the first weight of each row of queries, and a range");
}

LogicalResult AttentionOp::verify() { return verifyDropout(*this); }
LogicalResult AttentionGradOp::verify() { return verifyDropout(*this); }
bool AttentionOp::keepsWide(unsigned operand) { return operand == 3; }

TESSERA_INFER(AttentionGradOp) {
  Value q = adaptor.getQ(), k = adaptor.getK(), v = adaptor.getV();
  if (failed(checkShapes(location, q, k, v, adaptor.getBias(), adaptor.getRange().size(),
                         int64_t(adaptor.getZigzag()))))
    return failure();
  if (shapeOf(adaptor.getO()) != shapeOf(adaptor.getDO()) ||
      shapeOf(adaptor.getO()).drop_back() != shapeOf(q).drop_back() ||
      shapeOf(adaptor.getO()).back() != shapeOf(v).back() ||
      shapeOf(adaptor.getLse()) != shapeOf(q).drop_back())
    return inferError(location, "o, lse and do must be those of the attention");
  types.append({plainType(q), plainType(k), plainType(v)});
  return success();
}

/// The letters of the bias: those of [b, m, g, s, t] that it does not stretch.
static std::string biasWord(Value bias, Value q) {
  std::string word = "bmgst";
  const int64_t full[] = {shapeOf(q)[0], shapeOf(q)[2], shapeOf(q)[3], shapeOf(q)[1]};
  for (size_t d = 0; d < 4; ++d)
    if (shapeOf(bias)[d] == 1 && full[d] != 1)
      word[d] = '1';
  return word;
}

/// The letters of a dropout's operands.
static ArrayRef<std::string> randomWords(ValueRange random) {
  static const std::string words[] = {"", "", "bsmg"};
  return ArrayRef(words).take_front(random.size());
}
/// The factors whose positions are told apart: a dropout counts keys; queries it is told.
static StringRef orderedFactors(bool causal, ValueRange random) {
  return causal ? "st" : random.empty() ? "" : "t";
}

FactorRule AttentionOp::getFactorRule() {
  SmallVector<std::string> words = {"bsmgd", "btmd", "btme"};
  if (getBias())
    words.push_back(biasWord(getBias(), getQ()));
  words.append(getRange().size(), "");
  llvm::append_range(words, randomWords(getRandom()));
  return lettersRule(*this, words, {"bsmge", "bsmg"}, "", "tde", orderedFactors(getCausal(), getRandom()));
}

FactorRule AttentionGradOp::getFactorRule() {
  SmallVector<std::string> words = {"bsmgd", "btmd", "btme"};
  if (getBias())
    words.push_back(biasWord(getBias(), getQ()));
  words.append({"bsmge", "bsmg", "bsmge"});
  words.append(getRange().size(), "");
  llvm::append_range(words, randomWords(getRandom()));
  return lettersRule(*this, words, {"bsmgd", "btmd", "btme"}, "", "tde",
                     orderedFactors(getCausal(), getRandom()));
}

std::optional<double> AttentionOp::getNeutral(unsigned, unsigned factor) {
  return factor == unsigned(getFactorRule().find("d")) ? std::optional<double>(0) : std::nullopt;
}
// Queries and groups are summed into the cotangents of keys and values: what is padding there must be zero,
// and so finite.
std::optional<double> AttentionGradOp::getNeutral(unsigned, unsigned factor) {
  FactorRule rule = getFactorRule();
  for (StringRef name : {"s", "g", "d", "e"})
    if (int(factor) == rule.find(name))
      return 0;
  return std::nullopt;
}

namespace {
/// What the per-rank forms share: whole keys without their padding, and the place of the block of queries.
struct LocalAttention {
  LocalBuilder &b;
  int64_t logicalS, logicalT;

  /// `value` without padding at the end of dimension `dim`, which holds keys.
  Value trimmed(Value value, int64_t dim) {
    SmallVector<int64_t> shape(shapeOf(value));
    shape[dim] = logicalT;
    return trimmedTo(b, b.loc(), value, shape);
  }
  /// `value` with its last dimension, features, padded with zeros, or cut, to `size`.
  Value resized(Value value, int64_t size) {
    SmallVector<int64_t> shape(shapeOf(value));
    bool grows = shape.back() < size;
    shape.back() = size;
    return grows ? paddedTo(b, b.loc(), value, shape) : trimmedTo(b, b.loc(), value, shape);
  }
  SmallVector<Value> range(Value localQ, bool causal, int factor, bool drops) {
    bool isPlain = !causal || (!b.isSplit(factor) && logicalS == shapeOf(localQ)[1] && logicalS == logicalT);
    if (isPlain && !drops)
      return {};
    auto number = [&](int64_t n) -> Value { return arith::ConstantIntOp::create(b, b.loc(), n, 64); };
    Value start = causal && b.isSplit(factor) ? b.blockStart(factor) : number(0);
    return {number(shapeOf(localQ)[1]), number(logicalT), start, number(logicalS - logicalT)};
  }
  /// A dropout's operands; `range` says that the first key stands at logicalS - logicalT.
  template <class Op> SmallVector<Value> dropout(Op op, ValueRange operands) {
    if (op.getRandom().empty())
      return {};
    return localDropout(op, b, operands.back(), logicalS - logicalT);
  }
};
} // namespace

SmallVector<Value> tessera::nn::localDropout(Operation *op, LocalBuilder &builder, Value key,
                                             int64_t keyOffset) {
  Location loc = builder.loc();
  ArrayRef<int64_t> q = shapeOf(op->getOperand(0)); // b, s, m, g
  int64_t keys = shapeOf(op->getOperand(1))[1];
  const int64_t strides[] = {q[2] * q[3] * q[1] * keys, keys, q[3] * q[1] * keys, q[1] * keys};
  Type i64 = builder.getI64Type();
  Value rows;
  for (unsigned d = 0; d < 4; ++d) {
    Value positions = builder.logicalIndex(0, d);
    SmallVector<int64_t> shape(4, 1);
    shape[d] = shapeOf(positions)[0];
    positions = MulOp::create(builder, loc, positions, scalarConstant(builder, loc, i64, strides[d]));
    positions = ReshapeOp::create(builder, loc, RankedTensorType::get(shape, i64), positions);
    rows = rows ? Value(AddOp::create(builder, loc, rows, positions)) : positions;
  }
  if (keyOffset)
    rows = SubOp::create(builder, loc, rows, scalarConstant(builder, loc, i64, keyOffset));
  int64_t id = op->getAttrOfType<IntegerAttr>("id").getInt();
  return {key, arith::ConstantIntOp::create(builder, loc, id, 64), rows};
}

LogicalResult AttentionOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                       SmallVectorImpl<Value> &results) {
  LocalAttention local{builder, shapeOf(getQ())[1], shapeOf(getK())[1]};
  // The library has one size of heads: the smaller of keys' and values' gets zeros, which change no score and
  // no other output.
  int64_t values = shapeOf(operands[2]).back(), size = std::max(shapeOf(operands[0]).back(), values);
  Value q = local.resized(operands[0], size), bias = getBias() ? local.trimmed(operands[3], 4) : Value();
  auto op = AttentionOp::create(builder, builder.loc(), q, local.trimmed(local.resized(operands[1], size), 1),
                                local.trimmed(local.resized(operands[2], size), 1), bias,
                                local.range(q, getCausal(), getFactorRule().find("s"), !getRandom().empty()),
                                local.dropout(*this, operands), getScaleAttr(), getCausalAttr(),
                                getZigzagAttr(), getRatioAttr(), builder.getI64IntegerAttr(0));
  results.append({local.resized(op.getO(), values), op.getLse()});
  return success();
}

LogicalResult AttentionGradOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                           SmallVectorImpl<Value> &results) {
  LocalAttention local{builder, shapeOf(getQ())[1], shapeOf(getK())[1]};
  int64_t keys = shapeOf(operands[0]).back(), values = shapeOf(operands[2]).back(),
          size = std::max(keys, values);
  Value q = local.resized(operands[0], size), bias = getBias() ? local.trimmed(operands[3], 4) : Value();
  ValueRange rest = operands.drop_front(getBias() ? 4 : 3);
  auto op =
      AttentionGradOp::create(builder, builder.loc(), q, local.trimmed(local.resized(operands[1], size), 1),
                              local.trimmed(local.resized(operands[2], size), 1), bias,
                              local.resized(rest[0], size), rest[1], local.resized(rest[2], size),
                              local.range(q, getCausal(), getFactorRule().find("s"), !getRandom().empty()),
                              local.dropout(*this, operands), getScaleAttr(), getCausalAttr(),
                              getZigzagAttr(), getRatioAttr(), builder.getI64IntegerAttr(0));
  results.append(
      {local.resized(op.getDq(), keys),
       paddedTo(builder, builder.loc(), local.resized(op.getDk(), keys), builder.resultType(1).getShape()),
       paddedTo(builder, builder.loc(), local.resized(op.getDv(), values),
                builder.resultType(2).getShape())});
  return success();
}

/// The cotangent of the bias, which is that of the scores: p (do v^T - o do), where p are the weights of the
/// keys, summed over what the bias is stretched along. Few biases are trained (relative positions are), so
/// that this has no kernel of its own and writes p out.
static Value biasCotangent(GradBuilder &grad, AttentionOp op, Value dO) {
  Location loc = grad.loc();
  auto product = [&](Value x, StringRef letters, Value y, StringRef others) -> Value {
    ContractOp op = ContractOp::create(grad, loc, x, y, letters, others, "bmgst");
    op.getResult().setType(plainType(op.getResult()).clone(wideOf(elementOf(op.getResult()))));
    return op;
  };
  // A number for each query, [b, s, m, g], beside its keys.
  auto besideKeys = [&](Value rows) -> Value {
    return withTrailingOne(grad, loc, TransposeOp::create(grad, loc, rows, ArrayRef<int64_t>{0, 2, 3, 1}));
  };
  Value scores =
      scaled(grad, loc, product(op.getQ(), "bsmgd", op.getK(), "btmd"), op.getScale().convertToDouble());
  auto wide = [&](Value value) { return castTo(grad, loc, value, wideOf(elementOf(value))); };
  scores = AddOp::create(grad, loc, scores, wide(op.getBias()));
  Value zero = scalarConstant(grad, loc, elementOf(scores), 0), lse = besideKeys(op.getLse());
  // Queries that see nothing have no weights, nor a finite lse.
  Value lowestSum = scalarConstant(grad, loc, elementOf(scores), lowest(elementOf(scores)));
  Value seen = CompareOp::create(grad, loc, lse, lowestSum, "gt");
  if (op.getCausal()) {
    int64_t s = shapeOf(op.getQ())[1], t = shapeOf(op.getK())[1];
    Type i64 = grad.getI64Type();
    Value query = IotaOp::create(grad, loc, RankedTensorType::get({1, 1, 1, s, 1}, i64), 3);
    Value key = IotaOp::create(grad, loc, RankedTensorType::get({1, 1, 1, 1, t}, i64), 4);
    query = AddOp::create(grad, loc, query, scalarConstant(grad, loc, i64, t - s));
    seen = AndOp::create(grad, loc, seen, CompareOp::create(grad, loc, query, key, "ge"));
  }
  Value weights = SelectOp::create(grad, loc, seen,
                                   ExpOp::create(grad, loc, SubOp::create(grad, loc, scores, lse)), zero);
  Value mean = sumOver(grad, loc, MulOp::create(grad, loc, wide(op.getO()), wide(dO)), {4});
  Value dWeights = product(dO, "bsmge", op.getV(), "btme");
  if (!op.getRandom().empty()) // numbered as the weights are
    dWeights = DropoutOp::create(grad, loc, dWeights, op.getRandom()[0], op.getRatio().convertToDouble(),
                                 op.getId());
  Value rest = SubOp::create(grad, loc, dWeights, besideKeys(mean));
  RankedTensorType type = plainType(op.getBias());
  Value sum = sumToShape(grad, loc, MulOp::create(grad, loc, weights, rest), type.clone(elementOf(rest)));
  return castTo(grad, loc, sum, type.getElementType());
}

LogicalResult AttentionOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  if (cotangents[1])
    return emitOpError("lse is not differentiated");
  if (getBias() && grad.wants(3))
    grad.add(3, biasCotangent(grad, *this, cotangents[0]));
  auto op = AttentionGradOp::create(grad, grad.loc(), getQ(), getK(), getV(), getBias(), getO(), getLse(),
                                    cotangents[0], getRange(), getRandom(), getScaleAttr(), getCausalAttr(),
                                    getZigzagAttr(), getRatioAttr(), getIdAttr());
  for (unsigned i : {0, 1, 2})
    grad.add(i, op.getResult(i));
  return success();
}

void AttentionOp::stopTraining(RewriterBase &rewriter) {
  rewriter.modifyOpInPlace(*this, [&] {
    getRandomMutable().clear();
    setRatioAttr(rewriter.getF64FloatAttr(0));
    setIdAttr(rewriter.getI64IntegerAttr(0));
  });
}
