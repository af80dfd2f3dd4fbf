// The order of operators that needs the least memory.
#include "passes/Schedule/BlockGraph.h"
#include "passes/Schedule/Passes.h"

namespace tessera {
#define GEN_PASS_DEF_ORDERFORMEMORY
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

struct OrderForMemoryPass : tessera::impl::OrderForMemoryBase<OrderForMemoryPass> {
  void runOnOperation() override {
    // Inner blocks first: the order inside a loop does not matter to the blocks around it.
    getOperation().walk([&](Block *block) {
      BlockGraph graph(*block);
      std::vector<int> order = graph.listSchedule(/*greedy=*/false), greedy = graph.listSchedule(/*greedy=*/true);
      // A readable order is worth one percent.
      if (double(graph.peak(greedy)) < 0.99 * double(graph.peak(order)))
        order = greedy;
      for (auto [place, node] : llvm::enumerate(order))
        numMoved += int(place) != node;
      graph.apply(order);
    });
  }
};

} // namespace
