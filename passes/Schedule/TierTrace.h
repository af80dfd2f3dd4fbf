// A scheduled program as passes/Tiers sees it: what may leave a tier, where it is used, how long operators
// take.
#ifndef TESSERA_PASSES_SCHEDULE_TIERTRACE_H
#define TESSERA_PASSES_SCHEDULE_TIERTRACE_H

#include "passes/Memory/Storage.h"
#include "passes/Memory/VariablePlaces.h"
#include "passes/Tiers/Tiers.h"

namespace tessera {

/// What the machine takes for an operator; nothing for one that has no work of its own, or has only begun.
double secondsOf(mlir::Operation *op, const dist::Machine &machine, int64_t threads);

/// What the host of the machine takes for a function of the library on `count` elements.
double secondsOnHost(llvm::StringRef function, int64_t count, const dist::Machine &machine);

/// The step of a function whose operators have their final order. Positions are the operators of its block
/// but the terminator; behind a loop over microbatches those of its body with the terminator, once. Of the
/// host it is the same one tier down: values are copies, transfers use them.
struct TierTrace {
  /// What a value of the step is: a variable, or what one operator makes, with all views of it. On the host,
  /// what one offload brings.
  struct Traced {
    nn::VariableOp variable;
    mlir::Value value; // null for a variable
  };

  /// An update, as the device makes it.
  struct TracedUpdate {
    nn::UpdateOp op;
    nn::LibraryCall call;
  };

  /// Conversions of a parameter to a half type, as the device makes them; or zeros.
  struct TracedConversion {
    llvm::SmallVector<exec::ApplyOp> ops;
    mlir::Type type; // of what each yields
  };

  enum Choice { Stays, MayMove, MustMove };
  /// What may be done with a variable, of the category "optimizer" or "parameters", and (null) with all other
  /// values, "activations". One that must move rests below.
  using Chooser = llvm::function_ref<Choice(nn::VariableOp variable, llvm::StringRef category)>;
  /// Unless `opensLoop`, a loop is one operator.
  TierTrace(mlir::func::FuncOp func, const Storage &storage, const VariablePlaces &places, int64_t threads,
            Chooser choose, Tier tier = Tier::Device, bool opensLoop = true);

  /// What a variable counts as: "optimizer" or "parameters".
  static llvm::StringRef categoryOf(nn::VariableOp variable);

  Tier tier;
  tiers::Step step;
  llvm::SmallVector<Traced> traced;                // parallel to step.values
  llvm::SmallVector<TracedUpdate> updates;         // parallel to step.updates
  llvm::SmallVector<TracedConversion> conversions; // parallel to step.conversions
  llvm::SmallVector<mlir::Operation *> ops;

  /// The position of the operator that `op` is, or is inside of; as many as there are for the function's
  /// terminator, -1 for what was added since.
  int64_t positionOf(mlir::Operation *op) const;

private:
  void addVariables(const Storage &storage, Chooser choose);
  void addActivations(const Storage &storage);
  bool addSum(mlir::OpResult result, const Storage &storage);
  void addUpdates(const Storage &storage);
  void addConversions(const Storage &storage);
  std::optional<int> findOrAdd(mlir::Value value, const Storage &storage);
  int find(nn::VariableOp variable) const;
  void addCopiedVariables(const Storage &storage, Chooser choose);
  void addCopies(const Storage &storage);
  void addVariable(nn::VariableOp variable, Choice choice, const std::map<int64_t, bool> &uses);
  std::pair<int64_t, int64_t> arrival(mlir::Value copy) const;
  tiers::Value &add(Traced what, int64_t bytes, const std::map<int64_t, bool> &uses);
  int64_t madeAt(mlir::Operation *op) const;
  bool isCarried(mlir::Value value) const;
  bool isOutside(mlir::Value value) const;
  void addUses(mlir::Value value, std::map<int64_t, bool> &uses) const;

  mlir::Block *block, *body = nullptr; // the function's; the loop's where it is open
  int64_t alignment;
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
};

} // namespace tessera
#endif
