// Kernels (functions on tensors whose bodies are linalg, arith, math and tensor operations) and what they
// become: what the targets share. docs/kernels.md says what a kernel may contain and how it is scheduled.

#ifndef TESSERA_LIB_TARGET_COMMON_KERNELS_H
#define TESSERA_LIB_TARGET_COMMON_KERNELS_H

#include "dialects/exec/Attributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include <memory>
#include <string>
#include <vector>

namespace mlir {
class PassManager;
}

namespace tessera::target {

/// The instruction sets kernels are compiled for: x86-64-v3 (AVX2, FMA) and x86-64-v4 (AVX-512, 512-bit
/// vectors).
enum class CpuLevel { V3, V4 };

/// The suffix of a kernel's symbol for `level`: "_v3" or "_v4".
llvm::StringRef levelSuffix(CpuLevel level);

/// The highest level this machine executes, or failure when it is below x86-64-v3.
mlir::FailureOr<CpuLevel> hostLevel();

/// How the iteration space of a kernel is cut into ranges.
enum class Strategy {
  Flat,      ///< one loop over all elements; a unit is an element
  Rows,      ///< a unit is a row: one position of the leading (or any shared) parallel dimensions
  Columns,   ///< a unit is a position of the innermost dimension; rows are streamed inside
  Sequential ///< one unit
};

/// What the program description needs to know about a kernel.
struct KernelInfo {
  Strategy strategy = Strategy::Sequential;
  int64_t extent = 1; ///< units of work: the kernel is called on disjoint ranges of [0, extent)
  int64_t grain = 1;  ///< least units worth a call of their own
  /// Bytes of scratch the kernel takes as a last buffer argument (0: no such argument). Only sequential
  /// kernels with large intermediate values have it; it needs 64-byte alignment.
  int64_t workspace = 0;
  /// Pairs (tensor argument, result) that may share a buffer, if `exec::kResult` says so on the argument.
  /// Arguments are counted as arguments of the function.
  std::vector<std::pair<unsigned, unsigned>> inPlace;
  /// Why the kernel is sequential, empty otherwise.
  std::string reason;
};

/// How a kernel is launched on a GPU: in blocks of `threads`, each for `units` units of [0, extent).
struct Launch {
  int64_t threads = 1, units = 1;
  /// The lanes of a warp work on one unit together; else every thread works on some of its own.
  bool warpPerUnit = false;
  /// The threads of a block that have the same remainder by `units` work on one unit together.
  bool sharesColumns = false;
};

/// A context that knows what kernels are made of and become, whatever the caller's knows, and the passes over
/// them, which take longer to make than to run: they are made when the context is first asked for. One kernel
/// after the other may use it.
class KernelContext {
public:
  KernelContext();
  ~KernelContext();
  mlir::MLIRContext &get();
  /// Simplifies a kernel so that equal things are one value, which the statement reader relies on for
  /// sharing.
  mlir::LogicalResult simplify(mlir::ModuleOp module);
  /// From loops on memrefs to LLVM's dialect.
  mlir::LogicalResult lower(mlir::ModuleOp module);

private:
  std::unique_ptr<mlir::MLIRContext> context;
  std::unique_ptr<mlir::PassManager> simplification, lowering;
};

/// Chooses the schedule of the kernel `func` without changing it, in a context for kernels. What is known of
/// a kernel is kept for the life of the process. Fails, with a diagnostic naming the kernel, where it has
/// something that cannot be compiled.
mlir::FailureOr<KernelInfo> analyse(mlir::func::FuncOp func, KernelContext &own);

/// The text that identifies a kernel: two kernels with equal text compute the same. It is the printed
/// function without its name and locations.
std::string kernelText(mlir::func::FuncOp func);

/// For each kernel of `module`, by name, the name of the first kernel with the same text.
llvm::StringMap<std::string> dedupe(mlir::ModuleOp module);

/// One compiled kernel and its relocatable object code, which kernels of the same symbol share. It defines
/// `symbol` + levelSuffix(level) for each level as `void(void *const *args, const int64_t *scalars, int64_t
/// begin, int64_t end)`. `args`: the tensor arguments in order, the results that have no argument of their
/// own (`exec::kResult`) in order, the workspace if any; contiguous row-major, 64-byte aligned, not
/// overlapping (but arguments that are only read may be the same); i1 is a byte that is 0 or 1. `scalars`:
/// the i64 and index arguments in order. Compiled for a GPU: PTX text with the entry `symbol`, whose
/// parameters are those buffers and scalars, one after the other.
struct CompiledKernel {
  std::string symbol;
  KernelInfo info;
  std::shared_ptr<const std::string> object;
  Launch launch;                           ///< for a GPU
  std::shared_ptr<const std::string> twin; ///< for a GPU, if asked for: see lib/Target/Cuda/Ptx.h
};

/// The kernels of a program, lowered to linalg: functions of a module. What is before their names where an
/// executable has several programs'.
struct ProgramKernels {
  mlir::ModuleOp functions;
  std::string prefix;
};

/// What kernels became.
struct CompiledKernels {
  std::vector<CpuLevel> levels;
  std::vector<CompiledKernel> kernels; ///< the distinct ones, in order of first appearance
  llvm::StringMap<unsigned> byName;    ///< prefix and name of a kernel's function -> index in `kernels`
  double seconds = 0;                  ///< wall time
  unsigned reused = 0;                 ///< distinct kernels found in the process-wide cache
  /// Those that have code of their own: one for each symbol.
  std::vector<const CompiledKernel *> distinctCode() const;
  /// The names in `byName`, sorted, with what the kernels became.
  std::vector<std::pair<llvm::StringRef, const CompiledKernel *>> names() const;
};

} // namespace tessera::target

#endif // TESSERA_LIB_TARGET_COMMON_KERNELS_H
