// The pass that keeps programs below the caps of their tiers.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pack.h"
#include "dialects/nn/Attributes.h"
#include "passes/Kernels/Passes.h"
#include "passes/Memory/Offsets.h"
#include "passes/Schedule/Passes.h"
#include "passes/Schedule/Placed.h"
#include "passes/Schedule/Repeat.h"
#include "passes/Schedule/Sizes.h"
#include "passes/Schedule/Transfers.h"
#include "passes/Tiers/Policies/Policies.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include <functional>
#include <limits>
#include <numeric>

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

  Storage storageOf(func::FuncOp func) { return Storage(func, kernels, *library, threads); }

  static tiers::Rates ratesOf(func::FuncOp func) {
    dist::Link host = dist::Machine::of(func).host;
    return {1 / host.beta, 1 / host.beta, host.alpha};
  }

  // The peaks of both tiers, as the memory phase will have them.
  tiers::Limits peaks(func::FuncOp func) {
    Storage storage = storageOf(func);
    DictionaryAttr figures = Offsets(storage, VariablePlaces(getOperation()), func).figures(&getContext());
    auto peak = [](DictionaryAttr tier) { return tier ? tier.getAs<IntegerAttr>("peak").getInt() : 0; };
    return {peak(figures), peak(figures.getAs<DictionaryAttr>(tierName(Tier::Host)))};
  }

  // With what the plan says of where values are; `said` is filled with that.
  TierTrace trace(func::FuncOp func, const Storage &storage, bool anything = false,
                  std::vector<Said> *said = nullptr) {
    TierTrace traced(func, storage, VariablePlaces(getOperation()), threads,
                     [&](nn::VariableOp variable, StringRef category) {
                       if (variable && outputs.contains(variable))
                         return TierTrace::Stays;
                       // Programs agree where a variable rests: the first one has decided.
                       if (variable && decided.contains(variable))
                         return dist::kRests.isOn(variable) ? TierTrace::MustMove : TierTrace::Stays;
                       bool mayMove = anything || !places.isEmpty() || offload.contains(category);
                       return mayMove ? TierTrace::MayMove : TierTrace::Stays;
                     });
    if (!anything || said) {
      std::vector<Said> all = places.apply(traced, func, storage, offload);
      if (said)
        *said = std::move(all);
    }
    for (tiers::Update &update : traced.step.updates) {
      nn::VariableOp parameter = traced.traced[update.parameter].variable;
      if (hasNvme) // not built together
        update.onHost = false;
      else if (decided.contains(parameter)) // as in the program that has decided where it rests
        update.onHost = onHost.contains(parameter);
      else if (!update.decided && policy.getValue() != "planned")
        update.onHost = policy.getValue() == "zero-offload";
      else
        continue;
      update.decided = true;
    }
    return traced;
  }

  // Those updates that are to run on the host whatever is chosen.
  static std::vector<bool> decidedOf(const tiers::Step &step) {
    std::vector<bool> list;
    for (const tiers::Update &update : step.updates)
      list.push_back(update.decided && update.onHost);
    return list;
  }

  // Writes a plan into the program, and where variables rest. Returns what undoes it.
  std::function<void()> emit(func::FuncOp func, const TierTrace &traced, const tiers::Plan &plan) {
    auto before = std::make_shared<OwningOpRef<func::FuncOp>>(func.clone());
    SmallVector<nn::VariableOp> homes;
    for (const tiers::Move &move : plan.moves)
      if (nn::VariableOp variable = traced.traced[move.value].variable;
          movesHome(traced, move) && !dist::kRests.isOn(variable))
        homes.push_back(variable);
    for (const tiers::Update &update : traced.step.updates)
      if (update.onHost)
        for (int value : llvm::concat<const int>(update.state, ArrayRef(update.parameter)))
          if (nn::VariableOp variable = traced.traced[value].variable;
              !dist::kRests.isOn(variable) && !llvm::is_contained(homes, variable))
            homes.push_back(variable);
    numTransfers += emitTransfers(traced, plan.moves);
    for (nn::VariableOp variable : homes)
      dist::kRests.set(variable, dist::TierAttr::get(&getContext(), Tier::Host));
    return [=]() mutable {
      func.getBody().takeBody((*before)->getBody());
      for (nn::VariableOp variable : homes)
        dist::kRests.remove(variable);
    };
  }

  // A program that has the peaks that it may have, and what undoes that.
  struct Fitted {
    tiers::Limits have;
    std::string summary;
    PlacedProgram placed;
    std::function<void()> undo;
  };

  // Moves until the program has the peaks that it may have. Packing loses something, now more and now less:
  // the next attempt has a cap that is smaller by what was lost, and by a part of the way to the least that
  // there is.
  // Updates on the host are chosen where `choosesUpdates` says so, else those that were before, or are
  // decided.
  std::optional<Fitted> attempt(func::FuncOp func, bool choosesUpdates = false) {
    constexpr int kAttempts = 8;
    int64_t cap = limits.device - receivedAhead(func); // of the arena
    tiers::Limits goal = {cap, limits.host};
    tiers::Rates rates = ratesOf(func);
    for (int i = 0; i < kAttempts; ++i) {
      Storage storage = storageOf(func);
      std::vector<Said> said;
      TierTrace traced = trace(func, storage, /*anything=*/false, &said);
      if (limits.device == INT64_MAX && !traced.ops.empty()) // as much as it takes with everything there
        goal.device = *llvm::max_element(traced.step.bytes);
      if (!updates)
        updates = choosesUpdates ? tiers::chooseUpdates(traced.step, goal, rates) : decidedOf(traced.step);
      tiers::Step onDevice = traced.step;
      traced.step = tiers::withUpdates(onDevice, *updates);
      auto given = Places::given(traced, said);
      std::optional<tiers::Plan> plan = given ? tiers::planOf(traced.step, *given, rates)
                                              : tiers::planBy(policy.getValue(), traced.step, goal, rates);
      if (!plan)
        break;
      int64_t before = numTransfers, least = tiers::leastDeviceBytes(traced.step).first;
      std::string summary = describe(func, traced, *plan);
      PlacedProgram placed = placedProgram(func, traced, said, *plan, goal, rates, onDevice);
      std::function<void()> undo = emit(func, traced, *plan);
      tiers::Limits have = peaks(func);
      if (have.device <= cap && have.host <= limits.host)
        return Fitted{have, std::move(summary), std::move(placed), std::move(undo)};
      undo();
      numTransfers = before;
      if (given)
        break;
      if (have.device > cap)
        goal.device =
            std::max(std::min(2 * cap - have.device, goal.device - (cap - least) / kAttempts), least);
      if (have.host > limits.host)
        goal.host -= have.host - limits.host;
    }
    return std::nullopt;
  }

  // Seconds of a step that never waits.
  double secondsAlone(func::FuncOp func) {
    Storage storage = storageOf(func);
    tiers::Step step = trace(func, storage).step;
    if (updates)
      step = tiers::withUpdates(step, *updates);
    return std::accumulate(step.seconds.begin(), step.seconds.end(), 0.0);
  }

  // The fastest of what was fitted, where it was, and of running more and more operators again, each with its
  // transfers; `transfers` is how many the other programs have.
  std::optional<Fitted> withRepetition(func::FuncOp func, std::optional<Fitted> fitted, int64_t transfers) {
    auto secondsOf = [](const Fitted &each) { return each.placed.plan.seconds; };
    double best = fitted ? secondsOf(*fitted) : std::numeric_limits<double>::infinity();
    if (best <= alone) // nothing waits
      return fitted;
    if (fitted)
      fitted->undo();
    int number = 0, winner = 0;
    forEachRepetition(func, threads, [&](const Repeats &tried) {
      ++number;
      repeats = tried;
      if (secondsAlone(func) >= best)
        return false;
      if (std::optional<Fitted> other = attempt(func)) {
        if (secondsOf(*other) < best)
          best = secondsOf(*other), winner = number;
        other->undo();
      }
      return false;
    });
    // The same once more, to stay.
    numTransfers = transfers;
    repeats = {};
    number = 0;
    if (winner == 0)
      return fitted ? attempt(func) : std::nullopt;
    forEachRepetition(func, threads, [&](const Repeats &tried) {
      if (++number != winner)
        return false;
      repeats = tried;
      fitted = attempt(func);
      return true;
    });
    return fitted;
  }

  // The faster of what was fitted, where it was, and of the same with updates on the host that are chosen for
  // it; `transfers` is how many the other programs have.
  std::optional<Fitted> withUpdatesOnHost(func::FuncOp func, std::optional<Fitted> fitted,
                                          int64_t transfers) {
    if (fitted && fitted->placed.plan.seconds <= alone) // nothing waits
      return fitted;
    if (fitted)
      fitted->undo();
    numTransfers = transfers;
    updates.reset();
    std::optional<Fitted> other = attempt(func, /*choosesUpdates=*/true);
    if (!fitted || (other && other->placed.plan.seconds < fitted->placed.plan.seconds))
      return other;
    if (other)
      other->undo();
    numTransfers = transfers;
    updates.reset();
    return attempt(func); // the same once more, to stay
  }

  LogicalResult fit(func::FuncOp func) {
    int64_t ahead = receivedAhead(func);
    tiers::Limits needed = peaks(func);
    if (failed(checkMoves(func)))
      return failure();
    updates.reset();
    alone = secondsAlone(func);
    repeats = {};
    int64_t before = numTransfers;
    std::optional<Fitted> fitted = attempt(func);
    int64_t host = limits.host;
    if (!fitted && hasNvme) { // what the host has no room for goes further down: see ChooseNvme.cpp
      limits.host = INT64_MAX;
      fitted = attempt(func);
    }
    auto restore = llvm::make_scope_exit([&] { limits.host = host; });
    if (recomputes && places.isEmpty() && policy.getValue() == "planned" &&
        needed.device > limits.device - ahead)
      fitted = withRepetition(func, std::move(fitted), before);
    if (choosesUpdates && needed.device > limits.device - ahead)
      fitted = withUpdatesOnHost(func, std::move(fitted), before);
    if (!fitted)
      return choosesUpdates && !onHost.empty() ? failure() : refuse(func, needed);
    Chosen made{"", std::move(fitted->placed)};
    if (!made.placed.plan.moves.empty() || repeats.operators)
      made.remark = llvm::formatv("program '{0}' takes {1} of the device instead of {2}: {3}",
                                  dist::programName(func), sizeText(fitted->have.device + ahead),
                                  sizeText(needed.device + ahead), fitted->summary);
    chosen.push_back(std::move(made));
    return success();
  }

  // Moves that the plan gives are of the program that they were chosen for.
  LogicalResult checkMoves(func::FuncOp func) {
    if (places.isEmpty())
      return success();
    Storage storage = storageOf(func);
    std::vector<Said> said;
    TierTrace traced = trace(func, storage, /*anything=*/false, &said);
    traced.step = tiers::withUpdates(traced.step, decidedOf(traced.step));
    auto given = Places::given(traced, said);
    if (!Places::areStrange(traced, said) && (!given || tiers::planOf(traced.step, *given, ratesOf(func))))
      return success();
    auto first = llvm::find_if(said, [](const Said &each) { return each.exact; });
    return emitError(first->exact->at ? Location(first->exact->at) : func.getLoc())
           << "moves are given for program '" << dist::programName(func)
           << "' that it does not have: the model or the options are others than those that the plan was "
              "made "
              "with; without \"moves\" they are chosen anew";
  }

  // What was chosen: which values, how many bytes, and how much longer a step takes by the machine's rates.
  std::string describe(func::FuncOp func, const TierTrace &traced, const tiers::Plan &plan) {
    std::string text = movedText(traced, plan.moves);
    llvm::raw_string_ostream os(text);
    if (!plan.moves.empty())
      os << " leave it";
    if (int64_t count = llvm::count_if(traced.step.updates, [](auto &update) { return update.onHost; }))
      os << (plan.moves.empty() ? "" : ", ") << count << (count == 1 ? " update runs" : " updates run")
         << " on the host";
    if (repeats.operators)
      os << (plan.moves.empty() ? "" : ", ") << tessera::describe(repeats);
    os << "; a step is estimated to take " << llvm::formatv("{0:f2}", plan.seconds / alone) << " x as long";
    return text;
  }

  // What the program would take if one thing were otherwise, by trying it; empty where it would not fit.
  std::string tried(func::FuncOp func, llvm::function_ref<void()> change) {
    auto before = std::tuple(limits, offload, places);
    change();
    updates.reset();
    std::optional<Fitted> fitted = attempt(func);
    updates.reset();
    std::tie(limits, offload, places) = before;
    if (!fitted)
      return "";
    fitted->undo();
    const PlacedProgram &placed = fitted->placed;
    return "it fits, with " + sizeText(fitted->have.device + receivedAhead(func)) + " of the device and " +
           sizeText(fitted->have.host) + " of the host; a step is estimated to take " +
           llvm::formatv("{0:g3} s, {1:f2} x as long", placed.plan.seconds, placed.plan.seconds / alone)
               .str();
  }

  std::string leastAlone(func::FuncOp func) {
    std::string text;
    llvm::StringSet<> before = offload;
    for (StringRef kind : {"optimizer", "parameters", "activations"}) {
      offload.clear();
      offload.insert(kind);
      Storage storage = storageOf(func);
      int64_t least = tiers::leastDeviceBytes(trace(func, storage).step).first + receivedAhead(func);
      text += ((text.empty() ? "" : ", ") + ("--offload=" + kind) + " " + sizeText(least)).str();
    }
    offload = before;
    return text;
  }

  // What would help, each tried; a cap that is given is one that may not be more.
  void noteRemedies(func::FuncOp func, InFlightDiagnostic &error) {
    auto anything = [&] {
      for (StringRef each : {"optimizer", "parameters", "activations"})
        offload.insert(each);
    };
    bool isAsked = false; // for something that would do
    auto note = [&](StringRef remedy, llvm::function_ref<void()> change) {
      std::string would = isAsked ? "" : tried(func, change);
      if (would.empty())
        return;
      error.attachNote() << remedy << " " << would;
      isAsked = true;
    };
    if (offload.size() < 3) {
      note("--offload=auto may move more than what is allowed to move now:", anything);
      error.attachNote() << "of one kind alone, the least possible on the device is: " << leastAlone(func);
    }
    if (limits.host != INT64_MAX)
      note("what leaves the device does not fit into --host-memory; with more of the host", [&] {
        anything();
        limits.host = INT64_MAX;
      });
    if (!places.isEmpty())
      note("the plan says where values are; without its [[place]] entries", [&] {
        anything();
        places.clear();
      });
    for (int64_t part : {25, 12, 6})
      note("packing buffers takes a few percent more than the least; with a little more --device-memory",
           [&] {
             anything();
             limits.device += limits.device / part;
           });
  }

  // Whether the program would fit if operators might run again.
  void noteRecomputation(func::FuncOp func, InFlightDiagnostic &error) {
    if (recomputes || !places.isEmpty() || policy.getValue() != "planned")
      return;
    forEachRepetition(func, threads, [&](const Repeats &tried) {
      std::string would = this->tried(func, [&] { repeats = tried; });
      if (!would.empty())
        error.attachNote() << "--recompute=auto may make activations again: " << would;
      return !would.empty();
    });
  }

  // The least that any placement needs of the device, and the operator and the values that set it.
  struct Least {
    int64_t bytes = 0;
    Location where;
    std::string values;
  };
  Least leastOf(func::FuncOp func) {
    Storage storage = storageOf(func);
    TierTrace all = trace(func, storage, /*anything=*/true);
    if (all.ops.empty())
      return {0, func.getLoc(), ""};
    auto [bytes, at] = tiers::leastDeviceBytes(all.step);
    if (!hasNvme && places.isEmpty() && policy.getValue() == "planned")
      std::tie(bytes, at) =
          std::min(std::tuple(bytes, at), std::tuple(tiers::leastDeviceBytes(tiers::withUpdates(
                                              all.step, std::vector<bool>(all.step.updates.size(), true)))));
    return {bytes + receivedAhead(func), all.ops[at]->getLoc(), largestText(all.ops[at], func, storage)};
  }

  // Needed, given, least possible; what the peak is made of; and what would help.
  LogicalResult refuse(func::FuncOp func, const tiers::Limits &needed) {
    if (limits.device == INT64_MAX)
      return func.emitError() << "program '" << dist::programName(func)
                              << "' has values that the plan wants on the host, and they do not fit into "
                                 "--host-memory, which is "
                              << sizeText(limits.host);
    // Of all programs that have yet to fit, this one among them.
    int64_t least = 0;
    Location where = func.getLoc();
    std::string values;
    for (func::FuncOp each : pending) {
      Least here = leastOf(each);
      if (recomputes && places.isEmpty())
        forEachRepetition(each, threads, [&](const Repeats &) {
          Least now = leastOf(each);
          if (now.bytes < here.bytes)
            here = now;
          return false;
        });
      if (here.bytes > least)
        least = here.bytes, where = here.where, values = here.values;
    }
    Storage storage = storageOf(func);
    TierTrace traced = trace(func, storage, /*anything=*/true);
    DictionaryAttr figures = Offsets(storage, VariablePlaces(getOperation()), func).figures(&getContext());
    int64_t ahead = receivedAhead(func), total = needed.device + ahead;
    InFlightDiagnostic error = func.emitError()
                               << "program '" << dist::programName(func) << "' needs " << sizeText(total)
                               << " of device memory a rank, --device-memory is " << sizeText(limits.device);
    if (limits.host != INT64_MAX)
      error << ", --host-memory is " << sizeText(limits.host);
    if (total > limits.device)
      error << ": short by " << sizeText(total - limits.device);
    if (!traced.ops.empty()) {
      int64_t fullest = llvm::max_element(traced.step.bytes) - traced.step.bytes.begin();
      error.attachNote(traced.ops[fullest]->getLoc())
          << "the device is fullest at this operator, if nothing leaves it: " << categoriesText(figures)
          << (ahead > 0 ? ", messages that arrive ahead " + sizeText(ahead) : "");
    }
    error.attachNote(where) << "the least possible for this plan is " << sizeText(least)
                            << " on the device, set by this operator" << values
                            << (least > limits.device
                                    ? "; more microbatches (--microbatches) or ranks need less"
                                    : "");
    if (least <= limits.device && policy.getValue() != "planned")
      error.attachNote() << "by the rule of '" << policy.getValue() << "' nothing was found that fits";
    else if (least <= limits.device)
      noteRemedies(func, error);
    noteRecomputation(func, error);
    return error;
  }

  // The variables that the host reads after the step, before it or after their assignment.
  void findOutputs(const SymbolTable &symbols) {
    outputs.clear();
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
          outputs.insert(symbols.lookup(read.getVariable()));
      });
      func.walk([&](nn::AssignOp assign) {
        if (returned.contains(root(assign.getValue())))
          outputs.insert(symbols.lookup(assign.getVariable()));
      });
    }
  }

  // Nothing leaves; somebody may want to know what is live when.
  void observeUncapped() {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (!observer)
        return;
      std::vector<Said> said;
      Storage storage = storageOf(func);
      TierTrace traced = trace(func, storage, /*anything=*/false, &said);
      tiers::Rates rates = ratesOf(func);
      if (std::optional<tiers::Plan> plan = tiers::planOf(traced.step, {}, rates))
        observer(placedProgram(func, traced, said, *plan, limits, rates, traced.step));
    }
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    kernels = module.lookupSymbol<ModuleOp>(kKernelsModule);
    auto limitOf = [&](const auto &attr) {
      IntegerAttr bytes = attr.of(module);
      return bytes ? bytes.getInt() : INT64_MAX;
    };
    limits = {limitOf(dist::kDeviceMemory), limitOf(dist::kHostMemory)};
    hasNvme = dist::kNvmeMemory.isOn(module);
    places = Places(module);
    if (limits.device == INT64_MAX && places.isEmpty())
      return observeUncapped();
    if (failed(places.verify(module)))
      return signalPassFailure();
    offload.clear();
    if (ArrayAttr what = dist::kOffload.of(module); what && limits.device != INT64_MAX)
      for (auto name : what.getAsRange<StringAttr>())
        offload.insert(name.getValue());
    StringAttr recomputation = dist::kRecomputation.of(module);
    recomputes = recomputation && recomputation == "auto";
    // The fullest program decides where variables rest.
    pending.assign(module.getOps<func::FuncOp>().begin(), module.getOps<func::FuncOp>().end());
    llvm::DenseMap<Operation *, int64_t> needed;
    for (func::FuncOp func : pending)
      needed[func] = peaks(func).device;
    llvm::stable_sort(pending, [&](func::FuncOp a, func::FuncOp b) { return needed[a] > needed[b]; });
    SymbolTable symbols(module);
    findOutputs(symbols);
    choosesUpdates = policy.getValue() == "planned" && places.isEmpty() && !hasNvme;
    std::function<void()> undo = undoOfAll(module);
    if (failed(fitAll(symbols))) {
      if (onHost.empty() || !choosesUpdates)
        return signalPassFailure();
      // What one program updates on the host has no room there beside what another one has.
      undo();
      choosesUpdates = false;
      if (failed(fitAll(symbols)))
        return signalPassFailure();
    }
    for (Chosen &each : chosen) {
      if (!each.remark.empty())
        emitRemark(UnknownLoc::get(&getContext())) << each.remark;
      if (observer)
        observer(std::move(each.placed));
    }
    places.warnOfIdle();
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
    return [this, before, above, transfers = int64_t(numTransfers)] {
      pending.clear();
      for (Before &each : *before) {
        each.func.getBody().takeBody(each.copy->getBody());
        pending.push_back(each.func);
      }
      for (nn::VariableOp variable : above)
        if (dist::kRests.isOn(variable))
          dist::kRests.remove(variable);
      numTransfers = transfers;
    };
  }

  LogicalResult fitAll(SymbolTable &symbols) {
    chosen.clear();
    decided.clear();
    onHost.clear();
    while (!pending.empty()) {
      func::FuncOp func = pending.front();
      if (failed(fit(func)))
        return failure();
      pending.erase(pending.begin());
      func.walk([&](Operation *op) {
        llvm::TypeSwitch<Operation *>(op)
            .Case<nn::ReadOp, nn::AssignOp, dist::ReadCopyOp, dist::AssignCopyOp>(
                [&](auto access) { decided.insert(symbols.lookup(access.getVariable())); });
        if (auto assign = dyn_cast<dist::AssignCopyOp>(op);
            assign && assign.getValue().getDefiningOp<dist::HostWaitOp>())
          onHost.insert(symbols.lookup(assign.getVariable()));
      });
    }
    return success();
  }

  PlacedObserver observer;
  Places places;
  const nn::Library *library = nullptr;
  ModuleOp kernels;
  tiers::Limits limits;
  llvm::StringSet<> offload;
  bool recomputes = false, hasNvme = false;
  Repeats repeats;                   // that the program at hand has
  double alone = 0;                  // seconds of its step without them, if it never waits
  SmallVector<func::FuncOp> pending; // programs that have yet to fit, the fullest first
  DenseSet<Operation *> decided;     // variables of the others
  DenseSet<Operation *> onHost;      // those of them that are updated on the host
  bool choosesUpdates = false;       // whether more may be
  /// What is told of each program when all have fitted.
  struct Chosen {
    std::string remark;
    PlacedProgram placed;
  };
  std::vector<Chosen> chosen;
  /// Those of the program at hand that are updated on the host, parallel to its step's updates.
  std::optional<std::vector<bool>> updates;
  DenseSet<Operation *> outputs; // variables
};

} // namespace

std::unique_ptr<Pass> tessera::createChooseTiers(const ChooseTiersOptions &options, PlacedObserver placed) {
  auto pass = std::make_unique<ChooseTiersPass>(options);
  pass->observer = std::move(placed);
  return pass;
}
