// Plans that an ONNX file carries: ours as text, or multi-device annotations of its nodes.
#ifndef TESSERA_PASSES_ASSIGN_ANNOTATIONS_H
#define TESSERA_PASSES_ASSIGN_ANNOTATIONS_H

#include "mlir/IR/BuiltinOps.h"

namespace tessera {

struct Plan;

/// On the module: the plan in the file, TOML.
inline constexpr llvm::StringLiteral kFilePlanAttr = "dist.file_plan";
/// On the module: the mesh that the annotations are for, [["axis", size], ...].
inline constexpr llvm::StringLiteral kAnnotatedMeshAttr = "dist.annotated_mesh";
/// On the module: for each annotated node {node, op, tensors = [{name, kind, position, shape, split}]}.
/// `kind` is input (of the graph), parameter, value or output; `position` its number among the node's
/// outputs, or among its inputs that are no parameters; `shape` its ONNX shape; `split` the axes of each
/// dimension.
inline constexpr llvm::StringLiteral kAnnotationsAttr = "dist.annotations";

/// The plan that the file carries, for `module` before assign; nothing where it carries none. What
/// contradicts itself is reported, naming the node; annotations that cannot be followed are warned of.
mlir::FailureOr<std::optional<Plan>> planOfFile(mlir::ModuleOp module);
/// Whether there is one.
bool carriesPlan(mlir::ModuleOp module);
void dropCarriedPlan(mlir::ModuleOp module);

} // namespace tessera
#endif
