// The ONNX reader and the importer on arbitrary bytes.
#include "lib/Import/Import.h"
#include "test/fuzz/diagnosed.h"
#include "test/fuzz/scratch.h"

using namespace mlir;
using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static fuzz::ScratchFile file("m.onnx");
  const std::string &path = file.write(data, size);
  MLIRContext &context = fuzz::stateForNextInput<MLIRContext>(
      [] { return std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED); });
  ImportOptions options;
  options.binds = {{"batch", 2}, {"seq", 4}};
  fuzz::expectDiagnosed(context, [&] {
    WeightStore weights;
    return LogicalResult(importOnnx(path, options, context, weights));
  });
  return 0;
}
