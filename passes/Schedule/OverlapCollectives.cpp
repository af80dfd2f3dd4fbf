// Splitting of collectives into start and wait.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pack.h"
#include "dialects/dist/Pipeline.h"
#include "passes/Memory/Liveness.h"
#include "passes/Schedule/BlockGraph.h"
#include "passes/Schedule/Passes.h"
#include "passes/Schedule/Stored.h"

namespace tessera {
#define GEN_PASS_DEF_OVERLAPCOLLECTIVES
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

struct OverlapCollectivesPass : tessera::impl::OverlapCollectivesBase<OverlapCollectivesPass> {
  using OverlapCollectivesBase::OverlapCollectivesBase;

  static dist::CollectiveWaitOp split(dist::CollectiveOp op) {
    OpBuilder b(op);
    auto start = dist::CollectiveStartOp::create(b, op.getLoc(), op.getType(), op.getSource(), op.getSpec());
    auto wait = dist::CollectiveWaitOp::create(b, op.getLoc(), op.getResult().getType(), start.getToken());
    op.getResult().replaceAllUsesWith(wait.getResult());
    op.erase();
    return wait;
  }

  // What the wait may be moved before: the first operator that uses the result, itself or inside a region of
  // it.
  static Operation *deadline(dist::CollectiveWaitOp wait, const Hazards &hazards) {
    Operation *first = wait->getBlock()->getTerminator();
    for (Operation *user : wait.getResult().getUsers()) {
      Operation *inBlock = wait->getBlock()->findAncestorOpInBlock(*user);
      if (inBlock && inBlock->isBeforeInBlock(first))
        first = inBlock;
    }
    // Nor behind what overwrites the variable that is being read.
    Value source = wait.getToken().getDefiningOp<dist::CollectiveStartOp>().getSource();
    while (source.getDefiningOp() && isView(source.getDefiningOp()))
      source = source.getDefiningOp()->getOperand(0);
    if (auto read = source.getDefiningOp<nn::ReadOp>())
      for (Operation *writer : hazards.writers(read.getVariable()))
        if (wait->isBeforeInBlock(writer) && writer->isBeforeInBlock(first))
          first = writer;
    return first;
  }

  static void rejoin(dist::CollectiveWaitOp wait) {
    auto start = wait.getToken().getDefiningOp<dist::CollectiveStartOp>();
    OpBuilder b(start);
    auto op =
        dist::CollectiveOp::create(b, start.getLoc(), wait.getType(), start.getSource(), start.getSpec());
    wait.getResult().replaceAllUsesWith(op.getResult());
    wait.erase();
    start.erase();
  }

  // Variables that are gathered when something needs them are there from the start. Each gather starts where
  // the values gathered before it, as many bytes as its own, are yet to be read: what is computed with them
  // takes about as long as it does in proportion, and only the two are live. What is gathered first
  // has nothing to hide behind.
  static void startAhead(Block &block, const Hazards &hazards) {
    struct Gather {
      dist::CollectiveOp op;
      Operation *reader; // the first
      int64_t bytes;
    };
    SmallVector<Gather> gathers;
    for (auto op : block.getOps<dist::CollectiveOp>())
      if (gathersStored(op, hazards) && !dist::kStageSum.isOn(op))
        if (Operation *reader = firstReader(op.getResult(), block))
          gathers.push_back({op, reader, dist::bytesOf(op.getResult().getType())});
    // All places are found before one is moved.
    SmallVector<Operation *> places(gathers.size());
    for (size_t k = 1; k < gathers.size(); ++k) {
      int64_t ahead = 0;
      for (size_t j = k; j-- > 0 && ahead < gathers[k].bytes;) {
        if (hazards.hasStepBetween(gathers[j].reader, gathers[k].op))
          break;
        // Nor before the one that is needed before it.
        if (places[k - 1] && gathers[j].reader->isBeforeInBlock(places[k - 1]))
          break;
        ahead += gathers[j].bytes;
        places[k] = gathers[j].reader;
      }
    }
    for (auto [gather, place] : llvm::zip(gathers, places))
      if (place && place->isBeforeInBlock(gather.op)) {
        hoist(gather.op.getSource(), place);
        moveWithinBlock(gather.op, place);
      }
  }

  // The first operator that computes with the value, or with views of it.
  static Operation *firstReader(Value value, Block &block) {
    Operation *first = nullptr;
    for (Operation *user : value.getUsers()) {
      Operation *reader = block.findAncestorOpInBlock(*user);
      if (reader && (isView(reader) || isa<dist::UnpackOp>(reader)))
        for (Value result : reader->getResults()) {
          Operation *next = firstReader(result, block);
          if (next && (!first || next->isBeforeInBlock(first)))
            first = next;
        }
      else if (reader && (!first || reader->isBeforeInBlock(first)))
        first = reader;
    }
    return first;
  }

  void overlap(Block &block) {
    Hazards hazards(block);
    startAhead(block, hazards);
    SmallVector<dist::CollectiveWaitOp> waits;
    // What all stages of a pipeline do together stays where each of them has it.
    for (auto op : llvm::make_early_inc_range(block.getOps<dist::CollectiveOp>()))
      if (!dist::kStageSum.isOn(op))
        waits.push_back(split(op));
    if (waits.empty())
      return;
    // A collective is deferrable if nothing that depends on it allocates memory: it is waited for when later
    // ones have started, the last ones behind all other work.
    BlockGraph graph(block);
    SmallVector<std::pair<int, int>> deferrable; // start, wait
    int lastWork = -1;
    for (int node = 0; node < graph.size(); ++node) {
      if (graph.sliceAllocates(node))
        lastWork = node;
      if (isa<dist::CollectiveWaitOp>(graph.op(node)) && !graph.usersAllocate(node))
        deferrable.push_back(
            {graph.find(cast<dist::CollectiveWaitOp>(graph.op(node)).getToken().getDefiningOp()), node});
    }
    std::vector<std::pair<int, int>> later;
    for (auto [i, pair] : llvm::enumerate(deferrable)) {
      if (i + inFlight < deferrable.size())
        later.push_back({deferrable[i + inFlight].first, pair.second});
      else if (lastWork > pair.second)
        later.push_back({lastWork, pair.second});
    }
    graph.apply(graph.topologicalOrder(later));
    // All are found before one is moved: a move makes the block forget the order of its operators.
    SmallVector<Operation *> deadlines =
        llvm::map_to_vector(waits, [&](dist::CollectiveWaitOp wait) { return deadline(wait, hazards); });
    for (auto [wait, first] : llvm::zip(waits, deadlines))
      wait->moveBefore(first);
    for (dist::CollectiveWaitOp wait : waits) {
      if (wait->getPrevNode() == wait.getToken().getDefiningOp())
        rejoin(wait);
      else
        ++numOverlapped;
    }
  }

  void runOnOperation() override {
    getOperation().walk([&](Block *block) { overlap(*block); });
  }
};

} // namespace
