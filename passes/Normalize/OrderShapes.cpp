// Chains of shape operators in one order: expanding reshapes, then transposes, then collapsing reshapes. So
// most of them meet their inverse and fold; transposes at products disappear into the letters.
#include "passes/Normalize/Match.h"
#include "passes/Normalize/Patterns.h"

using namespace mlir;

namespace tessera::normalize {
namespace {

/// transpose(collapse(x)): collapse(transpose(x)).
struct TransposeOfCollapse : OpRewritePattern<nn::TransposeOp> {
  TransposeOfCollapse(MLIRContext *context, Counter &counter) : OpRewritePattern(context), counter(counter) {}
  LogicalResult matchAndRewrite(nn::TransposeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getOperand().getDefiningOp<nn::ReshapeOp>();
    auto groups = inner ? collapseGroups(shapeOf(inner.getOperand()), shapeOf(inner)) : std::nullopt;
    if (!groups)
      return rewriter.notifyMatchFailure(op, "its operand is no collapsing reshape");
    llvm::SmallVector<int64_t> perm;
    for (int64_t d : op.getPerm())
      perm.append((*groups)[d]);
    Value moved = transpose(rewriter, op.getLoc(), inner.getOperand(), perm);
    rewriter.replaceOp(op, reshape(rewriter, op.getLoc(), moved, shapeOf(op)));
    ++counter;
    return success();
  }
  Counter &counter;
};

/// expand(transpose(x)): transpose(expand(x)).
struct ExpandOfTranspose : OpRewritePattern<nn::ReshapeOp> {
  ExpandOfTranspose(MLIRContext *context, Counter &counter) : OpRewritePattern(context), counter(counter) {}
  LogicalResult matchAndRewrite(nn::ReshapeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getOperand().getDefiningOp<nn::TransposeOp>();
    auto groups = inner ? collapseGroups(shapeOf(op), shapeOf(inner)) : std::nullopt;
    if (!groups)
      return rewriter.notifyMatchFailure(op, "it does not only split dimensions of a transpose");
    int64_t rank = rankOf(inner);
    llvm::SmallVector<int64_t> inverse(rank), perm(rankOf(op));
    for (auto [i, d] : llvm::enumerate(inner.getPerm()))
      inverse[d] = i;
    Shape expanded;
    for (int64_t d = 0; d < rank; ++d) // dimension d of x is dimension inverse[d] of the transpose
      for (int64_t target : (*groups)[inverse[d]]) {
        perm[target] = expanded.size();
        expanded.push_back(shapeOf(op)[target]);
      }
    Value split = reshape(rewriter, op.getLoc(), inner.getOperand(), expanded);
    rewriter.replaceOp(op, transpose(rewriter, op.getLoc(), split, perm));
    ++counter;
    return success();
  }
  Counter &counter;
};

/// transpose(broadcast(x)): broadcast(transpose(x)).
struct TransposeOfBroadcast : OpRewritePattern<nn::TransposeOp> {
  TransposeOfBroadcast(MLIRContext *context, Counter &counter)
      : OpRewritePattern(context), counter(counter) {}
  LogicalResult matchAndRewrite(nn::TransposeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getOperand().getDefiningOp<nn::BroadcastOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "its operand is no broadcast");
    llvm::SmallVector<int64_t> perm, dims;
    for (auto [target, d] : llvm::enumerate(op.getPerm())) {
      const int64_t *from = llvm::find(inner.getDims(), d);
      if (from == inner.getDims().end())
        continue;
      perm.push_back(from - inner.getDims().begin());
      dims.push_back(target);
    }
    Value moved = transpose(rewriter, op.getLoc(), inner.getOperand(), perm);
    rewriter.replaceOpWithNewOp<nn::BroadcastOp>(op, op.getType(), moved, dims);
    ++counter;
    return success();
  }
  Counter &counter;
};

/// slice(transpose(x)): transpose(slice(x)).
struct SliceOfTranspose : OpRewritePattern<nn::SliceOp> {
  SliceOfTranspose(MLIRContext *context, Counter &counter) : OpRewritePattern(context), counter(counter) {}
  LogicalResult matchAndRewrite(nn::SliceOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getOperand().getDefiningOp<nn::TransposeOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "its operand is no transpose");
    Shape starts(rankOf(op)), sizes(rankOf(op)), steps(rankOf(op));
    for (auto [i, d] : llvm::enumerate(inner.getPerm())) {
      starts[d] = op.getStarts()[i];
      sizes[d] = op.getSizes()[i];
      steps[d] = op.getSteps()[i];
    }
    Value cut = nn::SliceOp::create(rewriter, op.getLoc(), inner.getOperand(), starts, sizes, steps);
    rewriter.replaceOpWithNewOp<nn::TransposeOp>(op, cut, inner.getPerm());
    ++counter;
    return success();
  }
  Counter &counter;
};

/// A transpose that moves only dimensions of size 1 moves nothing: a reshape.
struct TransposeOfOnes : OpRewritePattern<nn::TransposeOp> {
  TransposeOfOnes(MLIRContext *context, Counter &counter) : OpRewritePattern(context), counter(counter) {}
  LogicalResult matchAndRewrite(nn::TransposeOp op, PatternRewriter &rewriter) const override {
    llvm::SmallVector<int64_t> order;
    for (int64_t d : op.getPerm())
      if (shapeOf(op.getOperand())[d] != 1)
        order.push_back(d);
    if (!llvm::is_sorted(order))
      return rewriter.notifyMatchFailure(op, "it moves elements");
    rewriter.replaceOp(op, reshape(rewriter, op.getLoc(), op.getOperand(), shapeOf(op)));
    ++counter;
    return success();
  }
  Counter &counter;
};

/// A reshape of a transpose that only moves dimensions of size 1: the transpose of a reshape, in which those
/// lie in front.
struct OnesOfTranspose : OpRewritePattern<nn::ReshapeOp> {
  OnesOfTranspose(MLIRContext *context, Counter &counter) : OpRewritePattern(context), counter(counter) {}
  LogicalResult matchAndRewrite(nn::ReshapeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getOperand().getDefiningOp<nn::TransposeOp>();
    if (!inner || rankOf(op) != rankOf(inner) || skipUnitReshapes(op) == op.getResult())
      return rewriter.notifyMatchFailure(op, "it does not only move ones of a transpose");
    // The dimensions that are not of size 1, in the order of x: where each lies in the transpose, counted
    // without ones.
    llvm::ArrayRef<int64_t> from = shapeOf(inner.getOperand());
    llvm::SmallVector<int64_t> order;
    for (int64_t d : inner.getPerm())
      if (from[d] != 1)
        order.push_back(d);
    llvm::SmallVector<int64_t> sorted(order), perm;
    llvm::sort(sorted);
    int64_t ones = rankOf(op) - static_cast<int64_t>(order.size()), nextOne = 0, next = 0;
    Shape front(ones, 1);
    for (int64_t d : sorted)
      front.push_back(from[d]);
    for (int64_t size : shapeOf(op))
      perm.push_back(size == 1 ? nextOne++ : ones + (llvm::find(sorted, order[next++]) - sorted.begin()));
    Value moved = reshape(rewriter, op.getLoc(), inner.getOperand(), front);
    rewriter.replaceOp(op, transpose(rewriter, op.getLoc(), moved, perm));
    ++counter;
    return success();
  }
  Counter &counter;
};

/// A product reads its operands in any order of dimensions.
struct TransposeIntoOperand : OpRewritePattern<nn::ContractOp> {
  TransposeIntoOperand(MLIRContext *context, Counter &counter)
      : OpRewritePattern(context), counter(counter) {}
  LogicalResult matchAndRewrite(nn::ContractOp op, PatternRewriter &rewriter) const override {
    bool changed = false;
    for (bool left : {true, false}) {
      auto inner = (left ? op.getLhs() : op.getRhs()).getDefiningOp<nn::TransposeOp>();
      if (!inner)
        continue;
      std::string letters = (left ? op.getLhsLetters() : op.getRhsLetters()).str(), moved = letters;
      for (auto [i, d] : llvm::enumerate(inner.getPerm()))
        moved[d] = letters[i];
      rewriter.modifyOpInPlace(op, [&] {
        (left ? op.getLhsMutable() : op.getRhsMutable()).assign(inner.getOperand());
        if (left)
          op.setLhsLetters(moved);
        else
          op.setRhsLetters(moved);
      });
      ++counter;
      changed = true;
    }
    return changed ? success() : rewriter.notifyMatchFailure(op, "no operand is transposed");
  }
  Counter &counter;
};

/// A product writes its result in any order of dimensions.
struct TransposeOfProduct : OpRewritePattern<nn::TransposeOp> {
  TransposeOfProduct(MLIRContext *context, Counter &counter) : OpRewritePattern(context), counter(counter) {}
  LogicalResult matchAndRewrite(nn::TransposeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getOperand().getDefiningOp<nn::ContractOp>();
    if (!inner || !inner->hasOneUse())
      return rewriter.notifyMatchFailure(op, "its operand is no product of its own");
    std::string out;
    for (int64_t d : op.getPerm())
      out += inner.getOutLetters()[d];
    rewriter.setInsertionPoint(inner);
    Operation *clone = rewriter.clone(*inner);
    clone->getResult(0).setType(op.getType());
    cast<nn::ContractOp>(clone).setOutLetters(out);
    rewriter.replaceOp(op, clone->getResult(0));
    ++counter;
    return success();
  }
  Counter &counter;
};

} // namespace

void addOrderShapePatterns(RewritePatternSet &patterns, Counter &counter) {
  patterns.add<TransposeOfCollapse, ExpandOfTranspose, TransposeOfBroadcast, SliceOfTranspose,
               TransposeOfOnes, OnesOfTranspose, TransposeIntoOperand, TransposeOfProduct>(
      patterns.getContext(), counter);
}

} // namespace tessera::normalize
