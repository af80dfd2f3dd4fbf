// The pass that keeps programs below the caps of their tiers.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pack.h"
#include "dialects/nn/Attributes.h"
#include "passes/Kernels/Passes.h"
#include "passes/Memory/Offsets.h"
#include "passes/Schedule/Passes.h"
#include "passes/Schedule/Transfers.h"
#include "passes/Tiers/Policies/Policies.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>
#include <numeric>

namespace tessera {
#define GEN_PASS_DEF_CHOOSETIERS
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

std::string sizeText(int64_t bytes) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (auto [unit, name] :
       {std::pair(int64_t(1) << 30, "GiB"), {int64_t(1) << 20, "MiB"}, {int64_t(1) << 10, "KiB"}})
    if (bytes >= unit) {
      os << llvm::formatv("{0:f1} ", double(bytes) / double(unit)) << name << " (" << bytes << " bytes)";
      return text;
    }
  os << bytes << " bytes";
  return text;
}

// What a stage of a pipeline may receive while it computes, behind the arena
// (docs/design/0008-between-hosts.md): from each other stage the largest message but the first.
int64_t receivedAhead(func::FuncOp func) {
  std::map<int64_t, int64_t> largest; // by stage
  for (auto receive : func.getOps<dist::RecvOp>())
    if (auto [entry, isFirst] = largest.try_emplace(receive.getStage(), 0); !isFirst)
      entry->second = std::max(entry->second, dist::bytesOf(receive.getResult().getType()));
  int64_t bytes = 0;
  for (auto [stage, most] : largest)
    bytes += most;
  return bytes;
}

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

  // The peaks of both tiers, as the memory phase will have them.
  tiers::Limits peaks(func::FuncOp func) {
    Storage storage = storageOf(func);
    DictionaryAttr figures = Offsets(storage, VariablePlaces(getOperation()), func).figures(&getContext());
    auto peak = [](DictionaryAttr tier) { return tier ? tier.getAs<IntegerAttr>("peak").getInt() : 0; };
    return {peak(figures), peak(figures.getAs<DictionaryAttr>(tierName(Tier::Host)))};
  }

  TierTrace trace(func::FuncOp func, const Storage &storage, bool anything = false) {
    return TierTrace(func, storage, VariablePlaces(getOperation()), threads,
                     [&](nn::VariableOp variable, StringRef category) {
                       if (variable && outputs.contains(variable))
                         return TierTrace::Stays;
                       // Programs agree where a variable rests: the first one has decided.
                       if (variable && decided.contains(variable))
                         return dist::kRests.isOn(variable) ? TierTrace::MustMove : TierTrace::Stays;
                       return anything || offload.contains(category) ? TierTrace::MayMove : TierTrace::Stays;
                     });
  }

  // Writes a plan into the program, and where variables rest. Returns what undoes it.
  std::function<void()> emit(func::FuncOp func, const TierTrace &traced, const tiers::Plan &plan) {
    auto before = std::make_shared<OwningOpRef<func::FuncOp>>(func.clone());
    SmallVector<nn::VariableOp> homes;
    for (const tiers::Move &move : plan.moves)
      if (nn::VariableOp variable = traced.traced[move.value].variable;
          movesHome(traced, move) && !dist::kRests.isOn(variable))
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

  // Moves until the program has the peaks that it may have. Packing loses something, now more and now less:
  // the next attempt has a cap that is smaller by what was lost, and by a part of the way to the least that
  // there is.
  LogicalResult fit(func::FuncOp func) {
    constexpr int kAttempts = 8;
    int64_t ahead = receivedAhead(func), cap = limits.device - ahead; // of the arena
    tiers::Limits needed = peaks(func), goal = {cap, limits.host};
    dist::Link host = dist::Machine::of(func).host;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      Storage storage = storageOf(func);
      TierTrace traced = trace(func, storage);
      std::optional<tiers::Plan> plan =
          tiers::planBy(policy.getValue(), traced.step, goal, {1 / host.beta, 1 / host.beta, host.alpha});
      if (!plan)
        break;
      int64_t before = numTransfers, least = tiers::leastDeviceBytes(traced.step).first;
      std::string summary = describe(func, traced, *plan);
      std::function<void()> undo = emit(func, traced, *plan);
      tiers::Limits have = peaks(func);
      if (have.device <= cap && have.host <= limits.host) {
        if (!plan->moves.empty())
          emitRemark(UnknownLoc::get(&getContext()))
              << "program '" << dist::programName(func) << "' takes " << sizeText(have.device + ahead)
              << " of the device instead of " << sizeText(needed.device + ahead) << ": " << summary;
        return success();
      }
      undo();
      numTransfers = before;
      if (have.device > cap)
        goal.device =
            std::max(std::min(2 * cap - have.device, goal.device - (cap - least) / kAttempts), least);
      if (have.host > limits.host)
        goal.host -= have.host - limits.host;
    }
    return refuse(func, needed);
  }

  // What was chosen: which values, how many bytes, and how much longer a step takes by the machine's rates.
  std::string describe(func::FuncOp func, const TierTrace &traced, const tiers::Plan &plan) {
    llvm::MapVector<StringRef, std::pair<llvm::SmallSet<int, 16>, int64_t>> moved;
    for (const tiers::Move &move : plan.moves) {
      nn::VariableOp variable = traced.traced[move.value].variable;
      auto &[values, bytes] = moved[variable ? TierTrace::categoryOf(variable) : "activations"];
      if (values.insert(move.value).second)
        bytes += traced.step.values[move.value].bytes;
    }
    std::string text;
    llvm::raw_string_ostream os(text);
    for (auto &[category, what] : moved)
      os << (text.empty() ? "" : ", ") << sizeText(what.second) << " of " << category << " ("
         << what.first.size() << " values)";
    double alone = std::accumulate(traced.step.seconds.begin(), traced.step.seconds.end(), 0.0);
    os << " leave it; a step is estimated to take " << llvm::formatv("{0:f2}", plan.seconds / alone)
       << " x as long";
    return text;
  }

  LogicalResult refuse(func::FuncOp func, const tiers::Limits &needed) {
    // Of all programs that have yet to fit, this one among them.
    int64_t least = 0, leastGiven = 0;
    Location where = func.getLoc();
    for (func::FuncOp each : pending) {
      Storage storage = storageOf(each);
      TierTrace all = trace(each, storage, /*anything=*/true);
      int64_t ahead = receivedAhead(each);
      leastGiven = std::max(leastGiven, tiers::leastDeviceBytes(trace(each, storage).step).first + ahead);
      if (auto [bytes, at] = tiers::leastDeviceBytes(all.step); bytes + ahead > least && !all.ops.empty())
        least = bytes + ahead, where = all.ops[at]->getLoc();
    }
    InFlightDiagnostic error =
        func.emitError() << "program '" << dist::programName(func) << "' needs " << sizeText(needed.device)
                         << " of device memory a rank, --device-memory is " << sizeText(limits.device);
    if (limits.host != INT64_MAX)
      error << ", --host-memory is " << sizeText(limits.host);
    error.attachNote(where) << "the least possible for this plan is " << sizeText(least)
                            << " on the device, set by this operator"
                            << (least > limits.device
                                    ? "; more microbatches (--microbatches) or ranks need less"
                                    : "");
    if (least <= limits.device && policy.getValue() != "planned")
      error.attachNote() << "by the rule of '" << policy.getValue() << "' nothing was found that fits";
    else if (least <= limits.device && leastGiven > limits.device)
      error.attachNote() << "--offload=auto may move more than what is allowed to move now";
    else if (least <= limits.device && limits.host != INT64_MAX)
      error.attachNote() << "what leaves the device does not fit into --host-memory";
    else if (least <= limits.device)
      error.attachNote() << "packing buffers takes a few percent more than the least";
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

  void runOnOperation() override {
    ModuleOp module = getOperation();
    kernels = module.lookupSymbol<ModuleOp>(kKernelsModule);
    auto limitOf = [&](const auto &attr) {
      IntegerAttr bytes = attr.of(module);
      return bytes ? bytes.getInt() : INT64_MAX;
    };
    limits = {limitOf(dist::kDeviceMemory), limitOf(dist::kHostMemory)};
    if (limits.device == INT64_MAX)
      return;
    offload.clear();
    if (ArrayAttr what = dist::kOffload.of(module))
      for (auto name : what.getAsRange<StringAttr>())
        offload.insert(name.getValue());
    // The fullest program decides where variables rest.
    pending.assign(module.getOps<func::FuncOp>().begin(), module.getOps<func::FuncOp>().end());
    llvm::DenseMap<Operation *, int64_t> needed;
    for (func::FuncOp func : pending)
      needed[func] = peaks(func).device;
    llvm::stable_sort(pending, [&](func::FuncOp a, func::FuncOp b) { return needed[a] > needed[b]; });
    SymbolTable symbols(module);
    findOutputs(symbols);
    decided.clear();
    while (!pending.empty()) {
      func::FuncOp func = pending.front();
      if (failed(fit(func)))
        return signalPassFailure();
      pending.erase(pending.begin());
      func.walk([&](Operation *op) {
        llvm::TypeSwitch<Operation *>(op)
            .Case<nn::ReadOp, nn::AssignOp, dist::ReadCopyOp, dist::AssignCopyOp>(
                [&](auto access) { decided.insert(symbols.lookup(access.getVariable())); });
      });
    }
  }

  const nn::Library *library = nullptr;
  ModuleOp kernels;
  tiers::Limits limits;
  llvm::StringSet<> offload;
  SmallVector<func::FuncOp> pending; // programs that have yet to fit, the fullest first
  DenseSet<Operation *> decided;     // variables of the others
  DenseSet<Operation *> outputs;     // variables
};

} // namespace
