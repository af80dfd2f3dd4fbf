// Attention as plain linalg: the [b, s, m, g, t] matrix of scores is a value. For checking, and element types
// that the library lacks.
#include "dialects/nn/Philox.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace tessera::nn;

namespace {
struct AttentionEmitter : PhiloxEmitter {
  Value q, k, v, bias;
  SmallVector<Value> range, random;
  bool causal;
  int64_t zigzag;
  double scale, ratio;
  int64_t dropId;
  Type element;
  SmallVector<int64_t> rowShape, scoreShape;

  /// Of an attention or its gradient: the operands are those of `op` in order.
  template <class Op>
  AttentionEmitter(OpBuilder &builder, Op op, ValueRange operands)
      : PhiloxEmitter(builder, op.getLoc()), q(operands[0]), k(operands[1]), v(operands[2]),
        bias(op.getBias() ? operands[3] : Value()),
        range(operands.drop_back(op.getRandom().size()).take_back(op.getRange().size())),
        random(operands.take_back(op.getRandom().size())), causal(op.getCausal()), zigzag(op.getZigzag()),
        scale(op.getScale().convertToDouble()), ratio(op.getRatio().convertToDouble()), dropId(op.getId()),
        element(elementOf(q)), rowShape(shapeOf(q).drop_back()), scoreShape(rowShape) {
    scoreShape.push_back(shapeOf(k)[1]);
  }

  Value number(double value) { return constant(element, value); }
  Value minusInfinity() { return number(lowest(element)); }
  Value isMinusInfinity(Value x) {
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, x, minusInfinity());
  }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, loc, c, x, y); }
  Value place(char letter) { return arith::IndexCastOp::create(b, loc, b.getI64Type(), position(letter)); }
  Value integer(int64_t n) { return PhiloxEmitter::integer(n, 64); }
  /// Where the row `letter` of a block of `size` rows from `start` on stands (rt::AttentionOrder).
  Value standing(char letter, Value start, int64_t size) {
    Value row = place(letter), inOrder = add(row, start);
    if (zigzag == 0)
      return inOrder;
    Value front = add(row, arith::DivSIOp::create(b, loc, start, integer(2)));
    Value back =
        sub(add(row, integer((zigzag - 1) * size)), arith::DivSIOp::create(b, loc, start, integer(2)));
    return select(least(arith::CmpIPredicate::slt, row, integer(size / 2)), front, back);
  }
  Value least(arith::CmpIPredicate p, Value x, Value y) { return arith::CmpIOp::create(b, loc, p, x, y); }

  /// scale q k + bias, -inf where the query does not see the key.
  Value scores() {
    Value product = sum({{q, "bsmgd"}, {k, "btmd"}}, "bsmgt", scoreShape, element,
                        [&](ArrayRef<Value> a) { return mul(a[0], a[1]); });
    SmallVector<Lettered> inputs = {{product, "bsmgt"}};
    if (bias) {
      std::string word = "bmgst";
      const int64_t full[] = {scoreShape[0], scoreShape[2], scoreShape[3], scoreShape[1]};
      for (size_t d = 0; d < 4; ++d)
        if (shapeOf(bias)[d] == 1 && full[d] != 1)
          word[d] = '1';
      inputs.push_back({bias, word});
    }
    return map(inputs, "bsmgt", scoreShape, element, [&](ArrayRef<Value> a) {
      Value score = mul(a[0], number(scale));
      if (bias)
        score = add(score, a[1]);
      if (causal) {
        Value s =
            standing('s', range.empty() ? integer(scoreShape[4] - scoreShape[1]) : range[2], scoreShape[1]);
        Value t = standing('t', range.empty() ? integer(0) : range[3], scoreShape[4]);
        score = select(least(arith::CmpIPredicate::sge, s, t), score, minusInfinity());
      }
      if (!range.empty())
        score = select(least(arith::CmpIPredicate::slt, place('t'), range[1]), score, minusInfinity());
      return score;
    });
  }
  /// Weights, or their cotangents, after the dropout.
  Value dropout(Value weights) {
    if (random.empty())
      return weights;
    SmallVector<Lettered> inputs = {{weights, "bsmgt"}, {random[0], ""}};
    if (random.size() > 1)
      inputs.push_back({random[2], "bsmg"});
    return map(inputs, "bsmgt", scoreShape, element, [&](ArrayRef<Value> a) {
      begin(a[1], random.size() > 1 ? random[1] : integer(dropId), {});
      Value first = a.back();
      if (random.size() == 1) {
        first = integer(0);
        const std::pair<char, int64_t> dims[] = {
            {'b', scoreShape[0]}, {'m', scoreShape[2]}, {'g', scoreShape[3]}, {'s', scoreShape[1]}};
        for (auto [letter, size] : dims)
          first = add(mul(first, integer(size)), place(letter));
        first = mul(first, integer(scoreShape[4]));
      }
      return dropped(a[0], add(first, standing('t', range.empty() ? integer(0) : range[3], scoreShape[4])),
                     ratio);
    });
  }
  /// Inside a body over rows: x, or zero in rows that are padding.
  Value validRow(Value x) {
    return range.empty() ? x : select(least(arith::CmpIPredicate::slt, place('s'), range[0]), x, number(0));
  }
  /// Inside a body over keys: x, or zero for keys that are padding.
  Value validKey(Value x) {
    return range.empty() ? x : select(least(arith::CmpIPredicate::slt, place('t'), range[1]), x, number(0));
  }
};
} // namespace

FailureOr<SmallVector<Value>> AttentionOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  AttentionEmitter e(builder, *this, operands);
  Value scores = e.scores();
  Value max = e.max({scores, "bsmgt"}, "bsmg", e.rowShape);
  // A row that sees nothing keeps exponentials of -inf, not of NaN.
  max = e.map({{max, "bsmg"}}, "bsmg", e.rowShape, e.element,
              [&](ArrayRef<Value> a) { return e.select(e.isMinusInfinity(a[0]), e.number(0), a[0]); });
  Value p = e.map({{scores, "bsmgt"}, {max, "bsmg"}}, "bsmgt", e.scoreShape, e.element,
                  [&](ArrayRef<Value> a) { return e.exp(e.sub(a[0], a[1])); });
  Value sum = e.sum({{p, "bsmgt"}}, "bsmg", e.rowShape, e.element, [](ArrayRef<Value> a) { return a[0]; });
  RankedTensorType type = plainType(getO());
  Value product = e.sum({{e.dropout(p), "bsmgt"}, {e.v, "btme"}}, "bsmge", type.getShape(), e.element,
                        [&](ArrayRef<Value> a) { return e.mul(a[0], e.validKey(a[1])); });
  Value o =
      e.map({{product, "bsmge"}, {sum, "bsmg"}}, "bsmge", type.getShape(), e.element, [&](ArrayRef<Value> a) {
        Value isEmpty =
            arith::CmpFOp::create(builder, getLoc(), arith::CmpFPredicate::OEQ, a[1], e.number(0));
        return e.validRow(e.select(isEmpty, e.number(0), e.div(a[0], a[1])));
      });
  Value lse = e.map({{max, "bsmg"}, {sum, "bsmg"}}, "bsmg", e.rowShape, e.element, [&](ArrayRef<Value> a) {
    return e.validRow(e.add(a[0], math::LogOp::create(builder, getLoc(), a[1])));
  });
  return SmallVector<Value>{o, lse};
}

FailureOr<SmallVector<Value>> AttentionGradOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  AttentionEmitter e(builder, *this, operands);
  unsigned first = getBias() ? 4 : 3;
  Value o = operands[first], lse = operands[first + 1], dO = operands[first + 2];
  Value p =
      e.map({{e.scores(), "bsmgt"}, {lse, "bsmg"}}, "bsmgt", e.scoreShape, e.element, [&](ArrayRef<Value> a) {
        return e.validRow(e.select(e.isMinusInfinity(a[0]), e.number(0), e.exp(e.sub(a[0], a[1]))));
      });
  auto product = [&](ArrayRef<Value> a) { return e.mul(a[0], a[1]); };
  Value delta = e.sum({{dO, "bsmge"}, {o, "bsmge"}}, "bsmg", e.rowShape, e.element, product);
  Value dp = e.dropout(e.sum({{dO, "bsmge"}, {e.v, "btme"}}, "bsmgt", e.scoreShape, e.element, product));
  // p is zero where a key or a row does not count, whatever the others hold there.
  Value ds =
      e.map({{p, "bsmgt"}, {dp, "bsmgt"}, {delta, "bsmg"}}, "bsmgt", e.scoreShape, e.element,
            [&](ArrayRef<Value> a) {
              Value isZero =
                  arith::CmpFOp::create(builder, getLoc(), arith::CmpFPredicate::OEQ, a[0], e.number(0));
              return e.select(isZero, e.number(0), e.mul(e.mul(a[0], e.sub(a[1], a[2])), e.number(e.scale)));
            });
  Value dq = e.sum({{ds, "bsmgt"}, {e.k, "btmd"}}, "bsmgd", shapeOf(e.q), e.element,
                   [&](ArrayRef<Value> a) { return e.mul(a[0], e.validKey(a[1])); });
  Value dk = e.sum({{ds, "bsmgt"}, {e.q, "bsmgd"}}, "btmd", shapeOf(e.k), e.element,
                   [&](ArrayRef<Value> a) { return e.mul(a[0], e.validRow(a[1])); });
  Value dv = e.sum({{e.dropout(p), "bsmgt"}, {dO, "bsmge"}}, "btme", shapeOf(e.v), e.element,
                   [&](ArrayRef<Value> a) { return e.mul(a[0], e.validRow(a[1])); });
  return SmallVector<Value>{dq, dk, dv};
}
