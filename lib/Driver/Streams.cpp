// See Streams.h.
#include "lib/Driver/Streams.h"
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Broadcast.h"
#include "dialects/dist/Machine.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/dist/Reshard.h"
#include "lib/Support/Location.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace tessera;

std::vector<StreamFact> tessera::collectStreams(ModuleOp module) {
  std::vector<StreamFact> facts;
  auto add = [&](StringRef program, dist::CollectiveInterface op) {
    if (op.getKind() != dist::CollectiveKind::Broadcast)
      return;
    int64_t times = 1;
    for (auto loop = op->getParentOfType<dist::LoopOp>(); loop; loop = loop->getParentOfType<dist::LoopOp>())
      times *= int64_t(loop.getTimes());
    StreamFact fact{program.str(), nodeName(op.getLoc()).str(), {}, {}, times, 0, 0};
    for (const dist::AxisRef &axis : op.getAxes().getAxes())
      fact.axes += (fact.axes.empty() ? "" : ",") + axis.name;
    RankedTensorType type = op.getSource().getType();
    fact.bytes = int64_t(double(type.getNumElements()) * dist::elementBytes(type.getElementType()));
    dist::BroadcastCost cost =
        dist::broadcastCost(dist::Machine::of(op).links, double(fact.bytes), op.getAxes().getAxes());
    fact.algorithm = rt::broadcastName(cost.algorithm);
    fact.seconds = cost.seconds;
    for (StreamFact &known : facts)
      if (known.program == fact.program && known.node == fact.node && known.axes == fact.axes &&
          known.bytes == fact.bytes) {
        known.count += times;
        return;
      }
    facts.push_back(std::move(fact));
  };
  for (auto func : module.getOps<func::FuncOp>()) {
    StringRef name = dist::programName(func);
    func.walk([&](dist::CollectiveInterface op) { add(name, op); });
  }
  return facts;
}
