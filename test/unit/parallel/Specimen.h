// A model of one operator, ready to be laid out.
#ifndef TESSERA_TEST_UNIT_PARALLEL_SPECIMEN_H
#define TESSERA_TEST_UNIT_PARALLEL_SPECIMEN_H

#include "dialects/nn/NN.h"
#include "lib/Driver/InProcess.h"
#include "test/unit/nn/OperatorCases.h"

namespace tessera::test {

/// A model whose output is one operator's result: floating operands are sums of an input and a trained
/// parameter of the same shape, or such a parameter by itself where models have one there. Differentiated,
/// with the values of its inputs and parameters.
struct Specimen {
  const OperatorCase *example;
  Sizes sizes;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  Arrays inputs, variables;

  /// The operator in `@infer` or `@train` of a copy of the module; null in `@infer` of what training alone
  /// does.
  static nn::FactorOpInterface find(mlir::ModuleOp module, llvm::StringRef function);
  /// The one in `@infer`, or else in `@train`.
  static nn::FactorOpInterface first(mlir::ModuleOp module);
  /// Whether the operand is a parameter by itself.
  bool isParameter(unsigned operand) const { return llvm::is_contained(example->parameters, operand); }
};

mlir::FailureOr<Specimen> makeSpecimen(const OperatorCase &example, const Sizes &sizes,
                                       mlir::MLIRContext &context);

/// What programs of the specimen compute, "PROGRAM NAME" by array, and send.
struct Outcome {
  Arrays arrays;
  std::map<std::string, rt::SentTable> sent, promised;
};

/// Compiles `compilation`, which has the specimen's module, and runs its programs with NaN in all memory that
/// nothing was written to.
mlir::FailureOr<Outcome> compileAndRun(Compilation &compilation, const Specimen &specimen);

} // namespace tessera::test
#endif
