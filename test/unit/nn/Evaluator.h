// Executes functions of nn operators by their plain lowerings, upstream's bufferization and loops, and
// upstream's JIT: nothing of the compiler's own code generation.
#ifndef TESSERA_TEST_UNIT_NN_EVALUATOR_H
#define TESSERA_TEST_UNIT_NN_EVALUATOR_H

#include "mlir/ExecutionEngine/ExecutionEngine.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"

namespace tessera::test {

/// A tensor in memory: f64, i64 or i1 (a byte) elements, row-major.
struct Array {
  mlir::RankedTensorType type;
  std::vector<char> bytes;

  explicit Array(mlir::RankedTensorType type);
  int64_t size() const { return type.getNumElements(); }
  double *doubles() { return reinterpret_cast<double *>(bytes.data()); }
  int64_t *integers() { return reinterpret_cast<int64_t *>(bytes.data()); }
};

/// The context with every dialect that lowering needs.
std::unique_ptr<mlir::MLIRContext> makeContext();

/// A compiled module.
class Evaluator {
public:
  /// Lowers `module` (functions of nn operators on tensors), in place, and compiles it.
  static llvm::Expected<std::unique_ptr<Evaluator>> create(mlir::ModuleOp module);
  /// Runs `function`: reads `arguments`, writes `results`, of the function's types.
  llvm::Error run(llvm::StringRef function, llvm::ArrayRef<Array *> arguments,
                  llvm::ArrayRef<Array *> results);

private:
  std::unique_ptr<mlir::ExecutionEngine> engine;
};

} // namespace tessera::test
#endif
