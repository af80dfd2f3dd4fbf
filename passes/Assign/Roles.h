// Operators that one entry of a plan speaks of: those at the same place of blocks that repeat.
#ifndef TESSERA_PASSES_ASSIGN_ROLES_H
#define TESSERA_PASSES_ASSIGN_ROLES_H

#include "dialects/nn/NN.h"
#include "passes/Assign/Plan.h"
#include <string>
#include <vector>

namespace tessera {

class NameIndex;

/// Operators that are decided together.
struct Role {
  /// What an entry names each of them by; several have one name where one entry cannot tell them apart.
  std::vector<std::string> names;
  /// Globs that match exactly what the names match: one where there is such a glob, else the names.
  std::vector<std::string> matches;
  /// Of the inference program.
  llvm::SmallVector<nn::FactorOpInterface> ops;
};

/// The name by which an entry for `op` finds it: of the parameter that it reads where there is one (a table
/// and the head that is tied to it have one name), else of its node; empty where it has none.
std::string nameForEntry(nn::FactorOpInterface op, const NameIndex &names);

/// The operators of the inference program that `nameOf` gives a name, by role, in the order of the program.
/// Blocks are found by structure: runs of operators of equal kinds and types that repeat at once.
std::vector<Role> rolesOf(mlir::ModuleOp module, const NameIndex &names,
                          llvm::function_ref<std::string(nn::FactorOpInterface)> nameOf);

/// Puts one entry in place of those of one role that say the same, among the entries from `first` on. Of an
/// operator there may be several, one for each axis that it is split over.
void listByRole(mlir::ModuleOp module, const NameIndex &names, std::vector<OpRule> &rules, size_t first);

} // namespace tessera
#endif
