// Plans that an ONNX file carries: ours as text, or multi-device annotations of its nodes.
#ifndef TESSERA_PASSES_ASSIGN_ANNOTATIONS_H
#define TESSERA_PASSES_ASSIGN_ANNOTATIONS_H

#include "mlir/IR/BuiltinOps.h"

namespace tessera {

struct Plan;

/// The plan that the file carries, for `module` before assign; nothing where it carries none. What
/// contradicts itself is reported, naming the node; annotations that cannot be followed are warned of.
mlir::FailureOr<std::optional<Plan>> planOfFile(mlir::ModuleOp module);
/// Whether there is one.
bool carriesPlan(mlir::ModuleOp module);
void dropCarriedPlan(mlir::ModuleOp module);

} // namespace tessera
#endif
