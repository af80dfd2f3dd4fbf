// `tessera plan`: the plan that the options stand for.
#include "lib/Driver/PlanCommand.h"
#include "dialects/dist/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "lib/Driver/Commands.h"
#include "lib/Driver/OtherPlans.h"
#include "lib/Driver/Report.h"
#include "mlir/IR/Diagnostics.h"
#include "passes/Assign/Plan.h"
#include "passes/Normalize/Passes.h"

using namespace mlir;
using namespace tessera;

// A plan serves training too, whose labels or target are split along. Where the options do not say how to
// train, any optimizer would do to learn of them; a model that cannot be trained has none.
LogicalResult tessera::differentiateForPlan(Compilation &compilation) {
  if (failed(compilation.run(Phase::Normalize)))
    return failure();
  if (compilation.options.optimizer.empty() && compilation.next == Phase::Differentiate) {
    OwningOpRef<ModuleOp> before = (*compilation.module).clone();
    compilation.options.optimizer = "sgd";
    {
      ScopedDiagnosticHandler quiet(&compilation.context, [](Diagnostic &) { return success(); });
      if (succeeded(compilation.run(Phase::Differentiate)))
        return success();
    }
    compilation.module = std::move(before);
    compilation.next = Phase::Differentiate;
    compilation.options.optimizer.clear();
  }
  return compilation.run(Phase::Differentiate);
}

// What is decided of memory under a cap, or by entries of the plan: the entries that say all of it.
static LogicalResult solvePlaces(const CompileOptions &options, ModuleOp module, Plan &plan) {
  if (!plan.memory.device && plan.places.empty() && !dist::kPlace.isOn(module) &&
      !dist::kDeviceMemory.isOn(module))
    return success();
  Compilation compilation(options, *module.getContext());
  compilation.wantsPlaced = true;
  if (failed(runWithAdvice(compilation, Phase::Schedule)))
    return failure();
  plan.places.clear();
  for (const dist::Place &place : placesOf(compilation.placed))
    plan.places.push_back({place.match,
                           place.what,
                           place.program,
                           place.saysTier() ? tierName(place.tier).str() : "",
                           place.update,
                           place.moves,
                           place.recompute,
                           {}});
  return success();
}

FailureOr<Plan> tessera::planOf(Compilation &compilation, const AssignOptions &assign) {
  FailureOr<Plan> plan = makePlan(*compilation.module, assign);
  if (failed(plan))
    return failure();
  if (auto type = nn::kComputeType.of(*compilation.module))
    plan->compute = exec::dtypeName(type.getValue());
  int64_t ranks = 1;
  for (auto &[axis, size] : plan->mesh)
    ranks *= size;
  if (failed(compilation.checkMachine(ranks)))
    return failure();
  return plan;
}

LogicalResult tessera::writePlannedPage(Compilation &compilation, const std::string &path,
                                        std::vector<Alternative> alternatives) {
  // Notes and warnings were for when the plan was made.
  ScopedDiagnosticHandler quiet(&compilation.context, [](Diagnostic &diagnostic) {
    return failure(diagnostic.getSeverity() == DiagnosticSeverity::Error);
  });
  compilation.wantsPlaced = true;
  if (failed(compilation.run(Phase::Memory)) || failed(compilation.writeDescription()))
    return failure();
  return writePage(compilation, path, std::move(alternatives));
}

int tessera::printPlan(const CompileOptions &options, const std::string &output) {
  auto context = makeContext();
  installDiagnostics(*context);
  Compilation compilation(options, *context);
  if (failed(differentiateForPlan(compilation)))
    return 1;
  FailureOr<Plan> plan = planOf(compilation, options.assign);
  if (failed(plan))
    return 1;
  if (failed(solvePlaces(options, *compilation.module, *plan)))
    return 1;
  int64_t ranks = 1;
  for (auto &[axis, size] : plan->mesh)
    ranks *= size;
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "# A plan of " << options.model << " for " << ranks << (ranks == 1 ? " rank" : " ranks")
     << ": edit it and give it back by --plan.\n";
  plan->print(os);
  if (failed(writeText(*context, output.empty() ? "-" : output, text)))
    return 1;
  if (options.report.empty())
    return 0;
  Compilation whole(options, *context);
  return failed(writePlannedPage(whole, options.report)) ? 1 : 0;
}
