// The pass that keeps programs below the caps of their tiers.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pack.h"
#include "dialects/nn/Attributes.h"
#include "mlir/IR/Threading.h"
#include "passes/Memory/Offsets.h"
#include "passes/Schedule/Passes.h"
#include "passes/Schedule/Sizes.h"
#include "passes/Schedule/TierGroup.h"
#include "passes/Schedule/TierRemedies.h"
#include "passes/Tiers/Policies/Policies.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"

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

  // The variables that the host reads after the step, before it or after their assignment.
  void findOutputs(const SymbolTable &symbols) {
    auto root = [](Value value) {
      while (value.getDefiningOp() && isView(value.getDefiningOp()))
        value = value.getDefiningOp()->getOperand(0);
      return value;
    };
    for (auto func : getOperation().getOps<func::FuncOp>()) {
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
    search->any = any;
    if (search->limits.device == INT64_MAX && search->places.isEmpty())
      return observeUncapped();
    if (failed(search->places.verify(module)))
      return signalPassFailure();
    SymbolTable symbols(module);
    findOutputs(symbols);
    if (onlyLeast) {
      refused(leastDeviceBytes(*search, SmallVector<func::FuncOp>(module.getOps<func::FuncOp>())));
      return signalPassFailure();
    }
    groups = groupsOf(programsOf(module), symbols);
    if (!mayFit() || !fit())
      return refuse();
    report();
    for (const TierGroup &group : groups)
      group.search.places.warnOfIdle();
    module.walk([&](Operation *op) { numTransfers += isa<dist::OffloadStartOp, dist::PrefetchStartOp>(op); });
  }

  std::vector<Storage> storagesOf(ArrayRef<func::FuncOp> funcs) {
    return Offsets::prepare(funcs, [&](func::FuncOp func) { return search->storageOf(func); });
  }

  // All programs as they are given, the fullest first: it decides where variables rest.
  std::vector<TierProgram> programsOf(ModuleOp module) {
    SmallVector<func::FuncOp> funcs(module.getOps<func::FuncOp>());
    std::vector<Storage> storages = storagesOf(funcs);
    std::vector<TierProgram> programs;
    for (auto [func, storage] : llvm::zip(funcs, storages)) {
      tiers::Limits peaks = search->peaks(storage), below = search->variables(func);
      programs.push_back({func,
                          peaks.device,
                          search->secondsAlone(storage),
                          {peaks.device - below.device, peaks.host - below.host}});
    }
    llvm::stable_sort(programs, [](auto &a, auto &b) { return a.peak > b.peak; });
    return programs;
  }

  static double burdenOf(ArrayRef<TierProgram> programs) {
    double most = 0; // bytes x seconds
    for (const TierProgram &program : programs)
      most = std::max(most, double(program.peak) * program.seconds);
    return most;
  }

  // Those of a pipeline's stages apart, where no entry of a plan says anything of them all. First those that
  // are full and compute long: the slowest is likely to be among them, and no other one has to be faster.
  std::vector<TierGroup> groupsOf(ArrayRef<TierProgram> programs, SymbolTable &symbols) {
    llvm::EquivalenceClasses<Operation *> together; // programs and variables
    llvm::SmallDenseMap<int64_t, Operation *> ofStage;
    for (const TierProgram &program : programs) {
      auto with = [&](Operation *other) { together.unionSets(program.func, other); };
      together.insert(program.func);
      with(ofStage.try_emplace(dist::stageOf(program.func), program.func).first->second);
      if (search->places.isEmpty())
        forEachVariable(program.func, symbols, with);
      else
        with(programs.front().func);
    }
    llvm::MapVector<Operation *, std::vector<TierProgram>> byLeader;
    for (const TierProgram &program : programs)
      byLeader[together.getLeaderValue(program.func)].push_back(program);
    auto sets = byLeader.takeVector();
    llvm::stable_sort(sets, [](auto &a, auto &b) { return burdenOf(a.second) > burdenOf(b.second); });
    std::vector<TierGroup> groups;
    for (auto &[leader, set] : sets)
      groups.emplace_back(*search, std::move(set), symbols);
    return groups;
  }

  // Whether all groups may fit, which is known before anything is searched for.
  bool mayFit() {
    parallelForEach(&getContext(), groups, [](TierGroup &group) { group.refuseHopeless(); });
    return llvm::none_of(groups, [](const TierGroup &group) { return group.hasFailed; });
  }

  // Fits all groups, several at a time, or those before the first that has a program without room. What one
  // learns from others does not depend on how many threads there are.
  bool fit() {
    TierGroup::Lessons learned;
    MutableArrayRef<TierGroup> rest = groups;
    for (size_t size = 2; !rest.empty(); size *= 2) {
      MutableArrayRef<TierGroup> now = rest.take_front(size);
      parallelForEach(&getContext(), now, [&](TierGroup &group) { group.fit(learned); });
      for (const TierGroup &group : now) {
        if (group.hasFailed)
          return false;
        for (auto [slowest, seconds] : llvm::zip(learned.slowest, group.lessons.slowest))
          slowest = std::max(slowest, seconds);
        learned.lost = group.lessons.lost;
      }
      rest = rest.drop_front(now.size());
    }
    return true;
  }

  // Reports the first program that has no room, if what is wrong has not been reported.
  void refuse() {
    signalPassFailure();
    TierGroup &first = *llvm::find_if(groups, [](const TierGroup &group) { return group.hasFailed; });
    if (!first.refused)
      return;
    SmallVector<func::FuncOp> pending;
    for (const TierGroup &group : groups) {
      llvm::append_range(pending, group.pending());
      first.search.decided.insert_range(group.search.decided);
      first.search.onHost.insert_range(group.search.onHost);
    }
    tessera::refuse(first.search, first.refused->func, first.refused->needed, pending, refused);
  }

  // What has been chosen, and what each program takes with it, the fullest first.
  void report() {
    std::vector<TierGroup::Chosen> chosen;
    for (TierGroup &group : groups)
      std::move(group.chosen.begin(), group.chosen.end(), std::back_inserter(chosen));
    llvm::stable_sort(chosen, [](auto &a, auto &b) { return a.whole > b.whole; });
    std::vector<Storage> storages =
        storagesOf(llvm::map_to_vector(chosen, [](const TierGroup::Chosen &each) { return each.func; }));
    for (auto [each, storage] : llvm::zip(chosen, storages)) {
      int64_t ahead = receivedAhead(each.func);
      if (!each.summary.empty())
        emitRemark(UnknownLoc::get(&getContext()))
            << "program '" << dist::programName(each.func) << "' takes "
            << takenText(Tier::Device, search->peaks(storage).device + ahead, each.whole + ahead) << ": "
            << each.summary;
      if (observer)
        observer(std::move(each.placed));
    }
  }

  PlacedObserver observer;
  LeastObserver refused;
  bool onlyLeast = false;
  const nn::Library *library = nullptr;
  std::optional<TierSearch> search; // what groups begin with
  std::vector<TierGroup> groups;
};

} // namespace

std::unique_ptr<Pass> tessera::createChooseTiers(const ChooseTiersOptions &options, PlacedObserver placed,
                                                 LeastObserver refused, bool onlyLeast) {
  auto pass = std::make_unique<ChooseTiersPass>(options);
  pass->observer = std::move(placed);
  pass->refused = std::move(refused);
  pass->onlyLeast = onlyLeast && pass->refused;
  return pass;
}
