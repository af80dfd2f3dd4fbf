// Collectives before work that they can be under way beside.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pack.h"
#include "dialects/dist/Pipeline.h"
#include "passes/Kernels/Passes.h"
#include "passes/Schedule/Passes.h"
#include "passes/Schedule/Room.h"
#include "passes/Schedule/Stored.h"
#include "passes/Schedule/TierTrace.h"

namespace tessera {
#define GEN_PASS_DEF_HOISTCOLLECTIVES
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

// How many that send a collective may move across: where many stand together nothing is to be found before
// them.
constexpr int kMostOthers = 4;

struct HoistCollectivesPass : tessera::impl::HoistCollectivesBase<HoistCollectivesPass> {
  using HoistCollectivesBase::HoistCollectivesBase;

  LogicalResult initialize(MLIRContext *context) override {
    library = nn::findLibrary(target, UnknownLoc::get(context));
    return success(library);
  }

  // Variables that are gathered when something needs them are there from the start. Each gather starts where
  // the values gathered before it, as many bytes as its own, are yet to be read: what is computed with them
  // takes about as long as it does in proportion, and only the two are live. What is gathered first
  // has nothing to hide behind.
  static void hoistStored(Block &block) {
    Hazards hazards(block);
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

  // Whether a rank sends or receives something while the operator runs.
  static bool communicates(Operation *op) {
    return op
        ->walk([](Operation *inner) {
          return isa<dist::CollectiveOp, dist::SendOp, dist::SendStartOp, dist::RecvOp>(inner)
                     ? WalkResult::interrupt()
                     : WalkResult::advance();
        })
        .wasInterrupted();
  }

  // Where the collective is to be: before work that takes as long as it does, but behind what makes its
  // source and in the same step of a pipeline; before what is sent otherwise only if it is over by then.
  // `passes` sees each operator that it would be moved across, and may refuse.
  Operation *placeOf(dist::CollectiveOp op, llvm::function_ref<bool(Operation *)> passes) {
    const double seconds = secondsOf(op, *machine, threads);
    double passed = 0; // of work; if it is before others that send, of that before them
    int others = 0;
    Operation *place = op;
    for (Operation *before = op->getPrevNode(); before && passed < seconds; before = before->getPrevNode()) {
      if (isa<dist::StepOp>(before) || (!isView(before) && makes(before, op.getSource())) || !passes(before))
        break;
      if (communicates(before)) {
        if (++others > kMostOthers)
          break;
        passed = 0;
      } else if (double takes = secondsOf(before, *machine, threads); takes > 0) {
        passed += takes;
        if (others == 0 || passed >= seconds)
          place = before;
      }
    }
    return place;
  }

  // Whether the value is the operator's, or a view of it.
  static bool makes(Operation *op, Value value) {
    Operation *def = value.getDefiningOp();
    while (def && def != op && isView(def))
      def = def->getOperand(0).getDefiningOp();
    return def == op;
  }

  void hoistComputed(Block &block) {
    Hazards hazards(block);
    for (auto op : llvm::to_vector(block.getOps<dist::CollectiveOp>())) {
      if (dist::kStageSum.isOn(op) || storedRead(op.getSource()) || gathersStored(op, hazards) ||
          becomesVariable(op.getResult())) // whose readers and writers keep their sides of it
        continue;
      if (placeOf(op, [](Operation *) { return true; }) == op)
        continue;
      if (!room)
        room.emplace(getOperation(),
                     getOperation()->getParentOfType<ModuleOp>().lookupSymbol<ModuleOp>(kKernelsModule),
                     *library, threads);
      Room::Held held = room->held(op);
      Operation *place = placeOf(op, [&](Operation *before) { return room->has(before, held); });
      if (place == op)
        continue;
      for (Operation *passed = op->getPrevNode();; passed = passed->getPrevNode()) {
        room->take(passed, held);
        if (passed == place)
          break;
      }
      room->moved(op, place);
      hoist(op.getSource(), place);
      moveWithinBlock(op, place);
      ++numHoisted;
    }
  }

  void runOnOperation() override {
    machine = dist::Machine::of(getOperation());
    getOperation().walk([&](Block *block) { hoistStored(*block); });
    room.reset();
    getOperation().walk([&](Block *block) { hoistComputed(*block); });
  }

  const nn::Library *library = nullptr;
  std::optional<dist::Machine> machine;
  std::optional<Room> room; // made where it is asked
};

} // namespace
