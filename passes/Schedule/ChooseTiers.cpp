// The pass that keeps programs below the caps of their tiers.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pack.h"
#include "dialects/nn/Attributes.h"
#include "passes/Memory/Offsets.h"
#include "passes/Schedule/Passes.h"
#include "passes/Schedule/Sizes.h"
#include "passes/Schedule/TierRemedies.h"
#include "passes/Schedule/TierSearch.h"
#include "passes/Tiers/Policies/Policies.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include <deque>
#include <limits>
#include <map>

namespace tessera {
#define GEN_PASS_DEF_CHOOSETIERS
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

struct ChooseTiersPass : tessera::impl::ChooseTiersBase<ChooseTiersPass> {
  using ChooseTiersBase::ChooseTiersBase;

  LogicalResult initialize(MLIRContext *context) override {
    library = nn::findLibrary(target, UnknownLoc::get(context));
    if (!llvm::is_contained(tiers::policies(), std::string_view(policy.getValue())))
      return emitError(UnknownLoc::get(context))
             << "unknown policy of tiers '" << policy.getValue() << "', expected one of "
             << llvm::join(tiers::policies(), " ");
    return success(library);
  }

  // What may be fitted: updates on the host, and what runs again, by its number among the repetitions, or 0.
  struct Sketch {
    int number;
    tiers::UpdateChoice updates;
  };

  // All that could be faster than `best`, the fastest first.
  std::vector<Sketch> sketchAll(func::FuncOp func, double best, bool repeats, bool withUpdates) {
    std::vector<Sketch> sketches;
    auto add = [&](int number) {
      sketches.push_back({number, search->sketch(func, withUpdates, best)});
      best = std::min(best, sketches.back().updates.seconds);
    };
    if (withUpdates) {
      add(0);
      if (sketches.back().updates.onHost == search->updates) // that has been tried
        sketches.pop_back();
    }
    int number = 0;
    if (repeats)
      forEachRepetition(
          func, threads,
          [&](const Repeats &) {
            add(++number);
            return false;
          },
          quarters);
    llvm::stable_sort(sketches,
                      [](const Sketch &a, const Sketch &b) { return a.updates.seconds < b.updates.seconds; });
    return sketches;
  }

  // Fits it, and undoes that.
  std::optional<FittedProgram> fitSketch(func::FuncOp func, const Sketch &sketch) {
    std::optional<FittedProgram> fitted;
    auto attempt = [&](const Repeats &repeats) {
      search->repeats = repeats;
      search->updates = sketch.updates.onHost;
      fitted = search->attempt(func);
      if (fitted)
        fitted->exchange();
      return false;
    };
    int number = 0;
    if (sketch.number == 0)
      attempt({});
    else
      forEachRepetition(
          func, threads,
          [&](const Repeats &repeats) { return ++number == sketch.number && attempt(repeats); }, quarters);
    return fitted;
  }

  // The fastest of what was fitted, where it was, and of running more and more operators again and updating
  // more and more on the host, each with its transfers. Both at once, for what the host takes over makes
  // running again needless, and what runs again leaves the links time.
  std::optional<FittedProgram> faster(func::FuncOp func, std::optional<FittedProgram> fitted, bool repeats,
                                      bool withUpdates) {
    constexpr int kFitted = 3;      // of the sketches, but of a large stage one
    constexpr double kClose = 1.03; // to the fastest sketch
    auto secondsOf = [](const FittedProgram &each) { return each.placed.plan.seconds; };
    double best = fitted ? secondsOf(*fitted) : std::numeric_limits<double>::infinity();
    // A try takes seconds, and there are dozens of such programs.
    bool isLargeStage = fitted && dist::kStage.isOn(func) && tiers::isLarge(fitted->placed.step);
    quarters = isLargeStage ? SmallVector<int64_t>{4} : SmallVector<int64_t>{1, 2, 3, 4};
    if (best <= search->alone || (isLargeStage && best <= search->limits.enough)) // nothing waits for it
      return fitted;
    if (fitted)
      fitted->exchange();
    std::vector<Sketch> sketches = sketchAll(func, best, repeats, withUpdates);
    double close = kClose * (sketches.empty() ? best : std::min(best, sketches.front().updates.seconds));
    std::optional<FittedProgram> winner = std::move(fitted);
    int count = 0;
    for (const Sketch &sketch : sketches) {
      // No plan of it was found, with little effort. Of recipes that are compared that is enough.
      bool isUnlikely = sketch.updates.seconds == std::numeric_limits<double>::infinity();
      if (isUnlikely && (winner || !search->advises))
        continue;
      bool isHopeless = count >= (isLargeStage ? 1 : kFitted) || sketch.updates.seconds > close;
      // The sketch without repetition is always tried, so that none is slower with it; but not of large
      // stages.
      if (isHopeless && winner && (sketch.number > 0 || isLargeStage))
        continue;
      std::optional<FittedProgram> other = fitSketch(func, sketch);
      count += other.has_value();
      if (other && secondsOf(*other) < best) {
        best = secondsOf(*other);
        winner = std::move(other);
      }
    }
    search->repeats = {};
    search->updates.reset();
    if (winner)
      winner->exchange(); // to stay
    return winner;
  }

  LogicalResult fit(func::FuncOp func) {
    int64_t ahead = receivedAhead(func);
    tiers::Limits needed = search->variables(func), above = packed.at(func);
    needed.device += above.device;
    needed.host += above.host;
    // The slowest stage of a pipeline decides, so that no other one has to be faster.
    double &slowest = slowestStage[nn::isTraining(func)];
    search->limits.enough = dist::kStage.isOn(func) ? slowest : 0;
    if (failed(checkMoves(func)))
      return failure();
    search->updates.reset();
    search->alone = search->secondsAlone(func);
    search->repeats = {};
    std::optional<FittedProgram> fitted = search->attempt(func);
    int64_t host = search->limits.host;
    bool needsNvme = !fitted && search->hasNvme;
    if (needsNvme && choosesUpdates && !search->onHost.empty())
      return failure(); // what another program updates on the host has no room there
    if (needsNvme) {    // what the host has no room for goes further down: see ChooseNvme.cpp
      search->limits.host = INT64_MAX;
      fitted = search->attempt(func);
    }
    auto restore = llvm::make_scope_exit([&] { search->limits.host = host; });
    bool isAbove = needed.device > search->limits.device - ahead;
    bool repeats = search->recomputes && search->isFree() && isAbove, updates = choosesUpdates && isAbove;
    // Beside NVMe only a plan says so: what the host then has room for is found behind this pass.
    if (repeats || (updates && !needsNvme))
      fitted = faster(func, std::move(fitted), repeats, updates && !needsNvme);
    if (!fitted && needsNvme) { // it is the device that has no room
      search->limits.host = host;
      if (updates)
        fitted = faster(func, std::nullopt, repeats, /*withUpdates=*/true);
    }
    if (!fitted)
      return choosesUpdates && !search->onHost.empty() ? failure() : refuse(*search, func, needed, pending);
    slowest = std::max(slowest, fitted->placed.plan.seconds);
    bool isChanged = !fitted->placed.plan.moves.empty() || fitted->repeats.operators;
    chosen.push_back({func, isChanged ? std::move(fitted->summary) : "", std::move(fitted->placed)});
    return success();
  }

  // Moves that the plan gives are of the program that they were chosen for.
  LogicalResult checkMoves(func::FuncOp func) {
    if (search->places.isEmpty())
      return success();
    Storage storage = search->storageOf(func);
    std::vector<Said> said;
    TierTrace traced = search->trace(func, storage, /*anything=*/false, &said);
    traced.step = TierSearch::withGivenTurns(traced, said);
    traced.step = tiers::withUpdates(traced.step, TierSearch::decidedOf(traced.step));
    auto given = Places::given(traced, said);
    if (!Places::areStrange(traced, said) &&
        (!given || tiers::planOf(traced.step, *given, TierSearch::ratesOf(func))))
      return success();
    auto first = llvm::find_if(said, [](const Said &each) { return each.exact; });
    return emitError(first->exact->at ? Location(first->exact->at) : func.getLoc())
           << "moves are given for program '" << dist::programName(func)
           << "' that it does not have: the model or the options are others than those that the plan was "
              "made with; without \"moves\" they are chosen anew";
  }

  // The variables that the host reads after the step, before it or after their assignment.
  void findOutputs(const SymbolTable &symbols) {
    search->outputs.clear();
    auto root = [](Value value) {
      while (value.getDefiningOp() && isView(value.getDefiningOp()))
        value = value.getDefiningOp()->getOperand(0);
      return value;
    };
    for (func::FuncOp func : pending) {
      DenseSet<Value> returned;
      for (Value value : func.getBody().front().getTerminator()->getOperands())
        returned.insert(root(value));
      func.walk([&](nn::ReadOp read) {
        if (returned.contains(read))
          search->outputs.insert(symbols.lookup(read.getVariable()));
      });
      func.walk([&](nn::AssignOp assign) {
        if (returned.contains(root(assign.getValue())))
          search->outputs.insert(symbols.lookup(assign.getVariable()));
      });
    }
  }

  // Nothing leaves; somebody may want to know what is live when.
  void observeUncapped() {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (!observer)
        return;
      std::vector<Said> said;
      Storage storage = search->storageOf(func);
      TierTrace traced = search->trace(func, storage, /*anything=*/false, &said);
      tiers::Rates rates = TierSearch::ratesOf(func);
      if (std::optional<tiers::Plan> plan = tiers::planOf(traced.step, {}, rates))
        observer(placedProgram(func, traced, said, *plan, search->limits, rates, traced.step));
    }
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    search.emplace(module, *library, threads, policy.getValue());
    search->advises = advises;
    if (search->limits.device == INT64_MAX && search->places.isEmpty())
      return observeUncapped();
    if (failed(search->places.verify(module)))
      return signalPassFailure();
    // The fullest program decides where variables rest.
    pending.assign(module.getOps<func::FuncOp>().begin(), module.getOps<func::FuncOp>().end());
    whole.clear();
    packed.clear();
    std::deque<Storage> storages;
    for (func::FuncOp func : pending)
      storages.push_back(search->storageOf(func));
    Offsets::prepare(llvm::map_to_vector(storages, [](const Storage &each) { return &each; }));
    for (auto [func, storage] : llvm::zip(pending, storages)) {
      tiers::Limits peaks = search->peaks(func, storage), below = search->variables(func);
      whole[func] = peaks.device;
      packed[func] = {peaks.device - below.device, peaks.host - below.host};
    }
    llvm::stable_sort(pending, [&](func::FuncOp a, func::FuncOp b) { return whole[a] > whole[b]; });
    SymbolTable symbols(module);
    findOutputs(symbols);
    choosesUpdates = search->isFree();
    std::function<void()> undo = undoOfAll(module);
    if (failed(fitAll(symbols))) {
      if (search->onHost.empty() || !choosesUpdates)
        return signalPassFailure();
      // What one program updates on the host has no room there beside what another one has.
      undo();
      choosesUpdates = false;
      if (failed(fitAll(symbols)))
        return signalPassFailure();
    }
    report();
    search->places.warnOfIdle();
    module.walk([&](Operation *op) { numTransfers += isa<dist::OffloadStartOp, dist::PrefetchStartOp>(op); });
  }

  // What has been chosen, and what each program takes with it.
  void report() {
    std::deque<Storage> storages;
    for (const Chosen &each : chosen)
      storages.push_back(search->storageOf(each.func));
    Offsets::prepare(llvm::map_to_vector(storages, [](const Storage &each) { return &each; }));
    for (auto [each, storage] : llvm::zip(chosen, storages)) {
      if (!each.summary.empty())
        emitRemark(UnknownLoc::get(&getContext()))
            << "program '" << dist::programName(each.func) << "' takes "
            << takenText(Tier::Device, search->peaks(each.func, storage).device + receivedAhead(each.func),
                         whole.at(each.func) + receivedAhead(each.func))
            << ": " << each.summary;
      if (observer)
        observer(std::move(each.placed));
    }
  }

  // What brings all programs back to what they are now, and what is to be fitted.
  std::function<void()> undoOfAll(ModuleOp module) {
    struct Before {
      func::FuncOp func;
      OwningOpRef<func::FuncOp> copy;
    };
    auto before = std::make_shared<std::vector<Before>>();
    for (func::FuncOp func : pending)
      before->push_back({func, func.clone()});
    SmallVector<nn::VariableOp> above;
    for (auto variable : module.getOps<nn::VariableOp>())
      if (!dist::kRests.isOn(variable))
        above.push_back(variable);
    return [this, before, above] {
      pending.clear();
      for (Before &each : *before) {
        each.func.getBody().takeBody(each.copy->getBody());
        pending.push_back(each.func);
      }
      for (nn::VariableOp variable : above)
        if (dist::kRests.isOn(variable))
          dist::kRests.remove(variable);
    };
  }

  LogicalResult fitAll(SymbolTable &symbols) {
    chosen.clear();
    slowestStage.clear();
    search->decided.clear();
    search->onHost.clear();
    while (!pending.empty()) {
      func::FuncOp func = pending.front();
      if (failed(fit(func)))
        return failure();
      pending.erase(pending.begin());
      func.walk([&](Operation *op) {
        llvm::TypeSwitch<Operation *>(op)
            .Case<nn::ReadOp, nn::AssignOp, dist::ReadCopyOp, dist::AssignCopyOp>(
                [&](auto access) { search->decided.insert(symbols.lookup(access.getVariable())); });
        if (auto assign = dyn_cast<dist::AssignCopyOp>(op);
            assign && assign.getValue().getDefiningOp<dist::HostWaitOp>())
          search->onHost.insert(symbols.lookup(assign.getVariable()));
      });
    }
    return success();
  }

  PlacedObserver observer;
  const nn::Library *library = nullptr;
  std::optional<TierSearch> search;
  SmallVector<func::FuncOp> pending;          // programs that have yet to fit, the fullest first
  llvm::DenseMap<Operation *, int64_t> whole; // of each program as it was given, the device's peak
  /// Of each program as it was given, the peaks without its variables, which do not change when these move.
  llvm::DenseMap<Operation *, tiers::Limits> packed;
  SmallVector<int64_t> quarters; // of forwards that may run again: see forEachRepetition
  bool choosesUpdates = false;   // whether more of them may run on the host
  /// What is told of each program when all have fitted.
  struct Chosen {
    func::FuncOp func;
    std::string summary; // empty: nothing has been done
    PlacedProgram placed;
  };
  std::vector<Chosen> chosen;
  std::map<bool, double> slowestStage; // seconds of what has been fitted, by whether it trains
};

} // namespace

std::unique_ptr<Pass> tessera::createChooseTiers(const ChooseTiersOptions &options, PlacedObserver placed) {
  auto pass = std::make_unique<ChooseTiersPass>(options);
  pass->observer = std::move(placed);
  return pass;
}
