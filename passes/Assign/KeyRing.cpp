#include "passes/Assign/KeyRing.h"
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Reshard.h"
#include "dialects/nn/LocalAttention.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tessera;
using dist::AxisList;

KeyRing::KeyRing(nn::LocalBuilder &builder, Operation *op, ArrayRef<AxisList> axes, ValueRange operands,
                 bool isGradient, bool drops)
    : b(builder), loc(op->getLoc()), isGradient(isGradient) {
  for (const AxisList &list : axes)
    ring.push_back(list.front());
  dist::Layout queries = dist::getLayout(op->getOperand(0).getType()),
               keys = dist::getLayout(op->getOperand(1).getType());
  for (const dist::Atom &atom : queries.dims[1])
    queryAxes.append(atom.axes);
  for (const dist::Atom &atom : keys.dims[1])
    zigzag = std::max(zigzag, atom.zigzag);
  queryBlock = cast<RankedTensorType>(operands[0].getType()).getDimSize(1);
  keyBlock = cast<RankedTensorType>(operands[1].getType()).getDimSize(1);
  numKeys = keys.globalShape()[1];
  step.assign(ring.size(), 0);
  if (drops)
    random = nn::localDropout(op, b, operands.back(), /*keyOffset=*/0);
}

Value KeyRing::number(int64_t value) { return arith::ConstantIntOp::create(b, loc, value, 64); }

Value KeyRing::blockStart(const AxisList &axes, int64_t block, DenseI64ArrayAttr shift) {
  if (axes.empty())
    return number(0);
  return dist::BlockStartOp::create(b, loc, b.getI64Type(), dist::AxesAttr::get(b.getContext(), axes), block,
                                    shift);
}

// valid_s, valid_t, start_s, start_t of the keys that are here now.
SmallVector<Value> KeyRing::range() {
  Value valid = dist::ValidOp::create(b, loc, b.getI64Type(), dist::AxesAttr::get(b.getContext(), ring),
                                      keyBlock, numKeys, shift());
  return {number(queryBlock), valid, blockStart(queryAxes, queryBlock, {}),
          blockStart(ring, keyBlock, shift())};
}

// Of a bias over all keys the columns of those that are here now.
Value KeyRing::columns(Value bias) {
  if (!bias)
    return {};
  auto type = cast<RankedTensorType>(bias.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = keyBlock;
  return dist::SliceOp::create(b, loc, RankedTensorType::get(shape, type.getElementType()), bias,
                               dist::AxesAttr::get(b.getContext(), ring),
                               b.getDenseI64ArrayAttr(type.getShape()), type.getRank() - 1, shift());
}

Value KeyRing::hop(Value value, size_t along, int64_t shift) {
  dist::CollectiveSpec spec{.kind = dist::CollectiveKind::Permute, .axes = {ring[along]}, .shift = shift};
  auto op = dist::CollectiveOp::create(b, loc, value, spec);
  // Blocks go round again for the backward: else all blocks of the forward would stay live for it.
  if (isGradient)
    dist::kGather.set(op, dist::GatherForAttr::get(b.getContext(), dist::GatherFor::Backward));
  return op;
}

void KeyRing::advance() {
  --step[next()];
  ++moved;
}

Value KeyRing::home(Value value) {
  for (auto [i, axis] : llvm::enumerate(ring))
    if (step[i] % axis.size != 0)
      value = hop(value, i, -step[i] % axis.size);
  return value;
}

//===- one block

// Attention over two sets of keys from the attentions over each.
static std::pair<Value, Value> merge(OpBuilder &b, Location loc, Value o, Value lse, Value o2, Value lse2) {
  auto rows = cast<RankedTensorType>(lse.getType()), full = cast<RankedTensorType>(o.getType());
  SmallVector<int64_t> shape(rows.getShape());
  shape.push_back(1);
  auto column = RankedTensorType::get(shape, rows.getElementType());
  auto number = [&](double value) -> Value {
    auto type = RankedTensorType::get({}, rows.getElementType());
    return nn::ConstantOp::create(b, loc, type,
                                  DenseElementsAttr::get(type, b.getFloatAttr(rows.getElementType(), value)));
  };
  auto widen = [&](Value v) -> Value { return nn::ReshapeOp::create(b, loc, column, v); };
  // In the rows' type, which is f32 where o is bf16 or f16.
  auto convert = [&](Value v, RankedTensorType to) -> Value {
    return v.getType() == to ? v : Value(nn::CastOp::create(b, loc, to, v, to.getElementType()));
  };
  RankedTensorType given = full;
  full = full.clone(rows.getElementType());
  o = convert(o, full), o2 = convert(o2, full);
  // A row that sees no key has minus infinity, which must not meet another.
  Value most = nn::MaxOp::create(b, loc, rows, nn::MaxOp::create(b, loc, rows, lse, lse2), number(-1e30));
  Value w = nn::ExpOp::create(b, loc, rows, nn::SubOp::create(b, loc, rows, lse, most));
  Value w2 = nn::ExpOp::create(b, loc, rows, nn::SubOp::create(b, loc, rows, lse2, most));
  Value sum = nn::AddOp::create(b, loc, rows, w, w2);
  Value divisor = widen(nn::MaxOp::create(b, loc, rows, sum, number(1e-30)));
  Value both = nn::AddOp::create(b, loc, full, nn::MulOp::create(b, loc, full, o, widen(w)),
                                 nn::MulOp::create(b, loc, full, o2, widen(w2)));
  return {convert(nn::DivOp::create(b, loc, full, both, divisor), given),
          nn::AddOp::create(b, loc, rows, most, nn::LogOp::create(b, loc, rows, sum))};
}

std::pair<Value, Value> KeyRing::attend(nn::AttentionOp op, Value q, Value k, Value v, Value bias) {
  auto part = nn::AttentionOp::create(b, loc, q, k, v, columns(bias), range(), random, op.getScaleAttr(),
                                      op.getCausalAttr(), order(), op.getRatioAttr(), b.getI64IntegerAttr(0));
  return {part.getO(), part.getLse()};
}

KeyRing::Gradients KeyRing::differentiate(nn::AttentionGradOp op, Value q, Value k, Value v, Value bias,
                                          ValueRange rest) {
  auto part = nn::AttentionGradOp::create(b, loc, q, k, v, columns(bias), rest[0], rest[1], rest[2], range(),
                                          random, op.getScaleAttr(), op.getCausalAttr(), order(),
                                          op.getRatioAttr(), b.getI64IntegerAttr(0));
  return {part.getDq(), part.getDk(), part.getDv()};
}

void tessera::expandAttention(nn::LocalBuilder &b, nn::AttentionOp op, ArrayRef<AxisList> axes,
                              ValueRange operands, SmallVectorImpl<Value> &results) {
  Value q = operands[0], k = operands[1], v = operands[2], bias = op.getBias() ? operands[3] : Value();
  KeyRing ring(b, op, axes, operands);
  Value o, lse;
  for (int64_t i = 0, n = ring.steps(); i < n; ++i) {
    Value nextK = i + 1 < n ? ring.move(k) : Value(), nextV = i + 1 < n ? ring.move(v) : Value();
    auto [partO, partLse] = ring.attend(op, q, k, v, bias);
    std::tie(o, lse) = i == 0 ? std::pair(partO, partLse) : merge(b, op.getLoc(), o, lse, partO, partLse);
    ring.advance();
    k = nextK, v = nextV;
  }
  results.append({o, lse});
}

void tessera::expandAttentionGrad(nn::LocalBuilder &b, nn::AttentionGradOp op, ArrayRef<AxisList> axes,
                                  ValueRange operands, SmallVectorImpl<Value> &results) {
  Value q = operands[0], k = operands[1], v = operands[2], bias = op.getBias() ? operands[3] : Value();
  ValueRange rest = operands.drop_front(bias ? 4 : 3);
  KeyRing ring(b, op, axes, operands);
  auto add = [&](Value x, Value y) -> Value {
    return x ? nn::AddOp::create(b, op.getLoc(), x.getType(), x, y) : y;
  };
  Value dq, dk, dv;
  for (int64_t i = 0, n = ring.steps(); i < n; ++i) {
    Value nextK = i + 1 < n ? ring.move(k) : Value(), nextV = i + 1 < n ? ring.move(v) : Value();
    KeyRing::Gradients part = ring.differentiate(op, q, k, v, bias, rest);
    dq = add(dq, part.q);
    // The cotangents travel with their block, and once more than it.
    dk = ring.move(add(dk, part.k)), dv = ring.move(add(dv, part.v));
    ring.advance();
    k = nextK, v = nextV;
  }
  results.append({dq, ring.home(dk), ring.home(dv)});
}

Applies tessera::appliesToRing(nn::FactorOpInterface op, StringRef name, ArrayRef<AxisList> axes) {
  auto attention = dyn_cast<nn::AttentionOp>(op.getOperation());
  if (!attention)
    return {"'" + name.str() + "' passes the keys of an attention round, and this operator is none"};
  auto rows = cast<RankedTensorType>(attention.getQ().getType()).getDimSize(1),
       keys = cast<RankedTensorType>(attention.getK().getType()).getDimSize(1);
  if (attention.getCausal() && rows != keys)
    return {"'" + name.str() + "' needs as many queries as keys in a causal attention, and there are " +
            std::to_string(rows) + " and " + std::to_string(keys) + "; 'rsa' or 'ulysses' would do"};
  int64_t ranks = 1;
  for (const AxisList &list : axes) {
    if (list.size() > 1)
      return {"'" + name.str() + "' needs a whole axis of the mesh for each ring"};
    ranks *= dist::product(list);
  }
  if (ranks > std::min(rows, keys))
    return {"'" + name.str() + "' has no query and key for each of " + std::to_string(ranks) +
            " ranks, where there are " + std::to_string(rows) + " and " + std::to_string(keys) +
            "; take fewer ranks"};
  return {};
}
