// See TierGroup.h.
#include "passes/Schedule/TierGroup.h"
#include "dialects/dist/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "passes/Memory/Offsets.h"
#include "passes/Schedule/TierRemedies.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace tessera;

void tessera::forEachVariable(func::FuncOp func, const SymbolTable &symbols,
                              llvm::function_ref<void(Operation *)> fn) {
  func.walk([&](Operation *op) {
    llvm::TypeSwitch<Operation *>(op).Case<nn::ReadOp, nn::AssignOp, dist::ReadCopyOp, dist::AssignCopyOp>(
        [&](auto access) { fn(symbols.lookup(access.getVariable())); });
  });
}

TierGroup::Size TierGroup::sizeOf(func::FuncOp func) {
  if (!tiers::isLarge(search.trace(func, search.storageOf(func)).step))
    return Size::Small;
  return dist::kStage.isOn(func) ? Size::LargeStage : Size::Large;
}

// Seconds that no step has to be faster than.
double TierGroup::enoughFor(func::FuncOp func) const {
  if (search.any)
    return std::numeric_limits<double>::infinity();
  return dist::kStage.isOn(func) ? lessons.slowest[nn::isTraining(func)] : 0;
}

// All that could be faster than `best`, the fastest first; of a small step that hardly waits as it is that
// alone. `isTried`: as it is it has been tried. In large steps more quarters of a price are tried only while
// they are faster.
std::vector<TierGroup::Sketch> TierGroup::sketchAll(func::FuncOp func, Size size, double best, bool repeats,
                                                    bool withUpdates, bool isTried) {
  constexpr double kForever = std::numeric_limits<double>::infinity();
  const bool isFitted = best < kForever; // as it is
  const bool isSmall = size == Size::Small, isFirst = isSmall && !isFitted;
  std::vector<Sketch> sketches;
  std::optional<double> deadline;
  auto add = [&](std::optional<Repetition> repetition) {
    bool isRough = isSmall && deadline && std::isfinite(*deadline);
    sketches.push_back({repetition, search.sketch(func, withUpdates, best, deadline), isRough});
    const tiers::UpdateChoice &updates = sketches.back().updates;
    best = std::min(best, updates.seconds);
    if (withUpdates && !deadline && updates.seconds < kForever)
      deadline = updates.deadline;
    return updates.seconds;
  };
  // Nothing was sketched: `best` is of a fit, which a sketch is slower than.
  double without = kForever;
  if (!isTried && (withUpdates || isFirst)) {
    without = add(std::nullopt);
    if (isFirst && without <= tiers::kEnough * search.alone)
      return sketches;
    if (sketches.back().updates.onHost == search.updates) // that has been tried
      sketches.pop_back();
  }
  double before = without, price = 0;
  auto sketch = [&](const Repetition &repetition, const Repeats &) {
    if (price != repetition.price)
      before = without, price = repetition.price;
    double seconds = add(repetition);
    bool isSlower = seconds >= std::exchange(before, seconds);
    return isFitted && !isSmall && isSlower ? TryNext::NextPrice : TryNext::MoreQuarters;
  };
  if (repeats && isFitted && size == Size::LargeStage)
    forEachRepetition(func, search.threads, sketch, {4});
  else if (repeats)
    forEachRepetition(func, search.threads, sketch);
  llvm::stable_sort(sketches,
                    [](const Sketch &a, const Sketch &b) { return a.updates.seconds < b.updates.seconds; });
  return sketches;
}

// Fits it, if it takes less than `bound` seconds, and undoes that.
Attempt TierGroup::fitSketch(func::FuncOp func, const Sketch &sketch, double bound) {
  std::function<void()> undo = [] {};
  search.repeats = {};
  search.updates = sketch.updates.onHost;
  if (sketch.repetition) {
    undo = undoOf(func);
    search.repeats = repeatOperators(func, search.threads, *sketch.repetition);
  }
  if (sketch.isRough)
    search.updates = search.sketch(func, /*choosesUpdates=*/true, bound, std::nullopt).onHost;
  Attempt made = search.attempt(func, bound);
  if (made.fitted)
    made.fitted->exchange();
  undo();
  return made;
}

// The fastest of what was fitted, where it was, and of running more and more operators again and updating
// more and more on the host, each with its transfers. Both at once, for what the host takes over makes
// running again needless, and what runs again leaves the links time.
std::optional<FittedProgram> TierGroup::faster(func::FuncOp func, Size size,
                                               std::optional<FittedProgram> fitted, bool repeats,
                                               bool withUpdates) {
  constexpr int kFitted = 3;      // of the sketches, but of a large stage one
  constexpr double kClose = 1.03; // to the fastest sketch
  auto secondsOf = [](const FittedProgram &each) { return each.placed.plan.seconds; };
  double best = fitted ? secondsOf(*fitted) : std::numeric_limits<double>::infinity();
  // A try takes seconds, and there are dozens of such programs.
  const bool isLargeStage = fitted && size == Size::LargeStage;
  // Hardly anything waits, or no other stage waits for this one.
  if (best <= tiers::kEnough * search.alone || (isLargeStage && best <= search.limits.enough))
    return fitted;
  if (fitted)
    fitted->exchange();
  std::optional<FittedProgram> winner = std::move(fitted);
  auto fitFastest = [&](ArrayRef<Sketch> sketches) {
    double close = kClose * (sketches.empty() ? best : std::min(best, sketches.front().updates.seconds));
    int count = 0;
    for (const Sketch &sketch : sketches) {
      // No plan of it was found, with little effort. Of recipes that are compared that is enough.
      bool isUnlikely = sketch.updates.seconds == std::numeric_limits<double>::infinity();
      if (isUnlikely && (winner || !search.advises))
        continue;
      bool isHopeless = count >= (isLargeStage ? 1 : kFitted) || sketch.updates.seconds > close;
      // The sketch without repetition is always tried, so that none is slower with it; but not of large
      // stages.
      if (isHopeless && winner && (sketch.repetition || isLargeStage))
        continue;
      Attempt other = fitSketch(func, sketch, best);
      count += other.fitted || other.isSlower;
      if (other.fitted) {
        best = secondsOf(*other.fitted);
        winner = std::move(other.fitted);
      }
    }
  };
  std::vector<Sketch> sketches = sketchAll(func, size, best, repeats, withUpdates, /*isTried=*/false);
  fitFastest(sketches);
  // Nothing had to leave by the bound, but what packing loses is too much.
  if (!winner && sketches.size() == 1 && !sketches.front().repetition)
    fitFastest(sketchAll(func, size, best, repeats, withUpdates, /*isTried=*/true));
  search.repeats = {};
  search.updates.reset();
  if (winner)
    winner->exchange(); // to stay
  return winner;
}

tiers::Limits TierProgram::needed(const TierSearch &search) const {
  const tiers::Limits variables = search.variables(func);
  return {above.device + variables.device, above.host + variables.host};
}

void TierGroup::refuseHopeless() {
  if (!search.isFree())
    return;
  auto hopeless = llvm::find_if(programs, [&](const TierProgram &each) {
    return each.peak + receivedAhead(each.func) > search.limits.device && !mayFit(search, each.func);
  });
  hasFailed = hopeless != programs.end();
  if (hasFailed)
    refused = {hopeless->func, hopeless->needed(search)};
}

LogicalResult TierGroup::fit(const TierProgram &program) {
  func::FuncOp func = program.func;
  int64_t ahead = receivedAhead(func);
  const tiers::Limits needed = program.needed(search);
  search.limits.enough = enoughFor(func);
  if (failed(checkMoves(func)))
    return failure();
  search.updates.reset();
  search.alone = program.seconds;
  search.repeats = {};
  const bool isAbove = needed.device > search.limits.device - ahead;
  bool repeats = search.recomputes && search.isFree() && isAbove, updates = choosesUpdates && isAbove;
  const Size size = repeats || updates ? sizeOf(func) : Size::Small;
  std::optional<FittedProgram> fitted;
  // To fit a small step as it is takes longer than to sketch all that may be done, and hardly ever wins.
  if ((repeats || updates) && size == Size::Small && !search.any && !search.hasNvme) {
    fitted = faster(func, size, std::nullopt, repeats, updates);
    repeats = updates = false;
  }
  if (!fitted)
    fitted = search.attempt(func).fitted;
  int64_t host = search.limits.host;
  bool needsNvme = !fitted && search.hasNvme;
  if (needsNvme && choosesUpdates && !search.onHost.empty()) {
    refused = {func, needed}; // what another program updates on the host has no room there
    return failure();
  }
  if (needsNvme) { // what the host has no room for goes further down: see ChooseNvme.cpp
    search.limits.host = INT64_MAX;
    fitted = search.attempt(func).fitted;
  }
  auto restore = llvm::make_scope_exit([&] { search.limits.host = host; });
  if (fitted && search.any)
    repeats = updates = false;
  // Beside NVMe only a plan says so: what the host then has room for is found behind this pass.
  if (repeats || (updates && !needsNvme))
    fitted = faster(func, size, std::move(fitted), repeats, updates && !needsNvme);
  if (!fitted && needsNvme) { // it is the device that has no room
    search.limits.host = host;
    if (updates)
      fitted = faster(func, size, std::nullopt, repeats, /*withUpdates=*/true);
  }
  if (!fitted) {
    refused = {func, needed};
    return failure();
  }
  double &slowest = lessons.slowest[nn::isTraining(func)];
  slowest = std::max(slowest, fitted->placed.plan.seconds);
  bool isChanged = !fitted->placed.plan.moves.empty() || fitted->repeats.operators;
  chosen.push_back(
      {func, program.peak, isChanged ? std::move(fitted->summary) : "", std::move(fitted->placed)});
  return success();
}

// Moves that the plan gives are of the program that they were chosen for.
LogicalResult TierGroup::checkMoves(func::FuncOp func) {
  if (search.places.isEmpty())
    return success();
  Storage storage = search.storageOf(func);
  std::vector<Said> said;
  TierTrace traced = search.trace(func, storage, /*anything=*/false, &said);
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

// What a program that has been fitted has decided of its variables.
void TierGroup::decide(func::FuncOp func) {
  forEachVariable(func, symbols, [&](Operation *variable) { search.decided.insert(variable); });
  func.walk([&](dist::AssignCopyOp assign) {
    if (assign.getValue().getDefiningOp<dist::HostWaitOp>())
      search.onHost.insert(symbols.lookup(assign.getVariable()));
  });
}

// What brings all programs back to what they are now.
std::function<void()> TierGroup::undoOfAll() {
  struct Before {
    func::FuncOp func;
    OwningOpRef<func::FuncOp> copy;
  };
  auto before = std::make_shared<std::vector<Before>>();
  llvm::SetVector<Operation *> above;
  for (const TierProgram &each : programs) {
    func::FuncOp func = each.func;
    before->push_back({func, func.clone()});
    forEachVariable(func, symbols, [&](Operation *variable) {
      if (!dist::kRests.isOn(variable))
        above.insert(variable);
    });
  }
  return [before, above] {
    for (Before &each : *before)
      each.func.getBody().takeBody(each.copy->getBody());
    for (Operation *variable : above)
      if (dist::kRests.isOn(variable))
        dist::kRests.remove(variable);
  };
}

LogicalResult TierGroup::fitAll(const Lessons &before) {
  lessons = before;
  search.lost = before.lost;
  chosen.clear();
  refused.reset();
  search.decided.clear();
  search.onHost.clear();
  for (const TierProgram &program : programs) {
    if (failed(fit(program)))
      return failure();
    decide(program.func);
  }
  return success();
}

void TierGroup::fit(const Lessons &before) {
  choosesUpdates = search.isFree();
  std::function<void()> undo = undoOfAll();
  hasFailed = failed(fitAll(before));
  auto fitAgain = [&] {
    undo();
    undo = undoOfAll();
    hasFailed = failed(fitAll(before));
  };
  if (hasFailed && choosesUpdates && !search.onHost.empty()) {
    // What one program updates on the host has no room there beside what another one has.
    choosesUpdates = false;
    fitAgain();
  }
  // A program that has no room where those before it have put variables decides before them.
  for (size_t tried = 1; hasFailed && refused && !chosen.empty() && tried < programs.size(); ++tried) {
    auto place = llvm::find_if(programs, [&](auto &each) { return each.func == refused->func; });
    std::rotate(programs.begin(), place, place + 1);
    fitAgain();
  }
  lessons.lost = search.lost;
}

SmallVector<func::FuncOp> TierGroup::pending() const {
  return llvm::map_to_vector(ArrayRef(programs).drop_front(chosen.size()),
                             [](const TierProgram &each) { return each.func; });
}
