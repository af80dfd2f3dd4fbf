#include "test/unit/parallel/Layouts.h"
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/nn/Attributes.h"
#include "dialects/nn/Panel.h"
#include "passes/Assign/Pattern.h"
#include <numeric>
#include <set>

using namespace mlir;
using namespace tessera;
using namespace tessera::test;

static std::string axisName(int axis) { return "x" + std::to_string(axis); }

namespace {
class Enumeration {
public:
  Enumeration(const Specimen &specimen, const MeshSizes &mesh)
      : specimen(specimen), op(Specimen::first(*specimen.module)), rule(op.getFactorRule()),
        numAxes(mesh.size()) {
    for (int64_t size : mesh)
      axes.push_back({dist::AxisRef{axisName(axes.size()), 1, size}});
    // What inputs can say: the factors of operands that are not parameters.
    for (unsigned i = 0; i < rule.operands.size(); ++i)
      if (!specimen.isParameter(i))
        for (int f : rule.operands[i])
          if (f >= 0 && !llvm::is_contained(factors, f))
            factors.push_back(f);
  }

  std::vector<Way> all() {
    if (rule.isReshape)
      addDimensions();
    else
      addFactors();
    addConflicts();
    addPatterns();
    if (isa<nn::PanelOpInterface>(op.getOperation()))
      for (size_t i = 0, n = ways.size(); i < n; ++i) {
        ways.push_back(ways[i]);
        ways.back().name += ", streamed";
        ways.back().isStreamed = true;
      }
    return std::move(ways);
  }

private:
  // Every assignment of the axes to factors.
  void addFactors() {
    if (factors.empty())
      return;
    size_t count = 1;
    for (size_t a = 0; a < numAxes; ++a)
      count *= factors.size();
    // Of many, some: a stride that has no factor in common with the number of factors.
    size_t stride = std::max<size_t>(1, count / 12);
    while (std::gcd(stride, factors.size()) > 1)
      ++stride;
    for (size_t n = 0; n < count; n += stride) {
      std::map<int, std::vector<int>> splits;
      size_t rest = n;
      for (size_t a = 0; a < numAxes; ++a, rest /= factors.size())
        splits[factors[rest % factors.size()]].push_back(a);
      Way way = byFactor(splits);
      ways.push_back(way);
      // The result elsewhere: along its last dimension, or its first.
      if (auto type = cast<RankedTensorType>(op->getResult(0).getType()); type.getRank() > 0 && n % 2 == 0) {
        way.name += ", result elsewhere";
        way.result.assign(type.getRank(), {});
        way.result[n % 4 ? 0 : type.getRank() - 1] = sequence(numAxes);
        ways.push_back(way);
      }
      if (!specimen.example->parameters.empty() && n < 2)
        for (int stage = 1; stage <= 3; ++stage) {
          Way pieces = byFactor(splits);
          pieces.name += ", zero " + std::to_string(stage);
          pieces.zero = stage;
          ways.push_back(pieces);
        }
    }
  }
  // A reshape's operand along each of its dimensions.
  void addDimensions() {
    auto type = cast<RankedTensorType>(op->getOperand(0).getType()),
         to = cast<RankedTensorType>(op->getResult(0).getType());
    for (int64_t d = 0; d < type.getRank(); ++d)
      for (int64_t r = -1; r < to.getRank(); ++r) {
        Way way{"dimension " + std::to_string(d), "", {}, {}, {}, 0, false, {}};
        way.inputs[0].assign(type.getRank(), {});
        way.inputs[0][d] = sequence(numAxes);
        if (r >= 0) {
          way.name += ", result at " + std::to_string(r);
          way.result.assign(to.getRank(), {});
          way.result[r] = sequence(numAxes);
        }
        ways.push_back(way);
      }
  }
  // Operands that do not agree: each along another of its dimensions.
  void addConflicts() {
    if (op->getNumOperands() < 2)
      return;
    Way way{"conflict", "", {}, {}, {}, 0, false, {}};
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      auto type = cast<RankedTensorType>(op->getOperand(i).getType());
      if (specimen.isParameter(i) || type.getRank() == 0)
        continue;
      way.inputs[i].assign(type.getRank(), {});
      for (size_t a = 0; a < numAxes; ++a)
        way.inputs[i][(i + a) % type.getRank()].push_back(a);
    }
    ways.push_back(way);
  }
  // Every pattern that serves the operator, on every choice of axes; the others split the batch.
  void addPatterns() {
    int batch = rule.results.empty() || rule.results[0].empty() ? -1 : rule.results[0][0];
    std::vector<std::pair<const tessera::Pattern *, size_t>> patterns; // with how many axes
    for (const tessera::Pattern *pattern : allPatterns())
      for (size_t count = pattern->fewestAxes(); count <= std::min(pattern->axes().size(), numAxes); ++count)
        patterns.push_back({pattern, count});
    for (auto [pattern, count] : patterns) {
      std::vector<int> order = sequence(numAxes);
      std::set<std::vector<int>> seen;
      do {
        std::vector<int> own(order.begin(), order.begin() + count),
            others(order.begin() + count, order.end());
        llvm::sort(others);
        SmallVector<dist::AxisList> lists;
        for (int a : own)
          lists.push_back(axes[a]);
        if (!seen.insert(own).second || !pattern->applies(op, lists))
          continue;
        Way way{pattern->name().str(), pattern->name().str(), own, {}, {}, 0, false, {}};
        for (int a : own)
          way.name += " " + axisName(a);
        if (llvm::is_contained(factors, batch) && !others.empty() && pattern->name() != "data")
          way.inputs = byFactor({{batch, others}}).inputs;
        ways.push_back(way);
        // Tokens split already, as a sequence pattern expects them.
        if (auto attention = attentionOf(op)) {
          way.name += ", tokens split";
          std::map<int, std::vector<int>> tokens = {{attention->s, own}, {attention->t, own}};
          if (!others.empty())
            tokens[batch] = others;
          way.inputs = byFactor(tokens).inputs;
          ways.push_back(way);
        }
      } while (std::next_permutation(order.begin(), order.end()));
    }
  }

  static std::vector<int> sequence(size_t n) {
    std::vector<int> list(n);
    std::iota(list.begin(), list.end(), 0);
    return list;
  }
  // All inputs split along these factors, the operator's work with them.
  Way byFactor(const std::map<int, std::vector<int>> &splits) {
    Way way{"", "", {}, {}, {}, 0, false, {}};
    for (auto &[f, list] : splits) {
      way.name += (way.name.empty() ? "" : ", ") + rule.factors[f].name + ":";
      for (int a : list)
        way.name += axisName(a);
      if (rule.factors[f].kind != nn::FactorKind::Unsplit)
        way.splits[f] = list;
    }
    for (unsigned i = 0; i < rule.operands.size(); ++i) {
      if (specimen.isParameter(i) || rule.operands[i].empty())
        continue;
      auto &dims = way.inputs[i];
      dims.assign(rule.operands[i].size(), {});
      // An axis splits one dimension: of a causal bias, that of queries or that of keys.
      std::set<int> taken;
      for (auto [d, f] : llvm::enumerate(rule.operands[i]))
        if (auto it = splits.find(f); it != splits.end())
          for (int axis : it->second)
            if (taken.insert(axis).second)
              dims[d].push_back(axis);
    }
    return way;
  }

  const Specimen &specimen;
  nn::FactorOpInterface op;
  nn::FactorRule rule;
  size_t numAxes;
  SmallVector<dist::AxisList> axes;
  std::vector<int> factors;
  std::vector<Way> ways;
};
} // namespace

std::vector<Way> tessera::test::waysToLay(const Specimen &specimen, const MeshSizes &mesh) {
  return Enumeration(specimen, mesh).all();
}

static ArrayAttr splitAttr(Builder &b, const std::vector<std::vector<int>> &dims) {
  SmallVector<Attribute> list;
  for (auto &axes : dims) {
    SmallVector<Attribute> names;
    for (int axis : axes)
      names.push_back(b.getStringAttr(axisName(axis)));
    list.push_back(b.getArrayAttr(names));
  }
  return b.getArrayAttr(list);
}

OwningOpRef<ModuleOp> tessera::test::layOut(const Specimen &specimen, const MeshSizes &sizes,
                                            const Way &way) {
  OwningOpRef<ModuleOp> module = cast<ModuleOp>((*specimen.module)->clone());
  OpBuilder b = OpBuilder::atBlockBegin(module->getBody());
  SmallVector<dist::AxisRef> axes;
  for (int64_t size : sizes)
    axes.push_back({axisName(axes.size()), 1, size});
  dist::MeshOp::create(b, module->getLoc(), "mesh", StringAttr(),
                       dist::MeshAttr::get(b.getContext(), dist::Mesh(axes)));
  dist::setMicrobatches(*module, 1);
  if (way.zero) {
    dist::kZero.set(*module, b.getI64IntegerAttr(way.zero));
    dist::kZeroAxes.set(*module, dist::AxesAttr::get(b.getContext(), {axes[0]}));
  }
  if (way.isStreamed)
    dist::kStream.set(*module, dist::WhenAttr::get(b.getContext(), dist::When::Always));
  for (const char *function : {"infer", "train"}) {
    auto func = module->lookupSymbol<func::FuncOp>(function);
    for (BlockArgument arg : func.getArguments()) {
      StringRef name = nn::kName.ofArgument(func, arg.getArgNumber()).getValue();
      for (auto &[operand, dims] : way.inputs)
        if (name == "a" + std::to_string(operand))
          dist::kSplit.setArgument(func, arg.getArgNumber(), splitAttr(b, dims));
    }
    Operation *op = Specimen::find(*module, function);
    if (!op)
      continue;
    if (!way.result.empty())
      dist::kSplit.set(op, splitAttr(b, way.result));
    if (!way.pattern.empty()) {
      dist::AxisList refs;
      for (int axis : way.patternAxes)
        refs.push_back({axisName(axis), 1, 0});
      dist::kPattern.set(op, dist::PatternAttr::get(b.getContext(), way.pattern, refs));
    }
  }
  return module;
}
