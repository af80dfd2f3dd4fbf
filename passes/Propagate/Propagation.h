// Layouts for everything: the placement of every value is decided first, by one walk, then written into
// types.
#ifndef TESSERA_PASSES_PROPAGATE_PROPAGATION_H
#define TESSERA_PASSES_PROPAGATE_PROPAGATION_H

#include "dialects/dist/Dist.h"
#include "dialects/dist/Machine.h"
#include "dialects/dist/Reshard.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/Propagate/Lazy.h"
#include "passes/Propagate/Zero.h"

namespace tessera {

/// The placements of all values of all programs of a module: `decide` each program, then `fixPadding` and
/// `fixOrder`, then `emit` each, then `emitVariables`.
class Propagation {
public:
  Propagation(mlir::ModuleOp module, const dist::Mesh &mesh, int64_t micro, const Atoms &atoms, Zero zero)
      : module(module), mesh(mesh), micro(micro), atoms(atoms), zero(std::move(zero)),
        planner(dist::Machine::of(module).links) {
    for (auto variable : module.getOps<nn::VariableOp>())
      variables.try_emplace(variable.getSymName(), variable);
  }
  /// Decides where every value of `func` is at home and where each operator wants its operands.
  llvm::LogicalResult decide(mlir::func::FuncOp func);
  /// Pads each size to the blocks that all programs together cut it into.
  void fixPadding();
  /// Orders positions in zig-zag where a pattern divides its work evenly so, and nothing needs them in order.
  void fixOrder();
  /// Writes the decided placements into the types of `func`, with `dist.reshard` between homes and uses.
  void emit(mlir::func::FuncOp func);
  /// Writes the storage of the variables into their types.
  void emitVariables();
  int64_t numReshards = 0;

private:
  class Emission;
  class ZigzagOrder;
  /// Places the operands and results whose blocks move; `map` takes the operator's factors to those of the
  /// operator with the pattern.
  void placeStreamed(nn::FactorRule rule, nn::FactorRule forward, llvm::function_ref<int(int)> map,
                     Decision &d) const;
  llvm::LogicalResult decideInputs(mlir::func::FuncOp func);
  /// The placement that a `dist.split` attribute describes: per dimension a list of axis names.
  llvm::FailureOr<Placement> laidDown(mlir::Value value, mlir::ArrayAttr splits, mlir::Location loc) const;
  llvm::LogicalResult decideOp(mlir::Operation *op);
  llvm::LogicalResult decideAcc(nn::AccOp acc);
  /// The value whose cotangent `acc` is; null for a parameter's.
  llvm::FailureOr<mlir::Value> primalOf(nn::AccOp acc) const;
  /// Whether the cotangent is left where its terms are, partial sums, to be reduced together with another
  /// one.
  bool isLazy(nn::AccOp acc, const Placement &at);
  /// The axes over which the results are partial because an operand is.
  dist::AxisList inheritedPartial(mlir::Operation *op, const Decision &d);
  /// Splits an operator as its pattern says, or as is cheapest for where its operands lie.
  llvm::LogicalResult choose(mlir::Operation *op, Decision &d);
  llvm::LogicalResult choosePattern(mlir::Operation *op, dist::PatternAttr attr, Decision &d);
  void chooseCheapest(mlir::Operation *op, Decision &d);
  /// Splits the factors that are whole yet as the homes of the operands have them, `first` before others; -1:
  /// in order.
  void followOperands(mlir::Operation *op, int first, const Decision &d, Assignment &axes) const;
  // Remarks.cpp: why a layout is what it is, for whoever listens.
  bool hasListener() const { return mlir::ModuleOp(module).getContext()->getRemarkEngine(); }
  void remark(mlir::Location at, const llvm::Twine &text) const;
  void remark(mlir::Operation *op, const llvm::Twine &text) const {
    remark(op->getLoc(), op->getName().stripDialect() + ": " + text);
  }
  /// `costs`: the operands that `op` could have followed, each with the seconds of bringing the others to it.
  void remarkFollowed(mlir::Operation *op, unsigned chosen,
                      llvm::ArrayRef<std::pair<unsigned, double>> costs) const;
  void remarkVariable(nn::ReadOp read) const;
  void remarkResult(mlir::Operation *op, unsigned result, const Placement &raw) const;

  /// Splits a gradient operator as its forward operator; false where there is none.
  bool follow(mlir::Operation *op, Decision &d);
  /// Where a partial sum is best reduced to: the home of what it is added to next when that costs no more
  /// than reducing it in place.
  Placement reducedHome(mlir::Value result, const Placement &raw);
  /// Gives a value that no layout reached yet its first home.
  void demand(mlir::Value value, const Placement &placement);
  /// A result as computed: partial over split factors that are summed and over the `inherited` axes.
  static Placement rawOf(const Decision &d, unsigned result, llvm::ArrayRef<dist::AxisRef> inherited);
  /// Where a variable is stored: as its first `use` wants it, cut further by ZeRO.
  const Placement &storageOf(llvm::StringRef variable, const Placement &use);
  /// Records the decision, its demands on free operands and the homes of its results.
  llvm::LogicalResult record(mlir::Operation *op, Decision d);
  bool isFree(mlir::Value value) const { return freeValues.contains(value); }
  Placement homeOf(mlir::Value value, mlir::Operation *user) const;
  Placement whole(mlir::Value value) const {
    return {llvm::SmallVector<dist::AxisList>(atoms.flat(value).size()), {}, {}};
  }
  double reshardSeconds(mlir::Value value, const Placement &from, const Placement &to);
  dist::Layout layout(mlir::Value value, const Placement &placement, bool final) const;
  /// Whether a rank holds more of the value as used than at home.
  bool grows(mlir::Value value, const Placement &home, const Placement &use) const {
    return layout(value, home, true).localElements() < layout(value, use, true).localElements();
  }
  mlir::RankedTensorType typed(mlir::Value value, const Placement &placement) const;
  void noteAxes(mlir::Value value, const Placement &placement);

  mlir::ModuleOp module;
  const dist::Mesh &mesh;
  int64_t micro;
  const Atoms &atoms;
  Zero zero;
  dist::ReshardPlanner planner;
  llvm::DenseMap<mlir::Value, Placement> homes, inputHomes; // inputHomes: before the slice into microbatches
  llvm::DenseMap<mlir::Value, int> distance;
  llvm::DenseSet<mlir::Value> freeValues;
  llvm::DenseMap<mlir::Operation *, Decision> decisions;
  llvm::StringMap<Placement> storage; // of variables
  llvm::StringMap<nn::VariableOp> variables;
  llvm::StringMap<mlir::Operation *> forward;    // nn.id -> operator, of the function being decided
  std::map<std::pair<int, int>, int64_t> blocks; // representative atom -> lcm of the products that split it
  std::map<std::pair<int, int>, int64_t> padded;
  std::map<std::pair<int, int>, int64_t> zigzag; // representative atom -> ranks of the zig-zag
};

} // namespace tessera

#endif // TESSERA_PASSES_PROPAGATE_PROPAGATION_H
