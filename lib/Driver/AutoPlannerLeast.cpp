// See AutoPlanner.h: what needs least, where a cap is in the way.
#include "lib/Driver/AutoPlanner.h"
#include "lib/Driver/OtherPlans.h"

using namespace mlir;
using namespace tessera;

// What is needed whatever is moved is asked of so many recipes that need least without, of at most so many
// operators each. Where even that is so many times the cap no walk leads below it.
static constexpr size_t kAsked = 2;
static constexpr double kQuick = 10000;
static constexpr int64_t kFar = 4;
// Of those that split most it is asked of the two ends and the middle, so that less is enough.
static constexpr int64_t kFarForAll = 2;
// Behind the walks it is asked of so many of these, and of as many of the best.
static constexpr size_t kAskedOfEach = 2;
// Of a recipe that was given more ranks so many are tried.
static constexpr size_t kGrown = 1;

LeastMemory AutoPlanner::leastOf(Judge &one, const JudgedPlan &each, Time until) const {
  LeastMemory found{INT64_MAX, {}, ""};
  auto improve = [&](std::unique_ptr<Compilation> compilation, const AssignOptions &recipe, std::string by) {
    std::optional<int64_t> bytes = leastDeviceOf(*compilation);
    if (!bytes || *bytes >= found.bytes)
      return false;
    found = {*bytes, recipe, std::move(by)};
    return true;
  };
  if (each.plan) {
    improve(one.withPlan(*each.plan), each.recipe, each.text());
    return found;
  }
  for (std::optional<AssignOptions> recipe = each.recipe; recipe;
       recipe = recipes.inMoreMicrobatches(*recipe))
    if (!improve(one.withRecipe(*recipe), *recipe, recipeText(*recipe)) ||
        std::chrono::steady_clock::now() >= until)
      break;
  return found;
}

std::optional<LeastMemory> AutoPlanner::leastBelow(ArrayRef<const JudgedPlan *> list, Time until) {
  std::vector<std::optional<LeastMemory>> found(list.size());
  judges.forEach(list.size(), [&](Judge &one, size_t i) {
    const std::string text = list[i]->text();
    {
      std::lock_guard lock(mutex);
      if (auto known = leasts.find(text); known != leasts.end())
        found[i] = known->second;
    }
    if (found[i] || (i > 0 && std::chrono::steady_clock::now() >= until))
      return;
    found[i] = leastOf(one, *list[i], until);
    std::lock_guard lock(mutex);
    leasts.emplace(text, *found[i]);
  });
  std::optional<LeastMemory> least;
  for (const std::optional<LeastMemory> &each : found)
    if (each && each->bytes < (least ? least->bytes : INT64_MAX))
      least = each;
  return least;
}

// Whether even the least of these is so many times the cap. Not by the clock, of which what is found may not
// depend.
bool AutoPlanner::isAbove(ArrayRef<const JudgedPlan *> list, int64_t times) {
  if (list.empty() || list[0]->leastDeviceBytes() <= cap() || isLate() ||
      countOperators(*model.module) * Judge(model).work(list[0]->recipe) > kQuick)
    return false;
  std::optional<LeastMemory> known = leastBelow(list, Time::max());
  return known && known->bytes / times > cap() && !isLate();
}

bool AutoPlanner::isHopeless() {
  if (cap() == INT64_MAX)
    return false;
  std::vector<AssignOptions> all, list;
  for (const AssignOptions &recipe : recipes.spreads())
    if (recipe.dp * recipe.tp == recipes.numRanks())
      all.push_back(recipes.split(recipe).value_or(recipe));
  if (all.empty())
    return false;
  for (size_t i : std::set<size_t>{0, all.size() / 2, all.size() - 1})
    list.push_back(all[i]);
  std::vector<JudgedPlan *> found = consider(list, begin + (end - begin) / 2);
  llvm::erase(found, nullptr);
  llvm::stable_sort(found, [](auto *a, auto *b) { return a->leastDeviceBytes() < b->leastDeviceBytes(); });
  return isAbove(std::vector<const JudgedPlan *>(found.begin(), found.end()), kFarForAll);
}

bool AutoPlanner::isFarOutOfReach() { return isAbove(smallest(kAsked), kFar); }

bool AutoPlanner::isOutOfReach() {
  if (!isAbove(smallest(kAsked), 1))
    return false;
  std::vector<const JudgedPlan *> list = smallest(kAskedOfEach);
  for (const JudgedPlan *each : inOrder())
    if (list.size() < 2 * kAskedOfEach && !llvm::is_contained(list, each))
      list.push_back(each);
  return isAbove(list, 1);
}

const JudgedPlan *AutoPlanner::findAny(size_t count, int doublings) {
  std::vector<AssignOptions> list;
  for (const JudgedPlan *each : smallest(count))
    if (!each->plan)
      list.push_back(each->recipe);
  for (int doubled = 0; doubled <= doublings && !list.empty(); ++doubled) {
    std::vector<JudgedPlan *> known = consider(list, end);
    llvm::erase(known, nullptr);
    judges.forEach(known.size(), [&](Judge &one, size_t i) {
      if (known[i]->fitted.reason.empty() && !isLate()) // else it was tried, and does not fit
        tryWhole(one, *known[i]);
    });
    const JudgedPlan *best = nullptr;
    for (const JudgedPlan *each : known)
      if (each->fitted.compiles && (!best || each->fitted.seconds < best->fitted.seconds))
        best = each;
    if (best || isLate())
      return best;
    list.clear();
    for (const JudgedPlan *each : known)
      if (std::optional<AssignOptions> more = recipes.inMoreMicrobatches(each->recipe))
        list.push_back(std::move(*more));
  }
  return nullptr;
}

const JudgedPlan *AutoPlanner::runForAny(const AssignOptions &fewer) {
  anyWillDo = true;
  consider(recipes.grownFrom(fewer), end);
  if (const JudgedPlan *found = findAny(kGrown, /*doublings=*/0))
    return found;
  bestOfKinds();
  const JudgedPlan *found = findAny(kTriedToFind, kDoublings);
  return found ? found : run();
}
