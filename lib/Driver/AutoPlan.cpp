// `tessera plan --auto`: the plan that makes the fastest step, by the compiler's own estimate.
//
// Every plan that is considered is compiled up to its plan of memory, so what is compared is what `info` of
// the executable will say. Deep models are compared by shallow ones (Shallow.h), and the best compiled whole.
// The search judges every way to spread the ranks over the axes, then goes from the best of each kind (data,
// tensor, sequence, expert, pipeline, mixed) to the best neighbour while that is faster. From the best
// recipes of different meshes it goes on by one decision at a time (Flips.h). Without the clock it is the
// same on every machine that gives a rank as many threads.
#include "dialects/exec/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "lib/Driver/Commands.h"
#include "lib/Driver/Flips.h"
#include "lib/Driver/PlanCommand.h"
#include "lib/Driver/Recipes.h"
#include "lib/Driver/Report.h"
#include "passes/Schedule/Sizes.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include <chrono>
#include <map>
#include <set>
#include <tuple>

using namespace mlir;
using namespace tessera;

namespace {

struct Judged {
  AssignOptions recipe;
  Verdict verdict;               // to compare by
  Verdict fitted;                // of what was tried to the end
  std::optional<Plan> plan = {}; // where it is not the recipe's
  size_t flips = 0;              // how many of its decisions are others

  std::string text() const {
    return recipeText(recipe) +
           (flips ? ", " + std::to_string(flips) + (flips == 1 ? " decision" : " decisions") + " changed"
                  : "");
  }
};

class AutoPlanner {
public:
  AutoPlanner(Compilation &model, Shallow &shallow, const AutoOptions &how, int64_t ranks, bool trains,
              std::chrono::steady_clock::time_point end)
      : model(model), judge(model, &shallow), recipes(ranks, model.options.assign, how.decided, trains),
        end(end), flips(model, &shallow, how.decided, cap(), [this] { return isLate(); }) {}

  /// The fastest that keeps the caps; null where none was found.
  const Judged *run();
  /// By rising seconds: those that compile.
  std::vector<const Judged *> ranking() const;
  /// What needs least of the device, where nothing fits.
  const Judged *smallest() const;
  /// How many recipes, and how many changes of the best, were compiled.
  size_t size() const { return numRecipes; }
  size_t numFlips() const { return flips.size(); }
  /// The plan of what was found, with what each of its entries gains.
  FailureOr<Plan> planOf(const Judged &each);
  /// The model as it is to be compiled.
  std::unique_ptr<Compilation> compilationOf(const Judged &each) const {
    return each.plan ? judge.withPlan(*each.plan) : judge.withRecipe(each.recipe);
  }
  bool wasCut() const { return cut || leftOut; }
  std::string firstReason() const { return reason; }
  /// All that were judged, by rising seconds; those that do not compile last.
  std::vector<Alternative> alternatives(const Judged &best) const;

private:
  bool isLate() {
    cut |= std::chrono::steady_clock::now() >= end;
    return cut;
  }
  int64_t cap() const { return model.options.deviceMemory.value_or(INT64_MAX); }
  Judged *consider(const AssignOptions &recipe);
  // What is compared while recipes are walked: too much memory is worth as much more time.
  double worth(const Judged &each) const {
    return each.verdict.seconds * std::max(1.0, double(each.verdict.deviceBytes) / double(cap()));
  }
  void climb(Judged *from);
  const Judged *fastestThatFits();
  std::vector<const Judged *> starts(const Judged *best);
  FailureOr<Plan> barePlan(const AssignOptions &recipe) const;
  const Judged *flip(const Judged *best);

  Compilation &model;
  Judge judge;
  Recipes recipes;
  const std::chrono::steady_clock::time_point end;
  std::map<std::string, Judged> judged; // by text
  std::string reason;                   // why the first that does not compile does not
  size_t numRecipes = 0;
  bool cut = false;
  bool leftOut = false;
  // On recipes that compile, so far: models as Judge::work counts them, and how long they took.
  double done = 0;
  std::chrono::duration<double> spent{0};
  Flips flips;
};

// Null where it does not compile, or the time is over. One is always judged.
Judged *AutoPlanner::consider(const AssignOptions &recipe) {
  std::string text = recipeText(recipe);
  auto found = judged.find(text);
  if (found == judged.end()) {
    const double work = judge.work(recipe);
    const auto begin = std::chrono::steady_clock::now();
    // What would not be done in time is not begun.
    if (!judged.empty() && (isLate() || (done > 0 && begin + work / done * spent > end))) {
      leftOut = true;
      return nullptr;
    }
    found = judged.emplace(text, Judged{recipe, judge.compare(recipe), {}}).first;
    ++numRecipes;
    if (found->second.verdict.compiles) {
      spent += std::chrono::steady_clock::now() - begin;
      done += work;
    }
    if (reason.empty() && !found->second.verdict.compiles)
      reason = found->second.verdict.reason;
  }
  return found->second.verdict.compiles ? &found->second : nullptr;
}

// To the best neighbour, as long as there is a better one.
void AutoPlanner::climb(Judged *from) {
  while (from) {
    Judged *best = nullptr;
    for (const AssignOptions &recipe : recipes.neighbours(from->recipe))
      if (Judged *next = consider(recipe); next && (!best || worth(*next) < worth(*best)))
        best = next;
    from = best && worth(*best) < worth(*from) ? best : nullptr;
  }
}

// How much slower than the best kind one may be from which a walk begins.
constexpr double kPromising = 2;
// How many are tried under caps that none has kept yet.
constexpr int kTriedBelowCap = 24;
// How many of those that shallow models were judged for are compiled whole, and how far off these may be.
constexpr int kWhole = 3;
constexpr double kOff = 0.02;

// The axes that a recipe splits, as a kind of recipe.
std::string kindOf(const AssignOptions &recipe) {
  std::string kind;
  for (auto [name, size] :
       {std::pair("d", recipe.dp), {"t", recipe.tp}, {"s", recipe.sp}, {"e", recipe.ep}, {"p", recipe.pp}})
    if (size > 1)
      kind += name;
  return kind.size() > 1 ? "mixed" : kind;
}

const Judged *AutoPlanner::run() {
  // Experts where the model has none, or more ranks than there are rows: said once, not for each mixture.
  std::set<std::string> refused;
  std::map<std::string, Judged *> best; // by kind
  std::vector<AssignOptions> spreads = recipes.spreads();
  // One axis alone first, then what is compiled soon.
  auto key = [&](const AssignOptions &r) {
    int axes = (r.dp > 1) + (r.tp > 1) + (r.sp > 1) + (r.ep > 1) + (r.pp > 1);
    return std::tuple(axes > 1, axes > 1 ? judge.work(r) : 0, axes);
  };
  llvm::stable_sort(spreads, [&](const AssignOptions &a, const AssignOptions &b) { return key(a) < key(b); });
  for (const AssignOptions &recipe : spreads) {
    if (recipe.ep > 1 && kindOf(recipe) == "mixed" && refused.count("e") && !best.count("e"))
      continue;
    Judged *each = consider(recipe);
    std::string kind = kindOf(recipe);
    if (!each)
      refused.insert(kind);
    else if (Judged *&first = best[kind]; !first || worth(*each) < worth(*first))
      first = each;
  }
  std::vector<Judged *> starts;
  for (auto &[kind, each] : best)
    starts.push_back(each);
  llvm::stable_sort(starts, [&](Judged *a, Judged *b) { return worth(*a) < worth(*b); });
  for (Judged *start : starts)
    if (worth(*start) <= kPromising * worth(*starts.front()))
      climb(start);
  return flip(fastestThatFits());
}

// From then on what was drawn is known.
static void fit(Judged &each, Verdict whole) {
  each.fitted = std::move(whole);
  if (each.verdict.isDrawn && each.fitted.compiles)
    each.verdict = each.fitted;
}

// A cap makes no recipe faster, so those that are slower without it need not be tried with it. What was drawn
// from shallow models is about right: of those that are about as fast as the first some are compiled whole.
const Judged *AutoPlanner::fastestThatFits() {
  const Judged *best = nullptr;
  int count = 0, whole = 0;
  std::vector<const Judged *> order = ranking();
  // Where none fits as it is, those with the least memory have the best chance.
  if (llvm::none_of(order, [&](const Judged *each) { return each->verdict.deviceBytes <= cap(); }))
    llvm::stable_sort(order, [&](const Judged *a, const Judged *b) { return worth(*a) < worth(*b); });
  for (const Judged *each : order) {
    const double least = each->verdict.seconds * (each->verdict.isDrawn && whole < kWhole ? 1 - kOff : 1);
    if (best && least >= best->fitted.seconds)
      break;
    // When the time is over, one that fits as it is will do.
    bool isOver = count > 0 && isLate();
    if (isOver && best)
      break;
    if (isOver && each->verdict.deviceBytes > cap())
      continue;
    if (!best && ++count > kTriedBelowCap)
      break;
    fit(const_cast<Judged &>(*each), judge.judge(each->recipe));
    ++whole;
    if (each->fitted.compiles && (!best || each->fitted.seconds < best->fitted.seconds))
      best = each;
  }
  return best;
}

// The recipe's plan, without what the options say of memory.
FailureOr<Plan> AutoPlanner::barePlan(const AssignOptions &recipe) const {
  ScopedDiagnosticHandler quiet(&model.context, [](Diagnostic &) { return success(); });
  AssignOptions bare = recipe;
  bare.deviceMemory = bare.hostMemory = 0;
  bare.nvme = bare.offload = bare.recompute = "";
  return makePlan(*model.module, bare);
}

// From how many meshes, and how many operators of changed plans are compiled from each.
constexpr size_t kMeshes = 3;
constexpr double kEffort = 20000;

// The best recipe of each of the best meshes, whatever its axes are called; and `best`, which fits, where it
// is another.
std::vector<const Judged *> AutoPlanner::starts(const Judged *best) {
  std::vector<const Judged *> order = ranking(), list;
  llvm::stable_sort(order, [&](const Judged *a, const Judged *b) { return worth(*a) < worth(*b); });
  std::set<std::vector<int64_t>> seen;
  for (const Judged *each : order) {
    if (list.size() == kMeshes || worth(*each) > kPromising * worth(*order.front()))
      break;
    FailureOr<Plan> plan = barePlan(each->recipe);
    if (failed(plan))
      continue;
    std::vector<int64_t> mesh;
    for (auto &[axis, size] : plan->mesh)
      if (size > 1 && !(plan->pipeline && plan->pipeline->axis == axis))
        mesh.push_back(size);
    llvm::sort(mesh);
    if (seen.insert(mesh).second)
      list.push_back(each);
  }
  if (best && !llvm::is_contained(list, best))
    list.insert(list.begin(), best);
  return list;
}

// What is reached from recipes by one decision at a time, if it is better than the best of them.
const Judged *AutoPlanner::flip(const Judged *best) {
  std::vector<std::pair<Price, Judged *>> found;
  for (const Judged *start : starts(best)) {
    FailureOr<Plan> plan = barePlan(start->recipe);
    Flips::Found reached = flips.improve(*plan, kEffort);
    if (reached.flips == 0)
      continue;
    Judged each{start->recipe, reached.verdict, {}, std::move(reached.plan), reached.flips};
    found.emplace_back(reached.price, &judged.insert_or_assign(each.text(), each).first->second);
  }
  llvm::stable_sort(found, [](auto &a, auto &b) { return a.first < b.first; });
  for (auto &[price, each] : found) {
    if (!price.fits || (best && price.seconds >= best->fitted.seconds))
      continue;
    fit(*each, judge.judge(*each->plan));
    if (each->fitted.compiles && (!best || each->fitted.seconds < best->fitted.seconds))
      best = each;
  }
  return best;
}

FailureOr<Plan> AutoPlanner::planOf(const Judged &each) {
  FailureOr<Plan> plan = each.plan ? *each.plan : barePlan(each.recipe);
  if (failed(plan))
    return failure();
  flips.annotate(*plan);
  if (failed(addMemory(*model.module, model.options.assign, *plan)))
    return failure();
  if (auto type = nn::kComputeType.of(*model.module))
    plan->compute = exec::dtypeName(type.getValue());
  return plan;
}

std::vector<const Judged *> AutoPlanner::ranking() const {
  std::vector<const Judged *> list;
  for (auto &[text, each] : judged)
    if (each.verdict.compiles)
      list.push_back(&each);
  llvm::stable_sort(list,
                    [](const Judged *a, const Judged *b) { return a->verdict.seconds < b->verdict.seconds; });
  return list;
}

std::vector<Alternative> AutoPlanner::alternatives(const Judged &best) const {
  std::vector<Alternative> list;
  for (const Judged *each : ranking())
    list.push_back({each->text(), each->verdict, each == &best});
  for (auto &[text, each] : judged)
    if (!each.verdict.compiles)
      list.push_back({text, each.verdict, false});
  return list;
}

const Judged *AutoPlanner::smallest() const {
  const Judged *least = nullptr;
  for (const Judged *each : ranking())
    if (!least || each->verdict.deviceBytes < least->verdict.deviceBytes)
      least = each;
  return least;
}

} // namespace

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
                            const Judged &best, int64_t ranks) {
  std::string text;
  llvm::raw_string_ostream os(text);
  const Verdict &verdict = best.fitted;
  os << "# A plan of " << model.options.model << " for " << ranks << (ranks == 1 ? " rank" : " ranks")
     << ", found by --auto: " << best.text() << "\n# " << secondsText(verdict.seconds)
     << " a step by estimate" << (model.machine ? "" : " (uncalibrated: no --machine)") << ", "
     << sizeText(verdict.deviceBytes) << " of the device a rank";
  if (verdict.hostBytes > 0)
    os << ", " << sizeText(verdict.hostBytes) << " of the host";
  os << ", " << sizeText(verdict.sentBytes) << " sent a rank and step.\n# " << planner.size()
     << " recipes and " << planner.numFlips()
     << " changes of the best were compiled. The next best, without caps:\n";
  int count = 0;
  for (const Judged *other : planner.ranking())
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

// Nothing fits: what comes nearest, and how many ranks would do.
static void refuse(Compilation &model, Shallow &shallow, const AutoOptions &how, const AutoPlanner &planner,
                   int64_t ranks, bool trains) {
  Location here = UnknownLoc::get(&model.context);
  const Judged *least = planner.smallest();
  if (!least) {
    emitError(here) << "no recipe for " << ranks << (ranks == 1 ? " rank" : " ranks")
                    << " can be compiled; of the first: "
                    << (planner.firstReason().empty() ? "the options given leave none"
                                                      : planner.firstReason());
    return;
  }
  InFlightDiagnostic error = emitError(here);
  error << "no plan was found for " << ranks << (ranks == 1 ? " rank" : " ranks")
        << " in --device-memory=" << sizeText(*model.options.deviceMemory) << "; the least is "
        << sizeText(least->verdict.deviceBytes) << " of the device, by " << least->text();
  for (int64_t more : {2 * ranks, 4 * ranks, 8 * ranks}) {
    AutoPlanner other(model, shallow, how, more, trains,
                      std::chrono::steady_clock::now() + std::chrono::seconds(5));
    if (const Judged *found = other.run()) {
      error.attachNote() << more << " ranks would do: " << found->text();
      return;
    }
  }
}

// A plan that has a mesh has chosen already.
static LogicalResult checkPlanFile(Compilation &model) {
  if (model.options.assign.planFile.empty())
    return success();
  FailureOr<Plan> plan = makePlan(*model.module, model.options.assign);
  if (failed(plan))
    return failure();
  if (plan->mesh.empty())
    return success();
  return emitError(UnknownLoc::get(&model.context))
         << "\"" << model.options.assign.planFile
         << "\" has a mesh, which leaves --auto nothing to choose; take [mesh] out of it, and what names its "
            "axes";
}

int tessera::planAutomatically(const CompileOptions &options, const AutoOptions &how) {
  auto context = makeContext();
  installDiagnostics(*context);
  auto begin = std::chrono::steady_clock::now();
  auto end = begin + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                         std::chrono::duration<double>(how.seconds));
  Compilation model(options, *context);
  if (failed(model.run(Phase::Normalize)))
    return 1;
  OwningOpRef<ModuleOp> before = model.next == Phase::Differentiate ? model.module->clone() : ModuleOp();
  if (failed(model.run(Phase::Differentiate)) || failed(checkPlanFile(model)))
    return 1;
  Shallow shallow(model, std::move(before));
  bool trains = !options.optimizer.empty();
  int64_t samples = samplesOf(*model.module);
  llvm::json::Array plans;
  std::string table;
  for (size_t i = 0; i < how.ranks.size(); ++i) {
    int64_t ranks = how.ranks[i];
    // Each number of ranks has its share of the time that is left.
    auto now = std::chrono::steady_clock::now();
    AutoPlanner planner(model, shallow, how, ranks, trains, now + (end - now) / int(how.ranks.size() - i));
    const Judged *best = planner.run();
    if (!best) {
      refuse(model, shallow, how, planner, ranks, trains);
      return 1;
    }
    const Verdict &verdict = best->fitted;
    if (planner.wasCut())
      emitRemark(UnknownLoc::get(context.get()))
          << "the search for " << ranks << " ranks was ended by --plan-seconds after " << planner.size()
          << " recipes; a step cannot be faster than " << secondsText(leastSeconds(model, verdict, ranks));
    FailureOr<Plan> plan = planner.planOf(*best);
    if (failed(plan))
      return 1;
    std::string text = planText(model, *plan, planner, *best, ranks), file = outputOf(how, how.output, ranks);
    if (!how.json && file.empty())
      llvm::outs() << text;
    if (!file.empty() && failed(writeText(*context, file, text)))
      return 1;
    if (!options.report.empty()) {
      std::unique_ptr<Compilation> whole = planner.compilationOf(*best);
      if (failed(writePlannedPage(*whole, outputOf(how, options.report, ranks), planner.alternatives(*best))))
        return 1;
    }
    double rate = double(samples) / verdict.seconds;
    table += llvm::formatv("{0,6} {1,12} {2,12:f1} {3,14} {4,14}  {5}\n", ranks, secondsText(verdict.seconds),
                           rate, verdict.deviceBytes, verdict.sentBytes, best->text())
                 .str();
    plans.push_back(llvm::json::Object{{"ranks", ranks},
                                       {"recipe", recipeText(best->recipe)},
                                       {"seconds", verdict.seconds},
                                       {"samples_per_second", rate},
                                       {"device_bytes", verdict.deviceBytes},
                                       {"host_bytes", verdict.hostBytes},
                                       {"sent_bytes", verdict.sentBytes},
                                       {"flips", int64_t(best->flips)},
                                       {"judged", int64_t(planner.size())},
                                       {"changes", int64_t(planner.numFlips())},
                                       {"plan", file}});
  }
  if (how.json)
    llvm::outs() << llvm::formatv("{0:2}", llvm::json::Value(llvm::json::Object{{"model", options.model},
                                                                                {"plans", std::move(plans)}}))
                 << "\n";
  else if (how.ranks.size() > 1)
    llvm::outs() << " ranks       a step    samples/s   device bytes     sent bytes  recipe\n" << table;
  return 0;
}
