// Splitting of collectives into start and wait.
#include "passes/Schedule/Passes.h"

namespace tessera {
#define GEN_PASS_DEF_OVERLAPCOLLECTIVES
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

void tessera::buildSchedulePipeline(OpPassManager &pm) {
  pm.addNestedPass<func::FuncOp>(createOverlapCollectives());
}

namespace {

struct OverlapCollectivesPass : tessera::impl::OverlapCollectivesBase<OverlapCollectivesPass> {
  void runOnOperation() override {
    SmallVector<dist::CollectiveOp> collectives;
    getOperation().walk([&](dist::CollectiveOp op) { collectives.push_back(op); });
    for (dist::CollectiveOp op : collectives) {
      // The first operator in this block that uses the result, itself or inside a region of it.
      Operation *first = nullptr;
      for (Operation *user : op.getResult().getUsers()) {
        Operation *inBlock = op->getBlock()->findAncestorOpInBlock(*user);
        if (inBlock && (!first || inBlock->isBeforeInBlock(first)))
          first = inBlock;
      }
      if (!first || first == op->getNextNode())
        continue;
      OpBuilder b(op);
      auto start = dist::CollectiveStartOp::create(
          b, op.getLoc(), dist::TokenType::get(op.getContext(), cast<RankedTensorType>(op.getResult().getType())), op.getSource(),
          op.getKindAttr(), op.getAxesAttr(), op.getShapeAttr(), op.getSplitAttr(), op.getConcatAttr(), op.getRootAttr(), op.getReduceAttr(),
          op.getFromAttr(), op.getToAttr(), op.getShiftAttr());
      b.setInsertionPoint(first);
      auto wait = dist::CollectiveWaitOp::create(b, op.getLoc(), op.getResult().getType(), start.getToken());
      op.getResult().replaceAllUsesWith(wait.getResult());
      op.erase();
      ++numOverlapped;
    }
  }
};

} // namespace
