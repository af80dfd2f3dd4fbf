// What the schedule computes by panels: the broadcasts that bring them, for `explain` and the report.
#ifndef TESSERA_LIB_DRIVER_STREAMS_H
#define TESSERA_LIB_DRIVER_STREAMS_H

#include "mlir/IR/BuiltinOps.h"
#include <string>
#include <vector>

namespace tessera {

/// Broadcasts of one node over one set of axes that are alike.
struct StreamFact {
  std::string program, node, axes, algorithm;
  int64_t count = 0, bytes = 0; // a step; of a panel
  double seconds = 0;           // modelled, of one
};

/// Requires a module after Schedule.
std::vector<StreamFact> collectStreams(mlir::ModuleOp module);

} // namespace tessera
#endif
