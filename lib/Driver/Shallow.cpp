// See Shallow.h.
#include "lib/Driver/Shallow.h"
#include "dialects/nn/Attributes.h"
#include "lib/Support/Location.h"
#include "passes/Assign/Annotations.h"
#include "passes/Assign/NameIndex.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace mlir;
using namespace tessera;

/// The first and the last blocks are not like those between, and of one block memory may be fullest
/// elsewhere.
static constexpr size_t kFewestBlocks = 2;

static func::FuncOp programOf(ModuleOp module) {
  return dyn_cast_or_null<func::FuncOp>(nn::inferenceProgram(module).getOperation());
}

// Of all runs with as many copies as the one of most operators: of an encoder and a decoder both.
static std::vector<BlockRun> largestRuns(ModuleOp module) {
  std::vector<BlockRun> runs;
  if (func::FuncOp func = programOf(module))
    runs = blockRunsOf(func);
  size_t most = 0, copies = 0;
  for (const BlockRun &run : runs)
    if (run.ops.size() > most)
      most = run.ops.size(), copies = run.copies;
  llvm::erase_if(runs, [&](const BlockRun &run) { return run.copies != copies; });
  return runs;
}

static double flopsOf(ArrayRef<Operation *> ops) {
  double flops = 0;
  for (Operation *op : ops)
    if (auto factorOp = dyn_cast<nn::FactorOpInterface>(op))
      flops += nn::workOf(factorOp).flops;
  return flops;
}

Shallow::Shallow(const Compilation &model, OwningOpRef<ModuleOp> module)
    : model(model), before(std::move(module)) {
  // What a file says of single nodes is not of all blocks.
  if (!before || carriesPlan(*before) || !model.options.assign.planFile.empty())
    return;
  std::vector<BlockRun> runs = largestRuns(*before);
  if (runs.empty())
    return;
  numRuns = runs.size();
  for (const BlockRun &run : runs) {
    copies = run.copies;
    length += run.length();
    fewest = std::max(fewest, run.read);
  }
  for (size_t copy = 0; copy < copies; ++copy)
    for (const BlockRun &run : runs)
      llvm::append_range(ops, run.copy(copy));
  double all = flopsOf(llvm::map_to_vector(programOf(*before).getOps(), [](Operation &op) { return &op; })),
         blocks = flopsOf(ops);
  outside = blocks > 0 ? double(copies) * (all - blocks) / blocks : all;
}

// A pipeline keeps its shape where each chunk gets one block more from a depth to the next. What is outside
// of the blocks, a head above all, may be as much work as several: the other chunks are to have as many. An
// encoder's blocks and a decoder's do not become more of the same chunk.
std::optional<Depths> Shallow::depths(size_t chunks) const {
  size_t few = std::max(kFewestBlocks, fewest);
  if (chunks > 1)
    few = std::max({few, kFewestBlocks * chunks, size_t(std::ceil(outside * double(chunks - 1)))});
  if (few >= copies || (chunks > 1 && numRuns > 1))
    return std::nullopt;
  few += (copies - few) % chunks;
  const size_t more = few + chunks;
  if (few + more >= copies)
    return std::nullopt;
  return Depths{few, more, copies};
}

const Compilation *Shallow::at(size_t blocks) {
  auto [entry, isNew] = shallow.try_emplace(blocks);
  if (!isNew)
    return entry->second.get();
  ScopedDiagnosticHandler quiet(&model.context, [](Diagnostic &) { return success(); });
  auto made = std::make_unique<Compilation>(model.options, model.context);
  made->module = before->clone();
  made->next = Phase::Differentiate;
  made->machine = model.machine;
  made->modelHash = model.modelHash;
  for (const BlockRun &run : largestRuns(*made->module))
    keepCopies(run, blocks);
  if (succeeded(made->run(Phase::Differentiate)))
    entry->second = std::move(made);
  return entry->second.get();
}

const std::vector<size_t> &Shallow::placesOf(const std::string &match, bool isValue) {
  auto [entry, isNew] = places.try_emplace({match, isValue});
  if (isNew) {
    llvm::DenseSet<Operation *> found;
    for (Operation *op : NameIndex(*before).matching(match))
      if (!isValue || globMatches(match, nodeName(op->getLoc())))
        found.insert(op);
    for (auto [i, op] : llvm::enumerate(ops))
      if (found.contains(op))
        entry->second.push_back(i);
  }
  return entry->second;
}

std::optional<Plan> Shallow::planFor(const Plan &plan, size_t blocks) {
  // A stage by globs is some of the blocks, and so is a place of values.
  if ((plan.pipeline && !plan.pipeline->stages.empty()) || !plan.places.empty())
    return std::nullopt;
  Plan kept = plan;
  std::vector<std::string> said(ops.size()); // of each operator, by all entries in turn
  auto hear = [&](auto &rules, bool isValue, auto textOf) {
    llvm::erase_if(rules, [&](const auto &rule) {
      const std::vector<size_t> &list = placesOf(rule.match, isValue);
      for (size_t i : list)
        said[i] += textOf(rule) + ";";
      return !list.empty() && list.front() >= blocks * length;
    });
  };
  hear(kept.ops, false, [](const OpRule &rule) { return rule.pattern + ":" + llvm::join(rule.axes, ","); });
  hear(kept.values, true, [](const ValueRule &rule) {
    std::string text = "value";
    for (auto &[dim, axes] : rule.split)
      text += ":" + std::to_string(dim) + "," + llvm::join(axes, ",");
    return text;
  });
  for (size_t i = length; i < said.size(); ++i)
    if (said[i] != said[i - length])
      return std::nullopt;
  return kept;
}
