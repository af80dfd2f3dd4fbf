// The numbers of ranks that may share a batch: --sizes, and [elastic] of plans.
#include "dialects/nn/Attributes.h"
#include "passes/Assign/Passes.h"
#include "passes/Assign/Plan.h"
#include "runtime/core/shards.h"

using namespace mlir;
using namespace tessera;

static InFlightDiagnostic errorAt(ModuleOp module, const Plan &plan, PlanPosition at) {
  if (at.line == 0)
    return module.emitError();
  return emitError(FileLineColLoc::get(module.getContext(), plan.file, at.line, at.column));
}

// Every shard has as much of the batch.
static LogicalResult checkBatch(ModuleOp module, const Plan &plan) {
  int64_t shards = plan.elastic->shards;
  for (auto func : module.getOps<func::FuncOp>()) {
    if (!nn::isTraining(func))
      continue;
    for (BlockArgument arg : func.getArguments()) {
      auto type = dyn_cast<RankedTensorType>(arg.getType());
      auto name = nn::kName.ofArgument(func, arg.getArgNumber());
      nn::InputKind kind = nn::inputKind(func, arg.getArgNumber());
      bool isData = kind == nn::InputKind::Data || kind == nn::InputKind::Labels;
      if (!type || !name || !isData || type.getRank() == 0 || type.getDimSize(0) % shards == 0)
        continue;
      int64_t batch = type.getDimSize(0), below = batch / shards * shards;
      return errorAt(module, plan, plan.elastic->at)
             << "input \"" << name.getValue() << "\" has a batch of " << batch << ", which " << shards
             << " shards do not divide; " << (below > 0 ? std::to_string(below) + " and " : std::string())
             << below + shards << " would be";
    }
  }
  return success();
}

bool tessera::isResizeRule(StringRef name) { return name == "keep" || name == "scale"; }

LogicalResult tessera::chooseSize(ModuleOp module, const AssignOptions &options, Plan &plan) {
  if (!options.sizes.empty()) {
    std::optional<std::vector<int64_t>> sizes = rt::parseSizes(options.sizes);
    if (!sizes)
      return module.emitError() << "--sizes=" << options.sizes
                                << ": expected numbers of ranks in ascending order, such as 1,2,4";
    plan.elastic = ElasticRule();
    plan.elastic->sizes = *sizes;
  }
  if (!options.onResize.empty() && !isResizeRule(options.onResize))
    return module.emitError() << "--on-resize=" << options.onResize << ": expected keep or scale";
  if (!plan.elastic && options.onResize.empty())
    return success();
  if (!plan.elastic)
    return module.emitError() << "--on-resize=" << options.onResize
                              << " is of a batch that several numbers of ranks may share; give --sizes, too";
  ElasticRule &rule = *plan.elastic;
  if (!options.onResize.empty())
    rule.scales = options.onResize == "scale";
  auto axis = llvm::find_if(plan.mesh, [&](auto &each) { return each.first == rule.axis; });
  if (axis == plan.mesh.end())
    return errorAt(module, plan, rule.at)
           << "the batch is to be shared by other numbers of ranks along axis \"" << rule.axis
           << "\", which the mesh lacks; --dp N adds it";
  if (rule.shards == 0)
    rule.shards = rule.sizes.back() * plan.microbatches;
  if (options.size > 0)
    axis->second = options.size;
  rt::Shards shards{rule.sizes, axis->second, rule.shards};
  if (std::string why = shards.check(); !why.empty())
    return errorAt(module, plan, rule.at)
           << "the batch cannot be shared over \"" << rule.axis << "\": " << why;
  plan.microbatches = rule.shards / axis->second;
  return checkBatch(module, plan);
}
