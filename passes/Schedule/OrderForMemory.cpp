// The order of operators that needs the least memory.
#include "dialects/dist/Pack.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/nn/Attributes.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/Kernels/Passes.h"
#include "passes/Memory/Storage.h"
#include "passes/Schedule/BlockGraph.h"
#include "passes/Schedule/Passes.h"
#include "passes/Schedule/Stored.h"

namespace tessera {
#define GEN_PASS_DEF_ORDERFORMEMORY
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

// The operator of the block that reads `op`'s results first, of those that `which` counts.
Operation *firstReader(Operation *op, llvm::function_ref<bool(Operation *)> which) {
  Operation *first = nullptr;
  for (Operation *user : op->getUsers())
    if (Operation *reader = op->getBlock()->findAncestorOpInBlock(*user);
        reader && which(reader) && (!first || reader->isBeforeInBlock(first)))
      first = reader;
  return first;
}

bool isBackward(Operation *op) { return nn::kGradOf.isOn(op); }

struct OrderForMemoryPass : tessera::impl::OrderForMemoryBase<OrderForMemoryPass> {
  using OrderForMemoryBase::OrderForMemoryBase;

  LogicalResult initialize(MLIRContext *context) override {
    library = nn::findLibrary(target, UnknownLoc::get(context));
    return success(library);
  }

  // What is computed from variables and constants alone could all run first, and would be live until it is
  // read: it goes to its first reader, but neither to another step of a pipeline nor behind a write of a
  // variable.
  void placeFree(Block &block) {
    DenseSet<Value> free;
    SmallVector<Operation *> ops, barriers = Hazards(block).all();
    for (Operation &op : block) {
      bool given = isa<nn::ReadOp>(op) || op.hasTrait<OpTrait::ConstantLike>();
      bool computed = op.getNumRegions() == 0 && op.getNumResults() > 0 && isMemoryEffectFree(&op) &&
                      !isa<dist::CollectiveOp>(op) &&
                      llvm::all_of(op.getOperands(), [&](Value v) { return free.contains(v); });
      if (!given && !computed)
        continue;
      free.insert(op.result_begin(), op.result_end());
      if (!given)
        ops.push_back(&op);
    }
    auto isBefore = [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); };
    llvm::SmallPtrSet<Operation *, 16> isBarrier(barriers.begin(), barriers.end());
    for (Operation *op : llvm::reverse(ops)) {
      Operation *target = firstReader(op, [](Operation *) { return true; });
      if (!target)
        continue;
      auto *next = llvm::upper_bound(barriers, op, isBefore);
      if (next != barriers.end() && (*next)->isBeforeInBlock(target))
        target = *next;
      if (op->getNextNode() == target)
        continue;
      moveWithinBlock(op, target);
      if (isBarrier.contains(op))
        llvm::sort(barriers, isBefore);
    }
  }

  // Conversions of variables that the backward could make again, so that the forward's need not be live until
  // then, each with the first reader there.
  SmallVector<std::pair<Operation *, Operation *>> conversions(Block &block) {
    SmallVector<std::pair<Operation *, Operation *>> found;
    if (!block.getOps<dist::StepOp>().empty())
      return found;
    for (Operation &op : block) {
      if (isa<nn::ReadOp>(op) || op.getNumOperands() != 1 || op.getNumResults() != 1 ||
          !op.getOperand(0).getDefiningOp<nn::ReadOp>() || !storedRead(op.getResult(0)) ||
          dist::bytesOf(op.getResult(0).getType()) >= dist::bytesOf(op.getOperand(0).getType()))
        continue;
      Operation *first = firstReader(&op, isBackward);
      if (!first || llvm::all_of(op.getUsers(), isBackward))
        continue;
      found.push_back({&op, first});
    }
    return found;
  }

  // Converts again where that lowers the peak.
  void convertAgain(Block &block) {
    auto pairs = conversions(block);
    if (pairs.empty())
      return;
    int64_t before = orderOf(block).second;
    for (auto &[op, again] : pairs) {
      again = OpBuilder(again).clone(*op);
      op->replaceUsesWithIf(again, [](OpOperand &use) { return isBackward(use.getOwner()); });
    }
    if (double(orderOf(block).second) < 0.99 * double(before))
      return;
    for (auto [op, again] : pairs) {
      again->replaceAllUsesWith(op);
      again->erase();
    }
  }

  // The most bytes live at one moment of the function, when the block is run in `order`.
  int64_t peakOf(BlockGraph &graph, ArrayRef<int> order) {
    graph.apply(order);
    int64_t peak = Storage(getOperation(), kernels, *library, threads).fullestMoment().second;
    graph.apply(llvm::to_vector(llvm::seq(graph.size())));
    return peak;
  }

  // The order to run the block in, and its peak.
  std::pair<std::vector<int>, int64_t> orderOf(BlockGraph &graph) {
    std::vector<int> order = graph.listSchedule(/*greedy=*/false),
                     greedy = graph.listSchedule(/*greedy=*/true);
    int64_t peak = peakOf(graph, order), least = greedy == order ? peak : peakOf(graph, greedy);
    return (least < peak) != other ? std::pair(greedy, least) : std::pair(order, peak);
  }

  std::pair<std::vector<int>, int64_t> orderOf(Block &block) {
    BlockGraph graph(block);
    return orderOf(graph);
  }

  void order(Block &block) {
    placeFree(block);
    convertAgain(block);
    BlockGraph graph(block);
    std::vector<int> order = orderOf(graph).first;
    for (auto [place, node] : llvm::enumerate(order))
      numMoved += int(place) != node;
    graph.apply(order);
  }

  void runOnOperation() override {
    kernels = getOperation()->getParentOfType<ModuleOp>().lookupSymbol<ModuleOp>(kKernelsModule);
    // Inner blocks first: the order inside a loop does not matter to the blocks around it.
    getOperation().walk([&](Block *block) { order(*block); });
  }

  ModuleOp kernels;
  const nn::Library *library = nullptr;
};

} // namespace
