// Plans on a small model: read, assigned, propagated and partitioned.
#include "test/fuzz/pipeline.h"
#include "test/fuzz/scratch.h"

using namespace tessera;

// An embedding, attention over 4 heads, and a pair of products.
static constexpr llvm::StringLiteral kModel = TESSERA_FUZZ_PLAN_MODEL;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static fuzz::ScratchFile file("plan.toml");
  CompileOptions options;
  options.threads = 1;
  options.model = kModel.str();
  options.assign.planFile = file.write(data, size);
  fuzz::compileAsFarAs(Phase::Partition, options);
  return 0;
}
