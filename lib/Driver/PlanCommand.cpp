// `tessera plan`: the plan that the options stand for.
#include "lib/Driver/Commands.h"
#include "lib/Driver/Compile.h"
#include "lib/Driver/Report.h"
#include "passes/Assign/Plan.h"
#include "passes/Normalize/Passes.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace tessera;

int tessera::printPlan(const CompileOptions &options) {
  auto context = makeContext();
  installDiagnostics(*context);
  Compilation compilation(options, *context);
  if (failed(compilation.run(Phase::Differentiate)))
    return 1;
  FailureOr<Plan> plan = makePlan(*compilation.module, options.assign);
  if (failed(plan))
    return 1;
  if (auto type = (*compilation.module)->getAttrOfType<StringAttr>(kComputeTypeAttr))
    plan->compute = type.str();
  int64_t ranks = 1;
  for (auto &[axis, size] : plan->mesh)
    ranks *= size;
  llvm::outs() << "# A plan of " << options.model << " for " << ranks << (ranks == 1 ? " rank" : " ranks")
               << ": edit it and give it back by --plan.\n";
  plan->print(llvm::outs());
  return 0;
}
