// The assign phase: the plan's entries become attributes of the program.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/nn/Attributes.h"
#include "lib/Support/Location.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Assign/Annotations.h"
#include "passes/Assign/NameIndex.h"
#include "passes/Assign/Passes.h"
#include "passes/Assign/Pattern.h"
#include "passes/Assign/Plan.h"
#include "passes/Assign/PlanReader.h"
#include "passes/Assign/Stages.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

namespace tessera {
#define GEN_PASS_DEF_ASSIGN
#include "passes/Assign/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

// Whether the options give a plan, so that one that the model carries is left aside.
static bool givePlan(const AssignOptions &options) {
  return !options.planFile.empty() || options.dp > 1 || options.tp > 1 || options.sp > 1 || options.pp > 1;
}

static FailureOr<Plan> readPlan(ModuleOp module, const std::string &file) {
  std::string text;
  llvm::raw_string_ostream os(text);
  FailureOr<Plan> plan = Plan::read(file, os);
  if (failed(plan))
    emitError(UnknownLoc::get(module.getContext())) << StringRef(text).rtrim();
  return plan;
}

LogicalResult tessera::checkAxes(ModuleOp module, const Plan &plan) {
  SmallVector<StringRef> axes(llvm::make_first_range(plan.mesh));
  bool ok = true;
  for (auto &[name, at] : plan.axesOfRecipe) {
    if (llvm::is_contained(axes, name))
      continue;
    ok = false;
    auto error = emitError(FileLineColLoc::get(module.getContext(), plan.file, at.line, at.column))
                 << "the mesh has no axis \"" << name << "\"";
    if (!axes.empty())
      error << "; the nearest is \"" << PlanReader::nearest(name, axes) << "\"";
  }
  return success(ok);
}

FailureOr<std::string> tessera::plannedComputeType(ModuleOp module, const AssignOptions &options) {
  std::optional<Plan> plan;
  if (!options.planFile.empty()) {
    FailureOr<Plan> read = readPlan(module, options.planFile);
    if (failed(read))
      return failure();
    plan = *read;
  } else if (!givePlan(options) && dist::kFilePlan.isOn(module)) {
    FailureOr<std::optional<Plan>> carried = planOfFile(module);
    if (failed(carried))
      return failure();
    plan = *carried;
  }
  return plan ? plan->compute : std::string();
}

FailureOr<Plan> tessera::makePlan(ModuleOp module, const AssignOptions &options) {
  Plan plan;
  bool given = givePlan(options);
  if (given && carriesPlan(module))
    emitRemark(UnknownLoc::get(module.getContext()))
        << "the model carries a plan, which is left aside: the options give another";
  if (!given) {
    FailureOr<std::optional<Plan>> carried = planOfFile(module);
    if (failed(carried))
      return failure();
    if (*carried)
      plan = **carried;
  }
  if (!options.planFile.empty()) {
    FailureOr<Plan> read = readPlan(module, options.planFile);
    if (failed(read))
      return failure();
    plan = *read;
  }
  if (options.microbatches > 1)
    plan.microbatches = options.microbatches;
  if (failed(applyRecipe(module, options, plan)) || failed(checkAxes(module, plan)) ||
      failed(addMemory(module, options, plan)) || failed(chooseSize(module, options, plan)))
    return failure();
  return plan;
}

namespace {

struct AssignPass : tessera::impl::AssignBase<AssignPass> {
  using AssignBase::AssignBase;

  InFlightDiagnostic error(const Plan &plan, PlanPosition at) {
    if (at.line == 0)
      return getOperation().emitError();
    auto loc = FileLineColLoc::get(&getContext(), plan.file, at.line, at.column);
    return emitError(loc);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<Plan> plan = makePlan(
        module, {planFile,   dp,      tp,           tpMode, tpDepth,  sp,     spMode,       pp,
                 ppSchedule, ep,      microbatches, zero,   regather, stream, deviceMemory, hostMemory,
                 nvme,       offload, recompute,    sizes,  onResize, size,   cut,          unlimited});
    if (failed(plan) || failed(apply(module, *plan)))
      return signalPassFailure();
  }

  LogicalResult apply(ModuleOp module, const Plan &plan) {
    SmallVector<dist::AxisRef> axes;
    for (auto &[name, size] : plan.mesh)
      axes.push_back({name, 1, size});
    dist::Mesh mesh(axes);
    if (std::string why = mesh.verify(); !why.empty())
      return module.emitError("mesh: ") << why;
    OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
    if (module.getOps<dist::MeshOp>().empty())
      dist::MeshOp::create(b, module.getLoc(), "mesh", StringAttr(),
                           dist::MeshAttr::get(&getContext(), mesh));
    if (plan.microbatches > dist::kMostMicrobatches)
      return module.emitError() << plan.microbatches << " microbatches are more than the "
                                << dist::kMostMicrobatches << " that there may be";
    dist::setMicrobatches(module, plan.microbatches);
    if (plan.elastic)
      dist::kElastic.set(module,
                         dist::ElasticAttr::get(&getContext(), plan.elastic->axis, plan.elastic->sizes,
                                                plan.elastic->shards, plan.elastic->scales));
    if (failed(checkInputs(module, plan)) || failed(storeInPieces(module, plan, mesh)))
      return failure();
    for (auto func : module.getOps<func::FuncOp>())
      if (failed(splitInputs(func, plan)))
        return failure();
    NameIndex names(module);
    for (const OpRule &rule : plan.ops)
      if (failed(givePattern(names, plan, rule, mesh)))
        return failure();
    if (failed(layDownValues(module, names, plan)))
      return failure();
    if (!unlimited && failed(placeInTiers(module, plan)))
      return failure();
    dropCarriedPlan(module);
    if (!plan.pipeline)
      return success();
    constexpr int64_t numRules = std::size(kCutRules);
    if (cut >= numRules)
      return module.emitError() << "there is no rule " << int64_t(cut)
                                << " to cut a pipeline by; the last is " << numRules - 1;
    return assignStages(module, plan, mesh, kCutRules[std::max<int64_t>(cut, 0)]);
  }

  LogicalResult storeInPieces(ModuleOp module, const Plan &plan, const dist::Mesh &mesh) {
    Builder b(&getContext());
    dist::AxisList axes;
    for (const std::string &name : plan.zero.axes) {
      std::string why;
      auto resolved = mesh.resolve({dist::AxisRef{name, 1, 0}}, why);
      if (!resolved)
        return error(plan, plan.zero.at) << why;
      axes.append(*resolved);
    }
    bool trains = llvm::any_of(module.getOps<func::FuncOp>(), nn::isTraining);
    if (plan.zero.stage > 0 && plan.zero.stage < 3 && !trains)
      emitWarning(module.getLoc())
          << "stage " << plan.zero.stage
          << " of ZeRO stores optimizer state in pieces, and the program has none; add --train";
    if (plan.zero.stage > 0) {
      dist::kZero.set(module, b.getI64IntegerAttr(plan.zero.stage));
      dist::kZeroAxes.set(module, dist::AxesAttr::get(&getContext(), axes));
    }
    return success(succeeded(choose(module, dist::kRegather, regather)) &&
                   succeeded(choose(module, dist::kStream, stream)));
  }

  LogicalResult choose(ModuleOp module, const DiscardableAttr<dist::WhenAttr> &attr, StringRef text) {
    std::optional<dist::When> when = dist::symbolizeWhen(text);
    if (!when)
      return module.emitError() << attr.name << " is to be \"" << text
                                << "\"; expected never, always or auto";
    if (*when != dist::When::Auto)
      attr.set(module, dist::WhenAttr::get(&getContext(), *when));
    return success();
  }

  // What computes the value of each node (its last operator) and of each output, by name.
  using Values = llvm::MapVector<StringRef, Operation *>;

  static Values namedValues(func::FuncOp func) {
    Block &block = func.getBody().front();
    // In a differentiated program the forward operators are those with an id.
    bool differentiated = llvm::any_of(block, [](Operation &op) { return nn::kGradOf.isOn(&op); });
    auto isForward = [&](Operation &op) { return !differentiated || nn::kId.isOn(&op); };
    Values values;
    for (Operation &op : block)
      if (isa<nn::FactorOpInterface>(op) && isForward(op) && op.getNumOperands() > 0)
        values[nodeName(op.getLoc())] = &op;
    // Outputs have names of their own.
    for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands()))
      if (auto name = nn::kName.ofResult(func, i); name && value.getDefiningOp())
        if (isa<nn::FactorOpInterface>(value.getDefiningOp()))
          values[name.getValue()] = value.getDefiningOp();
    return values;
  }

  LogicalResult layDownValues(ModuleOp module, const NameIndex &names, const Plan &plan) {
    if (plan.values.empty())
      return success();
    SmallVector<Values> programs;
    for (auto func : module.getOps<func::FuncOp>())
      programs.push_back(namedValues(func));
    for (const ValueRule &rule : plan.values) {
      bool named = false;
      for (const Values &values : programs) {
        if (isLiteral(rule.match)) {
          auto it = values.find(rule.match);
          if (it == values.end())
            continue;
          named = true;
          if (failed(layDown(plan, rule, it->first, it->second)))
            return failure();
          continue;
        }
        for (auto [name, op] : values)
          if (globMatches(rule.match, name)) {
            named = true;
            if (failed(layDown(plan, rule, name, op)))
              return failure();
          }
      }
      if (!named)
        return noValue(module, names, plan, rule);
    }
    return success();
  }

  // A layout laid down by hand, on the operator that computes the value `name`.
  LogicalResult layDown(const Plan &plan, const ValueRule &rule, StringRef name, Operation *op) {
    // Of several results (a norm's statistics) the first is the value.
    if (op->getNumOperands() == 0 || op->getNumResults() == 0)
      return success();
    Builder b(&getContext());
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    SmallVector<SmallVector<StringRef>> splits(type.getRank());
    for (auto &[dim, axes] : rule.split) {
      int64_t d = dim < 0 ? dim + type.getRank() : dim;
      if (d < 0 || d >= type.getRank())
        return error(plan, rule.at) << "value \"" << name << "\" has " << type.getRank()
                                    << " dimensions and no dimension " << dim;
      splits[d].assign(axes.begin(), axes.end());
    }
    SmallVector<Attribute> dims;
    for (auto &axes : splits)
      dims.push_back(b.getStrArrayAttr(axes));
    dist::kSplit.set(op, b.getArrayAttr(dims));
    return success();
  }

  LogicalResult noValue(ModuleOp module, const NameIndex &names, const Plan &plan, const ValueRule &rule) {
    for (auto variable : module.getOps<nn::VariableOp>())
      for (StringRef name : {variable.getSymName(), variable.getSource().value_or("")})
        if (!name.empty() && globMatches(rule.match, name))
          return error(plan, rule.at)
                 << "\"" << name
                 << "\" is a parameter, and [[value]] lays down what nodes compute; a parameter is stored as "
                    "the "
                 << "operator that reads it is split: give that a pattern, by an [[op]] with match = \""
                 << rule.match << "\"";
    return error(plan, rule.at) << "no value is named \"" << rule.match << "\"" << names.nearest(rule.match);
  }

  // Every entry for inputs must name one; what training adds may be named without it, so that one plan serves
  // both.
  LogicalResult checkInputs(ModuleOp module, const Plan &plan) {
    llvm::SmallSetVector<StringRef, 4> names;
    for (auto func : module.getOps<func::FuncOp>())
      for (unsigned i = 0; i < func.getNumArguments(); ++i)
        if (auto name = nn::kName.ofArgument(func, i))
          names.insert(name.getValue());
    for (const InputRule &rule : plan.inputs)
      if (rule.match != "labels" && rule.match != "target" &&
          llvm::none_of(names, [&](StringRef name) { return globMatches(rule.match, name); }))
        return error(plan, rule.at) << "no input is named \"" << rule.match << "\"; the inputs are "
                                    << llvm::join(names, ", ");
    return success();
  }

  LogicalResult splitInputs(func::FuncOp func, const Plan &plan) {
    bool trains = nn::isTraining(func);
    Builder b(func.getContext());
    for (BlockArgument arg : func.getArguments()) {
      auto type = cast<RankedTensorType>(arg.getType());
      auto name = nn::kName.ofArgument(func, arg.getArgNumber());
      if (!name || !nn::isUserData(nn::inputKind(func, arg.getArgNumber())) || type.getRank() == 0)
        continue;
      SmallVector<SmallVector<StringRef>> splits(type.getRank());
      const std::string *won = nullptr;
      for (const InputRule &rule : plan.inputs) {
        // The first match wins; entries of the same text describe further dimensions.
        if (!globMatches(rule.match, name.getValue()) || (won && *won != rule.match))
          continue;
        won = &rule.match;
        int64_t dim = rule.dim < 0 ? rule.dim + type.getRank() : rule.dim;
        if (dim < 0 || dim >= type.getRank())
          return error(plan, rule.at) << "input \"" << name.getValue() << "\" has " << type.getRank()
                                      << " dimensions and no dimension " << rule.dim;
        for (const std::string &axis : rule.axes) {
          for (auto [d, axes] : llvm::enumerate(splits))
            if (llvm::is_contained(axes, axis))
              return error(plan, rule.at)
                     << "axis \"" << axis << "\" splits dimension " << d << " of input \"" << name.getValue()
                     << "\" already; an axis splits one dimension, so give dimension " << dim << " another";
          splits[dim].push_back(axis);
        }
      }
      if (trains && plan.microbatches > 1) {
        if (type.getDimSize(0) < plan.microbatches)
          return func.emitError("input \"")
                 << name.getValue() << "\" has a batch of " << type.getDimSize(0) << ", fewer than "
                 << plan.microbatches << " microbatches; use at most " << type.getDimSize(0);
        splits[0].push_back(dist::kMicroAxis);
      }
      if (llvm::all_of(splits, [](auto &axes) { return axes.empty(); }))
        continue;
      SmallVector<Attribute> dims;
      for (auto &axes : splits)
        dims.push_back(b.getStrArrayAttr(axes));
      dist::kSplit.setArgument(func, arg.getArgNumber(), b.getArrayAttr(dims));
    }
    return success();
  }

  LogicalResult givePattern(const NameIndex &names, const Plan &plan, const OpRule &rule,
                            const dist::Mesh &mesh) {
    const tessera::Pattern *pattern = findPattern(rule.pattern);
    if (!pattern)
      return error(plan, rule.at) << "there is no pattern \"" << rule.pattern << "\"";
    if (Applies takes = takesAxes(*pattern, rule.axes.size()); !takes)
      return error(plan, rule.at) << takes.why;
    SmallVector<dist::AxisList> axes;
    dist::AxisList refs;
    for (const std::string &name : rule.axes) {
      std::string why;
      auto resolved = mesh.resolve({dist::AxisRef{name, 1, 0}}, why);
      if (!resolved)
        return error(plan, rule.at) << why;
      axes.push_back(*resolved);
      refs.push_back({name, 1, 0});
    }
    bool named = false, given = false;
    std::string why;
    for (Operation *op : names.matching(rule.match)) {
      auto factorOp = dyn_cast<nn::FactorOpInterface>(op);
      if (!factorOp || nn::kGradOf.isOn(op))
        continue;
      named = true;
      if (Applies applies = pattern->applies(factorOp, axes); !applies) {
        if (why.empty())
          why = applies.why;
        continue;
      }
      given = true;
      if (dist::kPattern.isOn(op))
        continue;
      dist::kPattern.set(op, dist::PatternAttr::get(&getContext(), rule.pattern, refs));
      std::string origin = plan.origin;
      if (rule.at.line)
        origin = (plan.planner && plan.planner->wrote(rule) ? "planner, " : "") + plan.file + ":" +
                 std::to_string(rule.at.line);
      dist::kOrigin.set(op, StringAttr::get(&getContext(), origin));
      ++numPatterns;
    }
    if (!named)
      return error(plan, rule.at) << "no operator, module or parameter is named \"" << rule.match << "\""
                                  << names.nearest(rule.match);
    if (!given)
      return error(plan, rule.at) << "\"" << rule.match << "\": " << why;
    return success();
  }
};

} // namespace
