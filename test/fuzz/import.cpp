// The ONNX reader and the importer on arbitrary bytes.
#include "test/fuzz/pipeline.h"
#include "test/fuzz/scratch.h"

using namespace tessera;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static fuzz::ScratchFile file("m.onnx");
  const std::string &path = file.write(data, size);
  mlir::MLIRContext &context = fuzz::contextForNextInput();
  ImportOptions options;
  options.binds = {{"batch", 2}, {"seq", 4}};
  fuzz::expectDiagnosed(context, [&] {
    WeightStore weights;
    return mlir::LogicalResult(importOnnx(path, options, context, weights));
  });
  return 0;
}
