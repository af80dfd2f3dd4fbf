// `tessera convert`: a model with its plan, or trained weights, in another format.
#include "lib/Driver/CheckpointCommand.h"
#include "lib/Driver/Commands.h"
#include "lib/Driver/Compile.h"
#include "lib/Driver/Report.h"
#include "lib/Export/WriteWeights.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"

using namespace mlir;
using namespace tessera;

// Initial values of the variables of `compilation` by the trained weights that the options name.
static LogicalResult takeWeights(Compilation &compilation) {
  WeightStore trained;
  if (failed(trained.addSafetensors(compilation.options.weights, &compilation.context)))
    return failure();
  auto weights = weightsOf(*compilation.module, trained, compilation.options.weights);
  if (failed(weights))
    return failure();
  for (auto &[variable, weight] : *weights)
    compilation.weights.add(SymbolTable::getSymbolName(variable).str(), weight);
  return success();
}

int tessera::convertToText(const CompileOptions &given) {
  auto context = makeContext();
  installDiagnostics(*context);
  CompileOptions options = given;
  options.to = Phase::Assign;
  Compilation compilation(options, *context);
  if (failed(compilation.run(Phase::Assign)))
    return 1;
  if (!options.weights.empty() && failed(takeWeights(compilation)))
    return 1;
  return failed(writeText(compilation));
}

int tessera::convertToTorch(const CompileOptions &given) {
  auto context = makeContext();
  installDiagnostics(*context);
  CompileOptions options = given;
  options.weights.clear();
  Compilation compilation(options, *context);
  WeightStore trained;
  if (failed(compilation.run(Phase::Import)))
    return 1;
  // Of a checkpoint the parameters are joined in a file that goes again.
  std::string weights = given.weights;
  std::optional<llvm::FileRemover> joined;
  if (llvm::sys::fs::is_directory(given.weights)) {
    weights = given.output + ".joined.safetensors";
    joined.emplace(weights);
    if (int status = joinCheckpoint(given.weights, weights, true))
      return status;
  }
  if (failed(trained.addSafetensors(weights, context.get())))
    return 1;
  return failed(writeTorchWeights(options.output, *compilation.module, trained, given.weights));
}
