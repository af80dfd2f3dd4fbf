// Equal parts of a dimension become a dimension: x[.., 64:128] of 192 is part 1 of [.., 3, 64], x[.., 64:192]
// parts 1 and 2.
//
// Packed weights (q, k and v in one product) are split into such parts. As a slice of the whole dimension
// nothing of it could be split over ranks; as a slice of the new dimension of parts, the part itself can.
#include "dialects/nn/NN.h"
#include "passes/Normalize/Patterns.h"
#include <numeric>

using namespace mlir;
using namespace tessera;

namespace {

constexpr int64_t kMostParts = 8;

struct UnstackSlice : OpRewritePattern<nn::SliceOp> {
  UnstackSlice(MLIRContext *context, normalize::Counter &counter)
      : OpRewritePattern(context), counter(counter) {}

  LogicalResult matchAndRewrite(nn::SliceOp op, PatternRewriter &b) const override {
    auto type = cast<RankedTensorType>(op.getOperand().getType());
    std::optional<int64_t> dim;
    for (int64_t d = 0; d < type.getRank(); ++d) {
      if (op.getSizes()[d] == type.getDimSize(d))
        continue;
      if (dim)
        return b.notifyMatchFailure(op, "slices several dimensions");
      dim = d;
    }
    if (!dim)
      return b.notifyMatchFailure(op, "takes everything");
    int64_t size = op.getSizes()[*dim], start = op.getStarts()[*dim], extent = type.getDimSize(*dim);
    int64_t part = std::gcd(std::gcd(size, start), extent);
    if (op.getSteps()[*dim] != 1 || part < 2 || extent / part > kMostParts)
      return b.notifyMatchFailure(op, "is not some of a few equal parts");
    SmallVector<int64_t> shape(type.getShape()), starts, sizes;
    shape[*dim] = part;
    shape.insert(shape.begin() + *dim, extent / part);
    starts.assign(shape.size(), 0);
    sizes = shape;
    starts[*dim] = start / part;
    sizes[*dim] = size / part;
    Value parts = nn::ReshapeOp::create(b, op.getLoc(), RankedTensorType::get(shape, type.getElementType()),
                                        op.getOperand());
    Value taken =
        nn::SliceOp::create(b, op.getLoc(), parts, starts, sizes, SmallVector<int64_t>(shape.size(), 1));
    b.replaceOpWithNewOp<nn::ReshapeOp>(op, op.getResult().getType(), taken);
    ++counter;
    return success();
  }

  normalize::Counter &counter;
};

} // namespace

void normalize::addUnstackPatterns(RewritePatternSet &patterns, Counter &counter) {
  patterns.add<UnstackSlice>(patterns.getContext(), counter);
}
