#include "test/fuzz/pipeline.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace tessera;

CompileOptions fuzz::optionsFor(const uint8_t *data, size_t size) {
  uint64_t bits = llvm::xxh3_64bits(llvm::ArrayRef<uint8_t>(data, size));
  CompileOptions options;
  options.threads = 1 + (bits & 1);
  options.assign.tp = bits & 2 ? 2 : 1;
  options.assign.dp = bits & 4 ? 2 : 1;
  if (bits & 8)
    options.optimizer = bits & 16 ? "adamw" : "sgd-momentum";
  if (bits & 32 && bits & 8)
    options.assign.microbatches = 2;
  return options;
}

void fuzz::compileAsFarAs(Phase last, const CompileOptions &options) {
  MLIRContext &context = stateForNextInput<MLIRContext>(makeContext);
  Compilation compilation(options, context);
  expectDiagnosed(context, [&] { return compilation.run(last); });
}
