#include "passes/Propagate/Waste.h"
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/nn/NN.h"
#include "lib/Support/Location.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace tessera;

namespace {
struct Work {
  double needed = 0, done = 0;
  void add(const Work &other) { needed += other.needed, done += other.done; }
};
} // namespace

// Iterations of an operator's loops: of all, and on all ranks.
static Work workOf(nn::FactorOpInterface op, const nn::FactorRule &rule, int64_t ranks, int64_t micro) {
  SmallVector<double> local(rule.factors.size(), 0);
  bool inLoop = false;
  double pieces = 1;
  auto read = [&](ValueRange values, ArrayRef<nn::DimFactors> dims) {
    for (auto [value, factors] : llvm::zip(values, dims)) {
      if (!isa<RankedTensorType>(value.getType()))
        continue;
      dist::Layout layout = dist::getLayout(value.getType());
      pieces = std::max<double>(pieces, dist::product(layout.flat));
      for (auto [d, f] : llvm::enumerate(factors)) {
        double held = 1;
        for (const dist::Atom &atom : layout.dims[d]) {
          held *= atom.local();
          inLoop |= llvm::any_of(atom.axes,
                                 [](const dist::AxisRef &axis) { return axis.name == dist::kMicroAxis; });
        }
        if (f >= 0)
          local[f] = std::max(local[f], held);
      }
    }
  };
  read(op->getOperands(), rule.operands);
  read(op->getResults(), rule.results);
  // Loops of the work: what results have of operands, and what is summed over operands together; not the rows
  // of a table that few are looked up in, nor the numbers that an optimizer reads beside its parameter.
  auto count = [](ArrayRef<nn::DimFactors> dims, int f) {
    return llvm::count_if(dims, [&](auto &d) { return llvm::is_contained(d, f); });
  };
  Work work{1, double(ranks) * (inLoop ? micro : 1) / pieces};
  for (auto [f, factor] : llvm::enumerate(rule.factors)) {
    int64_t inOperands = count(rule.operands, f);
    bool isLoop = count(rule.results, f) ? inOperands > 0 || factor.kind == nn::FactorKind::Unsplit
                                         : factor.kind == nn::FactorKind::Reduction &&
                                               (inOperands > 1 || rule.operands.size() == 1);
    if (!isLoop)
      continue;
    double held = local[f];
    work.needed *= double(factor.size);
    work.done *= std::max(held, 1.0);
  }
  return work;
}

void tessera::warnOfWaste(func::FuncOp func, const dist::Mesh &mesh, int64_t micro) {
  int64_t ranks = mesh.numRanks();
  if (ranks == 1)
    return;
  // An operator runs on the ranks of its stage.
  std::optional<dist::Pipeline> pipeline = dist::Pipeline::of(func->getParentOfType<ModuleOp>());
  int64_t perStage = ranks / (pipeline ? pipeline->numStages : 1);
  Work all;
  llvm::MapVector<StringRef, Work> byNode;
  for (auto op : func.getOps<nn::FactorOpInterface>()) {
    nn::FactorRule rule = op.getFactorRule();
    // What streams through an operator is all worked on, whatever its layout says.
    if (rule.isReshape || dist::kExpand.isOn(op))
      continue;
    Work work = workOf(op, rule, perStage, micro);
    all.add(work);
    byNode[nodeName(op->getLoc())].add(work);
  }
  if (all.done <= 4.0 / 3 * all.needed)
    return;
  auto nodes = byNode.takeVector();
  llvm::stable_sort(nodes, [](auto &a, auto &b) {
    return a.second.done - a.second.needed > b.second.done - b.second.needed;
  });
  SmallVector<std::string> worst;
  for (auto &[name, work] : ArrayRef(nodes).take_front(3))
    worst.push_back(llvm::formatv("{0} ({1:f1} times)", name.empty() ? "the loss and the optimizer" : name,
                                  work.done / work.needed)
                        .str());
  func.emitWarning() << llvm::formatv("the {0} ranks together compute {1:f1} times what one would, because "
                                      "blocks are padded or several ranks do the same; most "
                                      "of it in {2}; explain shows every operator's blocks",
                                      ranks, all.done / all.needed, llvm::join(worst, ", "))
                            .str();
}
