// See Recipes.h.
#include "lib/Driver/Recipes.h"
#include "dialects/nn/Attributes.h"
#include "passes/Pipeline/PipelineSchedule.h"
#include <functional>
#include <map>
#include <set>

using namespace mlir;
using namespace tessera;

namespace {

// An axis of a recipe: the option that says how many ranks it has.
struct Axis {
  llvm::StringLiteral option;
  int64_t AssignOptions::*ranks;
};
constexpr Axis kAxes[] = {{"dp", &AssignOptions::dp},
                          {"tp", &AssignOptions::tp},
                          {"sp", &AssignOptions::sp},
                          {"ep", &AssignOptions::ep},
                          {"pp", &AssignOptions::pp}};

std::vector<int64_t> primesOf(int64_t number) {
  std::vector<int64_t> primes;
  for (int64_t prime = 2; prime * prime <= number; ++prime)
    if (number % prime == 0) {
      primes.push_back(prime);
      while (number % prime == 0)
        number /= prime;
    }
  if (number > 1)
    primes.push_back(number);
  return primes;
}

} // namespace

// Of the batch, as it is split over data and experts.
int64_t Recipes::samplesOfRank(const AssignOptions &recipe) const {
  return llvm::divideCeil(samples, recipe.dp * recipe.ep);
}

// So many microbatches, or more, but not twice as many, where they are as large as each other then. What is
// padded in each of them takes time. Never more than there are samples.
int64_t Recipes::microbatchesNear(const AssignOptions &recipe, int64_t count) const {
  const int64_t most = samplesOfRank(recipe);
  for (int64_t even = count; even < std::min(2 * count, most); ++even)
    if (most % even == 0)
      return even;
  return most < 2 * count ? most : count;
}

// What fits the spread of a recipe: modes of axes that it does not have are none.
AssignOptions Recipes::usual(AssignOptions recipe) const {
  if (recipe.tp == 1 && isFree("tp-mode"))
    recipe.tpMode = "1d";
  if (isFree("sp-mode") && recipe.sp > 1 && (recipe.spMode.empty() || recipe.spMode == "megatron"))
    recipe.spMode = "ring";
  // One that is given says how the sequence is split if it is.
  if (recipe.sp == 1 && (recipe.spMode != "megatron" || recipe.tp == 1 || recipe.tpMode != "1d"))
    recipe.spMode = "";
  if (recipe.pp == 1 && isFree("pp-schedule"))
    recipe.ppSchedule = "";
  if (isFree("microbatches"))
    recipe.microbatches = recipe.microbatches < recipe.pp
                              ? microbatchesNear(recipe, 2 * recipe.pp)
                              : std::min(recipe.microbatches, samplesOfRank(recipe));
  if (recipe.dp == 1 && recipe.ep == 1 && isFree("zero"))
    recipe.zero = 0;
  return recipe;
}

// Whether an axis that is free may have more than one rank.
bool Recipes::maySpread(llvm::StringRef axis) const {
  return (axis != "pp" || trains) &&
         (axis != "sp" || given.spMode != "megatron"); // which is along that of tp
}

std::vector<AssignOptions> Recipes::spreads() const {
  std::vector<AssignOptions> list;
  std::function<void(size_t, int64_t, AssignOptions)> spread = [&](size_t axis, int64_t left,
                                                                   AssignOptions recipe) {
    if (axis == std::size(kAxes)) {
      if (left == 1)
        list.push_back(usual(std::move(recipe)));
      return;
    }
    const Axis &here = kAxes[axis];
    for (int64_t size = left; size >= 1; --size) {
      bool may = isFree(here.option) ? size == 1 || maySpread(here.option) : size == given.*here.ranks;
      if (left % size != 0 || !may)
        continue;
      recipe.*here.ranks = size;
      spread(axis + 1, left / size, recipe);
    }
  };
  spread(0, ranks, given);
  return list;
}

AssignOptions Recipes::spreadOf(const AssignOptions &recipe) const {
  AssignOptions spread = given;
  for (const Axis &axis : kAxes)
    spread.*axis.ranks = recipe.*axis.ranks;
  return usual(std::move(spread));
}

void Recipes::addModes(const AssignOptions &recipe, std::vector<AssignOptions> &list) const {
  auto add = [&](auto change) {
    AssignOptions other = recipe;
    change(other);
    list.push_back(usual(std::move(other)));
  };
  if (recipe.tp > 1 && isFree("tp-mode") && given.spMode != "megatron")
    for (const char *mode : {"1d", "2d", "2.5d", "3d"})
      add([&](AssignOptions &other) { other.tpMode = mode; });
  if (recipe.tp > 1 && recipe.sp == 1 && recipe.tpMode == "1d" && isFree("sp-mode"))
    add([&](AssignOptions &other) { other.spMode = other.spMode.empty() ? "megatron" : ""; });
  if (recipe.sp > 1 && isFree("sp-mode"))
    for (const char *mode : {"ring", "ulysses", "rsa"})
      add([&](AssignOptions &other) { other.spMode = mode; });
  if (recipe.pp > 1 && isFree("pp-schedule"))
    for (const pipeline::Schedule &schedule : pipeline::allSchedules())
      add([&](AssignOptions &other) {
        other.ppSchedule = StringRef(schedule.name) == pipeline::kDefaultSchedule ? "" : schedule.name;
      });
  if (maySplit(recipe))
    for (int64_t stage : {0, 1, 2, 3})
      add([&](AssignOptions &other) { other.zero = stage; });
}

std::optional<AssignOptions> Recipes::split(const AssignOptions &recipe) const {
  if (!maySplit(recipe) || recipe.zero == 3)
    return std::nullopt;
  AssignOptions other = recipe;
  other.zero = 3;
  return other;
}

std::optional<AssignOptions> Recipes::inMoreMicrobatches(const AssignOptions &recipe) const {
  if (!trains || !isFree("microbatches"))
    return std::nullopt;
  AssignOptions other = recipe;
  other.microbatches = microbatchesNear(recipe, recipe.microbatches * 2);
  return other.microbatches > recipe.microbatches ? std::optional(other) : std::nullopt;
}

std::vector<AssignOptions> Recipes::grownFrom(const AssignOptions &fewer) const {
  int64_t have = 1;
  for (const Axis &axis : kAxes)
    have *= fewer.*axis.ranks;
  std::vector<AssignOptions> list;
  for (const Axis &axis : kAxes) {
    if (!isFree(axis.option) || !maySpread(axis.option) || fewer.*axis.ranks * ranks % have != 0)
      continue;
    AssignOptions other = fewer;
    other.*axis.ranks = fewer.*axis.ranks * ranks / have;
    other = usual(std::move(other));
    list.push_back(split(other).value_or(other));
  }
  return list;
}

void Recipes::addMicrobatches(const AssignOptions &recipe, std::vector<AssignOptions> &list) const {
  if (!trains || !isFree("microbatches"))
    return;
  // With fewer than stages some of these would wait all the time.
  const int64_t least = std::min(recipe.pp, samplesOfRank(recipe));
  for (int64_t count : {recipe.microbatches * 2, recipe.microbatches / 2})
    if (count >= least) {
      list.push_back(recipe);
      list.back().microbatches = microbatchesNear(recipe, count);
    }
}

void Recipes::addShifts(const AssignOptions &recipe, std::vector<AssignOptions> &list) const {
  for (const Axis &from : kAxes)
    for (const Axis &to : kAxes) {
      if (from.ranks == to.ranks || !isFree(from.option) || !isFree(to.option) || !maySpread(to.option))
        continue;
      for (int64_t prime : primesOf(recipe.*from.ranks)) {
        AssignOptions other = recipe;
        other.*from.ranks /= prime;
        other.*to.ranks *= prime;
        if (to.option == "pp" && recipe.pp == 1 && isFree("microbatches"))
          other.microbatches = 1; // as many as stages want
        list.push_back(usual(std::move(other)));
      }
    }
}

static std::vector<AssignOptions> withoutRepeats(std::vector<AssignOptions> list,
                                                 std::set<std::string> seen = {}) {
  std::vector<AssignOptions> kept;
  for (AssignOptions &recipe : list)
    if (seen.insert(recipeText(recipe)).second)
      kept.push_back(std::move(recipe));
  return kept;
}

std::vector<AssignOptions> Recipes::neighbours(const AssignOptions &recipe) const {
  std::vector<AssignOptions> list;
  addModes(recipe, list);
  addMicrobatches(recipe, list);
  addShifts(recipe, list);
  return withoutRepeats(std::move(list), {recipeText(recipe)});
}

int64_t tessera::samplesOf(ModuleOp module) {
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

AssignOptions tessera::withoutRecipe(AssignOptions options) {
  const AssignOptions none;
  options.planFile = "";
  for (const Axis &axis : kAxes)
    options.*axis.ranks = 1;
  options.tpMode = none.tpMode;
  options.tpDepth = 0;
  options.spMode = options.ppSchedule = "";
  options.microbatches = 1;
  options.zero = 0;
  return options;
}

std::string tessera::recipeText(const AssignOptions &recipe) {
  std::string text;
  auto add = [&](llvm::StringRef option, const llvm::Twine &value) {
    text += (text.empty() ? "--" : " --") + (option + " " + value).str();
  };
  for (const Axis &axis : kAxes)
    if (recipe.*axis.ranks > 1)
      add(axis.option, llvm::Twine(recipe.*axis.ranks));
  if (recipe.tp > 1 && recipe.tpMode != "1d")
    add("tp-mode", recipe.tpMode);
  if (!recipe.spMode.empty())
    add("sp-mode", recipe.spMode);
  if (!recipe.ppSchedule.empty())
    add("pp-schedule", recipe.ppSchedule);
  if (recipe.microbatches > 1)
    add("microbatches", llvm::Twine(recipe.microbatches));
  if (recipe.zero > 0)
    add("zero", llvm::Twine(recipe.zero));
  return text.empty() ? "one rank" : text;
}
