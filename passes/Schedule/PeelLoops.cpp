// The last turn of a loop over microbatches leaves the loop, where what its sums are needed for may be under
// way beside it.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Machine.h"
#include "dialects/dist/Pipeline.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Kernels/Passes.h"
#include "passes/Memory/Storage.h"
#include "passes/Memory/VariablePlaces.h"
#include "passes/Schedule/Passes.h"
#include "passes/Schedule/TierTrace.h"
#include "llvm/ADT/TypeSwitch.h"

namespace tessera {
#define GEN_PASS_DEF_PEELLOOPS
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

// Collectives behind a loop that take less than this part of its time are not worth a second copy of its
// body.
constexpr double kWorthwhile = 0.01;

struct PeelLoopsPass : tessera::impl::PeelLoopsBase<PeelLoopsPass> {
  using PeelLoopsBase::PeelLoopsBase;

  LogicalResult initialize(MLIRContext *context) override {
    library = nn::findLibrary(target, UnknownLoc::get(context));
    return success(library);
  }

  // The seconds of the collectives behind the loop that need a sum of it.
  static double secondsBehind(dist::LoopOp loop, const dist::Machine &machine, int64_t threads) {
    double seconds = 0;
    DenseSet<Value> dependent(loop->result_begin(), loop->result_end());
    for (Operation *op = loop->getNextNode(); op; op = op->getNextNode()) {
      if (llvm::none_of(op->getOperands(), [&](Value v) { return dependent.contains(v); }))
        continue;
      dependent.insert(op->result_begin(), op->result_end());
      if (isa<dist::CollectiveOp>(op))
        seconds += secondsOf(op, machine, threads);
    }
    return seconds;
  }

  // Whether each operator of the body that depends on which microbatch runs can be told.
  static bool canPeel(dist::LoopOp loop, int64_t microbatches) {
    auto isMicro = [&](const dist::AxisRef &axis) { return axis.name == dist::kMicroAxis; };
    auto divides = [&](const dist::AxisRef &axis) { return microbatches % (axis.pre * axis.size) == 0; };
    auto canTell = [&](dist::AxesAttr axes) {
      return llvm::all_of(axes.getAxes(), [&](const auto &axis) { return !isMicro(axis) || divides(axis); });
    };
    auto check = [&](Operation *op) {
      bool isTold = llvm::TypeSwitch<Operation *, bool>(op)
                        .Case<dist::SliceOp, dist::BlockStartOp, dist::ValidOp>(
                            [&](auto each) { return canTell(each.getAxes()); })
                        .Default([](Operation *other) { return !dist::readsMicro(other); });
      return isTold ? WalkResult::advance() : WalkResult::interrupt();
    };
    return loop.getTimes() > 1 && !loop.getBody()->walk(check).wasInterrupted();
  }

  // Outside of a loop the coordinate on the axis "micro" is 0: shifts it to that of the microbatch.
  template <typename Op> static void shift(Op op, int64_t microbatch, int64_t microbatches) {
    if (!dist::readsMicro(op))
      return;
    SmallVector<int64_t> shift(op.getAxes().getAxes().size());
    if (auto given = op.getShift())
      llvm::copy(*given, shift.begin());
    for (auto [by, axis] : llvm::zip(shift, op.getAxes().getAxes()))
      if (axis.name == dist::kMicroAxis)
        by += microbatch / (microbatches / (axis.pre * axis.size)) % axis.size;
    op.setShift(shift);
  }

  // The last turn is that of the last microbatch, in whichever order the loop takes them (rt::Shards).
  void peel(dist::LoopOp loop, int64_t microbatches) {
    const int64_t microbatch = int64_t(loop.getTimes()) - 1;
    OpBuilder b(loop->getContext());
    b.setInsertionPointAfter(loop);
    SmallVector<OpOperand *> uses;
    for (Value result : loop.getResults())
      for (OpOperand &use : result.getUses())
        uses.push_back(&use);
    IRMapping map;
    map.map(loop.getCarried(), loop.getResults());
    for (Operation &op : loop.getBody()->without_terminator())
      b.clone(op, map)->walk([&](Operation *clone) {
        llvm::TypeSwitch<Operation *>(clone).Case<dist::SliceOp, dist::BlockStartOp, dist::ValidOp>(
            [&](auto each) { shift(each, microbatch, microbatches); });
      });
    Operation *yield = loop.getBody()->getTerminator();
    for (OpOperand *use : uses)
      use->set(map.lookupOrDefault(yield->getOperand(cast<OpResult>(use->get()).getResultNumber())));
    loop.setTimes(loop.getTimes() - 1);
    ++numPeeled;
  }

  // Whether the function needs no more of the device than it may have, in the order that it has yet.
  bool fits(func::FuncOp func) {
    ModuleOp module = getOperation();
    auto cap = dist::kDeviceMemory.of(module);
    if (!cap)
      return true;
    Storage storage(func, module.lookupSymbol<ModuleOp>(kKernelsModule), *library, threads);
    return VariablePlaces(func).end(func, Tier::Device) + storage.fullestMoment().second <= cap.getInt();
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    const dist::Machine machine = dist::Machine::of(module);
    const int64_t microbatches = dist::microbatches(module);
    for (auto func : module.getOps<func::FuncOp>())
      for (auto loop : llvm::to_vector(func.getBody().front().getOps<dist::LoopOp>())) {
        if (!canPeel(loop, microbatches) ||
            secondsBehind(loop, machine, threads) < kWorthwhile * secondsOf(loop, machine, threads) ||
            !fits(func))
          continue;
        peel(loop, microbatches);
      }
  }

  const nn::Library *library = nullptr;
};

} // namespace
