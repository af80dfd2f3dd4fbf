// What a plan decides within its mesh, one thing at a time: what the search of `plan --auto` changes.
#ifndef TESSERA_LIB_DRIVER_PLANDECISIONS_H
#define TESSERA_LIB_DRIVER_PLANDECISIONS_H

#include "lib/Driver/Recipes.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/Assign/Plan.h"
#include "llvm/ADT/STLExtras.h"
#include <memory>

namespace tessera {

/// One thing that a plan decides, such as the pattern of the operators of a role.
class PlanDecision {
public:
  virtual ~PlanDecision() = default;
  /// What it is of, and what there is to choose from, as text for people. The first choice is to say nothing.
  std::string name;
  std::vector<std::string> choices;
  /// About how many operations it is of.
  double work = 0;
  /// Whether another decision is of what takes the results of this one's operators next.
  bool feeds(const PlanDecision &other) const { return llvm::is_contained(next, other.name); }
  std::vector<std::string> next; // by name

  /// What `plan` chooses; its number among the choices, none where the plan says what is not among them.
  virtual std::optional<size_t> chosen(const Plan &plan) const = 0;
  /// Has `plan` choose that instead.
  virtual void choose(Plan &plan, size_t choice) const = 0;
  /// Has `note` printed where the plan says it; nothing where it says nothing.
  virtual void annotate(Plan &plan, const std::string &note) const = 0;
};

/// The decisions of plans that have the mesh of `plan`, those of most work first: any pattern of the registry
/// that applies to a role of operators, on any axes but a pipeline's; the axes of the batch; the homes of
/// values that several operators read; what is stored in pieces, over which axes. What the user has decided,
/// by entries of a file or by options, is none.
std::vector<std::unique_ptr<PlanDecision>> decisionsOf(mlir::ModuleOp module, const Plan &plan,
                                                       const DecidedOptions &decided);

} // namespace tessera
#endif
