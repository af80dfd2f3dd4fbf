// The recipes for a number of ranks: what `plan --auto` chooses from.
#ifndef TESSERA_LIB_DRIVER_RECIPES_H
#define TESSERA_LIB_DRIVER_RECIPES_H

#include "passes/Assign/Passes.h"
#include "llvm/ADT/StringSet.h"
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// What of a recipe the user has decided, by names of options without dashes: "dp", "zero", ...
using DecidedOptions = llvm::StringSet<>;

/// The recipes of `ranks` ranks and those that differ from one in one choice. Whether a model takes a recipe
/// is for the compiler to say.
class Recipes {
public:
  /// `given`: the options as they are; those in `decided` stay. `trains`: whether there is a training
  /// program, which stages and stored state are for. `samples`: of a batch; a rank has no more microbatches
  /// than it has samples.
  Recipes(int64_t ranks, const AssignOptions &given, const DecidedOptions &decided, bool trains,
          int64_t samples)
      : ranks(ranks), given(given), decided(decided), trains(trains), samples(samples) {}

  int64_t numRanks() const { return ranks; }
  /// Every way to spread the ranks over the axes, in the usual mode of each: data first, then tensor,
  /// sequence, expert, pipe. Empty where what is decided leaves none.
  std::vector<AssignOptions> spreads() const;
  /// The same spread in the usual mode of each axis.
  AssignOptions spreadOf(const AssignOptions &recipe) const;
  /// All that differ from `recipe` in one choice: a mode, a schedule, a stage of ZeRO, about twice or half
  /// the microbatches, or a prime factor of the ranks on another axis.
  std::vector<AssignOptions> neighbours(const AssignOptions &recipe) const;
  /// The recipe with all of its state split, by stage 3 of ZeRO; none where it is so already, or may not be.
  std::optional<AssignOptions> split(const AssignOptions &recipe) const;
  /// The recipe in about twice the microbatches; none where their number is decided, or a rank has no more
  /// samples.
  std::optional<AssignOptions> inMoreMicrobatches(const AssignOptions &recipe) const;
  /// A recipe for fewer ranks with more of them on one axis, with its state split where it may be: one for
  /// each axis that takes them.
  std::vector<AssignOptions> grownFrom(const AssignOptions &fewer) const;

private:
  bool isFree(llvm::StringRef option) const { return !decided.contains(option); }
  bool maySplit(const AssignOptions &recipe) const {
    return trains && (recipe.dp > 1 || recipe.ep > 1) && isFree("zero");
  }
  bool maySpread(llvm::StringRef axis) const;
  int64_t samplesOfRank(const AssignOptions &recipe) const;
  int64_t microbatchesNear(const AssignOptions &recipe, int64_t count) const;
  AssignOptions usual(AssignOptions recipe) const;
  void addModes(const AssignOptions &recipe, std::vector<AssignOptions> &list) const;
  void addMicrobatches(const AssignOptions &recipe, std::vector<AssignOptions> &list) const;
  void addShifts(const AssignOptions &recipe, std::vector<AssignOptions> &list) const;

  const int64_t ranks;
  const AssignOptions given;
  const DecidedOptions &decided;
  const bool trains;
  const int64_t samples;
};

/// The extent of the batch: what most inputs begin with.
int64_t samplesOf(mlir::ModuleOp module);

/// The options without what a plan says: no plan file, no recipe.
AssignOptions withoutRecipe(AssignOptions options);

/// The options that say it: `--dp 2 --tp 4`; `one rank` where it splits nothing.
std::string recipeText(const AssignOptions &recipe);

} // namespace tessera
#endif
