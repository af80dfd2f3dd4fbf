// Programs that have variables in common, fitted below the caps of their tiers together.
#ifndef TESSERA_PASSES_SCHEDULE_TIERGROUP_H
#define TESSERA_PASSES_SCHEDULE_TIERGROUP_H

#include "passes/Schedule/TierSearch.h"
#include <array>

namespace tessera {

/// A program of a group, as it was given.
struct TierProgram {
  mlir::func::FuncOp func;
  int64_t peak = 0;    ///< the device's, where nothing leaves it
  double seconds = 0;  ///< of a step that never waits
  tiers::Limits above; ///< the peaks without variables, which do not change when these move

  /// Its peaks when nothing leaves, but for variables that have been moved.
  tiers::Limits needed(const TierSearch &search) const;
};

/// Programs are fitted one after the other, the fullest first: what one decides of a variable, the next ones
/// keep to. One that has no room so is fitted before them. Groups have nothing in common but what they read,
/// so they may be fitted at the same time.
class TierGroup {
public:
  /// `programs`: the fullest first. `symbols`: of their module, whose variables nobody adds or takes away.
  TierGroup(const TierSearch &search, std::vector<TierProgram> programs, mlir::SymbolTable &symbols)
      : search(search), programs(std::move(programs)), symbols(symbols) {}

  /// What fitting one group teaches the next ones.
  struct Lessons {
    /// Seconds of the slowest stage, of those that do not train and of those that do: it decides, so that no
    /// other one has to be faster.
    std::array<double, 2> slowest = {0, 0};
    int64_t lost = 0; ///< see TierSearch
  };

  /// Refuses the fullest program that no placement keeps below the device's cap. None where a plan says more
  /// than what may be chosen.
  void refuseHopeless();
  /// Fits all programs, or those before the first that has no room (`refused`); else what is wrong has been
  /// reported.
  void fit(const Lessons &before);

  /// What is told of a program that has been fitted.
  struct Chosen {
    mlir::func::FuncOp func;
    int64_t whole = 0;   // its peak as it was given
    std::string summary; // empty: nothing has been done
    PlacedProgram placed;
  };
  /// A program that does not fit, and its peaks when nothing leaves.
  struct Refused {
    mlir::func::FuncOp func;
    tiers::Limits needed;
  };

  TierSearch search;
  std::vector<Chosen> chosen;
  std::optional<Refused> refused;
  bool hasFailed = false;
  Lessons lessons; // those from before among them

  /// Programs that have yet to fit.
  mlir::SmallVector<mlir::func::FuncOp> pending() const;

private:
  // What may be fitted: updates on the host, and what runs again.
  struct Sketch {
    std::optional<Repetition> repetition;
    tiers::UpdateChoice updates;
    bool isRough; // its updates are those by the deadline of another one: they are chosen where it is fitted
  };
  // Of a step as it is given. Small ones are sketched before anything is fitted; for what is large and has
  // been fitted less is tried, of a stage of a pipeline least.
  enum class Size { Small, Large, LargeStage };

  llvm::LogicalResult fitAll(const Lessons &before);
  llvm::LogicalResult fit(const TierProgram &program);
  llvm::LogicalResult checkMoves(mlir::func::FuncOp func);
  Size sizeOf(mlir::func::FuncOp func);
  double enoughFor(mlir::func::FuncOp func) const;
  std::optional<FittedProgram> faster(mlir::func::FuncOp func, Size size, std::optional<FittedProgram> fitted,
                                      bool repeats, bool withUpdates);
  std::vector<Sketch> sketchAll(mlir::func::FuncOp func, Size size, double best, bool repeats,
                                bool withUpdates, bool isTried);
  Attempt fitSketch(mlir::func::FuncOp func, const Sketch &sketch, double bound);
  void decide(mlir::func::FuncOp func);
  std::function<void()> undoOfAll();

  std::vector<TierProgram> programs;
  mlir::SymbolTable &symbols;
  bool choosesUpdates = false; // whether more of them may run on the host
};

/// Calls fn(variable) for each variable that a program reads or writes, once for each access.
void forEachVariable(mlir::func::FuncOp func, const mlir::SymbolTable &symbols,
                     llvm::function_ref<void(mlir::Operation *)> fn);

} // namespace tessera
#endif
