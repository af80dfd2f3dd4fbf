// Every way to lay one operator over a mesh.
#ifndef TESSERA_TEST_UNIT_PARALLEL_LAYOUTS_H
#define TESSERA_TEST_UNIT_PARALLEL_LAYOUTS_H

#include "test/unit/parallel/Specimen.h"

namespace tessera::test {

using MeshSizes = std::vector<int64_t>;

/// One way. Axes are numbered; their names are "x0", "x1", ...
struct Way {
  std::string name;
  std::string pattern; ///< of the operator, or none
  std::vector<int> patternAxes;
  /// By operand, dimension: the axes that split an input (and the parameter added to it).
  std::map<unsigned, std::vector<std::vector<int>>> inputs;
  std::vector<std::vector<int>> result; ///< where the first result lives, by dimension; none: where it falls
  int zero = 0;                         ///< stage, over the first axis
  bool isStreamed = false;              ///< products of gathered operands are computed by panels
  /// By factor, axes that must split the work, where inputs alone decide that.
  std::map<int, std::vector<int>> splits;
};

/// All ways to lay the specimen's operator over a mesh of these sizes.
std::vector<Way> waysToLay(const Specimen &specimen, const MeshSizes &mesh);

/// The specimen's module laid out that way, after the assign phase.
mlir::OwningOpRef<mlir::ModuleOp> layOut(const Specimen &specimen, const MeshSizes &mesh, const Way &way);

} // namespace tessera::test
#endif
