// `tessera plan --auto`: finds a plan (AutoPlanner.h), and says what it comes to.
#include "dialects/nn/Attributes.h"
#include "lib/Driver/AutoPlanner.h"
#include "lib/Driver/Interruption.h"
#include "lib/Driver/PlanCommand.h"
#include "lib/Driver/Report.h"
#include "passes/Schedule/Sizes.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace tessera;

// How much of --plan-seconds is kept to finish what is being compiled then, and to write the plan.
static constexpr double kToFinish = 0.1;

// The extent of the batch: what most inputs begin with.
static int64_t samplesOf(ModuleOp module) {
  std::map<int64_t, int> count;
  FunctionOpInterface func = nn::inferenceProgram(module);
  for (Type type : func.getArgumentTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type); tensor && tensor.getRank() > 0)
      ++count[tensor.getDimSize(0)];
  int64_t best = 1;
  for (auto [extent, times] : count)
    if (times > count[best] || best == 1)
      best = extent;
  return best;
}

// A plan as text, with what it comes to and what else was found.
static std::string planText(const Compilation &model, const Plan &plan, const AutoPlanner &planner,
                            const JudgedPlan &best, int64_t ranks) {
  std::string text;
  llvm::raw_string_ostream os(text);
  const Verdict &verdict = best.fitted;
  os << "# A plan of " << model.options.model << " for " << ranks << (ranks == 1 ? " rank" : " ranks")
     << ", found by --auto: " << best.text() << "\n# " << secondsText(verdict.seconds)
     << " a step by estimate"
     << (verdict.isDrawn ? ", drawn from fewer blocks or microbatches: there was no time to compile it whole"
                         : "")
     << (model.machine ? "" : " (uncalibrated: no --machine)") << ", " << sizeText(verdict.deviceBytes)
     << " of the device a rank";
  if (verdict.hostBytes > 0)
    os << ", " << sizeText(verdict.hostBytes) << " of the host";
  os << ", " << sizeText(verdict.sentBytes) << " sent a rank and step.\n# " << planner.size()
     << " recipes and " << planner.numFlips()
     << " changes of the best were compiled. The next best, without caps:\n";
  int count = 0;
  for (const JudgedPlan *other : planner.ranking())
    if (other != &best && count++ < 4)
      os << "#   " << llvm::formatv("{0:f2} x: ", other->verdict.seconds / verdict.seconds) << other->text()
         << ", " << sizeText(other->verdict.deviceBytes) << "\n";
  plan.print(os);
  return text;
}

// STEM-8.toml where there are several.
static std::string outputOf(const AutoOptions &how, const std::string &output, int64_t ranks) {
  if (output.empty() || how.ranks.size() == 1)
    return output;
  StringRef path = output, extension = llvm::sys::path::extension(path);
  return (path.drop_back(extension.size()) + "-" + Twine(ranks) + extension).str();
}

static const char *whatEnded() { return interruption::wasAsked() ? "an interruption" : "--plan-seconds"; }

// Nothing fits: what comes nearest, and how many ranks would do.
static void refuse(Compilation &model, Shallow &shallow, Judges &judges, const AutoOptions &how,
                   const AutoPlanner &planner, int64_t ranks, bool trains) {
  Location here = UnknownLoc::get(&model.context);
  const JudgedPlan *least = planner.smallest();
  if (!least) {
    emitError(here) << "no recipe for " << ranks << (ranks == 1 ? " rank" : " ranks")
                    << " can be compiled; of the first: "
                    << (planner.firstReason().empty() ? "the options given leave none"
                                                      : planner.firstReason());
    return;
  }
  InFlightDiagnostic error = emitError(here);
  error << "no plan was found for " << ranks << (ranks == 1 ? " rank" : " ranks")
        << " in --device-memory=" << sizeText(*model.options.deviceMemory)
        << "; without moving anything off the device the least is " << sizeText(least->leastDeviceBytes())
        << ", by " << least->text();
  if (planner.wasCut()) {
    error.attachNote() << "the search was ended by " << whatEnded();
    return;
  }
  for (int64_t more : {2 * ranks, 4 * ranks, 8 * ranks}) {
    AutoPlanner other(model, shallow, judges, how.decided, more, trains,
                      std::chrono::steady_clock::now() + std::chrono::seconds(5));
    if (const JudgedPlan *found = other.run()) {
      error.attachNote() << more << " ranks would do: " << found->text();
      return;
    }
  }
}

// A plan that has a mesh has chosen already. What one says of memory and microbatches holds for all that is
// compared.
static LogicalResult takePlanFile(Compilation &model, DecidedOptions &decided) {
  if (model.options.assign.planFile.empty())
    return success();
  FailureOr<Plan> plan = makePlan(*model.module, model.options.assign);
  if (failed(plan))
    return failure();
  if (plan->mesh.empty()) {
    if (std::optional<int64_t> device = plan->memory.device)
      model.options.deviceMemory = device;
    if (!plan->memory.recompute.empty())
      model.options.recompute = plan->memory.recompute;
    if (plan->microbatches > 1) {
      model.options.assign.microbatches = plan->microbatches;
      decided.insert("microbatches");
    }
    return success();
  }
  return emitError(UnknownLoc::get(&model.context))
         << "\"" << model.options.assign.planFile
         << "\" has a mesh, which leaves --auto nothing to choose; take [mesh] out of it, and what names its "
            "axes";
}

namespace {

// What was found for one number of ranks.
struct FoundPlan {
  int64_t ranks;
  double seconds;
  std::string file, text, row;
  llvm::json::Object json;
  std::unique_ptr<Compilation> compilation = {}; // where there is to be a page, with what it says
  std::vector<Alternative> alternatives = {};
};

} // namespace

static FoundPlan describe(const Compilation &model, const Plan &plan, const AutoPlanner &planner,
                          const JudgedPlan &best, int64_t ranks, int64_t samples, std::string file) {
  const Verdict &verdict = best.fitted;
  const double rate = double(samples) / verdict.seconds;
  std::string row =
      llvm::formatv("{0,6} {1,12} {2,12:f1} {3,14} {4,14}  {5}\n", ranks, secondsText(verdict.seconds), rate,
                    verdict.deviceBytes, verdict.sentBytes, best.text());
  llvm::json::Object json{{"ranks", ranks},
                          {"recipe", recipeText(best.recipe)},
                          {"seconds", verdict.seconds},
                          {"samples_per_second", rate},
                          {"device_bytes", verdict.deviceBytes},
                          {"host_bytes", verdict.hostBytes},
                          {"sent_bytes", verdict.sentBytes},
                          {"flips", int64_t(best.flips)},
                          {"drawn", verdict.isDrawn},
                          {"judged", int64_t(planner.size())},
                          {"changes", int64_t(planner.numFlips())},
                          {"plan", file}};
  return {ranks,          verdict.seconds, std::move(file), planText(model, plan, planner, best, ranks),
          std::move(row), std::move(json)};
}

// Writes the plans, once there is one for each number of ranks.
static LogicalResult write(Compilation &model, const AutoOptions &how, std::vector<FoundPlan> found) {
  llvm::json::Array plans;
  std::string table;
  const FoundPlan *fastest = nullptr;
  for (FoundPlan &each : found) {
    if (!how.json && each.file.empty())
      llvm::outs() << each.text;
    if (!each.file.empty() && failed(writeText(model.context, each.file, each.text)))
      return failure();
    if (each.compilation &&
        failed(writePlannedPage(*each.compilation, outputOf(how, model.options.report, each.ranks),
                                std::move(each.alternatives))))
      return failure();
    table += each.row;
    plans.push_back(std::move(each.json));
    if (!fastest || each.seconds < fastest->seconds)
      fastest = &each;
  }
  for (const FoundPlan &each : found)
    if (fastest->ranks < each.ranks)
      emitRemark(UnknownLoc::get(&model.context))
          << fastest->ranks << (fastest->ranks == 1 ? " rank is" : " ranks are") << " faster than "
          << each.ranks << ": " << secondsText(fastest->seconds) << " a step instead of "
          << secondsText(each.seconds);
  if (how.json)
    llvm::outs() << llvm::formatv("{0:2}", llvm::json::Value(llvm::json::Object{
                                               {"model", model.options.model}, {"plans", std::move(plans)}}))
                 << "\n";
  else if (how.ranks.size() > 1)
    llvm::outs() << " ranks       a step    samples/s   device bytes     sent bytes  recipe\n" << table;
  return success();
}

int tessera::planAutomatically(const CompileOptions &options, AutoOptions how) {
  interruption::listen();
  auto context = makeContext();
  installDiagnostics(*context);
  auto begin = std::chrono::steady_clock::now();
  auto end = begin + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                         std::chrono::duration<double>(how.seconds * (1 - kToFinish)));
  Compilation model(options, *context);
  if (failed(model.run(Phase::Normalize)))
    return 1;
  OwningOpRef<ModuleOp> before = model.next == Phase::Differentiate ? model.module->clone() : ModuleOp();
  if (failed(model.run(Phase::Differentiate)) || failed(takePlanFile(model, how.decided)))
    return 1;
  Shallow shallow(model, std::move(before));
  Judges judges(model, &shallow);
  bool trains = !options.optimizer.empty();
  int64_t samples = samplesOf(*model.module);
  std::vector<FoundPlan> found;
  for (size_t i = 0; i < how.ranks.size(); ++i) {
    int64_t ranks = how.ranks[i];
    // Each number of ranks has its share of the time that is left.
    auto now = std::chrono::steady_clock::now();
    AutoPlanner planner(model, shallow, judges, how.decided, ranks, trains,
                        now + (end - now) / int(how.ranks.size() - i));
    const JudgedPlan *best = planner.run();
    if (!best) {
      refuse(model, shallow, judges, how, planner, ranks, trains);
      return 1;
    }
    if (planner.wasCut())
      emitRemark(UnknownLoc::get(context.get()))
          << "the search for " << ranks << (ranks == 1 ? " rank" : " ranks") << " was ended by "
          << whatEnded() << " after " << planner.size() << " recipes; a step cannot be faster than "
          << secondsText(leastSeconds(model, best->fitted, ranks));
    FailureOr<Plan> plan = planner.planOf(*best);
    if (failed(plan))
      return 1;
    found.push_back(describe(model, *plan, planner, *best, ranks, samples, outputOf(how, how.output, ranks)));
    if (!options.report.empty()) {
      found.back().compilation = planner.compilationOf(*best);
      found.back().alternatives = planner.alternatives(*best);
    }
  }
  return failed(write(model, how, std::move(found))) ? 1 : 0;
}
