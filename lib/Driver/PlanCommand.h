// What `tessera plan` and `plan --auto` share.
#ifndef TESSERA_LIB_DRIVER_PLANCOMMAND_H
#define TESSERA_LIB_DRIVER_PLANCOMMAND_H

#include "lib/Driver/Compile.h"
#include "passes/Assign/Plan.h"

namespace tessera {

/// Runs the phases before plans matter. A plan serves training too: a model that nobody says how to train is
/// differentiated by any optimizer, if that is possible.
mlir::LogicalResult differentiateForPlan(Compilation &compilation);

/// The plan that the options stand for, of a module that has been differentiated.
mlir::FailureOr<Plan> planOf(Compilation &compilation, const AssignOptions &assign);

} // namespace tessera
#endif
