// The pass that compares operators which run again with those that they say they run.
#include "dialects/dist/Attributes.h"
#include "passes/Memory/Hazards.h"
#include "passes/Schedule/Passes.h"
#include "passes/Schedule/SameValue.h"
#include "llvm/ADT/StringMap.h"

namespace tessera {
#define GEN_PASS_DEF_VERIFYRECOMPUTE
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

class Verifier {
public:
  explicit Verifier(Block &block) : hazards(block) {
    for (Operation &op : block)
      if (StringAttr name = dist::kRepeated.of(&op))
        if (!originals.try_emplace(name.getValue(), &op).second)
          doubles.push_back(&op);
  }

  LogicalResult run(Block &block) {
    for (Operation *op : doubles)
      return op->emitOpError("is repeated by the name of another operator, '")
             << dist::kRepeated.of(op).getValue() << "'";
    for (Operation &op : block)
      if (dist::kRecompute.isOn(&op) && failed(verify(&op)))
        return failure();
    return success();
  }

private:
  LogicalResult verify(Operation *op) {
    StringRef name = dist::kRecompute.of(op).getValue();
    Operation *original = originals.lookup(name);
    if (!original || !original->isBeforeInBlock(op))
      return op->emitOpError("runs '") << name << "' again, which no operator before it is called";
    auto differs = [&](StringRef what) {
      InFlightDiagnostic error = op->emitOpError("runs '") << name << "' again, but " << what;
      error.attachNote(original->getLoc()) << "which is this operator";
      return error;
    };
    if (op->getName() != original->getName() || op->getNumOperands() != original->getNumOperands())
      return differs("is another operator");
    if (computing(op) != computing(original))
      return differs("has other attributes");
    if (op->getResultTypes() != original->getResultTypes())
      return differs("makes other types");
    for (auto [i, now, then] : llvm::enumerate(op->getOperands(), original->getOperands())) {
      if (!isSameValue(now, then, [&](Value value) { return first(value); }))
        return differs(("reads another value as operand " + Twine(i)).str());
      if (Operation *writer = writerBetween(now, original, op))
        return differs(("operand " + Twine(i) + " is a variable that has been written").str())
                   .attachNote(writer->getLoc())
               << "it is written here";
    }
    return success();
  }

  // What a value was made as: by an operator that ran before, before it went to another tier.
  Value first(Value value) const {
    while (Operation *def = value.getDefiningOp()) {
      if (StringAttr name = dist::kRecompute.of(def)) {
        Operation *original = originals.lookup(name.getValue());
        auto index = cast<OpResult>(value).getResultNumber();
        if (!original || index >= original->getNumResults())
          return value;
        return original->getResult(index);
      }
      if (!isa<dist::PrefetchWaitOp, dist::OffloadWaitOp, dist::PrefetchStartOp, dist::OffloadStartOp>(def))
        return value;
      value = def->getOperand(0);
    }
    return value;
  }

  // What writes the variable behind a value between two readers of it.
  Operation *writerBetween(Value read, Operation *from, Operation *to) const {
    if (StringRef variable = variableBehind(read); !variable.empty())
      for (Operation *writer : hazards.writers(variable))
        if (from->isBeforeInBlock(writer) && writer->isBeforeInBlock(to))
          return writer;
    return nullptr;
  }

  const Hazards hazards;
  llvm::StringMap<Operation *> originals;
  SmallVector<Operation *> doubles;
};

struct VerifyRecomputePass : tessera::impl::VerifyRecomputeBase<VerifyRecomputePass> {
  void runOnOperation() override {
    WalkResult result = getOperation().walk([](Block *block) {
      return failed(Verifier(*block).run(*block)) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
