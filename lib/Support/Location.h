// Where an operator comes from: its ONNX node and the module of the exporting framework that it belongs to.
#ifndef TESSERA_LIB_SUPPORT_LOCATION_H
#define TESSERA_LIB_SUPPORT_LOCATION_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"

namespace tessera {

/// The location of the ONNX node `node` of module `module` (such as `model.layers.0.mlp`, may be empty):
/// `fused<"module">["node"]`, or only `"node"`.
inline mlir::Location nodeLocation(mlir::MLIRContext *context, llvm::StringRef node, llvm::StringRef module) {
  mlir::Location name = mlir::NameLoc::get(mlir::StringAttr::get(context, node.empty() ? "unnamed" : node));
  if (module.empty())
    return name;
  return mlir::FusedLoc::get(context, {name}, mlir::StringAttr::get(context, module));
}

/// The name of the (first) ONNX node that `loc` stands for; empty when none is recorded.
inline llvm::StringRef nodeName(mlir::Location loc) {
  if (auto name = llvm::dyn_cast<mlir::NameLoc>(loc))
    return name.getName();
  if (auto fused = llvm::dyn_cast<mlir::FusedLoc>(loc))
    for (mlir::Location part : fused.getLocations())
      if (llvm::StringRef name = nodeName(part); !name.empty())
        return name;
  return "";
}

/// The module path of the (first) ONNX node that `loc` stands for; empty when none is recorded.
inline llvm::StringRef modulePath(mlir::Location loc) {
  auto fused = llvm::dyn_cast<mlir::FusedLoc>(loc);
  if (!fused)
    return "";
  if (auto module = llvm::dyn_cast_or_null<mlir::StringAttr>(fused.getMetadata()))
    return module.getValue();
  for (mlir::Location part : fused.getLocations())
    if (llvm::StringRef module = modulePath(part); !module.empty())
      return module;
  return "";
}

} // namespace tessera
#endif
