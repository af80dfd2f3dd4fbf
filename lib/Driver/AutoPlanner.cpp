// See AutoPlanner.h.
#include "lib/Driver/AutoPlanner.h"
#include "dialects/exec/Attributes.h"
#include "dialects/nn/Attributes.h"
#include <limits>
#include <set>

using namespace mlir;
using namespace tessera;

// How much slower than the best kind one may be from which a walk begins.
static constexpr double kPromising = 2;
// How many are tried under caps that none has kept yet.
static constexpr int kTriedBelowCap = 24;
// How many of those that shallow models were judged for are compiled whole, and how far off these may be.
static constexpr size_t kWhole = 3;
static constexpr double kOff = 0.02;
// Compiling whole takes so many times as long as to compare: all programs, and memory packed with care. Below
// a cap that is in the way the memory phase searches too.
static constexpr double kWholeEffort = 3;
static constexpr double kCappedEffort = 6;
// From how many meshes decisions are changed, and how many operators of changed plans are compiled from each.
static constexpr size_t kMeshes = 3;
static constexpr double kEffort = 20000;

static constexpr double kNever = std::numeric_limits<double>::infinity();

// Whether it would be done in time.
bool AutoPlanner::isTimeFor(double work, Time until) {
  if (isLate())
    return false;
  std::lock_guard lock(mutex);
  return done == 0 || std::chrono::steady_clock::now() + work / done * spent <= until;
}

// Whether running blocks again is for the planner to choose.
bool AutoPlanner::mayRecompute() const {
  const std::string &given = model.options.recompute;
  return !model.options.optimizer.empty() && cap() < INT64_MAX && (given.empty() || given == "auto");
}

// What a recipe comes to, and where that is too large with blocks run again. What would not be done in time
// is not begun, but for the first.
std::optional<AutoPlanner::Comparison> AutoPlanner::compare(Judge &one, const AssignOptions &recipe,
                                                            bool isFirst, Time until) {
  const double work = one.work(recipe);
  auto timed = [&](auto &&judge) -> std::optional<Verdict> {
    if (!isFirst && !isTimeFor(work, until))
      return std::nullopt;
    const auto begin = std::chrono::steady_clock::now();
    Verdict verdict = judge();
    if (verdict.compiles) {
      std::lock_guard lock(mutex);
      spent += std::chrono::steady_clock::now() - begin;
      done += work;
    }
    return verdict;
  };
  std::optional<Verdict> verdict = timed([&] { return one.compare(recipe); });
  if (!verdict)
    return std::nullopt;
  Comparison comparison{std::move(*verdict), {}};
  if (comparison.verdict.compiles && !fits(comparison.verdict) && mayRecompute())
    comparison.lean = timed([&] { return one.compare(recipe, "block"); });
  if (comparison.lean && !comparison.lean->compiles)
    comparison.lean.reset();
  return comparison;
}

// Judges those that have not been. In their order; null where one does not compile, or the time is over. One
// is always judged.
std::vector<JudgedPlan *> AutoPlanner::consider(ArrayRef<AssignOptions> list, Time until) {
  std::vector<const AssignOptions *> fresh;
  for (const AssignOptions &recipe : list)
    if (!judged.count(recipeText(recipe)))
      fresh.push_back(&recipe);
  std::vector<std::optional<Comparison>> comparisons(fresh.size());
  judges.forEach(fresh.size(), [&](Judge &one, size_t i) {
    comparisons[i] = compare(one, *fresh[i], i == 0 && judged.empty(), until);
  });
  for (auto [recipe, comparison] : llvm::zip(fresh, comparisons)) {
    if (!comparison) {
      leftOut = true;
      continue;
    }
    if (reason.empty() && !comparison->verdict.compiles)
      reason = comparison->verdict.reason;
    judged.emplace(recipeText(*recipe),
                   JudgedPlan{*recipe, std::move(comparison->verdict), std::move(comparison->lean), {}});
    ++numRecipes;
  }
  std::vector<JudgedPlan *> found;
  for (const AssignOptions &recipe : list) {
    auto each = judged.find(recipeText(recipe));
    found.push_back(each != judged.end() && each->second.verdict.compiles ? &each->second : nullptr);
  }
  return found;
}

// To the best neighbour, as long as there is a better one.
void AutoPlanner::climb(JudgedPlan *from) {
  while (from) {
    JudgedPlan *best = nullptr;
    for (JudgedPlan *next : consider(recipes.neighbours(from->recipe), begin + (end - begin) * 3 / 4))
      if (next && (!best || worth(*next) < worth(*best)))
        best = next;
    from = best && worth(*best) < worth(*from) ? best : nullptr;
  }
}

static int axesOf(const AssignOptions &r) {
  return (r.dp > 1) + (r.tp > 1) + (r.sp > 1) + (r.ep > 1) + (r.pp > 1);
}

// The axes that a recipe splits, as a kind of recipe.
static std::string kindOf(const AssignOptions &recipe) {
  std::string kind;
  for (auto [name, size] :
       {std::pair("d", recipe.dp), {"t", recipe.tp}, {"s", recipe.sp}, {"e", recipe.ep}, {"p", recipe.pp}})
    if (size > 1)
      kind += name;
  return kind.size() > 1 ? "mixed" : kind;
}

// Whether a pipeline's stages, taken together by twos (or another prime) along another axis, come to
// something: if none of what is known of these is about as good as the best of as few stages.
bool AutoPlanner::isPromising(const AssignOptions &recipe) {
  bool isKnown = false;
  for (const AssignOptions &fewer : recipes.neighbours(recipe)) {
    auto each = judged.find(recipeText(fewer));
    if (fewer.pp >= recipe.pp || each == judged.end() || !each->second.verdict.compiles)
      continue;
    isKnown = true;
    double best = kNever;
    for (auto &[text, other] : judged)
      if (other.verdict.compiles && other.recipe.pp == fewer.pp)
        best = std::min(best, worth(other));
    if (worth(each->second) <= kPromising * best)
      return true;
  }
  return !isKnown;
}

// Of ways to spread the ranks the best of each kind, the best first. This has half of the time, and walks
// from these half of the rest.
std::vector<JudgedPlan *> AutoPlanner::bestOfKinds() {
  std::map<std::string, JudgedPlan *> best; // by kind
  auto judgeAll = [&](ArrayRef<AssignOptions> list) {
    for (JudgedPlan *each : consider(list, begin + (end - begin) / 2))
      if (each)
        if (JudgedPlan *&first = best[kindOf(each->recipe)]; !first || worth(*each) < worth(*first))
          first = each;
  };
  std::vector<AssignOptions> alone, mixed;
  for (AssignOptions &recipe : recipes.spreads())
    (axesOf(recipe) > 1 ? mixed : alone).push_back(std::move(recipe));
  llvm::stable_sort(alone, [](auto &a, auto &b) { return axesOf(a) < axesOf(b); });
  judgeAll(alone);
  // Experts where the model has none: said once, not for each mixture.
  if (!best.count("e") && llvm::any_of(alone, [](auto &each) { return each.ep > 1; }))
    llvm::erase_if(mixed, [](auto &each) { return each.ep > 1; });
  // Fewer stages first: what those come to says whether more are tried.
  auto key = [](const AssignOptions &r) { return std::pair(r.pp, axesOf(r)); };
  llvm::stable_sort(mixed, [&](auto &a, auto &b) { return key(a) < key(b); });
  for (auto first = mixed.begin(); first != mixed.end();) {
    auto last = std::find_if(first, mixed.end(), [&](auto &each) { return each.pp != first->pp; });
    std::vector<AssignOptions> list;
    std::copy_if(first, last, std::back_inserter(list), [&](auto &each) { return isPromising(each); });
    judgeAll(list);
    first = last;
  }
  std::vector<JudgedPlan *> list(llvm::make_second_range(best).begin(), llvm::make_second_range(best).end());
  llvm::stable_sort(list, [&](JudgedPlan *a, JudgedPlan *b) { return worth(*a) < worth(*b); });
  return list;
}

const JudgedPlan *AutoPlanner::run() {
  std::vector<JudgedPlan *> kinds = bestOfKinds();
  for (JudgedPlan *start : kinds)
    if (worth(*start) <= kPromising * worth(*kinds.front()))
      climb(start);
  return flip(fastestThatFits(inOrder(), nullptr));
}

// Those that compile, in the order in which they are tried below the caps.
std::vector<JudgedPlan *> AutoPlanner::inOrder() {
  std::vector<JudgedPlan *> order;
  for (const JudgedPlan *each : ranking())
    order.push_back(const_cast<JudgedPlan *>(each));
  llvm::stable_sort(order, [&](JudgedPlan *a, JudgedPlan *b) { return worth(*a) < worth(*b); });
  return order;
}

// What a plan comes to whole, or where there is no time for that what was drawn, if that fits.
void AutoPlanner::tryWhole(Judge &one, JudgedPlan &each) {
  const double effort = fits(each.verdict) ? kWholeEffort : kCappedEffort;
  const double work = effort * (each.plan ? Judge(model).work(*each.plan) : Judge(model).work(each.recipe));
  if (!each.verdict.isDrawn || isTimeFor(work, end)) {
    each.fitted = each.plan ? one.judge(*each.plan) : one.judge(each.recipe);
    return;
  }
  leftOut = true;
  if (fits(each.verdict)) {
    each.fitted = each.verdict;
  } else if (each.lean && fits(*each.lean)) {
    each.fitted = *each.lean;
    each.recomputes = true;
  }
}

// Compiles plans whole, one after the other, or several that are about as fast at a time. A cap makes none
// faster, so those that are slower without it than the best need not be tried with it. What was drawn from
// shallow models is about right: of those that are about as fast as the first some are compiled whole.
const JudgedPlan *AutoPlanner::fastestThatFits(ArrayRef<JudgedPlan *> order, const JudgedPlan *best) {
  int below = 0;
  size_t tried = 0;
  auto isSlower = [&](const JudgedPlan &each, size_t before, double than) {
    return each.verdict.seconds * (each.verdict.isDrawn && before < kWhole ? 1 - kOff : 1) >= than;
  };
  auto bound = [&] { return best ? best->fitted.seconds : kNever; };
  for (size_t i = 0; i < order.size();) {
    JudgedPlan &first = *order[i++];
    if (isSlower(first, tried, bound()))
      continue;
    // When the time is over, one that fits as it was drawn will do.
    const bool isOver = (best || tried > 0) && isLate();
    if (isOver && best)
      break;
    if (isOver && !fits(first.verdict) && !(first.lean && fits(*first.lean)))
      continue;
    if ((!best || !fits(first.verdict)) && ++below > kTriedBelowCap)
      continue;
    // With it those that would be next if it came to what was drawn.
    std::vector<JudgedPlan *> group{&first};
    while (!isOver && i < order.size() && tried + group.size() < kWhole &&
           !isSlower(*order[i], tried + group.size(), std::min(first.verdict.seconds, bound())))
      group.push_back(order[i++]);
    judges.forEach(group.size(), [&](Judge &one, size_t i) {
      JudgedPlan &each = *group[i];
      tryWhole(one, each);
      if (each.verdict.isDrawn && each.fitted.compiles && !each.recomputes) // from now on that is known
        each.verdict = each.fitted;
    });
    tried += group.size();
    for (const JudgedPlan *each : group)
      if (each->fitted.compiles && each->fitted.seconds < bound())
        best = each;
  }
  return best;
}

std::unique_ptr<Compilation> AutoPlanner::compilationOf(const JudgedPlan &each) const {
  std::unique_ptr<Compilation> compilation =
      each.plan ? judge.withPlan(*each.plan) : judge.withRecipe(each.recipe);
  if (each.recomputes)
    compilation->options.recompute = compilation->options.assign.recompute = "block";
  return compilation;
}

// The recipe's plan, without what the options say of memory.
FailureOr<Plan> AutoPlanner::barePlan(const AssignOptions &recipe) const {
  ScopedDiagnosticHandler quiet(&model.context, [](Diagnostic &) { return success(); });
  AssignOptions bare = recipe;
  bare.deviceMemory = bare.hostMemory = 0;
  bare.nvme = bare.offload = bare.recompute = "";
  return makePlan(*model.module, bare);
}

// The best recipe of each of the best meshes, whatever its axes are called; and `best`, which fits, where it
// is another.
std::vector<const JudgedPlan *> AutoPlanner::starts(const JudgedPlan *best) {
  std::vector<const JudgedPlan *> order = ranking(), list;
  llvm::stable_sort(order, [&](const JudgedPlan *a, const JudgedPlan *b) { return worth(*a) < worth(*b); });
  std::set<std::vector<int64_t>> seen;
  for (const JudgedPlan *each : order) {
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
const JudgedPlan *AutoPlanner::flip(const JudgedPlan *best) {
  std::vector<std::pair<Price, JudgedPlan *>> found;
  for (const JudgedPlan *start : starts(best)) {
    FailureOr<Plan> plan = barePlan(start->recipe);
    Flips::Found reached = flips.improve(*plan, kEffort);
    if (reached.flips == 0)
      continue;
    JudgedPlan each{start->recipe, reached.verdict, {}, {}, false, std::move(reached.plan), reached.flips};
    JudgedPlan &kept = judged.insert_or_assign(each.text(), each).first->second;
    if (reached.price.fits)
      found.emplace_back(reached.price, &kept);
  }
  llvm::stable_sort(found, [](auto &a, auto &b) { return a.first < b.first; });
  return fastestThatFits(llvm::to_vector(llvm::make_second_range(found)), best);
}

FailureOr<Plan> AutoPlanner::planOf(const JudgedPlan &each) {
  FailureOr<Plan> plan = each.plan ? *each.plan : barePlan(each.recipe);
  if (failed(plan))
    return failure();
  flips.annotate(*plan);
  if (failed(addMemory(*model.module, model.options.assign, *plan)))
    return failure();
  if (each.recomputes)
    plan->memory.recompute = "block";
  if (auto type = nn::kComputeType.of(*model.module))
    plan->compute = exec::dtypeName(type.getValue());
  return plan;
}

std::vector<const JudgedPlan *> AutoPlanner::ranking() const {
  std::vector<const JudgedPlan *> list;
  for (auto &[text, each] : judged)
    if (each.verdict.compiles)
      list.push_back(&each);
  llvm::stable_sort(
      list, [](const JudgedPlan *a, const JudgedPlan *b) { return a->verdict.seconds < b->verdict.seconds; });
  return list;
}

std::vector<Alternative> AutoPlanner::alternatives(const JudgedPlan &best) const {
  std::vector<Alternative> list;
  for (const JudgedPlan *each : ranking())
    list.push_back({each->text(), each->verdict, each == &best});
  for (auto &[text, each] : judged)
    if (!each.verdict.compiles)
      list.push_back({text, each.verdict, false});
  return list;
}

const JudgedPlan *AutoPlanner::smallest() const {
  const JudgedPlan *least = nullptr;
  for (const JudgedPlan *each : ranking())
    if (!least || each->verdict.deviceBytes < least->verdict.deviceBytes)
      least = each;
  return least;
}
