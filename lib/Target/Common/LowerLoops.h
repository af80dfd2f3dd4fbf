// From a kernel as loops on memrefs to LLVM IR.

#ifndef TESSERA_LIB_TARGET_COMMON_LOWERLOOPS_H
#define TESSERA_LIB_TARGET_COMMON_LOWERLOOPS_H

#include "lib/Target/Common/Kernels.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/IR/Module.h"

namespace tessera::target {

/// Expands math functions of f32, f16 and bf16 values into arithmetic that LLVM vectorises. f64 values keep
/// the C library's functions: they are for checking. Conversions of bf16 become integer arithmetic unless
/// `roundsToBF16`, remainders loops unless `callsLibrary`.
mlir::LogicalResult expandMath(mlir::ModuleOp module, bool roundsToBF16, bool callsLibrary);

/// Makes math.expm1 of e^x - 1 and math.log1p of log(1 + x), which keep their digits where x is small.
mlir::LogicalResult raiseExponentials(mlir::ModuleOp module);
/// Patterns for math.exp and math.expm1 of f32, and for math.expm1 and math.log1p of f64, which become the C
/// library's.
void populateExponentials(mlir::RewritePatternSet &patterns);
/// Patterns for math.sin and math.cos of f32.
void populateSines(mlir::RewritePatternSet &patterns);

/// Passes that lower loop functions, alone in their module, to LLVM's dialect.
void buildLoweringPipeline(mlir::OpPassManager &pm);
/// Translates such functions, lowered, to LLVM IR in `context`.
std::unique_ptr<llvm::Module> translateToLlvm(mlir::ModuleOp module, llvm::LLVMContext &context);

/// Registers the dialects kernels are made of and the translations to LLVM IR.
void registerKernelDialects(mlir::DialectRegistry &registry);

} // namespace tessera::target

#endif // TESSERA_LIB_TARGET_COMMON_LOWERLOOPS_H
