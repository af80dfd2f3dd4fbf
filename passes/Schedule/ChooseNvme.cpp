// The pass that keeps programs below the host's cap, by what NVMe has room for.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pack.h"
#include "passes/Kernels/Passes.h"
#include "passes/Memory/Offsets.h"
#include "passes/Schedule/Passes.h"
#include "passes/Schedule/Places.h"
#include "passes/Schedule/Sizes.h"
#include "passes/Schedule/Transfers.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include <numeric>

namespace tessera {
#define GEN_PASS_DEF_CHOOSENVME
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

int64_t countOf(dist::HostStartOp call) {
  auto count = call.getSettings().getAs<IntegerAttr>("count");
  return count ? count.getInt() : 0;
}

// Adds to the waits for transfers from and to the device, and for the host, what computing stands still at
// them, so that copies to NVMe are seen beside the step as it is.
void addStalls(TierTrace &trace, const dist::Machine &machine) {
  const dist::Link &link = machine.host;
  double now = 0, down = 0, up = 0, host = 0;
  llvm::DenseMap<Value, double> complete; // by transfer or call
  auto start = [&](double &way, Value source, Value transfer) {
    auto copy = dyn_cast<dist::CopyType>(source.getType());
    auto tensor = cast<RankedTensorType>(copy ? Type(copy.getTensor()) : source.getType());
    double once = link.alpha + link.beta * double(dist::bytesOf(tensor));
    int64_t at = trace.positionOf(transfer.getDefiningOp());
    way = std::max(way, now) + once * double(trace.step.loop.timesAt(at));
    complete[transfer] = way;
  };
  for (auto [op, seconds] : llvm::zip(trace.ops, trace.step.seconds)) {
    if (auto offload = dyn_cast<dist::OffloadStartOp>(op))
      start(down, offload.getSource(), offload.getTransfer());
    else if (auto prefetch = dyn_cast<dist::PrefetchStartOp>(op))
      start(up, prefetch.getSource(), prefetch.getTransfer());
    else if (auto call = dyn_cast<dist::HostStartOp>(op))
      host = complete[call.getCall()] =
          std::max(host, now) + secondsOnHost(call.getFunction(), countOf(call), machine);
    else if (isa<dist::OffloadWaitOp, dist::PrefetchWaitOp, dist::HostWaitOp>(op))
      seconds += std::max(0.0, complete.lookup(op->getOperand(0)) - now);
    now += seconds;
  }
}

struct ChooseNvmePass : tessera::impl::ChooseNvmeBase<ChooseNvmePass> {
  using ChooseNvmeBase::ChooseNvmeBase;

  LogicalResult initialize(MLIRContext *context) override {
    library = nn::findLibrary(target, UnknownLoc::get(context));
    return success(library);
  }

  // Of the host and of NVMe, as the memory phase will have them.
  struct Peaks {
    int64_t host = 0, nvme = 0;
  };
  Peaks peaks(func::FuncOp func) {
    Storage storage(func, kernels, *library, threads);
    DictionaryAttr figures = Offsets(storage, VariablePlaces(func)).figures(&getContext());
    auto peak = [&](Tier tier) {
      auto of = figures.getAs<DictionaryAttr>(tierName(tier));
      return of ? of.getAs<IntegerAttr>("peak").getInt() : 0;
    };
    return {peak(Tier::Host), peak(Tier::Nvme)};
  }

  // With what the plan says of where values are; `said` is filled with that.
  TierTrace trace(func::FuncOp func, std::vector<Said> *said = nullptr) {
    Storage storage(func, kernels, *library, threads);
    TierTrace traced(
        func, storage, VariablePlaces(func), threads,
        [&](nn::VariableOp variable, StringRef) {
          if (variable && decided.contains(variable))
            return dist::restsIn(variable) == Tier::Nvme ? TierTrace::MustMove : TierTrace::Stays;
          return TierTrace::MayMove;
        },
        Tier::Host);
    std::vector<Said> all = places.apply(traced, func, storage, anything);
    if (said)
      *said = std::move(all);
    addStalls(traced, dist::Machine::of(func));
    return traced;
  }

  // Writes a plan into the program, and where variables rest. Returns what undoes it.
  std::function<void()> emit(func::FuncOp func, const TierTrace &traced, const tiers::Plan &plan) {
    auto before = std::make_shared<OwningOpRef<func::FuncOp>>(func.clone());
    SmallVector<nn::VariableOp> homes;
    for (const tiers::Move &move : plan.moves)
      if (nn::VariableOp variable = traced.traced[move.value].variable;
          movesHome(traced, move) && dist::restsIn(variable) == Tier::Host)
        homes.push_back(variable);
    int64_t count = emitTransfers(traced, plan.moves, tiers::widePlaces(traced.step, plan.moves));
    numTransfers += count;
    auto rest = [this](ArrayRef<nn::VariableOp> variables, Tier tier) {
      for (nn::VariableOp variable : variables)
        dist::kRests.set(variable, dist::TierAttr::get(&getContext(), tier));
    };
    rest(homes, Tier::Nvme);
    return [=, this]() mutable {
      func.getBody().takeBody((*before)->getBody());
      numTransfers -= count;
      rest(homes, Tier::Host);
    };
  }

  // Packing loses something: the next attempt has a cap that is smaller by it.
  LogicalResult fit(func::FuncOp func) {
    constexpr int kAttempts = 8;
    Peaks needed = peaks(func), goal = limits;
    std::vector<Said> said;
    TierTrace traced = trace(func, &said);
    if (goal.host == INT64_MAX && !traced.ops.empty()) // as much as it takes with everything there
      goal.host = *llvm::max_element(traced.step.bytes);
    int64_t least = tiers::leastDeviceBytes(traced.step).first;
    dist::Link disk = dist::Machine::of(func).disk;
    tiers::Rates rates{1 / disk.beta, 1 / disk.beta, disk.alpha};
    for (int i = 0; i < kAttempts; ++i) {
      std::optional<tiers::Plan> plan = tiers::choose(traced.step, {goal.host, goal.nvme}, rates);
      if (!plan)
        break;
      std::string what = movedText(traced, plan->moves);
      double alone = std::accumulate(traced.step.seconds.begin(), traced.step.seconds.end(), 0.0);
      std::function<void()> undo = emit(func, traced, *plan);
      Peaks have = peaks(func);
      if (have.host <= limits.host && have.nvme <= limits.nvme) {
        tell(func, said, *plan);
        if (!plan->moves.empty())
          emitRemark(UnknownLoc::get(&getContext()))
              << "program '" << dist::programName(func) << "' takes "
              << takenText(Tier::Host, have.host, whole.at(func)) << ": " << what << " go to NVMe, which has "
              << sizeText(have.nvme) << "; a step is estimated to take "
              << llvm::formatv("{0:f2}", plan->seconds / alone).str() << " x as long as without";
        return success();
      }
      undo();
      traced = trace(func);
      if (have.host > limits.host)
        goal.host = std::max(
            std::min(goal.host - (have.host - limits.host), goal.host - (goal.host - least) / kAttempts),
            least);
      if (have.nvme > limits.nvme)
        goal.nvme -= have.nvme - limits.nvme;
    }
    return refuse(func, traced, needed, least);
  }

  void tell(func::FuncOp func, ArrayRef<Said> said, const tiers::Plan &plan) {
    std::vector<std::string> names;
    for (const tiers::Move &move : plan.moves)
      names.push_back(said[move.value].name);
    if (observer)
      observer(func.getName(), names);
  }

  LogicalResult refuse(func::FuncOp func, const TierTrace &traced, const Peaks &needed, int64_t least) {
    InFlightDiagnostic error = func.emitError() << "program '" << dist::programName(func) << "' needs "
                                                << sizeText(needed.host)
                                                << " of host memory a rank for what leaves the device, "
                                                << "--host-memory is " << sizeText(limits.host)
                                                << ", --nvme is " << sizeText(limits.nvme);
    if (least > limits.host) {
      auto at = tiers::leastDeviceBytes(traced.step).second;
      error.attachNote(traced.ops[at]->getLoc())
          << "the least possible on the host is " << sizeText(least)
          << ", set by the transfer here; with more --device-memory less is under way";
    } else {
      error.attachNote() << "the least possible on the host is " << sizeText(least) << ", with "
                         << sizeText(needed.host - least) << " and more on NVMe; give more of either";
    }
    return error;
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    IntegerAttr host = dist::kHostMemory.of(module), nvme = dist::kNvmeMemory.of(module);
    places = Places(module);
    if (!nvme || (!host && places.isEmpty()))
      return;
    kernels = module.lookupSymbol<ModuleOp>(kKernelsModule);
    limits = {host ? host.getInt() : INT64_MAX, nvme.getInt()};
    decided.clear();
    // The program that has most on the host decides where variables rest.
    SmallVector<func::FuncOp> programs(module.getOps<func::FuncOp>());
    whole.clear();
    for (func::FuncOp func : programs)
      whole[func] = peaks(func).host;
    llvm::stable_sort(programs, [&](func::FuncOp a, func::FuncOp b) { return whole[a] > whole[b]; });
    SymbolTable symbols(module);
    for (func::FuncOp func : programs) {
      if (failed(fit(func)))
        return signalPassFailure();
      func.walk([&](Operation *op) {
        llvm::TypeSwitch<Operation *>(op).Case<dist::ReadCopyOp, dist::AssignCopyOp>(
            [&](auto access) { decided.insert(symbols.lookup(access.getVariable())); });
      });
    }
  }

  NamesObserver observer;
  const llvm::StringSet<> anything = {"optimizer", "parameters", "activations"}; // of what is on the host
  Places places;
  const nn::Library *library = nullptr;
  ModuleOp kernels;
  Peaks limits;
  DenseSet<Operation *> decided;              // variables of programs before
  llvm::DenseMap<Operation *, int64_t> whole; // of each program as it was given, the host's peak
};

} // namespace

std::unique_ptr<Pass> tessera::createChooseNvme(const ChooseNvmeOptions &options, NamesObserver placed) {
  auto pass = std::make_unique<ChooseNvmePass>(options);
  pass->observer = std::move(placed);
  return pass;
}
