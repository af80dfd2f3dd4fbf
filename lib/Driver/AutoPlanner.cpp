// See AutoPlanner.h.
#include "lib/Driver/AutoPlanner.h"
#include "dialects/exec/Attributes.h"
#include "dialects/nn/Attributes.h"
#include <limits>

using namespace mlir;
using namespace tessera;

// How much slower than the best kind one may be from which a walk begins.
static constexpr double kPromising = 2;
// How many are tried under caps that none has kept yet.
static constexpr int kTriedBelowCap = 24;
// How many of those that shallow models were judged for are compiled whole, and how far off these may be.
static constexpr size_t kWhole = 3;
static constexpr double kOff = 0.02;
// The same of pipelines that nothing was drawn for: compiled whole they are cut by the best of several rules,
// not by the first.
static constexpr size_t kWholePipelines = 6;
static constexpr double kOffPipelines = 0.08;
// Compiling whole takes so many times as long as to compare: all programs, and memory packed with care. Below
// a cap that is in the way the memory phase searches too, the longer the more is over it: GPT-3 that needs
// 1.8, 3.8 and 5.8 times the cap took 6, 34 and 84 s.
static constexpr double kWholeEffort = 2;
static double cappedEffort(double over) { return 4 * std::max(1.0, over * over / 2); }
// From how many meshes decisions are changed, and how many operators of changed plans are compiled from each.
static constexpr size_t kMeshes = 3;
static constexpr double kEffort = 20000;

static constexpr double kNever = std::numeric_limits<double>::infinity();

// Whether it would be done in time.
bool AutoPlanner::isTimeFor(double work, bool isPipeline, Time until) {
  if (isLate())
    return false;
  std::lock_guard lock(mutex);
  const Pace &pace = paces[paces[isPipeline].models > 0 ? isPipeline : !isPipeline];
  return pace.models == 0 || std::chrono::steady_clock::now() + work / pace.models * pace.spent <= until;
}

// Whether running blocks again is for the planner to choose.
bool AutoPlanner::mayRecompute() const {
  const std::string &given = model.options.recompute;
  return !model.options.optimizer.empty() && cap() < INT64_MAX && (given.empty() || given == "auto");
}

// What these come to. None where that would not be done in time: then it is not begun. `isFirst`: the first
// is, at any time.
std::vector<std::optional<Verdict>> AutoPlanner::compare(ArrayRef<Candidate> list, bool isFirst, Time until) {
  return judges.compare(
      list,
      [&](size_t i) {
        const AssignOptions &recipe = *list[i].recipe;
        return (isFirst && i == 0) || isTimeFor(judge.work(recipe), recipe.pp > 1, until);
      },
      [&](size_t i, std::chrono::duration<double> spent) {
        const AssignOptions &recipe = *list[i].recipe;
        std::lock_guard lock(mutex);
        paces[recipe.pp > 1].spent += spent;
        paces[recipe.pp > 1].models += judge.work(recipe);
      });
}

// Judges with blocks run again what is too large without, but is not slower by so much already that it comes
// to nothing.
void AutoPlanner::considerLean(ArrayRef<JudgedPlan *> large, Time until) {
  if (!mayRecompute() || anyWillDo) // judgeAny finds out by itself what has to run again
    return;
  double best = kNever;
  for (auto &[text, each] : judged)
    if (each.verdict.compiles)
      best = std::min(best, worth(each));
  auto list = llvm::filter_to_vector(
      large, [&](JudgedPlan *each) { return each->verdict.seconds <= kPromising * best; });
  std::vector<Candidate> candidates;
  for (const JudgedPlan *each : list)
    candidates.emplace_back(each->recipe, "block");
  for (auto [each, verdict] : llvm::zip(list, compare(candidates, judged.size() == 1, until)))
    if (verdict && verdict->compiles)
      each->lean = std::move(verdict);
}

// Judges those that have not been. In their order; null where one does not compile, or the time is over. One
// is always judged.
std::vector<JudgedPlan *> AutoPlanner::consider(ArrayRef<AssignOptions> list, Time until) {
  std::vector<Candidate> fresh;
  std::set<std::string> seen;
  for (const AssignOptions &recipe : list)
    if (std::string text = recipeText(recipe); !judged.count(text) && seen.insert(text).second)
      fresh.emplace_back(recipe, model.options.recompute);
  std::vector<JudgedPlan *> large;
  for (auto [candidate, verdict] : llvm::zip(fresh, compare(fresh, judged.empty(), until))) {
    if (!verdict) {
      leftOut = true;
      continue;
    }
    if (reason.empty() && !verdict->compiles)
      reason = verdict->reason;
    JudgedPlan &each = judged
                           .emplace(recipeText(*candidate.recipe),
                                    JudgedPlan{*candidate.recipe, std::move(*verdict), {}, {}})
                           .first->second;
    if (each.verdict.compiles && !fits(each.verdict))
      large.push_back(&each);
    ++numRecipes;
  }
  considerLean(large, until);
  std::vector<JudgedPlan *> found;
  for (const AssignOptions &recipe : list) {
    auto each = judged.find(recipeText(recipe));
    found.push_back(each != judged.end() && each->second.verdict.compiles ? &each->second : nullptr);
  }
  return found;
}

// From each to its best neighbour, and to the best that spreads the ranks as it does, as long as there is a
// better one. Side by side, since one walk alone seldom has enough to judge for all threads.
void AutoPlanner::climb(std::vector<JudgedPlan *> from, Time until) {
  auto spreadText = [&](const AssignOptions &recipe) { return recipeText(recipes.spreadOf(recipe)); };
  while (!from.empty()) {
    std::vector<AssignOptions> around;
    std::vector<size_t> ends; // of each one's neighbours
    for (const JudgedPlan *each : from) {
      llvm::append_range(around, recipes.neighbours(each->recipe));
      ends.push_back(around.size());
    }
    const std::vector<JudgedPlan *> found = consider(around, until);
    std::vector<JudgedPlan *> better;
    size_t i = 0;
    for (auto [each, end] : llvm::zip_equal(from, ends)) {
      const std::string spread = spreadText(each->recipe);
      JudgedPlan *best = each, *bestOfSpread = each;
      for (; i < end; ++i) {
        if (!found[i])
          continue;
        if (worth(*found[i]) < worth(*best))
          best = found[i];
        if (worth(*found[i]) < worth(*bestOfSpread) && spreadText(found[i]->recipe) == spread)
          bestOfSpread = found[i];
      }
      for (JudgedPlan *next : {best, bestOfSpread})
        if (next != each && !llvm::is_contained(better, next))
          better.push_back(next);
    }
    from = std::move(better);
  }
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

// Judges these, and what is too large with its state split. Of each the better.
std::vector<JudgedPlan *> AutoPlanner::considerSplit(ArrayRef<AssignOptions> list, Time until) {
  std::vector<JudgedPlan *> found = consider(list, until);
  std::vector<AssignOptions> split;
  std::vector<size_t> places;
  for (auto [i, each] : llvm::enumerate(found))
    if (each && !fits(each->verdict))
      if (std::optional<AssignOptions> other = recipes.split(each->recipe)) {
        split.push_back(std::move(*other));
        places.push_back(i);
      }
  for (auto [i, each] : llvm::zip(places, consider(split, until)))
    if (each && worth(*each) < worth(*found[i]))
      found[i] = each;
  return found;
}

// What is known of a recipe, or of the same with its state split.
double AutoPlanner::knownWorth(const AssignOptions &recipe) const {
  double least = kNever;
  for (const std::optional<AssignOptions> &each : {std::optional(recipe), recipes.split(recipe)})
    if (auto found = each ? judged.find(recipeText(*each)) : judged.end();
        found != judged.end() && found->second.verdict.compiles)
      least = std::min(least, worth(found->second));
  return least;
}

// How far from data alone: more stages, then more ranks that share a sample's work.
static std::pair<int64_t, int64_t> depthOf(const AssignOptions &recipe) {
  return {recipe.pp, recipe.tp * recipe.sp * recipe.ep};
}

// Whether a recipe comes to something, by those that have half as many ranks (or another prime's part) on one
// of its axes: if one of them is about as good as the best of as many stages, or of none that is known.
bool AutoPlanner::isPromising(const AssignOptions &recipe) {
  bool isKnown = false;
  for (const AssignOptions &neighbour : recipes.neighbours(recipe)) {
    if (depthOf(neighbour) >= depthOf(recipe))
      continue;
    const AssignOptions fewer = recipes.spreadOf(neighbour);
    isKnown |= hopeless.count(recipeText(fewer)) > 0;
    const double known = knownWorth(fewer);
    if (known == kNever)
      continue;
    isKnown = true;
    double best = kNever;
    for (auto &[text, other] : judged)
      if (other.verdict.compiles && other.recipe.pp == fewer.pp)
        best = std::min(best, worth(other));
    if (known <= kPromising * best)
      return true;
  }
  if (isKnown)
    hopeless.insert(recipeText(recipe));
  return !isKnown;
}

// Of ways to spread the ranks the best of each kind, the best first. This has half of the time, and walks
// from these half of the rest.
std::vector<JudgedPlan *> AutoPlanner::bestOfKinds() {
  std::map<std::string, JudgedPlan *> best; // by kind
  auto judgeAll = [&](ArrayRef<AssignOptions> list) {
    for (JudgedPlan *each : considerSplit(list, begin + (end - begin) / 2))
      if (each)
        if (JudgedPlan *&first = best[kindOf(each->recipe)]; !first || worth(*each) < worth(*first))
          first = each;
  };
  // Near data alone first: what those come to says whether others are tried.
  std::vector<AssignOptions> all = recipes.spreads();
  llvm::stable_sort(all, [&](auto &a, auto &b) { return depthOf(a) < depthOf(b); });
  bool mayHaveExperts = true;
  for (auto first = all.begin(); first != all.end();) {
    auto last = std::find_if(first, all.end(), [&](auto &each) { return depthOf(each) != depthOf(*first); });
    std::vector<AssignOptions> list;
    std::copy_if(first, last, std::back_inserter(list),
                 [&](auto &each) { return (each.ep == 1 || mayHaveExperts) && isPromising(each); });
    judgeAll(list);
    // Experts where the model has none: said once, not for each mixture.
    if (llvm::any_of(list, [](auto &each) { return each.ep > 1; }))
      mayHaveExperts = llvm::any_of(
          judged, [](auto &each) { return each.second.recipe.ep > 1 && each.second.verdict.compiles; });
    first = last;
  }
  std::vector<JudgedPlan *> list(llvm::make_second_range(best).begin(), llvm::make_second_range(best).end());
  llvm::stable_sort(list, [&](JudgedPlan *a, JudgedPlan *b) { return worth(*a) < worth(*b); });
  return list;
}

const JudgedPlan *AutoPlanner::run() {
  if (!anyWillDo && isHopeless())
    return nullptr;
  std::vector<JudgedPlan *> kinds = bestOfKinds();
  if (isFarOutOfReach())
    return nullptr;
  const double least = kinds.empty() ? kNever : worth(*kinds.front());
  llvm::erase_if(kinds, [&](JudgedPlan *each) { return worth(*each) > kPromising * least; });
  climb(kinds, begin + (end - begin) * 3 / 4);
  if (isOutOfReach())
    return anyWillDo ? nullptr : flip(nullptr); // which splits what recipes leave whole
  const JudgedPlan *best = fastestThatFits(inOrder(), nullptr);
  // Where there is no time to compile anything whole the rest of it is for more walks.
  if (best && best->fitted.isDrawn) {
    climb(kinds, end);
    best = fastestThatFits(inOrder(), best);
  }
  if (!best && !cut)
    best = findAny(kTriedToFind, kDoublings);
  return anyWillDo ? best : flip(best);
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
  const double effort =
      fits(each.verdict) ? kWholeEffort : cappedEffort(double(each.verdict.deviceBytes) / double(cap()));
  const double work = effort * (each.plan ? Judge(model).work(*each.plan) : Judge(model).work(each.recipe));
  const bool isPipeline = each.recipe.pp > 1;
  if (!each.verdict.isDrawn || isTimeFor(work, isPipeline, end)) {
    each.fitted = each.plan   ? one.judge(*each.plan)
                  : anyWillDo ? one.judgeAny(each.recipe)
                              : one.judge(each.recipe);
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
    double off = 0;
    if (each.verdict.isDrawn && before < kWhole)
      off = kOff;
    else if (!each.verdict.isDrawn && each.recipe.pp > 1 && fits(each.verdict) && before < kWholePipelines)
      off = kOffPipelines;
    return each.verdict.seconds * (1 - off) >= than;
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

std::vector<const JudgedPlan *> AutoPlanner::smallest(size_t count) const {
  std::vector<const JudgedPlan *> list = ranking();
  llvm::stable_sort(list, [](const JudgedPlan *a, const JudgedPlan *b) {
    return a->leastDeviceBytes() < b->leastDeviceBytes();
  });
  list.resize(std::min(count, list.size()));
  return list;
}
