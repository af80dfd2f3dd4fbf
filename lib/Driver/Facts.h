// What propagation decided, gathered for people: `explain` prints it, `--report` writes it as JSON.
#ifndef TESSERA_LIB_DRIVER_FACTS_H
#define TESSERA_LIB_DRIVER_FACTS_H

#include "mlir/IR/BuiltinOps.h"
#include <string>
#include <vector>

namespace tessera {

/// A dist.reshard: layouts, and what the planner makes of it.
struct MoveFact {
  std::string from, to;
  std::vector<std::string> collectives; // such as `all_reduce tensor`; empty: only local slices
  double bytes = 0;                     // a step, that the mean rank sends
  double seconds = 0;                   // modelled, a step
};

/// An operator of a program, or a move between two of them.
struct OperatorFact {
  std::string program, node, module, kind;
  std::vector<std::string> names; // that globs are matched against
  bool isForward = true;
  std::string pattern, origin;                // empty: followed its operands
  std::vector<std::string> operands, results; // types with layouts
  int64_t heldBytes = 0;                      // results on one rank
  std::vector<MoveFact> move;                 // one for a dist.reshard, else none
  std::vector<std::string>
      whole; // for a product: mesh axes that it does not use, so that ranks repeat each other's work
};

struct ParameterFact {
  std::string name, source, type; // type with layout
  bool transposed = false, trained = false, isReplicated = false;
  std::string why; // of a replicated one
};

/// An atom stored with more positions than it has.
struct PaddingFact {
  int64_t size = 0, padded = 0, values = 0;
  std::string example; // an operator or a parameter that has it
};

struct Facts {
  std::vector<std::pair<std::string, int64_t>> mesh;
  int64_t microbatches = 1;
  std::vector<OperatorFact> operators; // in program order
  std::vector<ParameterFact> parameters;
  std::vector<PaddingFact> paddings;
};

/// Requires a module after Propagate.
Facts collectFacts(mlir::ModuleOp module);

/// The forward's operators of a program in order, and for each a number that equal ones share: the same
/// operator of equal blocks, such as the layers of a transformer (foldRepeats).
struct ForwardFacts {
  std::vector<const OperatorFact *> operators;
  std::vector<int> keys;
};
ForwardFacts forwardOf(const Facts &facts, llvm::StringRef program);

/// `transformer.h.*.mlp` for the module of all blocks.
std::string moduleOfBlocks(llvm::StringRef module);

/// Warns of the products that every rank of an axis computes whole although some pattern uses the axis: one
/// warning for each kind of operator, with the names of the nodes and the bytes of their weights. Requires a
/// module after Propagate.
void warnOfRepeats(mlir::ModuleOp module);

} // namespace tessera
#endif
