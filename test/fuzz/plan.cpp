// Plans on a small model: read, assigned, propagated and partitioned.
#include "test/fuzz/pipeline.h"
#include "test/fuzz/scratch.h"

using namespace mlir;
using namespace tessera;

// An embedding, attention over 4 heads, and a pair of products.
static constexpr llvm::StringLiteral kModel = TESSERA_FUZZ_PLAN_MODEL;

namespace {

// The model just before it meets a plan; each plan gets a copy.
struct Model {
  std::unique_ptr<MLIRContext> context = makeContext();
  OwningOpRef<ModuleOp> module;

  Model() {
    CompileOptions options;
    options.model = kModel.str();
    Compilation compilation(options, *context);
    if (failed(compilation.run(Phase::Differentiate)))
      std::abort();
    module = std::move(compilation.module);
  }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static fuzz::ScratchFile file("plan.toml");
  Model &model = fuzz::stateForNextInput<Model>([] { return std::make_unique<Model>(); });
  CompileOptions options;
  options.threads = 1;
  options.assign.planFile = file.write(data, size);
  Compilation compilation(options, *model.context);
  compilation.module = model.module->clone();
  compilation.next = Phase::Assign;
  fuzz::expectDiagnosed(*model.context, [&] { return compilation.run(Phase::Partition); });
  return 0;
}
