// Rotary embeddings in the half-split form, kept on [b, s, heads, d].
#include "passes/Normalize/Match.h"
#include "passes/Normalize/Patterns.h"

using namespace mlir;

namespace tessera::normalize {
namespace {

/// `value` = concat(-x[.., d/2:], x[.., :d/2]).
bool matchRotated(Value value, Value &x) {
  auto concat = value.getDefiningOp<nn::ConcatOp>();
  int64_t last = rankOf(value) - 1;
  if (!concat || concat.getOperands().size() != 2 || int64_t(concat.getDim()) != last)
    return false;
  auto negated = concat.getOperands()[0].getDefiningOp<nn::NegOp>();
  auto high = negated ? negated.getOperand().getDefiningOp<nn::SliceOp>() : nullptr;
  auto low = concat.getOperands()[1].getDefiningOp<nn::SliceOp>();
  if (!high || !low || high.getOperand() != low.getOperand() || shapeOf(high.getOperand()) != shapeOf(value))
    return false;
  int64_t half = shapeOf(value)[last] / 2;
  auto isHalf = [&](nn::SliceOp slice, int64_t start) {
    for (int64_t d = 0; d <= last; ++d)
      if (slice.getSteps()[d] != 1 || slice.getStarts()[d] != (d == last ? start : 0) ||
          slice.getSizes()[d] != (d == last ? half : shapeOf(value)[d]))
        return false;
    return true;
  };
  x = high.getOperand();
  return 2 * half == shapeOf(value)[last] && isHalf(low, 0) && isHalf(high, half);
}

struct RaiseRotary : OpRewritePattern<nn::AddOp> {
  RaiseRotary(MLIRContext *context, Counter &counter) : OpRewritePattern(context), counter(counter) {}
  LogicalResult matchAndRewrite(nn::AddOp op, PatternRewriter &rewriter) const override {
    Value x, cos, sin;
    bool matched = matchEither<nn::AddOp>(op, [&](Value straight, Value turned) {
      return matchEither<nn::MulOp>(turned, [&](Value rotated, Value s) {
        sin = s;
        return matchRotated(rotated, x) && matchEither<nn::MulOp>(straight, [&](Value a, Value c) {
                 cos = c;
                 return a == x;
               });
      });
    });
    if (!matched || shapeOf(x) != shapeOf(op))
      return rewriter.notifyMatchFailure(op, "not x cos + rotated(x) sin");
    rewriter.replaceOpWithNewOp<nn::RotaryOp>(op, x, cos, sin);
    ++counter;
    return success();
  }
  Counter &counter;
};

/// rotary(transpose(x)): transpose(rotary(x)), so that heads stay where attention wants them.
struct TransposeAfterRotary : OpRewritePattern<nn::RotaryOp> {
  TransposeAfterRotary(MLIRContext *context, Counter &) : OpRewritePattern(context) {}
  LogicalResult matchAndRewrite(nn::RotaryOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getX().getDefiningOp<nn::TransposeOp>();
    if (!inner || inner.getPerm().back() != rankOf(op) - 1)
      return rewriter.notifyMatchFailure(op, "its operand is no transpose that keeps the last dimension");
    llvm::SmallVector<int64_t> perm(inner.getPerm()), inverse(perm.size());
    for (auto [i, d] : llvm::enumerate(perm))
      inverse[d] = i;
    auto moved = [&](Value table) {
      Shape full(rankOf(op) - rankOf(table), 1);
      full.append(shapeOf(table).begin(), shapeOf(table).end());
      table = reshape(rewriter, op.getLoc(), table, full);
      Shape target;
      llvm::SmallVector<int64_t> order; // of the dimensions that are not of size 1
      for (int64_t d : inverse) {
        target.push_back(full[d]);
        if (full[d] != 1)
          order.push_back(d);
      }
      if (llvm::is_sorted(order))
        return reshape(rewriter, op.getLoc(), table, target);
      return transpose(rewriter, op.getLoc(), table, inverse);
    };
    Value y = nn::RotaryOp::create(rewriter, op.getLoc(), inner.getOperand(), moved(op.getCos()),
                                   moved(op.getSin()), op.getInverseAttr());
    rewriter.replaceOpWithNewOp<nn::TransposeOp>(op, y, perm);
    return success();
  }
};

} // namespace

void addRotaryPatterns(RewritePatternSet &patterns, Counter &counter) {
  patterns.add<RaiseRotary, TransposeAfterRotary>(patterns.getContext(), counter);
}

} // namespace tessera::normalize
