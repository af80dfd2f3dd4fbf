// Operators without effect, and the simplest spelling of the others.
#include "passes/Normalize/Match.h"
#include "passes/Normalize/Patterns.h"
#include <cmath>

using namespace mlir;

namespace tessera::normalize {
namespace {

/// The constant that adding changes no number: 0, and of floats -0, since -0 + 0 is 0.
bool isNothing(Value value, bool isNegative) {
  return isSplat(value, 0) &&
         (!isa<FloatType>(elementOf(value)) || std::signbit(*splatValue(value)) == isNegative);
}

/// x + -0, x - 0, x * 1, x / 1, x and true, cast to the own type: x. A sum of products + 0 too: whether such
/// a sum is 0 or -0 is not said, and products have zeros for a bias.
struct DropNeutral : RewritePattern {
  DropNeutral(MLIRContext *context, Counter &counter)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context), counter(counter) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    Value kept;
    auto keepOther = [&](llvm::function_ref<bool(Value, Value)> changesNothing) {
      for (unsigned i : {0u, 1u})
        if (changesNothing(op->getOperand(1 - i), op->getOperand(i)))
          kept = op->getOperand(i);
    };
    if (isa<nn::AddOp>(op))
      keepOther([](Value v, Value other) {
        bool isSum = isa_and_nonnull<nn::ContractOp, nn::ConvOp>(other.getDefiningOp());
        return isNothing(v, /*isNegative=*/true) || (isSum && isSplat(v, 0));
      });
    else if (isa<nn::MulOp, nn::AndOp>(op) &&
             (!isa<nn::AndOp>(op) || elementOf(op->getResult(0)).isInteger(1)))
      keepOther([](Value v, Value) { return isSplat(v, 1); });
    else if ((isa<nn::SubOp>(op) && isNothing(op->getOperand(1), /*isNegative=*/false)) ||
             (isa<nn::DivOp>(op) && isSplat(op->getOperand(1), 1)) || isa<nn::CastOp>(op))
      kept = op->getOperand(0);
    if (!kept || kept.getType() != op->getResult(0).getType())
      return rewriter.notifyMatchFailure(op, "it changes its operand");
    rewriter.replaceOp(op, kept);
    ++counter;
    return success();
  }
  Counter &counter;
};

/// The bias of a convolution is added behind the sum over channels, which ranks may share.
struct TakeBiasOut : OpRewritePattern<nn::ConvOp> {
  TakeBiasOut(MLIRContext *context, Counter &counter) : OpRewritePattern(context), counter(counter) {}
  LogicalResult matchAndRewrite(nn::ConvOp op, PatternRewriter &rewriter) const override {
    Value bias = op.getBias();
    if (!bias)
      return rewriter.notifyMatchFailure(op, "it has no bias");
    Shape channels(op.getStrides().size() + 1, 1);
    channels[0] = shapeOf(bias)[0];
    rewriter.setInsertionPointAfter(op);
    Value column = reshape(rewriter, op.getLoc(), bias, channels);
    rewriter.modifyOpInPlace(op, [&] { op.getBiasMutable().clear(); });
    auto sum = nn::AddOp::create(rewriter, op.getLoc(), op.getResult(), column);
    rewriter.replaceAllUsesExcept(op.getResult(), sum, sum);
    ++counter;
    return success();
  }
  Counter &counter;
};

/// 1 / sqrt(x): rsqrt(x); 1 / x: reciprocal(x).
struct NameReciprocals : RewritePattern {
  NameReciprocals(MLIRContext *context, Counter &counter)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context), counter(counter) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    Value x;
    if (auto reciprocal = dyn_cast<nn::ReciprocalOp>(op))
      x = reciprocal.getOperand();
    else if (auto div = dyn_cast<nn::DivOp>(op); div && isSplat(div.getLhs(), 1) &&
                                                 shapeOf(div.getRhs()) == shapeOf(div) &&
                                                 isa<FloatType>(elementOf(div)))
      x = div.getRhs();
    if (!x)
      return rewriter.notifyMatchFailure(op, "not one over something");
    auto sqrt = x.getDefiningOp<nn::SqrtOp>();
    if (!sqrt && isa<nn::ReciprocalOp>(op))
      return rewriter.notifyMatchFailure(op, "a plain reciprocal already");
    if (sqrt)
      rewriter.replaceOpWithNewOp<nn::RsqrtOp>(op, sqrt.getOperand());
    else
      rewriter.replaceOpWithNewOp<nn::ReciprocalOp>(op, x);
    ++counter;
    return success();
  }
  Counter &counter;
};

/// x to the power 3 as products, which are cheaper and easier to differentiate.
struct ExpandCube : OpRewritePattern<nn::PowOp> {
  ExpandCube(MLIRContext *context, Counter &counter) : OpRewritePattern(context), counter(counter) {}
  LogicalResult matchAndRewrite(nn::PowOp op, PatternRewriter &rewriter) const override {
    Value x = op.getLhs();
    if (!isSplat(op.getRhs(), 3) || shapeOf(op) != shapeOf(x))
      return rewriter.notifyMatchFailure(op, "the exponent is not 3");
    Value square = nn::MulOp::create(rewriter, op.getLoc(), x, x);
    rewriter.replaceOpWithNewOp<nn::MulOp>(op, square, x);
    ++counter;
    return success();
  }
  Counter &counter;
};

/// An elementwise operator broadcasts by itself: a broadcast operand is used as it was where the result keeps
/// its shape.
struct DropBroadcastOperand : RewritePattern {
  DropBroadcastOperand(MLIRContext *context, Counter &counter)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context), counter(counter) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isElementwise(op) || op->getNumOperands() < 2)
      return rewriter.notifyMatchFailure(op, "not elementwise");
    llvm::ArrayRef<int64_t> result = shapeOf(op->getResult(0));
    for (OpOperand &operand : op->getOpOperands()) {
      auto broadcast = operand.get().getDefiningOp<nn::BroadcastOp>();
      if (!broadcast)
        continue;
      Shape thin(rankOf(broadcast), 1);
      for (auto [i, d] : llvm::enumerate(broadcast.getDims()))
        thin[d] = shapeOf(broadcast.getOperand())[i];
      // What the other operands reach alone.
      Shape reached(result.size(), 1);
      for (OpOperand &other : op->getOpOperands()) {
        llvm::ArrayRef<int64_t> shape =
            &other == &operand ? llvm::ArrayRef<int64_t>(thin) : shapeOf(other.get());
        for (size_t d = 0; d < shape.size(); ++d)
          if (shape[d] != 1)
            reached[result.size() - shape.size() + d] = shape[d];
      }
      if (llvm::ArrayRef<int64_t>(reached) != result)
        continue;
      rewriter.setInsertionPoint(op);
      Value slim = reshape(rewriter, broadcast.getLoc(), broadcast.getOperand(), thin);
      rewriter.modifyOpInPlace(op, [&] { operand.set(slim); });
      ++counter;
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no operand is broadcast in vain");
  }
  Counter &counter;
};

} // namespace

void addSimplifyPatterns(RewritePatternSet &patterns, Counter &counter) {
  patterns.add<DropNeutral, TakeBiasOut, NameReciprocals, ExpandCube, DropBroadcastOperand>(
      patterns.getContext(), counter);
}

} // namespace tessera::normalize
