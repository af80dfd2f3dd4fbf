// Text at any phase through the parser, the verifiers and the phases that are left, as far as the memory
// plan.
#include "test/fuzz/pipeline.h"
#include "test/fuzz/scratch.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static fuzz::ScratchFile file("m.mlir");
  CompileOptions options = fuzz::optionsFor(data, size);
  options.model = file.write(data, size);
  fuzz::compileAsFarAs(Phase::Memory, options);
  return 0;
}
