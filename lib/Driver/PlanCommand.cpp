// `tessera plan`: the plan that the options stand for.
#include "lib/Driver/Commands.h"
#include "lib/Driver/Compile.h"
#include "lib/Driver/Report.h"
#include "passes/Assign/Plan.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace tessera;

int tessera::printPlan(const CompileOptions &options) {
  auto context = makeContext();
  installDiagnostics(*context);
  Compilation compilation(options, *context);
  if (failed(compilation.run(Phase::Differentiate)))
    return 1;
  Location here = UnknownLoc::get(context.get());
  Plan plan;
  if (!options.plan.empty()) {
    std::string text;
    llvm::raw_string_ostream errors(text);
    FailureOr<Plan> read = Plan::read(options.plan, errors);
    if (failed(read)) {
      emitError(here) << StringRef(text).rtrim();
      return 1;
    }
    plan = *read;
  }
  if (options.microbatches > 1)
    plan.microbatches = options.microbatches;
  if (failed(applyRecipe(*compilation.module, {options.dp, options.tp}, plan)))
    return 1;
  int64_t ranks = 1;
  for (auto &[axis, size] : plan.mesh)
    ranks *= size;
  llvm::outs() << "# A plan of " << options.model << " for " << ranks << (ranks == 1 ? " rank" : " ranks")
               << ": edit it and give it back by --plan.\n";
  plan.print(llvm::outs());
  return 0;
}
