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
#include <utility>

using namespace mlir;
using namespace tessera;

// How much of --plan-seconds is kept to finish what is being compiled then, and to write the plan.
static constexpr double kToFinish = 0.1;

// How many of the next best the plan names.
static constexpr size_t kAlternatives = 4;

// Where nothing fits, of how many recipes the least whatever is moved is asked, and for how long. Each other
// number of ranks is tried for as long, and none but the first when the search began so long ago.
static constexpr size_t kAskedForLeast = 3;
static constexpr std::chrono::seconds kPatience(3);
static constexpr std::chrono::seconds kAnswer(7);

// A plan as text, with what it comes to and what else was found.
static std::string planText(const Compilation &model, Plan plan, const AutoPlanner &planner,
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
     << " recipes and " << planner.numFlips() << " changes of the best were compiled.\n";
  plan.planner = {best.text(), {}, {}};
  for (const OpRule &rule : plan.ops)
    plan.planner->entries.push_back(rule.digest());
  for (const JudgedPlan *other : planner.ranking())
    if (other != &best && plan.planner->alternatives.size() < kAlternatives)
      plan.planner->alternatives.push_back(llvm::formatv(
          "{0:f2} x the seconds, {1} without caps: {2}", other->verdict.seconds / verdict.seconds,
          sizeText(other->verdict.deviceBytes), other->text()));
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

// The fewest ranks that are found to do, of which `own` are along the plan's axes: up to eight times as many.
// `find` has what would do with so many, or nothing.
static void noteFewestRanks(int64_t ranks, int64_t own, llvm::function_ref<std::string(int64_t)> find,
                            InFlightDiagnostic &error) {
  for (int64_t halves : {3, 4, 6, 8, 12, 16}) {
    const int64_t more = ranks * halves / 2;
    if (ranks * halves % 2 != 0 || more % own != 0)
      continue;
    std::string found = find(more);
    if (found.empty())
      continue;
    error.attachNote() << more << " ranks would do: " << found;
    return;
  }
}

// Nothing fits: what comes nearest, and how many ranks would do, of which `own` are along the plan's axes.
static void refuse(Compilation &model, Shallow &shallow, Judges &judges, const AutoOptions &how,
                   AutoPlanner &planner, int64_t ranks, int64_t own, bool trains) {
  Location here = UnknownLoc::get(&model.context);
  std::vector<const JudgedPlan *> least = planner.smallest(1);
  if (least.empty()) {
    emitError(here) << "no recipe for " << ranks << (ranks == 1 ? " rank" : " ranks")
                    << " can be compiled; of the first: "
                    << (planner.firstReason().empty() ? "the options given leave none"
                                                      : planner.firstReason());
    return;
  }
  InFlightDiagnostic error = emitError(here);
  error << "no plan was found for " << ranks << (ranks == 1 ? " rank" : " ranks")
        << " in --device-memory=" << sizeText(*model.options.deviceMemory)
        << "; without moving anything off the device the least is "
        << sizeText(least.front()->leastDeviceBytes()) << ", by " << least.front()->text();
  if (planner.wasCut()) {
    error.attachNote() << "the search was ended by " << whatEnded();
    return;
  }
  const std::optional<LeastMemory> below =
      planner.leastBelow(planner.smallest(kAskedForLeast), std::chrono::steady_clock::now() + kPatience);
  if (below && below->bytes < least.front()->leastDeviceBytes())
    error.attachNote() << "whatever is moved off the device the least is " << sizeText(below->bytes)
                       << ", by " << below->by;
  bool isFirst = true;
  auto find = [&](int64_t more) {
    // Twice the ranks do not take less than half each.
    if (below && double(below->bytes) * double(ranks) > double(*model.options.deviceMemory) * double(more))
      return std::string();
    const auto now = std::chrono::steady_clock::now();
    if (!std::exchange(isFirst, false) && now >= planner.began() + kAnswer)
      return std::string();
    AutoPlanner other(model, shallow, judges, how.decided, more / own, trains, now + kPatience);
    const JudgedPlan *found = other.runForAny(below ? below->recipe : least.front()->recipe);
    return found ? found->text() : std::string();
  };
  noteFewestRanks(ranks, own, find, error);
}

namespace {

// Which option makes an axis of a plan's mesh.
struct AxisOption {
  StringLiteral axis, option;
  int64_t AssignOptions::*ranks;
};
constexpr AxisOption kAxisOptions[] = {
    {"data", "dp", &AssignOptions::dp},  {"tensor", "tp", &AssignOptions::tp},
    {"row", "tp", &AssignOptions::tp},   {"col", "tp", &AssignOptions::tp},
    {"depth", "tp", &AssignOptions::tp}, {"i", "tp", &AssignOptions::tp},
    {"j", "tp", &AssignOptions::tp},     {"k", "tp", &AssignOptions::tp},
    {"seq", "sp", &AssignOptions::sp},   {"expert", "ep", &AssignOptions::ep},
    {"pipe", "pp", &AssignOptions::pp}};

} // namespace

// What a plan says of memory, microbatches and ZeRO, and the axes that it has, hold for all that is compared.
static void decide(Compilation &model, const Plan &plan, DecidedOptions &decided) {
  if (std::optional<int64_t> device = plan.memory.device)
    model.options.deviceMemory = device;
  if (!plan.memory.recompute.empty())
    model.options.recompute = plan.memory.recompute;
  if (plan.microbatches > 1) {
    model.options.assign.microbatches = plan.microbatches;
    decided.insert("microbatches");
  }
  if (plan.zero.stage > 0)
    decided.insert("zero");
  if (plan.pipeline)
    for (StringRef option : {"pp", "pp-schedule"})
      decided.insert(option);
}

// The ranks along the axes of the plan's mesh, beside which the search has the rest of `ranks`.
static FailureOr<int64_t> takePlanFile(Compilation &model, DecidedOptions &decided, ArrayRef<int64_t> ranks) {
  const std::string &file = model.options.assign.planFile;
  if (file.empty())
    return 1;
  std::string why;
  llvm::raw_string_ostream errors(why);
  Location here = UnknownLoc::get(&model.context);
  FailureOr<Plan> plan = Plan::read(file, errors);
  if (failed(plan))
    return emitError(here) << StringRef(why).rtrim();
  decide(model, *plan, decided);
  int64_t own = 1;
  for (auto &[axis, size] : plan->mesh) {
    own *= size;
    for (const AxisOption &each : kAxisOptions) {
      if (each.axis != axis)
        continue;
      if (model.options.assign.*each.ranks > 1)
        return emitError(here) << "--" << each.option << "=" << model.options.assign.*each.ranks << ": \""
                               << file << "\" has an axis \"" << axis << "\" in its mesh; give one of them";
      decided.insert(each.option);
    }
  }
  for (int64_t count : ranks) {
    if (count % own != 0)
      return emitError(here) << "--ranks=" << count << ": the mesh of \"" << file << "\" has " << own
                             << " ranks, which do not go into " << count;
    if (own > 1 && count == own)
      return emitError(here)
             << "the mesh of \"" << file << "\" has all " << own
             << " ranks, which leaves --auto nothing to choose; take axes out of it, and what "
                "names them";
  }
  return own;
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
  if (failed(model.run(Phase::Differentiate)) || failed(model.checkMachine(*llvm::max_element(how.ranks))))
    return 1;
  FailureOr<int64_t> own = takePlanFile(model, how.decided, how.ranks);
  if (failed(own))
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
    AutoPlanner planner(model, shallow, judges, how.decided, ranks / *own, trains,
                        now + (end - now) / int(how.ranks.size() - i));
    const JudgedPlan *best = planner.run();
    if (!best) {
      refuse(model, shallow, judges, how, planner, ranks, *own, trains);
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
