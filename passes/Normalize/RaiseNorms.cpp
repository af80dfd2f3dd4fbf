// Layer and RMS normalisations from their decompositions. First without an affine part, which the operators
// around them then become.
#include "passes/Normalize/Match.h"
#include "passes/Normalize/Patterns.h"

using namespace mlir;

namespace tessera::normalize {
namespace {

/// `value` = x * rsqrt(m + eps) or x / sqrt(m + eps), m of x's shape with the last dimension 1.
bool matchScaled(Value value, Value &x, Value &mean, double &eps) {
  auto check = [&](Value a, Value root) {
    Value sum = root.getDefiningOp()->getOperand(0);
    if (!matchPlusScalar(sum, mean, eps) || rankOf(a) != rankOf(root) || shapeOf(root).back() != 1 ||
        shapeOf(value) != shapeOf(a))
      return false;
    x = a;
    return true;
  };
  if (auto div = value.getDefiningOp<nn::DivOp>())
    return div.getRhs().getDefiningOp<nn::SqrtOp>() && check(div.getLhs(), div.getRhs());
  return matchEither<nn::MulOp>(
      value, [&](Value a, Value b) { return b.getDefiningOp<nn::RsqrtOp>() && check(a, b); });
}

/// x / sqrt(mean(x^2) + eps): rms_norm with gamma 1.
struct RaiseRmsNorm : RewritePattern {
  RaiseRmsNorm(MLIRContext *context, Counter &counter)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context), counter(counter) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa<nn::MulOp, nn::DivOp>(op))
      return failure();
    Value x, mean, square, squared;
    double eps;
    if (!matchScaled(op->getResult(0), x, mean, eps))
      return rewriter.notifyMatchFailure(op, "not divided by the root of something plus epsilon");
    if (!matchLastMean(mean, square) || !matchSquare(square, squared) || squared != x)
      return rewriter.notifyMatchFailure(op, "not the root of its own mean square");
    Value gamma = splat(rewriter, op->getLoc(), elementOf(x), {shapeOf(x).back()}, 1);
    auto norm = nn::RmsNormOp::create(rewriter, op->getLoc(), x, gamma, rewriter.getF64FloatAttr(eps));
    rewriter.replaceOp(op, norm.getY());
    ++counter;
    return success();
  }
  Counter &counter;
};

/// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps): layer_norm with gamma 1, beta 0.
struct RaiseLayerNorm : RewritePattern {
  RaiseLayerNorm(MLIRContext *context, Counter &counter)
      : RewritePattern(MatchAnyOpTypeTag(), 2, context), counter(counter) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa<nn::MulOp, nn::DivOp>(op))
      return failure();
    Value centred, variance, square, squared, averaged;
    double eps;
    if (!matchScaled(op->getResult(0), centred, variance, eps))
      return rewriter.notifyMatchFailure(op, "not divided by the root of something plus epsilon");
    auto sub = centred.getDefiningOp<nn::SubOp>();
    if (!sub || !matchLastMean(sub.getRhs(), averaged) || averaged != sub.getLhs())
      return rewriter.notifyMatchFailure(op, "its mean is not subtracted");
    if (!matchLastMean(variance, square) || !matchSquare(square, squared) || !sameCentred(squared, sub))
      return rewriter.notifyMatchFailure(op, "not the root of its own variance");
    Value x = sub.getLhs();
    Value gamma = splat(rewriter, op->getLoc(), elementOf(x), {shapeOf(x).back()}, 1);
    Value beta = splat(rewriter, op->getLoc(), elementOf(x), {shapeOf(x).back()}, 0);
    auto norm =
        nn::LayerNormOp::create(rewriter, op->getLoc(), x, gamma, beta, rewriter.getF64FloatAttr(eps));
    rewriter.replaceOp(op, norm.getY());
    ++counter;
    return success();
  }
  /// Exporters may subtract the mean twice.
  static bool sameCentred(Value value, nn::SubOp sub) {
    auto other = value.getDefiningOp<nn::SubOp>();
    Value averaged;
    return value == sub.getResult() || (other && other.getLhs() == sub.getLhs() &&
                                        matchLastMean(other.getRhs(), averaged) && averaged == sub.getLhs());
  }
  Counter &counter;
};

/// `value` is a vector over the last dimension, maybe with leading dimensions of size 1.
Value asVector(PatternRewriter &rewriter, Value value, int64_t size) {
  if (typeOf(value).getNumElements() != size || rankOf(value) < 1 || shapeOf(value).back() != size)
    return nullptr;
  return reshape(rewriter, value.getLoc(), value, {size});
}

/// norm(x, 1) * g: norm(x, g).
template <typename NormOp> struct FoldGamma : OpRewritePattern<nn::MulOp> {
  FoldGamma(MLIRContext *context, Counter &) : OpRewritePattern(context) {}
  LogicalResult matchAndRewrite(nn::MulOp op, PatternRewriter &rewriter) const override {
    for (bool left : {true, false}) {
      Value y = left ? op.getLhs() : op.getRhs(), factor = left ? op.getRhs() : op.getLhs();
      auto norm = y.getDefiningOp<NormOp>();
      if (!norm || norm.getY() != y || !isSplat(norm.getGamma(), 1) || shapeOf(op) != shapeOf(y) ||
          !y.hasOneUse())
        continue;
      if constexpr (std::is_same_v<NormOp, nn::LayerNormOp>)
        if (!isSplat(norm.getBeta(), 0))
          continue;
      Value gamma = asVector(rewriter, factor, shapeOf(y).back());
      if (!gamma)
        continue;
      if constexpr (std::is_same_v<NormOp, nn::LayerNormOp>)
        rewriter.replaceOp(
            op, NormOp::create(rewriter, op.getLoc(), norm.getX(), gamma, norm.getBeta(), norm.getEpsAttr())
                    .getY());
      else
        rewriter.replaceOp(
            op, NormOp::create(rewriter, op.getLoc(), norm.getX(), gamma, norm.getEpsAttr()).getY());
      return success();
    }
    return rewriter.notifyMatchFailure(op, "not a normalisation times a vector");
  }
};

/// layer_norm(x, g, 0) + b: layer_norm(x, g, b).
struct FoldBeta : OpRewritePattern<nn::AddOp> {
  FoldBeta(MLIRContext *context, Counter &) : OpRewritePattern(context) {}
  LogicalResult matchAndRewrite(nn::AddOp op, PatternRewriter &rewriter) const override {
    for (bool left : {true, false}) {
      Value y = left ? op.getLhs() : op.getRhs(), term = left ? op.getRhs() : op.getLhs();
      auto norm = y.getDefiningOp<nn::LayerNormOp>();
      if (!norm || norm.getY() != y || !isSplat(norm.getBeta(), 0) || shapeOf(op) != shapeOf(y) ||
          !y.hasOneUse())
        continue;
      Value beta = asVector(rewriter, term, shapeOf(y).back());
      if (!beta)
        continue;
      rewriter.replaceOp(op, nn::LayerNormOp::create(rewriter, op.getLoc(), norm.getX(), norm.getGamma(),
                                                     beta, norm.getEpsAttr())
                                 .getY());
      return success();
    }
    return rewriter.notifyMatchFailure(op, "not a layer normalisation plus a vector");
  }
};

} // namespace

void addRmsNormPatterns(RewritePatternSet &patterns, Counter &counter) {
  patterns.add<RaiseRmsNorm, FoldGamma<nn::RmsNormOp>>(patterns.getContext(), counter);
}
void addLayerNormPatterns(RewritePatternSet &patterns, Counter &counter) {
  patterns.add<RaiseLayerNorm, FoldGamma<nn::LayerNormOp>, FoldBeta>(patterns.getContext(), counter);
}

} // namespace tessera::normalize
