// What a compilation starts from: a model, or text of any phase.
#include "dialects/nn/Attributes.h"
#include "lib/Driver/CheckText.h"
#include "lib/Driver/Compile.h"
#include "lib/Driver/ReadText.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Memory/Passes.h"
#include "runtime/core/error.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"

using namespace mlir;
using namespace tessera;

static FailureOr<std::string> sha256(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return failure();
  llvm::SHA256 hash;
  hash.update((*buffer)->getBuffer());
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

LogicalResult Compilation::load() {
  Location here = UnknownLoc::get(&context);
  // Both are read more than once, which a pipe cannot be, and whole, which a device has no end for.
  for (const std::string &file : {options.model, options.assign.planFile, options.machineFile}) {
    if (file.empty() || llvm::sys::fs::is_regular_file(file))
      continue;
    if (llvm::sys::fs::exists(file))
      return emitError(here) << "\"" << file << "\" is not a regular file";
    return emitError(here) << "there is no file \"" << file << "\"";
  }
  if (!options.machineFile.empty()) {
    try {
      machine = rt::readMachine(options.machineFile);
    } catch (const rt::Error &error) {
      return emitError(here) << error.what();
    }
  }
  if (auto hash = sha256(options.model); succeeded(hash))
    modelHash = *hash;
  if (!options.assign.planFile.empty())
    if (auto hash = sha256(options.assign.planFile); succeeded(hash))
      planHash = *hash;
  if (StringRef(options.model).ends_with(".mlir"))
    return loadText();
  FailureOr<OwningOpRef<ModuleOp>> imported =
      importOnnx(options.model, options.import, context, weights, &nodes);
  if (failed(imported))
    return failure();
  module = std::move(*imported);
  next = Phase::Normalize;
  return success();
}

LogicalResult Compilation::loadText() {
  module = readText(options.model, context);
  if (!module)
    return failure();
  next = options.from == Phase::Import ? Phase::Normalize : options.from;
  if (auto attr = nn::kPhase.of(*module)) {
    std::optional<Phase> done = parsePhase(attr.getValue());
    if (!done)
      return emitError(UnknownLoc::get(&context)) << "\"" << options.model << "\" is text after phase \""
                                                  << attr.getValue() << "\", which does not exist";
    Phase following = std::min(Phase(int(*done) + 1), Phase::Link);
    if (options.from != Phase::Import && options.from != *done && options.from != following)
      return emitError(UnknownLoc::get(&context))
             << "\"" << options.model << "\" is text after phase " << phaseName(*done)
             << " and cannot be resumed from " << phaseName(options.from) << "; use --from "
             << phaseName(following);
    next = following;
  }
  bool trains = llvm::any_of((*module).getOps<func::FuncOp>(), nn::isTraining) || next > Phase::Memory;
  if (next > Phase::Differentiate && !options.optimizer.empty() && !trains)
    return emitError(UnknownLoc::get(&context))
           << "\"" << options.model << "\" is text after phase " << phaseName(Phase(int(next) - 1))
           << " without a training program; write it with --train " << options.optimizer;
  // Machine code is not part of the text.
  next = std::min(next, Phase::Lower);
  if (failed(checkText(*module, next)))
    return failure();
  if (next == Phase::Lower) {
    PassManager pm(&context);
    pm.addPass(createVerifyMemory());
    if (failed(pm.run(*module)))
      return failure();
  }
  if (auto attr = nn::kModel.of(*module))
    modelHash = attr.getValue();
  if (auto attr = nn::kPlan.of(*module))
    planHash = attr.getValue();
  SmallString<128> beside(options.model), shared(llvm::sys::path::parent_path(options.model));
  beside += ".safetensors";
  llvm::sys::path::append(shared, kDumpedWeights);
  std::string file = options.weights;
  for (StringRef candidate : {beside.str(), shared.str()})
    if (file.empty() && llvm::sys::fs::exists(candidate))
      file = candidate;
  return file.empty() ? success() : weights.addSafetensors(file, &context);
}
