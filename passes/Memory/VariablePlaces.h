// Where variables lie in the arenas of their tiers.
#ifndef TESSERA_PASSES_MEMORY_VARIABLEPLACES_H
#define TESSERA_PASSES_MEMORY_VARIABLEPLACES_H

#include "dialects/Tier.h"
#include "dialects/nn/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include <map>

namespace tessera {

/// One place for each variable in all programs of a rank, at the bottom of the arena of the tier that it
/// rests in. What most programs use lies lowest, so that one that needs no optimizer's state has an arena
/// without it.
class VariablePlaces {
public:
  /// Of all programs of the module.
  explicit VariablePlaces(mlir::ModuleOp module);
  /// Of those that the ranks of `program` run.
  explicit VariablePlaces(mlir::func::FuncOp program);

  /// The variable's first byte in its tier's arena of the ranks that run `program`, which uses it.
  int64_t offset(mlir::func::FuncOp program, llvm::StringRef variable) const;
  /// The first byte behind all variables that `program` uses and that rest in `tier`.
  int64_t end(mlir::func::FuncOp program, Tier tier) const;
  /// What a variable's local part takes there, in bytes.
  static int64_t bytes(nn::VariableOp variable);

private:
  VariablePlaces(mlir::ModuleOp module, llvm::ArrayRef<mlir::func::FuncOp> programs);

  std::map<int64_t, llvm::StringMap<int64_t>> offsets; // by stage, by variable
  std::map<std::pair<mlir::Operation *, Tier>, int64_t> ends;
};

} // namespace tessera
#endif
