// The last turn of a loop over microbatches leaves the loop, where what its sums are needed for may be under
// way beside it, and the first one, where what all turns need may be.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Machine.h"
#include "dialects/dist/Pipeline.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/RegionUtils.h"
#include "passes/Kernels/Passes.h"
#include "passes/Memory/Storage.h"
#include "passes/Memory/VariablePlaces.h"
#include "passes/Schedule/Passes.h"
#include "passes/Schedule/Stored.h"
#include "passes/Schedule/TierTrace.h"
#include "llvm/ADT/TypeSwitch.h"

namespace tessera {
#define GEN_PASS_DEF_PEELLOOPS
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

// Collectives in front of a loop or behind it that take less than this part of its time are not worth another
// copy of its body.
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

  // What gathers variables in front of the loop for its body, or is computed of what is gathered, in order.
  static SmallVector<Operation *> gatheredFor(dist::LoopOp loop) {
    const Hazards hazards(*loop->getBlock());
    auto gathers = [&](Operation *op) {
      auto collective = dyn_cast<dist::CollectiveOp>(op);
      return collective && gathersStored(collective, hazards);
    };
    SetVector<Value> needed;
    getUsedValuesDefinedAbove(loop->getRegions(), needed);
    for (size_t i = 0; i < needed.size(); ++i)
      if (Operation *op = needed[i].getDefiningOp())
        needed.insert(op->operand_begin(), op->operand_end());
    SmallVector<Operation *> ops;
    DenseSet<Value> gathered;
    for (Operation &op : llvm::make_range(loop->getBlock()->begin(), loop->getIterator())) {
      auto isGathered = [&](Value value) { return gathered.contains(value); };
      if (llvm::none_of(op.getResults(), [&](Value value) { return needed.contains(value); }) ||
          (!gathers(&op) && llvm::none_of(op.getOperands(), isGathered)))
        continue;
      gathered.insert(op.result_begin(), op.result_end());
      ops.push_back(&op);
    }
    return ops;
  }

  // Whether each operator of the body that depends on which microbatch runs can be told.
  static bool canTellLast(dist::LoopOp loop, int64_t microbatches) {
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
    return !loop.getBody()->walk(check).wasInterrupted();
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

  // The first operator of its block that uses a result of `op`, itself or in a region.
  static Operation *firstUser(Operation *op) {
    Operation *first = op->getBlock()->getTerminator();
    for (Operation *user : op->getUsers())
      if (Operation *inBlock = op->getBlock()->findAncestorOpInBlock(*user); inBlock->isBeforeInBlock(first))
        first = inBlock;
    return first;
  }

  // The first turn is that of microbatch 0, as everything outside of a loop is. Each sum has zeros of its own
  // to begin with, which memory planning fills in where it is.
  // What all turns need is gathered where this one needs it.
  void peelFirst(dist::LoopOp loop, ArrayRef<Operation *> gathered) {
    OpBuilder b(loop);
    IRMapping map;
    map.map(loop.getCarried(), loop.getInits());
    auto begin = [&](Value value) {
      auto carried = dyn_cast<BlockArgument>(value);
      if (!carried || carried.getOwner() != loop.getBody())
        return;
      Value init = loop.getInits()[carried.getArgNumber()];
      if (auto constant = init.getDefiningOp<nn::ConstantOp>(); constant && map.lookup(value) == init)
        map.map(value, b.clone(*constant)->getResult(0));
    };
    for (Operation &op : loop.getBody()->without_terminator()) {
      llvm::for_each(op.getOperands(), begin);
      b.clone(op, map);
    }
    for (Operation *op : llvm::reverse(gathered))
      moveWithinBlock(op, firstUser(op));
    const SetVector<Value> begins(loop.getInits().begin(), loop.getInits().end());
    auto next = llvm::map_to_vector(loop.getBody()->getTerminator()->getOperands(),
                                    [&](Value value) { return map.lookupOrDefault(value); });
    if (loop.getTimes() == 1) {
      loop->replaceAllUsesWith(next);
      loop->erase();
    } else {
      loop.getInitsMutable().assign(next);
      loop.setFirst(loop.getFirst() + 1);
      loop.setTimes(loop.getTimes() - 1);
    }
    for (Value value : begins)
      if (auto unused = value.getDefiningOp<nn::ConstantOp>(); unused && unused->use_empty())
        unused.erase();
  }

  // The last turn is that of the last microbatch, in whichever order the loop takes them (rt::Shards).
  void peelLast(dist::LoopOp loop, int64_t microbatches) {
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
  }

  // Takes turns out of the function's loops where that is worthwhile. Returns how many.
  int64_t peel(func::FuncOp func) {
    ModuleOp module = getOperation();
    const dist::Machine machine = dist::Machine::of(module);
    const int64_t microbatches = dist::microbatches(module);
    int64_t peeled = 0;
    for (auto loop : llvm::to_vector(func.getBody().front().getOps<dist::LoopOp>())) {
      if (loop.getTimes() == 1)
        continue;
      const double worthwhile = kWorthwhile * secondsOf(loop, machine, threads);
      const SmallVector<Operation *> gathered = gatheredFor(loop);
      double inFront = 0;
      for (Operation *op : gathered)
        if (isa<dist::CollectiveOp>(op))
          inFront += secondsOf(op, machine, threads);
      const bool first = inFront >= worthwhile;
      if (canTellLast(loop, microbatches) && secondsBehind(loop, machine, threads) >= worthwhile) {
        peelLast(loop, microbatches);
        ++peeled;
      }
      if (first) {
        peelFirst(loop, gathered);
        ++peeled;
      }
    }
    return peeled;
  }

  // Whether the function needs no more of the device than `cap` in the order that it will have.
  FailureOr<bool> fits(func::FuncOp func, int64_t cap) {
    OwningOpRef<func::FuncOp> given = func.clone();
    OpPassManager pm(func::FuncOp::getOperationName());
    ChooseOrderOptions order;
    order.target = target;
    order.threads = threads;
    order.largest = 0;
    pm.addPass(createChooseOrder(order));
    if (failed(runPipeline(pm, func)))
      return failure();
    Storage storage(func, getOperation().lookupSymbol<ModuleOp>(kKernelsModule), *library, threads);
    const int64_t needed = VariablePlaces(func).end(func, Tier::Device) + storage.fullestMoment().second;
    func.getBody().takeBody(given->getBody());
    return needed <= cap;
  }

  void runOnOperation() override {
    auto cap = dist::kDeviceMemory.of(getOperation());
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      OwningOpRef<func::FuncOp> given = cap ? func.clone() : func::FuncOp();
      int64_t peeled = peel(func);
      if (cap && peeled > 0) {
        FailureOr<bool> isEnough = fits(func, cap.getInt());
        if (failed(isEnough))
          return signalPassFailure();
        if (!*isEnough) {
          func.getBody().takeBody(given->getBody());
          peeled = 0;
        }
      }
      numPeeled += peeled;
    }
  }

  const nn::Library *library = nullptr;
};

} // namespace
