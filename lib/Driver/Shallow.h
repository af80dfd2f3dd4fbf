// A deep model judged by two shallow ones.
#ifndef TESSERA_LIB_DRIVER_SHALLOW_H
#define TESSERA_LIB_DRIVER_SHALLOW_H

#include "lib/Driver/Compile.h"
#include "passes/Assign/Blocks.h"
#include "passes/Assign/Plan.h"
#include <map>
#include <memory>

namespace tessera {

/// Numbers of equal things to judge by, and how many there are.
struct Depths {
  size_t few, more, all;
};

/// Makes models with fewer of the equal blocks of one (passes/Assign/Blocks.h) to judge plans by: what a plan
/// comes to grows by the same with each block, once there are some.
class Shallow {
public:
  /// `model` has been differentiated, `before` is its module before that; null where there was none.
  Shallow(const Compilation &model, mlir::OwningOpRef<mlir::ModuleOp> before);

  /// Null where there is none.
  mlir::ModuleOp undifferentiated() const { return before.get(); }
  /// None where the model is to be judged whole: where there are no equal blocks, or so few that it would be
  /// no less work. `chunks`: of a pipeline, each of which gets one block more from a depth to the next.
  std::optional<Depths> depths(size_t chunks) const;
  /// The model with so many blocks, differentiated; null where it cannot be.
  const Compilation *at(size_t blocks);
  /// The plan for that, without the entries for blocks that are not there. None where the plan says of one
  /// block what it does not say of the others.
  std::optional<Plan> planFor(const Plan &plan, size_t blocks);

private:
  /// Which operators of the blocks an entry is for, by their place in `ops`.
  const std::vector<size_t> &placesOf(const std::string &match, bool isValue);

  const Compilation &model;
  mlir::OwningOpRef<mlir::ModuleOp> before;
  size_t numRuns = 0, copies = 0, length = 0, fewest = 0;
  double outside = 0;                 // work of what is in no block, in blocks
  std::vector<mlir::Operation *> ops; // of all copies, copy after copy
  std::map<std::pair<std::string, bool>, std::vector<size_t>> places;
  std::map<size_t, std::unique_ptr<Compilation>> shallow; // by blocks
};

} // namespace tessera
#endif
