#include "passes/Schedule/TierSearch.h"
#include "dialects/dist/Attributes.h"
#include "passes/Kernels/Passes.h"
#include "passes/Memory/Offsets.h"
#include "passes/Schedule/Transfers.h"
#include "passes/Tiers/Policies/Policies.h"
#include "llvm/Support/FormatVariadic.h"
#include <numeric>

using namespace mlir;
using namespace tessera;

TierSearch::TierSearch(ModuleOp module, const nn::Library &library, int64_t threads, std::string policy)
    : threads(threads), policy(std::move(policy)), places(module), module(module),
      kernels(module.lookupSymbol<ModuleOp>(kKernelsModule)), library(library) {
  auto limitOf = [&](const auto &attr) {
    IntegerAttr bytes = attr.of(module);
    return bytes ? bytes.getInt() : INT64_MAX;
  };
  limits = {limitOf(dist::kDeviceMemory), limitOf(dist::kHostMemory)};
  hasNvme = dist::kNvmeMemory.isOn(module);
  if (ArrayAttr what = dist::kOffload.of(module); what && limits.device != INT64_MAX)
    for (auto name : what.getAsRange<StringAttr>())
      offload.insert(name.getValue());
  StringAttr recomputation = dist::kRecomputation.of(module);
  recomputes = recomputation && recomputation == "auto";
}

tiers::Rates TierSearch::ratesOf(func::FuncOp func) {
  dist::Link host = dist::Machine::of(func).host;
  return {1 / host.beta, 1 / host.beta, host.alpha};
}

DictionaryAttr TierSearch::figures(const Storage &storage) {
  func::FuncOp func = storage.func();
  return Offsets(storage, VariablePlaces(func)).figures(func.getContext());
}

tiers::Limits TierSearch::peaks(const Storage &storage) {
  DictionaryAttr all = figures(storage);
  auto peak = [](DictionaryAttr tier) { return tier ? tier.getAs<IntegerAttr>("peak").getInt() : 0; };
  return {peak(all), peak(all.getAs<DictionaryAttr>(tierName(Tier::Host)))};
}

tiers::Limits TierSearch::variables(func::FuncOp func) const {
  VariablePlaces places(func);
  return {places.end(func, Tier::Device), places.end(func, Tier::Host)};
}

TierTrace TierSearch::trace(func::FuncOp func, const Storage &storage, bool anything,
                            std::vector<Said> *said) {
  TierTrace traced(
      func, storage, VariablePlaces(func), threads,
      [&](nn::VariableOp variable, StringRef category) {
        if (variable && outputs.contains(variable))
          return TierTrace::Stays;
        // Programs agree where a variable rests: the first one has decided.
        if (variable && decided.contains(variable))
          return dist::kRests.isOn(variable) ? TierTrace::MustMove : TierTrace::Stays;
        bool mayMove = anything || !places.isEmpty() || offload.contains(category);
        return mayMove ? TierTrace::MayMove : TierTrace::Stays;
      },
      Tier::Device, /*opensLoop=*/policy == "planned");
  if (!anything || said) {
    std::vector<Said> all = places.apply(traced, func, storage, offload);
    if (said)
      *said = std::move(all);
  }
  for (tiers::Update &update : traced.step.updates) {
    nn::VariableOp parameter = traced.traced[update.parameter].variable;
    if (decided.contains(parameter)) // as in the program that has decided where it rests
      update.onHost = onHost.contains(parameter);
    else if (!update.decided && policy != "planned")
      update.onHost = policy == "zero-offload";
    else
      continue;
    update.decided = true;
  }
  return traced;
}

tiers::Step TierSearch::withGivenTurns(const TierTrace &traced, ArrayRef<Said> said) {
  std::vector<bool> turns;
  for (const Said &each : said)
    turns.push_back(each.exact && llvm::any_of(each.exact->moves, [&](const auto &move) {
                      return traced.step.loop.has(
                          move[3]); // nothing else that is not made in the loop comes up there
                    }));
  return tiers::withTurns(traced.step, turns);
}

std::vector<bool> TierSearch::decidedOf(const tiers::Step &step) {
  std::vector<bool> list;
  for (const tiers::Update &update : step.updates)
    list.push_back(update.decided && update.onHost);
  return list;
}

// Writes a plan into the program, and where variables rest. Returns what exchanges it for the program as it
// was, and back.
std::function<void()> TierSearch::emit(func::FuncOp func, const TierTrace &traced, const tiers::Plan &plan) {
  auto before = std::make_shared<OwningOpRef<func::FuncOp>>(func.clone());
  SmallVector<nn::VariableOp> homes;
  for (const tiers::Move &move : plan.moves)
    if (nn::VariableOp variable = traced.traced[move.value].variable;
        variable && movesHome(traced, move) && !dist::kRests.isOn(variable))
      homes.push_back(variable);
  for (const tiers::Update &update : traced.step.updates)
    if (update.onHost)
      for (int value : llvm::concat<const int>(update.state, ArrayRef(update.parameter)))
        if (nn::VariableOp variable = traced.traced[value].variable;
            !dist::kRests.isOn(variable) && !llvm::is_contained(homes, variable))
          homes.push_back(variable);
  emitTransfers(traced, plan.moves,
                hasNvme ? tiers::closePlaces(traced.step, plan.moves, ratesOf(func))
                        : tiers::widePlaces(traced.step, plan.moves));
  auto setHomes = [homes, host = dist::TierAttr::get(module.getContext(), Tier::Host)](bool areBelow) {
    for (nn::VariableOp variable : homes)
      areBelow ? dist::kRests.set(variable, host) : dist::kRests.remove(variable);
  };
  setHomes(true);
  return [func, other = before, setHomes, isThere = true]() mutable {
    Region now;
    now.takeBody(func.getBody());
    func.getBody().takeBody((*other)->getBody());
    (*other)->getBody().takeBody(now);
    setHomes(isThere = !isThere);
  };
}

// What was chosen: which values, how many bytes, and how much longer a step takes by the machine's rates.
std::string TierSearch::describe(const TierTrace &traced, const tiers::Plan &plan) const {
  std::string text = movedText(traced, plan.moves);
  llvm::raw_string_ostream os(text);
  if (!plan.moves.empty())
    os << " leave it";
  if (int64_t count = llvm::count_if(traced.step.updates, [](auto &update) { return update.onHost; }))
    os << (plan.moves.empty() ? "" : ", ") << count << (count == 1 ? " update runs" : " updates run")
       << " on the host";
  llvm::SmallDenseSet<int> inTurns;
  for (const tiers::Move &move : plan.moves)
    if (traced.step.loop.has(move.prefetch))
      inTurns.insert(move.value);
  if (!inTurns.empty())
    os << ", " << inTurns.size() << " of them in each of " << traced.step.loop.times << " turns of the loop";
  if (repeats.operators)
    os << (plan.moves.empty() ? "" : ", ") << tessera::describe(repeats);
  os << "; a step is estimated to take " << llvm::formatv("{0:f2}", plan.seconds / alone) << " x as long";
  return text;
}

Attempt TierSearch::attempt(func::FuncOp func, double bound) {
  constexpr int kAttempts = 8, kParts = 1 << (kAttempts - 2); // of the way to the least
  constexpr double kLittle = 0.02;                            // of the effort, where any will do
  int64_t cap = limits.device - receivedAhead(func);          // of the arena
  tiers::Limits goal = {cap, limits.host, limits.enough};
  tiers::Rates rates = ratesOf(func);
  std::vector<bool> turns;
  for (int i = 0; i < kAttempts; ++i) {
    Storage storage = storageOf(func);
    std::vector<Said> said;
    TierTrace traced = trace(func, storage, /*anything=*/false, &said);
    if (limits.device == INT64_MAX && !traced.ops.empty()) // as much as it takes with everything there
      goal.device = *llvm::max_element(traced.step.bytes);
    traced.step = withGivenTurns(traced, said);
    if (!updates)
      updates = decidedOf(traced.step);
    if (turns.empty())
      turns = tiers::chooseTurns(tiers::withUpdates(traced.step, *updates), goal, rates);
    traced.step = tiers::withTurns(traced.step, turns);
    tiers::Step onDevice = traced.step;
    traced.step = tiers::withUpdates(onDevice, *updates);
    auto given = Places::given(traced, said);
    int64_t least = tiers::leastDeviceBytes(traced.step).first;
    bool isLarge = tiers::isLarge(traced.step);
    bool expectsLoss = i == 0 && isLarge && lost > 0 && lost < goal.device - least;
    if (expectsLoss)
      goal.device -= lost;
    std::optional<tiers::Plan> plan =
        given ? tiers::planOf(traced.step, *given, rates)
              : tiers::planBy(policy, traced.step, goal, rates, any ? kLittle : 1);
    if (!plan && expectsLoss) {
      goal.device += lost;
      continue;
    }
    if (std::vector<bool> all = tiers::allTurns(onDevice); !plan && !given && turns != all) {
      turns = all;
      continue;
    }
    if (!plan)
      break;
    if (plan->seconds >= bound)
      return {std::nullopt, /*isSlower=*/true};
    std::string summary = describe(traced, *plan);
    PlacedProgram placed = placedProgram(func, traced, said, *plan, goal, rates, onDevice);
    placed.repeated = repeats.names;
    std::function<void()> exchange = emit(func, traced, *plan);
    Storage written = storageOf(func);
    auto isBelow = [&](const tiers::Limits &peaks) {
      return peaks.device <= cap && peaks.host <= limits.host;
    };
    tiers::Limits have = peaks(written);
    if (isBelow(have)) {
      lost = isLarge ? cap - goal.device : lost;
      return {FittedProgram{std::move(summary), std::move(placed), repeats, std::move(exchange)}};
    }
    exchange();
    if (given)
      break;
    const tiers::Limits tried = goal;
    if (have.device > cap)
      goal.device =
          std::max(std::min(2 * cap - have.device, goal.device - (cap - least) * (1 << i) / kParts), least);
    if (have.host > limits.host)
      goal.host -= have.host - limits.host;
    if (goal.device == tried.device && goal.host == tried.host) // the same plan again
      break;
  }
  return {};
}

tiers::UpdateChoice TierSearch::sketch(func::FuncOp func, bool choosesUpdates, double bound,
                                       std::optional<double> deadline) {
  Storage storage = storageOf(func);
  tiers::Step step = trace(func, storage).step;
  tiers::Limits goal = {limits.device - receivedAhead(func), limits.host, limits.enough};
  tiers::Rates rates = ratesOf(func);
  if (!choosesUpdates)
    for (tiers::Update &update : step.updates)
      update.decided = true;
  std::vector<bool> on = decidedOf(step);
  if (tiers::leastComputing(step) >= bound)
    return {on};
  step = tiers::withTurns(step, tiers::chooseTurns(tiers::withUpdates(step, on), goal, rates));
  return tiers::chooseUpdates(step, goal, rates, bound, deadline);
}

double TierSearch::secondsAlone(const Storage &storage) {
  tiers::Step step = trace(storage.func(), storage).step;
  return std::accumulate(step.seconds.begin(), step.seconds.end(), 0.0);
}
