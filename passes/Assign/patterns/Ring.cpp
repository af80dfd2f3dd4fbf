// ring and double-ring: attention while keys and values go round (Ring Attention, Liu et al. 2023; the merge of partial softmaxes is that of
// Milakov and Gimelshein 2018; two rings, an inner and an outer one, as in LoongTrain, Gu et al. 2024).
#include "dialects/dist/Dist.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/Assign/Pattern.h"

using namespace mlir;
using namespace tessera;
using dist::AxisList;

namespace {

// What both directions share: local blocks, where they are, how they move on.
class Rotation {
public:
  Rotation(OpBuilder &b, Operation *op, ArrayRef<AxisList> axes, Value q, Value k) : b(b), loc(op->getLoc()) {
    for (const AxisList &list : axes)
      ring.push_back(list.front());
    dist::Layout queries = dist::getLayout(op->getOperand(0).getType()), keys = dist::getLayout(op->getOperand(1).getType());
    for (const dist::Atom &atom : queries.dims[1])
      queryAxes.append(atom.axes);
    queryBlock = cast<RankedTensorType>(q.getType()).getDimSize(1);
    keyBlock = cast<RankedTensorType>(k.getType()).getDimSize(1);
    numKeys = keys.globalShape()[1];
    step.assign(ring.size(), 0);
  }
  int64_t steps() const { return dist::product(ring); }

  // valid_s, valid_t, start_s, start_t of the keys that are here now.
  SmallVector<Value> range() {
    Value whole = arith::ConstantIntOp::create(b, loc, queryBlock, 64), zero = arith::ConstantIntOp::create(b, loc, 0, 64);
    auto axes = dist::AxesAttr::get(b.getContext(), ring);
    Value valid = dist::ValidOp::create(b, loc, b.getI64Type(), axes, keyBlock, numKeys, shift());
    Value keys = dist::BlockStartOp::create(b, loc, b.getI64Type(), axes, keyBlock, shift());
    Value queries = queryAxes.empty() ? zero
                                      : dist::BlockStartOp::create(b, loc, b.getI64Type(), dist::AxesAttr::get(b.getContext(), queryAxes), queryBlock,
                                                                   DenseI64ArrayAttr());
    return {whole, valid, queries, keys};
  }
  // Of a bias over all keys the columns of those that are here now.
  Value columns(Value bias) {
    auto type = cast<RankedTensorType>(bias.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape.back() = keyBlock;
    return dist::SliceOp::create(b, loc, RankedTensorType::get(shape, type.getElementType()), bias, dist::AxesAttr::get(b.getContext(), ring),
                                 b.getDenseI64ArrayAttr(type.getShape()), type.getRank() - 1, shift());
  }
  // What the rank before holds, along the ring that moves next: the inner one, and the outer one whenever the inner is through.
  Value move(Value value) { return hop(value, next(), -1); }
  // After all values have moved.
  void advance() {
    --step[next()];
    ++moved;
  }
  // A value that belongs to the block that is here, sent to where the block belongs.
  Value home(Value value) {
    for (auto [i, axis] : llvm::enumerate(ring))
      if (step[i] % axis.size != 0)
        value = hop(value, i, -step[i] % axis.size);
    return value;
  }

  OpBuilder &b;
  Location loc;

private:
  size_t next() const { return ring.size() == 2 && (moved + 1) % ring[1].size == 0 ? 0 : ring.size() - 1; }
  Value hop(Value value, size_t along, int64_t shift) {
    auto type = cast<RankedTensorType>(value.getType());
    return dist::CollectiveOp::create(b, loc, type, value, dist::CollectiveKind::Permute,
                                      dist::AxesAttr::get(b.getContext(), {ring[along]}), b.getDenseI64ArrayAttr(type.getShape()),
                                      IntegerAttr(), IntegerAttr(), IntegerAttr(), dist::ReduceKindAttr(), dist::LayoutAttr(),
                                      dist::LayoutAttr(), b.getI64IntegerAttr(shift));
  }
  DenseI64ArrayAttr shift() { return b.getDenseI64ArrayAttr(step); }

  AxisList ring, queryAxes;
  int64_t queryBlock = 0, keyBlock = 0, numKeys = 0, moved = 0;
  SmallVector<int64_t> step; // whose block is here: how many ranks further on along each ring
};

// Attention over two sets of keys from the attentions over each: o and lse, the logarithm of a row's sum.
std::pair<Value, Value> merge(OpBuilder &b, Location loc, Value o, Value lse, Value o2, Value lse2) {
  auto rows = cast<RankedTensorType>(lse.getType()), full = cast<RankedTensorType>(o.getType());
  SmallVector<int64_t> shape(rows.getShape());
  shape.push_back(1);
  auto column = RankedTensorType::get(shape, rows.getElementType());
  auto number = [&](double value) -> Value {
    auto type = RankedTensorType::get({}, rows.getElementType());
    return nn::ConstantOp::create(b, loc, type, DenseElementsAttr::get(type, b.getFloatAttr(rows.getElementType(), value)));
  };
  auto widen = [&](Value v) -> Value { return nn::ReshapeOp::create(b, loc, column, v); };
  // A row that sees no key has minus infinity, which must not meet another.
  Value most = nn::MaxOp::create(b, loc, rows, nn::MaxOp::create(b, loc, rows, lse, lse2), number(-1e30));
  Value w = nn::ExpOp::create(b, loc, rows, nn::SubOp::create(b, loc, rows, lse, most));
  Value w2 = nn::ExpOp::create(b, loc, rows, nn::SubOp::create(b, loc, rows, lse2, most));
  Value sum = nn::AddOp::create(b, loc, rows, w, w2);
  Value divisor = widen(nn::MaxOp::create(b, loc, rows, sum, number(1e-30)));
  Value both = nn::AddOp::create(b, loc, full, nn::MulOp::create(b, loc, full, o, widen(w)), nn::MulOp::create(b, loc, full, o2, widen(w2)));
  return {nn::DivOp::create(b, loc, full, both, divisor),
          nn::AddOp::create(b, loc, rows, most, nn::LogOp::create(b, loc, rows, sum))};
}

void forward(OpBuilder &b, nn::AttentionOp op, ArrayRef<AxisList> axes, ValueRange operands, SmallVectorImpl<Value> &results) {
  Value q = operands[0], k = operands[1], v = operands[2], bias = op.getBias() ? operands[3] : Value();
  Rotation ring(b, op, axes, q, k);
  Value o, lse;
  for (int64_t i = 0, n = ring.steps(); i < n; ++i) {
    Value nextK = i + 1 < n ? ring.move(k) : Value(), nextV = i + 1 < n ? ring.move(v) : Value();
    auto part = nn::AttentionOp::create(b, op.getLoc(), q, k, v, bias ? ring.columns(bias) : Value(), ring.range(), op.getScaleAttr(),
                                        op.getCausalAttr());
    std::tie(o, lse) = i == 0 ? std::pair(Value(part.getO()), Value(part.getLse()))
                              : merge(b, op.getLoc(), o, lse, part.getO(), part.getLse());
    ring.advance();
    k = nextK, v = nextV;
  }
  results.append({o, lse});
}

void backward(OpBuilder &b, nn::AttentionGradOp op, ArrayRef<AxisList> axes, ValueRange operands, SmallVectorImpl<Value> &results) {
  Value q = operands[0], k = operands[1], v = operands[2], bias = op.getBias() ? operands[3] : Value();
  ValueRange rest = operands.drop_front(bias ? 4 : 3);
  Rotation ring(b, op, axes, q, k);
  auto add = [&](Value x, Value y) -> Value { return x ? nn::AddOp::create(b, op.getLoc(), x.getType(), x, y) : y; };
  Value dq, dk, dv;
  for (int64_t i = 0, n = ring.steps(); i < n; ++i) {
    Value nextK = i + 1 < n ? ring.move(k) : Value(), nextV = i + 1 < n ? ring.move(v) : Value();
    auto part = nn::AttentionGradOp::create(b, op.getLoc(), q, k, v, bias ? ring.columns(bias) : Value(), rest[0], rest[1], rest[2],
                                            ring.range(), op.getScaleAttr(), op.getCausalAttr());
    dq = add(dq, part.getDq());
    // The cotangents travel with their block, and once more than it.
    dk = ring.move(add(dk, part.getDk())), dv = ring.move(add(dv, part.getDv()));
    ring.advance();
    k = nextK, v = nextV;
  }
  results.append({dq, ring.home(dk), ring.home(dv)});
}

class RingAttention : public tessera::Pattern {
  Applies applies(nn::FactorOpInterface op, ArrayRef<AxisList> axes) const override {
    auto attention = dyn_cast<nn::AttentionOp>(op.getOperation());
    if (!attention)
      return {"'" + name().str() + "' passes the keys of an attention round, and this operator is none"};
    auto rows = cast<RankedTensorType>(attention.getQ().getType()).getDimSize(1),
         keys = cast<RankedTensorType>(attention.getK().getType()).getDimSize(1);
    if (attention.getCausal() && rows != keys)
      return {"'" + name().str() + "' needs as many queries as keys in a causal attention, and there are " + std::to_string(rows) + " and " +
              std::to_string(keys) + "; 'rsa' or 'ulysses' would do"};
    for (const AxisList &list : axes)
      if (list.size() > 1)
        return {"'" + name().str() + "' needs a whole axis of the mesh for each ring"};
    return {};
  }
  Choice choose(nn::FactorOpInterface op, ArrayRef<AxisList> axes, const Surroundings &) const override {
    AttentionFactors f = *attentionOf(op);
    AxisList all;
    for (const AxisList &list : axes)
      all.append(list);
    Choice choice{{{f.s, all}}};
    choice.stream = Stream{{{1, {{f.t, all}}}, {2, {{f.t, all}}}}};
    return choice;
  }
  LogicalResult expand(OpBuilder &b, nn::FactorOpInterface op, ArrayRef<AxisList> axes, ValueRange operands,
                       SmallVectorImpl<Value> &results) const override {
    SmallVector<AxisList> rings;
    for (const AxisList &list : axes)
      if (!list.empty())
        rings.push_back(list);
    if (auto attention = dyn_cast<nn::AttentionOp>(op.getOperation()))
      return forward(b, attention, rings, operands, results), success();
    if (auto grad = dyn_cast<nn::AttentionGradOp>(op.getOperation()))
      return backward(b, grad, rings, operands, results), success();
    return op.emitOpError("is neither an attention nor the gradient of one");
  }
};

class Ring : public RingAttention {
  StringRef name() const override { return "ring"; }
  ArrayRef<StringRef> axes() const override {
    static const StringRef names[] = {"axis"};
    return names;
  }
  StringRef doc() const override {
    return "Tokens are split over the axis; each rank attends from its own queries to the keys and values that are with it, sends them on to the next rank "
           "while it works, and merges what it gets by the logarithm of each row's sum. Forward n-1 sends of a rank's block of k and v; backward n-1 of k and v "
           "and n of their cotangents. Nothing is gathered: a rank holds two blocks of keys at a time.";
  }
};

class DoubleRing : public RingAttention {
  StringRef name() const override { return "double-ring"; }
  ArrayRef<StringRef> axes() const override {
    static const StringRef names[] = {"outer", "inner"};
    return names;
  }
  StringRef doc() const override {
    return "As ring over two axes, of which the inner one has the faster links: blocks go round the inner ring, and one place along the outer one "
           "whenever they are through, so that of all sends only one in the inner ring's size uses the slower links.";
  }
};
RegisterPattern<Ring> ring;
RegisterPattern<DoubleRing> doubleRing;
} // namespace
