// What a plan says of where values are to be (`dist.place`), beside the values of a program.
#ifndef TESSERA_PASSES_SCHEDULE_PLACES_H
#define TESSERA_PASSES_SCHEDULE_PLACES_H

#include "dialects/dist/Place.h"
#include "passes/Schedule/TierTrace.h"
#include "llvm/ADT/StringSet.h"

namespace tessera {

/// What a value is called in plans.
struct ValueName {
  /// Of a variable its name. Of what an operator makes the name of its node, with `#` and a number where
  /// several values of a program come from the node.
  std::string own;
  /// What globs are matched against: its own, nodes, module paths, the parameter that it belongs to, sources.
  llvm::SmallVector<std::string> all;
};

/// The names of what the operators of a function make, those of loops among them.
llvm::DenseMap<mlir::Value, ValueName> valueNames(mlir::func::FuncOp func);
/// The operator that makes a value: of what a loop yields the one in its body.
mlir::Operation *makerOf(mlir::OpResult value);
/// An operator for people: its node, else what it is.
std::string labelOf(mlir::Operation *op);

/// What is said of a value of a trace.
struct Said {
  std::string name;     // its own
  llvm::StringRef what; // one of dist::kWhats
  /// The entry that says where it is; null where none does.
  const dist::Place *place = nullptr;
  /// The entry that gives its moves in this program, null where they are to be chosen.
  const dist::Place *exact = nullptr;
  /// The entry that says where a parameter is updated, of one that may be on the host.
  const dist::Place *update = nullptr;
};

/// The entries of a module's `dist.place`, of which the first that matches a value counts. Where a variable
/// rests is one answer for all programs, so the first entry counts there whatever program it is for. What is
/// made again is a question of its own, and asked before where values are.
class Places {
public:
  Places() = default;
  explicit Places(mlir::ModuleOp module);
  /// Whether none says where anything is.
  bool isEmpty() const { return !areAny; }
  /// Whether any says that something is made again.
  bool repeat() const {
    return llvm::any_of(entries, [](auto &entry) { return entry.recompute; });
  }
  /// Leaves all entries aside.
  void clear() {
    areAny = false;
    entries.clear();
    counted.clear();
    literals.clear();
    globs.clear();
  }

  /// Reports entries whose globs name nothing in the programs that they are for: of those that say that
  /// something is made again, for which the programs are as before that, or of all others.
  llvm::LogicalResult verify(mlir::ModuleOp module, bool ofRepeats = false);
  /// The entry by which a value is made again; null without one. An entry before may say its tier.
  const dist::Place *repeating(const ValueName &name, mlir::func::FuncOp func);
  /// Writes into the values of a trace what the entries say of them, and that of the others those move that
  /// `offload` allows. Below the trace's tier are: a variable between steps; any other value at least in the
  /// gap that lasts longest; and exactly what moves are given for. Where entries do not say it, updates run
  /// on the device, if there is any entry or what they update may not leave.
  std::vector<Said> apply(TierTrace &trace, mlir::func::FuncOp func, const Storage &storage,
                          const llvm::StringSet<> &offload);
  /// The moves, where they are given for all that moves: then there is nothing to choose.
  static std::optional<std::vector<tiers::Move>> given(const TierTrace &trace, llvm::ArrayRef<Said> said);
  /// Whether moves are given of gaps that the values do not have.
  static bool areStrange(const TierTrace &trace, llvm::ArrayRef<Said> said);
  /// Warns of entries by which something would leave the device, and nothing does.
  void warnOfIdle() const;

private:
  using Filter = llvm::function_ref<bool(const dist::Place &)>;
  const dist::Place *find(const ValueName &name, llvm::StringRef what, Filter filter);
  void applyToUpdates(TierTrace &trace, llvm::MutableArrayRef<Said> said);

  std::vector<dist::Place> entries;
  bool areAny = false;                  // of other than what is made again
  llvm::StringMap<ValueName> variables; // by their own names
  std::vector<bool> counted;            // by entry, whether it has counted for a value that can leave
  llvm::StringMap<llvm::SmallVector<int>> literals; // entries by name, rising
  std::vector<std::pair<int, std::string>> globs;   // by entry, rising
};

} // namespace tessera
#endif
