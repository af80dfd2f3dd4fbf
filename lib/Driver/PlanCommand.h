// What `tessera plan` and `plan --auto` share.
#ifndef TESSERA_LIB_DRIVER_PLANCOMMAND_H
#define TESSERA_LIB_DRIVER_PLANCOMMAND_H

#include "lib/Driver/Compile.h"
#include "lib/Driver/Page/Page.h"
#include "passes/Assign/Plan.h"

namespace tessera {

/// Runs the phases before plans matter. A plan serves training too: a model that nobody says how to train is
/// differentiated by any optimizer, if that is possible.
mlir::LogicalResult differentiateForPlan(Compilation &compilation);

/// Compiles up to the plan of memory, with nothing said but errors, and writes the page of a step; it began
/// with options.report set.
mlir::LogicalResult writePlannedPage(Compilation &compilation, const std::string &path,
                                     std::vector<Alternative> alternatives = {});

/// The plan that the options stand for, of a module that has been differentiated.
mlir::FailureOr<Plan> planOf(Compilation &compilation, const AssignOptions &assign);

} // namespace tessera
#endif
