#include "passes/Propagate/VerifyStreams.h"
#include "dialects/dist/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "passes/Assign/Pattern.h"
#include <map>
#include <set>

using namespace mlir;
using namespace tessera;
using dist::Atom;
using dist::AxisList;
using dist::AxisRef;
using dist::Layout;

static AxisList axesOf(ArrayRef<Atom> atoms) {
  AxisList list;
  for (const Atom &atom : atoms)
    list.append(atom.axes);
  return dist::mergeNeighbours(list);
}

namespace {
/// The axes that split each factor of an operator at its ends, as its layouts have them.
struct LaidOut : Surroundings {
  Operation *op;
  nn::FactorRule rule;
  LaidOut(Operation *op, nn::FactorRule rule) : op(op), rule(std::move(rule)) {}
  AxisList home(unsigned operand, int factor) const override {
    AxisList list;
    Layout layout = dist::getLayout(op->getOperand(operand).getType());
    for (auto [d, f] : llvm::enumerate(rule.operands[operand]))
      if (f == factor)
        list.append(axesOf(layout.dims[d]));
    return list;
  }
};

class StreamVerifier {
public:
  StreamVerifier(nn::FactorOpInterface op, const dist::Mesh &mesh)
      : op(op), mesh(mesh), rule(op.getFactorRule()) {}
  LogicalResult run(const llvm::StringMap<Operation *> &forwardOps);

private:
  LogicalResult choose(const llvm::StringMap<Operation *> &forwardOps);
  /// The splits of an operand or result that plays the part of an operand whose blocks move: one that runs
  /// along the same factors.
  const FactorSplits *blocksOf(const nn::DimFactors &dims) const;
  LogicalResult verifyEnds(ValueRange values, ArrayRef<nn::DimFactors> dims, StringRef what);
  LogicalResult verifyDimension(const Twine &place, ArrayRef<Atom> atoms, int factor,
                                const FactorSplits *moved);
  LogicalResult verifySums();
  int inForward(int factor) const { return factor < int(map.size()) ? map[factor] : -1; }

  nn::FactorOpInterface op;
  const dist::Mesh &mesh;
  nn::FactorRule rule, forwardRule;
  SmallVector<int64_t> map; // factor -> that of the forward operator
  Choice choice;
  StringRef name;
  /// How dimensions along a factor are laid out: those of values that move, and of the others.
  std::map<std::pair<int, bool>, SmallVector<Atom, 1>> along;
};
} // namespace

LogicalResult StreamVerifier::choose(const llvm::StringMap<Operation *> &forwardOps) {
  auto attr = dist::kExpand.of(op);
  FailureOr<PatternUse> use = resolvePattern(op, attr, mesh);
  if (failed(use))
    return failure();
  name = use->pattern->name();
  nn::FactorOpInterface forward = op;
  if (auto gradOf = nn::kGradOf.of(op)) {
    forward = dyn_cast_or_null<nn::FactorOpInterface>(forwardOps.lookup(gradOf.getId()));
    if (!forward)
      return op.emitOpError("is the gradient of an operator \"") << gradOf.getId() << "\" that is not there";
    map.append(gradOf.getMap().begin(), gradOf.getMap().end());
  } else {
    llvm::append_range(map, llvm::seq<int64_t>(0, rule.factors.size()));
  }
  forwardRule = forward.getFactorRule();
  if (Applies applies = use->pattern->applies(forward, use->axes); !applies)
    return op.emitOpError(applies.why);
  choice = use->pattern->choose(forward, use->axes, LaidOut(forward, forwardRule));
  if (!choice.stream)
    return op.emitOpError("is to be expanded by pattern \"") << name << "\", in which nothing moves here";
  return success();
}

const FactorSplits *StreamVerifier::blocksOf(const nn::DimFactors &dims) const {
  std::set<int> mapped;
  for (int f : dims)
    mapped.insert(f < 0 ? -1 : inForward(f));
  for (auto &[operand, splits] : choice.stream->blocks)
    if (mapped == std::set<int>(forwardRule.operands[operand].begin(), forwardRule.operands[operand].end()))
      return &splits;
  return nullptr;
}

LogicalResult StreamVerifier::verifyDimension(const Twine &place, ArrayRef<Atom> atoms, int factor,
                                              const FactorSplits *moved) {
  AxisList have = axesOf(atoms);
  if (factor < 0)
    return have.empty() ? success()
                        : op.emitOpError() << place << " is split over {" << dist::toString(have)
                                           << "} and runs along no factor";
  const FactorSplits &splits = moved ? *moved : choice.compute;
  auto named =
      llvm::find_if(splits, [&](const FactorSplit &split) { return split.factor == inForward(factor); });
  bool isNamed = named != splits.end();
  if (isNamed && have != dist::mergeNeighbours(named->axes))
    return op.emitOpError() << place << " is split over {" << dist::toString(have) << "}, where pattern \""
                            << name << "\" has it over {" << dist::toString(named->axes) << "}";
  if (!isNamed && rule.factors[factor].kind == nn::FactorKind::Unsplit && !have.empty())
    return op.emitOpError() << place << " is split over {" << dist::toString(have) << "} but factor "
                            << rule.factors[factor].name << " must be whole";
  for (const Atom &atom : atoms)
    if (atom.zigzag && rule.factors[factor].ordered && atom.zigzag != choice.stream->zigzag)
      return op.emitOpError() << place << " is in zig-zag order of " << atom.zigzag
                              << " ranks, where pattern \"" << name << "\" takes "
                              << (choice.stream->zigzag ? "one of " + std::to_string(choice.stream->zigzag)
                                                        : std::string("none"));
  auto [it, isNew] = along.try_emplace({factor, moved && isNamed}, atoms.begin(), atoms.end());
  if (!isNew && ArrayRef(it->second) != atoms)
    return op.emitOpError() << place << " is laid out otherwise than another along factor "
                            << rule.factors[factor].name << " of " << rule.str();
  return success();
}

LogicalResult StreamVerifier::verifyEnds(ValueRange values, ArrayRef<nn::DimFactors> dims, StringRef what) {
  for (auto [i, value] : llvm::enumerate(values)) {
    if (!isa<RankedTensorType>(value.getType()))
      continue;
    Layout layout = dist::getLayout(value.getType());
    if (!layout.flat.empty())
      return op.emitOpError(what) << " " << i << " is stored flat over {" << dist::toString(layout.flat)
                                  << "}, which pattern \"" << name << "\" does not expand";
    if (what == "operand" && layout.isPartial())
      return op.emitOpError("is not linear in operand ")
             << i << ", which is a partial sum over {" << dist::toString(layout.partial)
             << "}; reduce it first";
    const FactorSplits *moved = blocksOf(dims[i]);
    for (auto [d, f] : llvm::enumerate(dims[i]))
      if (!layout.dims[d].empty() &&
          failed(verifyDimension(what + " " + Twine(i) + " dimension " + Twine(d), layout.dims[d], f, moved)))
        return failure();
  }
  return success();
}

LogicalResult StreamVerifier::verifySums() {
  for (auto [r, value] : llvm::enumerate(op->getResults())) {
    AxisList expected;
    const FactorSplits *moved = blocksOf(rule.results[r]);
    for (auto [f, factor] : llvm::enumerate(rule.factors)) {
      bool inOperand = llvm::any_of(rule.operands, [&](auto &d) { return llvm::is_contained(d, int(f)); });
      auto it = along.find({int(f), false});
      if (!inOperand || it == along.end() || rule.resultHas(r, f) ||
          factor.kind == nn::FactorKind::Cooperative)
        continue;
      // What comes home with its block has been added up on the way.
      for (const AxisRef &axis : axesOf(it->second))
        if (!moved || llvm::none_of(*moved, [&](const FactorSplit &split) {
              return dist::overlapsAny(axis, split.axes);
            }))
          expected.push_back(axis);
    }
    llvm::sort(expected);
    Layout layout = dist::getLayout(value.getType()).canonical();
    if (layout.partial != dist::mergeNeighbours(expected))
      return op.emitOpError("result ")
             << r << " is laid out as a partial sum over {" << dist::toString(layout.partial)
             << "} but is one over {" << dist::toString(expected) << "}";
  }
  return success();
}

LogicalResult StreamVerifier::run(const llvm::StringMap<Operation *> &forwardOps) {
  if (failed(choose(forwardOps)) || failed(verifyEnds(op->getOperands(), rule.operands, "operand")) ||
      failed(verifyEnds(op->getResults(), rule.results, "result")))
    return failure();
  return verifySums();
}

LogicalResult tessera::verifyStreamed(nn::FactorOpInterface op, const dist::Mesh &mesh,
                                      const llvm::StringMap<Operation *> &forward) {
  return StreamVerifier(op, mesh).run(forward);
}
