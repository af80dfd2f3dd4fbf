// Where the values of a program are, as it was decided: for people, and for plans.
#ifndef TESSERA_PASSES_SCHEDULE_PLACED_H
#define TESSERA_PASSES_SCHEDULE_PLACED_H

#include "passes/Schedule/Places.h"
#include <set>

namespace tessera {

/// A value that may leave the device.
struct PlacedValue {
  std::string name, module; // its own name in plans; its operator's module path, may be empty
  std::string what;         // one of dist::kWhats
  /// Where the entry of the plan stands that says where it is, `FILE:LINE:COLUMN`; empty where it was chosen.
  std::string origin;
};

/// A program before its transfers are written into it.
struct PlacedProgram {
  std::string program, whole;         // its function; the program that it is a stage of, or itself
  std::vector<std::string> operators; // by position
  std::vector<PlacedValue> values;    // parallel to step.values
  std::vector<std::string> updates;   // where the plan says where each of step.updates runs, as `origin`
  tiers::Step step;
  tiers::Step onDevice; // the same with all updates there
  tiers::Plan plan;
  tiers::Limits limits;
  tiers::Rates rates;
  std::set<std::string> onNvme;      // names of values that go further down from the host
  std::vector<std::string> repeated; // and of what is made again, as `Repeats::names`
};

PlacedProgram placedProgram(mlir::func::FuncOp func, const TierTrace &trace, llvm::ArrayRef<Said> said,
                            const tiers::Plan &plan, const tiers::Limits &limits, const tiers::Rates &rates,
                            const tiers::Step &onDevice);

/// The entries of `dist.place` by which the same is decided again without a search: one for all that is
/// updated on the host, one for all that a program makes again, one for each value that moves in a program,
/// and one by which all others stay. None where nothing moves or is made again.
std::vector<dist::Place> placesOf(llvm::ArrayRef<PlacedProgram> programs);

/// The place in a file that an entry stands at, `FILE:LINE:COLUMN`; empty without one.
std::string originOf(const dist::Place *place);

} // namespace tessera
#endif
