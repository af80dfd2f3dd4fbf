#include "passes/Assign/Pattern.h"

using namespace mlir;
using namespace tessera;

static SmallVector<const tessera::Pattern *> &registry() {
  static SmallVector<const tessera::Pattern *> patterns;
  return patterns;
}

void tessera::registerPattern(const tessera::Pattern *pattern) {
  registry().push_back(pattern);
  llvm::sort(registry(),
             [](const tessera::Pattern *a, const tessera::Pattern *b) { return a->name() < b->name(); });
}

Applies tessera::takesAxes(const tessera::Pattern &pattern, size_t given) {
  size_t least = pattern.fewestAxes(), most = pattern.axes().size();
  if (given >= least && given <= most)
    return {};
  return {"pattern \"" + pattern.name().str() + "\" takes " +
          (least == most ? "" : std::to_string(least) + " to ") + std::to_string(most) +
          " axis names and was given " + std::to_string(given)};
}

ArrayRef<const tessera::Pattern *> tessera::allPatterns() { return registry(); }

const tessera::Pattern *tessera::findPattern(StringRef name) {
  for (const tessera::Pattern *pattern : registry())
    if (pattern->name() == name)
      return pattern;
  return nullptr;
}

FailureOr<PatternUse> tessera::resolvePattern(Operation *op, dist::PatternAttr attr, const dist::Mesh &mesh) {
  PatternUse use{findPattern(attr.getName()), {}};
  if (!use.pattern)
    return op->emitOpError("names a pattern \"")
               << attr.getName() << "\", which does not exist; --list-patterns lists those that do",
           failure();
  if (Applies takes = takesAxes(*use.pattern, attr.getAxes().size()); !takes)
    return op->emitOpError(takes.why), failure();
  for (const dist::AxisRef &axis : attr.getAxes()) {
    std::string why;
    std::optional<dist::AxisList> resolved = mesh.resolve({axis}, why);
    if (!resolved)
      return op->emitOpError(why), failure();
    use.axes.push_back(*resolved);
  }
  return use;
}

Operation *tessera::readOf(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && !isa<nn::ReadOp>(op)) {
    // One tensor operand whose elements are kept, all or a part: what moves a parameter about without
    // computing.
    auto factorOp = dyn_cast<nn::FactorOpInterface>(op);
    if (!factorOp || op->getNumOperands() != 1 || op->getNumResults() != 1)
      return nullptr;
    auto in = dyn_cast<RankedTensorType>(op->getOperand(0).getType()),
         out = cast<RankedTensorType>(op->getResult(0).getType());
    auto isReduction = [](const nn::Factor &factor) { return factor.kind == nn::FactorKind::Reduction; };
    if (!in || in.getNumElements() < out.getNumElements() ||
        llvm::any_of(factorOp.getFactorRule().factors, isReduction))
      return nullptr;
    op = op->getOperand(0).getDefiningOp();
  }
  return op;
}

int tessera::parameterOperand(Operation *op) {
  int found = -1;
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (readOf(operand)) {
      if (found >= 0)
        return -1;
      found = i;
    }
  return found;
}

std::optional<tessera::Linear> tessera::linearOf(nn::FactorOpInterface op) {
  nn::FactorRule rule = op.getFactorRule();
  if (rule.isReshape || op->getNumOperands() < 2 || rule.results.empty())
    return std::nullopt;
  int weight = parameterOperand(op);
  if (weight < 0 || weight > 1)
    return std::nullopt;
  Linear linear{unsigned(weight), unsigned(1 - weight)};
  for (auto [f, factor] : llvm::enumerate(rule.factors))
    if (linear.in < 0 && factor.kind == nn::FactorKind::Reduction && rule.operandHas(weight, f) &&
        rule.operandHas(1 - weight, f))
      linear.in = f;
  if (linear.in < 0 && weight == 0 && !rule.operands[0].empty())
    if (int f = rule.operands[0][0]; f >= 0 && rule.factors[f].kind == nn::FactorKind::Reduction) {
      linear.in = f;
      linear.lookup = true;
    }
  auto canSplit = [&](int f) { return f >= 0 && rule.factors[f].kind != nn::FactorKind::Unsplit; };
  // The last dimension of the result that runs along the weight and not along the other operand.
  for (int f : llvm::reverse(rule.results[0]))
    if (canSplit(f) && linear.out < 0 && rule.operandHas(weight, f) && !rule.operandHas(1 - weight, f))
      linear.out = f;
  for (int f : rule.results[0])
    if (canSplit(f) && linear.batch < 0 && !rule.operandHas(weight, f) && rule.factors[f].size > 1)
      linear.batch = f;
  if (linear.in < 0 && linear.out < 0)
    return std::nullopt;
  return linear;
}

dist::AxisList tessera::batchOver(const Linear &linear, const Surroundings &around,
                                  ArrayRef<dist::AxisList> all, const dist::AxisList &own) {
  dist::AxisList home = around.home(linear.input, linear.batch), list, there;
  for (const dist::AxisRef &axis : home) {
    if (llvm::is_contained(own, axis))
      there.push_back(axis);
    if (llvm::none_of(all, [&](const dist::AxisList &axes) { return dist::overlapsAny(axis, axes); }))
      list.push_back(axis);
  }
  // Split over them already, perhaps before other axes: nothing is to move.
  if (there == own && list.size() + own.size() == home.size())
    return home;
  list.append(own.begin(), own.end());
  return list;
}

std::optional<tessera::AttentionFactors> tessera::attentionOf(nn::FactorOpInterface op) {
  nn::FactorRule rule = op.getFactorRule();
  if (rule.operands.size() < 3 || rule.operands[0].size() != 5 || rule.operands[1].size() != 4)
    return std::nullopt;
  AttentionFactors f{rule.operands[0][1], rule.operands[1][1], rule.operands[0][2], rule.operands[0][3]};
  if (rule.operands[1][2] != f.m || f.s == f.t || rule.operandHas(1, f.g))
    return std::nullopt;
  return f;
}

tessera::FactorSplits tessera::splitHeads(nn::FactorOpInterface op, dist::AxisList m, dist::AxisList g,
                                          const dist::AxisList &axes) {
  nn::FactorRule rule = op.getFactorRule();
  AttentionFactors f = *attentionOf(op);
  int64_t have = dist::product(m);
  for (dist::AxisRef axis : axes) {
    int64_t part = 1;
    while (axis.size % (2 * part) == 0 && have * part * 2 <= rule.factors[f.m].size)
      part *= 2;
    if (have * axis.size <= rule.factors[f.m].size || rule.factors[f.g].size == 1)
      part = axis.size;
    have *= part;
    if (part == axis.size) {
      m.push_back(axis);
    } else if (part == 1) {
      g.push_back(axis);
    } else {
      auto halves = *dist::split(axis, part);
      m.push_back(halves.first);
      g.push_back(halves.second);
    }
  }
  tessera::FactorSplits splits = {{f.m, m}};
  if (!g.empty())
    splits.push_back({f.g, g});
  return splits;
}
