// The passes that make kernels: a part of the schedule phase.
#ifndef TESSERA_PASSES_KERNELS_PASSES_H
#define TESSERA_PASSES_KERNELS_PASSES_H
#include "dialects/exec/Attributes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"
namespace tessera {
/// The name of the module of generated kernels inside a program.
inline constexpr llvm::StringLiteral kKernelsModule = "kernels";
/// Whether a kernel has been lowered and the target has said how it runs.
inline bool isDescribed(mlir::func::FuncOp kernel) { return exec::kExtent.isOn(kernel); }
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Kernels/Passes.h.inc"
} // namespace tessera
#endif
