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
#include <cmath>

using namespace mlir;
using namespace tessera;

double tessera::countOperators(ModuleOp model) {
  double count = 0;
  model->walk([&](Operation *) { ++count; });
  return count;
}

static void addProgram(const rt::Program &program, int threads, Verdict &verdict) {
  verdict.deviceBytes = std::max(verdict.deviceBytes, program.memoryFor(threads).peak);
  verdict.hostBytes = std::max(verdict.hostBytes, program.memoryFor(threads, rt::Tier::Host).peak);
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

// How many parts of the model a pipeline has in turn; 1 without one.
static size_t chunksOf(int64_t stages, StringRef schedule) {
  const pipeline::Schedule *known = pipeline::findSchedule(schedule.empty() ? "1f1b" : schedule);
  return stages > 1 ? stages * (known ? known->chunksPerStage : 1) : 1;
}

static size_t chunksOf(const Plan &plan) {
  if (!plan.pipeline)
    return 1;
  auto axis = llvm::find_if(plan.mesh, [&](auto &each) { return each.first == plan.pipeline->axis; });
  return axis == plan.mesh.end() ? 1 : chunksOf(axis->second, plan.pipeline->schedule);
}

// What grows by the same with each block, from what it is at two depths to all.
static Verdict drawn(const Verdict &few, const Verdict &more, const Shallow::Depths &depths) {
  const double steps = double(depths.all - depths.few) / double(depths.more - depths.few);
  Verdict all = few;
  auto draw = [&](auto &into, auto from, auto to) {
    double value = std::max(0.0, double(from) + (double(to) - double(from)) * steps);
    into = std::is_integral_v<decltype(from)> ? std::round(value) : value;
  };
  auto drawMap = [&](auto &into, const auto &from, const auto &to) {
    for (auto &[axes, value] : to) {
      auto there = from.find(axes);
      draw(into[axes], there == from.end() ? decltype(value)(0) : there->second, value);
    }
  };
  for (auto member : {&Verdict::seconds, &Verdict::flops, &Verdict::computing, &Verdict::waitsForRanks,
                      &Verdict::waitsForStages, &Verdict::waitsForCopies, &Verdict::waitsForEnd})
    draw(all.*member, few.*member, more.*member);
  for (auto member : {&Verdict::deviceBytes, &Verdict::hostBytes, &Verdict::sentBytes})
    draw(all.*member, few.*member, more.*member);
  drawMap(all.sentOver, few.sentOver, more.sentOver);
  drawMap(all.exposed, few.exposed, more.exposed);
  all.isDrawn = true;
  return all;
}

std::optional<Shallow::Depths> Judge::depthsFor(size_t chunks) const {
  return shallow ? shallow->depths(chunks) : std::nullopt;
}

// None where one of the two does not compile: why not is for the model itself to say.
std::optional<Verdict> Judge::draw(std::optional<Shallow::Depths> depths,
                                   function_ref<std::optional<Verdict>(Judge, size_t)> judgeAt) {
  if (!depths)
    return std::nullopt;
  auto at = [&](size_t blocks) -> std::optional<Verdict> {
    const Compilation *made = shallow->at(blocks);
    std::optional<Verdict> verdict = made ? judgeAt(Judge(*made), blocks) : std::nullopt;
    return verdict && verdict->compiles ? verdict : std::nullopt;
  };
  std::optional<Verdict> few = at(depths->few), more = few ? at(depths->more) : std::nullopt;
  return more ? std::optional(drawn(*few, *more, *depths)) : std::nullopt;
}

Verdict Judge::compare(const AssignOptions &recipe) {
  auto at = [&](Judge judge, size_t) { return judge.compare(recipe); };
  std::optional<Verdict> verdict = draw(depthsFor(chunksOf(recipe.pp, recipe.ppSchedule)), at);
  return verdict ? *verdict : judge(withRecipe(recipe), /*isWhole=*/false);
}

Verdict Judge::compare(const Plan &plan) {
  auto at = [&](Judge judge, size_t blocks) -> std::optional<Verdict> {
    std::optional<Plan> kept = shallow->planFor(plan, blocks);
    return kept ? std::optional(judge.compare(*kept)) : std::nullopt;
  };
  std::optional<Verdict> verdict = draw(depthsFor(chunksOf(plan)), at);
  return verdict ? *verdict : judge(withPlan(plan), /*isWhole=*/false);
}

static double workOf(std::optional<Shallow::Depths> depths, size_t chunks, int64_t microbatches) {
  return (depths ? double(depths->few + depths->more) / double(depths->all) : 1) *
         (chunks > 1 ? double(microbatches) : 1);
}

double Judge::work(const AssignOptions &recipe) const {
  const size_t chunks = chunksOf(recipe.pp, recipe.ppSchedule);
  return workOf(depthsFor(chunks), chunks, recipe.microbatches);
}

double Judge::work(const Plan &plan) const {
  const size_t chunks = chunksOf(plan);
  return workOf(depthsFor(chunks), chunks, plan.microbatches);
}

Verdict Judge::judge(std::unique_ptr<Compilation> compilation, bool isWhole) {
  Verdict verdict;
  CompileOptions &options = compilation->options;
  options.report.clear();
  if (!isWhole) {
    options.toCompare = true;
    options.assign.deviceMemory = options.assign.hostMemory = 0;
    options.assign.nvme = options.assign.offload = "";
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
  int64_t threads = model.options.threads > 0 ? model.options.threads : 1;
  return machine.rates.leastSeconds(verdict.flops / double(ranks), type, threads);
}
