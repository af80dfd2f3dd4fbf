// The pass that makes activations again that the plan names, or those of blocks, whatever the memory.
#include "dialects/dist/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "passes/Assign/NameIndex.h"
#include "passes/Kernels/Passes.h"
#include "passes/Memory/Storage.h"
#include "passes/Schedule/Passes.h"
#include "passes/Schedule/Places.h"
#include "passes/Schedule/Repeat.h"
#include <map>

namespace tessera {
#define GEN_PASS_DEF_RECOMPUTE
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

struct RecomputePass : tessera::impl::RecomputeBase<RecomputePass> {
  using RecomputeBase::RecomputeBase;

  LogicalResult initialize(MLIRContext *context) override {
    library = nn::findLibrary(target, UnknownLoc::get(context));
    return success(library);
  }

  int64_t most(func::FuncOp func) { return Storage(func, kernels, *library, threads).fullestMoment().second; }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    places = Places(module);
    if (places.repeat()) {
      if (failed(repeatNamed(module)))
        signalPassFailure();
      return;
    }
    StringAttr what = dist::kRecomputation.of(module);
    if (!what || what != "block")
      return;
    kernels = module.lookupSymbol<ModuleOp>(kKernelsModule);
    for (auto func : module.getOps<func::FuncOp>())
      repeatBlocks(func);
  }

  // Operators that need what would have to stay for them, such as gathered parameters, may cost more than
  // they save: the set with the lowest peak, the cheaper of two that are nearly alike.
  void repeatBlocks(func::FuncOp func) {
    constexpr double kLower = 0.99;
    int64_t least = most(func);
    Repeats repeats;
    OwningOpRef<func::FuncOp> best;
    forEachRepetition(func, threads, [&](const Repetition &, const Repeats &tried) {
      int64_t peak = most(func);
      if (double(peak) < kLower * double(least))
        least = peak, repeats = tried, best = func.clone();
      return TryNext::MoreQuarters;
    });
    if (!best)
      return;
    func.getBody().takeBody(best->getBody());
    tell(func, repeats);
  }

  void tell(func::FuncOp func, const Repeats &repeats) {
    numRepeated += repeats.operators;
    if (repeats.operators)
      emitRemark(UnknownLoc::get(&getContext()))
          << "program '" << dist::programName(func) << "': " << describe(repeats);
    if (observer)
      observer(func.getName(), repeats.names);
  }

  // Of what an entry names: all names of values that are made again, and of others.
  struct Named {
    llvm::StringSet<> again, kept;
  };

  LogicalResult repeatNamed(ModuleOp module) {
    if (failed(places.verify(module, /*ofRepeats=*/true)))
      return failure();
    std::map<const dist::Place *, Named> entries; // in their order
    for (auto func : module.getOps<func::FuncOp>())
      if (nn::isTraining(func))
        repeatNamed(func, entries);
    for (auto &[entry, named] : entries)
      for (const std::string &glob : entry->match)
        if (matchesAny(glob, named.kept) && !matchesAny(glob, named.again))
          return emitError(entry->at ? Location(entry->at) : module.getLoc())
                 << "nothing that \"" << glob
                 << "\" names can be made again: it has to be computed by the forward on its rank, not "
                    "received, "
                    "and be needed by the backward before a variable that it is computed of is written";
    return success();
  }

  void repeatNamed(func::FuncOp func, std::map<const dist::Place *, Named> &entries) {
    llvm::DenseMap<Value, ValueName> names = valueNames(func);
    DenseSet<Operation *> repeatable = findRepeatable(func), chosen;
    SmallVector<std::pair<const dist::Place *, const ValueName *>> found;
    for (auto &[value, name] : names)
      if (const dist::Place *entry = places.repeating(name, func)) {
        found.push_back({entry, &name});
        if (Operation *op = value.getDefiningOp(); repeatable.contains(op))
          chosen.insert(op);
      }
    Repeats repeats = repeatOperators(func, chosen);
    llvm::StringSet<> again;
    again.insert_range(repeats.names);
    for (auto [entry, name] : found) {
      Named &named = entries[entry];
      (again.contains(name->own) ? named.again : named.kept).insert_range(name->all);
    }
    tell(func, repeats);
  }

  static bool matchesAny(StringRef glob, const llvm::StringSet<> &names) {
    return names.contains(glob) ||
           llvm::any_of(names, [&](auto &each) { return globMatches(glob, each.first()); });
  }

  NamesObserver observer;
  const nn::Library *library = nullptr;
  ModuleOp kernels;
  Places places;
};

} // namespace

std::unique_ptr<Pass> tessera::createRecompute(const RecomputeOptions &options, NamesObserver repeated) {
  auto pass = std::make_unique<RecomputePass>(options);
  pass->observer = std::move(repeated);
  return pass;
}
