// The search for where the values of a program are, so that it stays below the caps of its tiers.
#ifndef TESSERA_PASSES_SCHEDULE_TIERSEARCH_H
#define TESSERA_PASSES_SCHEDULE_TIERSEARCH_H

#include "passes/Schedule/Placed.h"
#include "passes/Schedule/Repeat.h"
#include "llvm/ADT/StringSet.h"
#include <functional>
#include <limits>
#include <optional>

namespace tessera {

/// A program that has the peaks that it may have.
struct FittedProgram {
  std::string summary;
  PlacedProgram placed;
  Repeats repeats; ///< what runs again in it
  /// Makes the program what it was before; called again, what it is now.
  std::function<void()> exchange;
};

/// What became of a program that was to fit.
struct Attempt {
  std::optional<FittedProgram> fitted; ///< none: no plan was found, or one that takes too long
  bool isSlower = false;               ///< the latter
};

/// What may be chosen for the programs of a module, what has been for those before the one at hand, and
/// attempts at that one.
class TierSearch {
public:
  TierSearch(mlir::ModuleOp module, const nn::Library &library, int64_t threads, std::string policy);

  const int64_t threads;    ///< a rank
  const std::string policy; ///< one of tiers::policies()
  /// What may be chosen.
  tiers::Limits limits;
  llvm::StringSet<> offload; // categories
  Places places;
  bool recomputes = false, hasNvme = false;
  bool advises = true;                       // whether a refusal says more than that
  bool any = false;                          // whether the first that fits will do
  llvm::DenseSet<mlir::Operation *> outputs; // variables that stay on the device: the host reads them
  /// Variables of the programs before, and those of them that are updated on the host.
  llvm::DenseSet<mlir::Operation *> decided, onHost;
  /// Of the program at hand: what runs again, seconds of its step without transfers, if it never waits, and
  /// which of its updates, in the order of its step, run on the host.
  Repeats repeats;
  double alone = 0;
  std::optional<std::vector<bool>> updates;
  /// What packing lost of the cap in the last large step: it loses about as much in the next one.
  int64_t lost = 0;

  /// Whether nothing but the search says what is done.
  bool isFree() const { return places.isEmpty() && policy == "planned"; }

  /// Moves until the program has the peaks that it may have. Packing loses something, now more and now less:
  /// the next attempt has a cap that is smaller by what was lost, and by a part of the way to the least that
  /// there is, twice as large each time. Updates on the host are those of `updates`, else what is decided.
  /// Given up where a plan takes `bound` seconds: one of a smaller cap takes no less.
  Attempt attempt(mlir::func::FuncOp func, double bound = std::numeric_limits<double>::infinity());

  /// The time of a step by plans of little effort, which nothing is written of: infinity where none was
  /// found, or where it is no shorter than `bound` whatever is chosen. With the updates that are then best on
  /// the host, or if it is given those by `deadline`, the best without what runs again; or those that are
  /// decided.
  tiers::UpdateChoice sketch(mlir::func::FuncOp func, bool choosesUpdates, double bound,
                             std::optional<double> deadline);

  Storage storageOf(mlir::func::FuncOp func) const { return Storage(func, kernels, library, threads); }
  /// Bytes of each tier and category, as the memory phase will have them; and the peaks of both tiers.
  static mlir::DictionaryAttr figures(const Storage &storage);
  static tiers::Limits peaks(const Storage &storage);
  /// What of the peaks lies below all that is packed: variables in their places.
  tiers::Limits variables(mlir::func::FuncOp func) const;
  /// With what the plan says of where values are, and `said` filled with that; or with all that could move at
  /// all (`anything`).
  TierTrace trace(mlir::func::FuncOp func, const Storage &storage, bool anything = false,
                  std::vector<Said> *said = nullptr);
  /// Seconds of a step that never waits.
  double secondsAlone(const Storage &storage);
  static tiers::Rates ratesOf(mlir::func::FuncOp func);
  /// The step with those values coming up in each turn that moves are given of in its loop.
  static tiers::Step withGivenTurns(const TierTrace &traced, llvm::ArrayRef<Said> said);
  /// Those updates that are to run on the host whatever is chosen.
  static std::vector<bool> decidedOf(const tiers::Step &step);

private:
  std::function<void()> emit(mlir::func::FuncOp func, const TierTrace &traced, const tiers::Plan &plan);
  std::string describe(const TierTrace &traced, const tiers::Plan &plan) const;

  mlir::ModuleOp module, kernels;
  const nn::Library &library;
};

} // namespace tessera
#endif
