// Tables that are only looked up in are converted before they are gathered.
#include "dialects/dist/Attributes.h"
#include "passes/Schedule/Passes.h"

namespace tessera {
#define GEN_PASS_DEF_NARROWTABLES
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

/// A converted look-up in a variable that is stored in pieces.
struct LookUp {
  nn::CastOp cast;
  nn::PrecisionOpInterface op; // whose operand 0 is the whole table
  dist::UnflattenOp table;
  dist::CollectiveOp gather;
  nn::ReadOp read;
};

Type elementOf(Value value) { return getElementTypeOrSelf(value.getType()); }

std::optional<LookUp> lookUpOf(nn::CastOp cast) {
  LookUp found;
  found.cast = cast;
  found.op = cast.getOperand().getDefiningOp<nn::PrecisionOpInterface>();
  if (!found.op || !found.op->hasOneUse() || !found.op.copies(0))
    return std::nullopt;
  found.table = found.op->getOperand(0).getDefiningOp<dist::UnflattenOp>();
  found.gather = found.table ? found.table.getSource().getDefiningOp<dist::CollectiveOp>() : nullptr;
  if (!found.gather || found.gather.getKind() != dist::CollectiveKind::AllGather)
    return std::nullopt;
  found.read = found.gather.getSource().getDefiningOp<nn::ReadOp>();
  if (!found.read ||
      elementOf(cast).getIntOrFloatBitWidth() >= elementOf(cast.getOperand()).getIntOrFloatBitWidth())
    return std::nullopt;
  return found;
}

struct NarrowTablesPass : tessera::impl::NarrowTablesBase<NarrowTablesPass> {
  void runOnOperation() override {
    SmallVector<nn::CastOp> casts;
    getOperation().walk([&](nn::CastOp cast) { casts.push_back(cast); });
    for (nn::CastOp cast : casts)
      if (std::optional<LookUp> found = lookUpOf(cast)) {
        narrow(*found);
        ++numTables;
      }
  }

  /// What is read, converted: as it is somewhere before the gather, or where that is done again for the
  /// backward anew.
  static Value narrowed(LookUp of) {
    Type to = elementOf(of.cast);
    for (Operation *user : of.read->getUsers())
      if (auto cast = dyn_cast<nn::CastOp>(user);
          cast && cast.getTo() == to && !dist::kGather.isOn(of.gather) &&
          cast->getBlock() == of.gather->getBlock() && cast->isBeforeInBlock(of.gather))
        return cast;
    OpBuilder b(of.gather);
    return nn::CastOp::create(b, of.read.getLoc(), of.read, to);
  }

  /// The same gather of `source`, if there is one: it comes in place of that of `of`.
  static dist::CollectiveOp sameGather(LookUp of, Value source) {
    for (Operation *user : source.getUsers())
      if (auto gather = dyn_cast<dist::CollectiveOp>(user);
          gather && gather->getBlock() == of.gather->getBlock() &&
          gather->getAttrDictionary() == of.gather->getAttrDictionary()) {
        if (of.gather->isBeforeInBlock(gather))
          gather->moveBefore(of.gather);
        return gather;
      }
    return nullptr;
  }

  static Operation *cloneAs(OpBuilder &b, Operation *op, Value operand) {
    IRMapping map;
    map.map(op->getOperand(0), operand);
    Operation *clone = b.clone(*op, map);
    Type type = op->getResult(0).getType();
    clone->getResult(0).setType(cast<ShapedType>(type).clone(elementOf(operand)));
    return clone;
  }

  static void narrow(LookUp found) {
    Value source = narrowed(found);
    OpBuilder b(found.gather);
    Operation *gather = sameGather(found, source);
    if (!gather)
      gather = cloneAs(b, found.gather, source);
    b.setInsertionPoint(found.table);
    Operation *table = cloneAs(b, found.table, gather->getResult(0));
    b.setInsertionPoint(found.op);
    Operation *rows = cloneAs(b, found.op, table->getResult(0));
    found.cast.replaceAllUsesWith(rows->getResult(0));
    for (Operation *op : {found.cast.getOperation(), found.op.getOperation(), found.table.getOperation(),
                          found.gather.getOperation()})
      if (op->use_empty())
        op->erase();
  }
};

} // namespace
