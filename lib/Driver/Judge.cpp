// See Judge.h.
#include "lib/Driver/Judge.h"
#include "dialects/dist/Attributes.h"
#include "dialects/exec/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "lib/Driver/MachineOption.h"
#include "lib/Driver/Recipes.h"
#include "mlir/IR/Diagnostics.h"
#include "passes/Assign/Annotations.h"
#include "passes/Pipeline/PipelineSchedule.h"
#include "runtime/core/error.h"
#include "runtime/program/description.h"
#include "runtime/simulate/simulate.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace tessera;

double tessera::countOperators(ModuleOp model) {
  double count = 0;
  model->walk([&](Operation *) { ++count; });
  return count;
}

static void addProgram(const rt::Program &program, int threads, Verdict &verdict) {
  auto add = [&](std::vector<int64_t> &stages, int64_t &most, rt::Tier tier) {
    const int64_t peak = program.memoryFor(threads, tier).peak;
    stages.resize(std::max(stages.size(), size_t(program.stage) + 1));
    stages[program.stage] = std::max(stages[program.stage], peak);
    most = std::max(most, peak);
  };
  add(verdict.stageDeviceBytes, verdict.deviceBytes, rt::Tier::Device);
  add(verdict.stageHostBytes, verdict.hostBytes, rt::Tier::Host);
}

static void addStep(const rt::Simulation &step, Verdict &verdict) {
  verdict.seconds = step.seconds;
  verdict.computing = step.computing;
  verdict.waitsForRanks = step.waitsForRanks;
  verdict.waitsForStages = step.waitsForStages;
  verdict.waitsForCopies = step.waitsForCopies;
  verdict.waitsForEnd = step.waitsForEnd;
  for (auto &[axes, over] : step.communication)
    verdict.exposed[axes] = over.exposed;
}

std::unique_ptr<Compilation> Judge::withRecipe(const AssignOptions &recipe) const {
  CompileOptions options = model.options;
  options.assign = recipe;
  options.dumpDirectory.clear();
  auto compilation = std::make_unique<Compilation>(std::move(options), model.context);
  ModuleOp base = model.module.get();
  compilation->module = base.clone();
  compilation->next = Phase::Assign;
  compilation->machine = model.machine;
  compilation->modelHash = model.modelHash;
  return compilation;
}

// As the model's own, which its text would be if it were given by a file.
std::unique_ptr<Compilation> Judge::withPlan(const Plan &plan) const {
  std::string text;
  llvm::raw_string_ostream os(text);
  plan.print(os);
  std::unique_ptr<Compilation> compilation = withRecipe(withoutRecipe(model.options.assign));
  dropCarriedPlan(*compilation->module);
  dist::kFilePlan.set(*compilation->module, StringAttr::get(&model.context, text));
  return compilation;
}

/// What of a plan says how large its program is: the parts of the model that a pipeline has in turn, of which
/// microbatches are unrolled.
struct Judge::Size {
  const pipeline::Schedule *schedule = nullptr; // none: no pipeline
  pipeline::Shape shape;
  bool isElastic = false;
};

Judge::Size Judge::sizeOf(int64_t stages, StringRef schedule, int64_t microbatches) {
  const pipeline::Schedule *known =
      pipeline::findSchedule(schedule.empty() ? pipeline::kDefaultSchedule : schedule);
  if (stages <= 1 || !known)
    return {};
  return {known, {stages, stages * known->chunksPerStage, microbatches}};
}

Judge::Size Judge::sizeOf(const Plan &plan) {
  if (!plan.pipeline)
    return {};
  auto axis = llvm::find_if(plan.mesh, [&](auto &each) { return each.first == plan.pipeline->axis; });
  Size size =
      axis == plan.mesh.end() ? Size() : sizeOf(axis->second, plan.pipeline->schedule, plan.microbatches);
  size.isElastic = plan.elastic.has_value();
  return size;
}

std::optional<Depths> Judge::blocksFor(const Size &size) const {
  return shallow ? shallow->depths(size.shape.chunks) : std::nullopt;
}

// Microbatches that are unrolled; those of a loop need not be fewer.
std::optional<Depths> Judge::turnsFor(const Size &size) const {
  if (!shallow || !size.schedule || size.isElastic)
    return std::nullopt;
  std::optional<pipeline::FewMicrobatches> steady = steadyMicrobatches(*size.schedule, size.shape);
  return steady ? std::optional(Depths{size_t(steady->few), size_t(steady->more), size_t(size.shape.micro)})
                : std::nullopt;
}

Reductions Judge::reductions(const Candidate &candidate) const {
  const AssignOptions *recipe = candidate.recipe;
  const Size size =
      recipe ? sizeOf(recipe->pp, recipe->ppSchedule, recipe->microbatches) : sizeOf(*candidate.plan);
  return {blocksFor(size), turnsFor(size)};
}

std::unique_ptr<Compilation> Judge::with(const Candidate &candidate, size_t blocks, Shallow *shallow) const {
  if (!candidate.recipe) {
    std::optional<Plan> kept = blocks ? shallow->planFor(*candidate.plan, blocks) : *candidate.plan;
    return kept ? withPlan(*kept) : nullptr;
  }
  std::unique_ptr<Compilation> compilation = withRecipe(*candidate.recipe);
  compilation->options.recompute = candidate.recompute;
  return compilation;
}

Verdict Judge::compare(const Candidate &candidate, const Reduction &reduction) {
  const Compilation *made = reduction.blocks ? shallow->at(reduction.blocks) : &model;
  if (!made)
    return {};
  Judge judge(*made);
  std::unique_ptr<Compilation> compilation = judge.with(candidate, reduction.blocks, shallow);
  if (!compilation)
    return {};
  compilation->options.turns = int64_t(reduction.turns);
  return judge.judge(std::move(compilation), /*isWhole=*/false);
}

double Judge::work(const Size &size) const {
  auto share = [](const std::optional<Depths> &depths) {
    return depths ? double(depths->few + depths->more) / double(depths->all) : 1;
  };
  return share(blocksFor(size)) * share(turnsFor(size)) * (size.schedule ? double(size.shape.micro) : 1);
}

// So many steps of the rings of attention take as long to compile as the rest of a transformer.
static constexpr double kRingSteps = 24;

double Judge::work(const AssignOptions &recipe) const {
  const bool hasRings = recipe.spMode == "ring" || recipe.spMode == "rsa";
  return work(sizeOf(recipe.pp, recipe.ppSchedule, recipe.microbatches)) *
         (hasRings ? 1 + double(recipe.sp) / kRingSteps : 1);
}

double Judge::work(const Plan &plan) const { return work(sizeOf(plan)); }

Verdict Judge::judgeAny(const AssignOptions &recipe) {
  std::unique_ptr<Compilation> compilation = withRecipe(recipe);
  compilation->options.anyPlacement = true;
  return judge(std::move(compilation), /*isWhole=*/true);
}

Verdict Judge::judge(std::unique_ptr<Compilation> compilation, bool isWhole) {
  Verdict verdict;
  CompileOptions &options = compilation->options;
  options.report.clear();
  options.advises = false;
  if (!isWhole) {
    options.toCompare = true;
    options.assign.unlimited = true;
    options.deviceMemory = options.hostMemory = {};
    options.nvme = {};
  }
  ScopedDiagnosticHandler quiet(&model.context, [&](Diagnostic &diagnostic) {
    if (verdict.reason.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
      verdict.reason = diagnostic.str();
    return success();
  });
  if (failed(compilation->run(Phase::Memory)))
    return verdict;
  FailureOr<rt::Description> description = compilation->describe();
  return failed(description) ? verdict : verdictOf(*compilation, *description);
}

Verdict tessera::verdictOf(const Compilation &compilation, const rt::Description &description) {
  Verdict verdict;
  bool trains =
      llvm::any_of(description.programs, [](const rt::Program &each) { return each.name == "train"; });
  int64_t ranks = description.mesh.size();
  for (const rt::Program &program : description.programs) {
    addProgram(program, int(compilation.threads()), verdict);
    if (program.name != (trains ? "train" : "infer"))
      continue;
    verdict.sentOver.clear(); // of all stages in each
    for (auto &[axes, kinds] : program.sent)
      for (auto &[kind, sent] : kinds)
        verdict.sentOver[axes] += sent.bytes;
  }
  for (int64_t rank = 0; rank < ranks; ++rank)
    verdict.flops += description.findProgram(trains ? "train" : "infer", rank)->flops;
  for (auto &[axes, bytes] : verdict.sentOver)
    verdict.sentBytes += bytes;
  try {
    if (std::optional<rt::Machine> machine = rt::machineOf(description))
      addStep(rt::simulate(description, trains ? "train" : "infer", *machine), verdict);
    verdict.compiles = true;
  } catch (const rt::Error &error) { // of text whose stages do not fit each other
    verdict.reason = error.what();
  }
  return verdict;
}

std::string tessera::secondsText(double seconds) {
  return seconds < 1 ? llvm::formatv("{0:f2} ms", seconds * 1e3).str()
                     : llvm::formatv("{0:f2} s", seconds).str();
}

double tessera::leastSeconds(const Compilation &model, const Verdict &verdict, int64_t ranks) {
  dist::Machine machine = model.target().machine();
  if (model.machine)
    machine = machineOf(*model.machine, machine, dist::Mesh());
  rt::DType type = rt::parseDType(exec::dtypeName(nn::computeTypeOf(*model.module))).value_or(rt::DType::F32);
  return machine.rates.leastSeconds(verdict.flops / double(ranks), type, model.threadsOf(ranks));
}
