// See Sizes.h.
#include "lib/Driver/Sizes.h"
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pipeline.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace tessera;

static LogicalResult addSize(Compilation &whole, int64_t size, std::string &description) {
  CompileOptions options = whole.options;
  options.assign.size = size;
  options.dumpDirectory = options.report = "";
  Compilation one(options, whole.context);
  one.module = (*whole.differentiated).clone();
  one.next = Phase::Assign;
  one.machine = whole.machine;
  one.modelHash = whole.modelHash;
  one.planHash = whole.planHash;
  one.kernelPrefix = ("size" + Twine(size) + ".").str();
  auto compileQuietly = [&] {
    // What is worth a warning was said of the first; errors come with their notes.
    ScopedDiagnosticHandler quiet(&whole.context, [&](Diagnostic &diagnostic) {
      return success(diagnostic.getSeverity() != DiagnosticSeverity::Error);
    });
    return one.run(Phase::Lower);
  };
  if (failed(compileQuietly())) {
    emitRemark(UnknownLoc::get(&whole.context)) << "that is of size " << size << ", one of --sizes";
    return failure();
  }
  description = one.description;
  whole.kernels->add(*one.kernels, one.kernelPrefix);
  for (auto &[phase, seconds] : one.seconds)
    for (auto &[name, sum] : whole.seconds)
      if (name == phase)
        sum += seconds;
  return success();
}

LogicalResult tessera::addSizes(Compilation &compilation) {
  std::optional<rt::Shards> shards = dist::shardsOf(*compilation.module);
  if (!shards || shards->sizes.size() < 2)
    return success();
  if (!compilation.differentiated) {
    emitRemark(UnknownLoc::get(&compilation.context))
        << "the text is of size " << shards->size << " alone; other sizes are compiled from the model";
    return success();
  }
  SmallVector<std::string> descriptions;
  for (int64_t size : shards->sizes) {
    descriptions.push_back(compilation.description);
    if (size != shards->size && failed(addSize(compilation, size, descriptions.back())))
      return failure();
  }
  compilation.allSizes = "{\"format\":1,\"size\":" + std::to_string(shards->size) + ",\"sizes\":[\n" +
                         llvm::join(descriptions, ",\n") + "]}";
  return success();
}
