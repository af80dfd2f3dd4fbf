// Splitting of collectives into start and wait.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pipeline.h"
#include "passes/Memory/Hazards.h"
#include "passes/Memory/Liveness.h"
#include "passes/Schedule/BlockGraph.h"
#include "passes/Schedule/Passes.h"

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

  // Whether the value, or a view of it, is a message to another stage of a pipeline.
  static bool isSent(Value value) {
    return llvm::any_of(value.getUsers(), [](Operation *user) {
      return isa<dist::SendStartOp>(user) || (isView(user) && isSent(user->getResult(0)));
    });
  }

  // The node behind which one of the collectives (start, wait) is to be waited for: where `inFlight` later
  // ones have started, or `last`, where they are too few or in another step of a pipeline. What depends on it
  // cannot start before, and does not count.
  int placeOf(const BlockGraph &graph, ArrayRef<std::pair<int, int>> collectives, size_t index,
              int last) const {
    auto [place, node] = collectives[index];
    if (inFlight == 0)
      return place;
    llvm::SmallDenseSet<int> dependent = {node};
    // Whether a node may come before the wait; one behind the last that was asked for.
    auto isIndependent = [&](int other) {
      for (; node < other; ++node)
        if (dependent.contains(node))
          dependent.insert_range(graph.following(node));
      return !dependent.contains(other);
    };
    unsigned started = 0;
    for (auto [start, wait] : collectives.drop_front(index + 1)) {
      if (llvm::any_of(llvm::seq(node, std::max(node, start)), [&](int i) { return graph.beginsStep(i); }))
        return last;
      if (!isIndependent(start))
        continue;
      place = start;
      if (++started == inFlight)
        return place;
    }
    return isIndependent(last) ? last : place;
  }

  void overlap(Block &block) {
    Hazards hazards(block);
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
      if (graph.sliceAllocates(node) || isa<dist::CollectiveStartOp>(graph.op(node)))
        lastWork = node;
      if (isa<dist::CollectiveWaitOp>(graph.op(node)) && !graph.usersAllocate(node))
        deferrable.push_back(
            {graph.find(cast<dist::CollectiveWaitOp>(graph.op(node)).getToken().getDefiningOp()), node});
    }
    const int end = graph.endOfSteps();
    const int begin = graph.lastStep();
    std::vector<std::pair<int, int>> later;
    for (auto [i, pair] : llvm::enumerate(deferrable)) {
      int place = placeOf(graph, deferrable, i, lastWork);
      // What is reduced in place, which a wait would not free, does not hold up the last step of a pipeline.
      Value result = graph.op(pair.second)->getResult(0);
      if (pair.first > begin && !isSent(result) &&
          dist::collectiveOf(result).getKind() == dist::CollectiveKind::AllReduce)
        place = std::max(place, end);
      if (place > pair.second)
        later.push_back({place, pair.second});
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
