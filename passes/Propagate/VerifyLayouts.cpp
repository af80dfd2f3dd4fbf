// The guard of programs on whole tensors with layouts: between the propagate and the partition phase.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/nn/Attributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/Propagate/Passes.h"
#include "passes/Propagate/VerifyStreams.h"

namespace tessera {
#define GEN_PASS_DEF_VERIFYLAYOUTS
#include "passes/Propagate/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;
using dist::AxisList;
using dist::Layout;

static bool sameAxes(AxisList a, AxisList b) {
  llvm::sort(a);
  llvm::sort(b);
  return a == b;
}

// The atoms of all dimensions in order, runs of whole ones joined: what decides where the elements of the
// flat value are.
static SmallVector<dist::Atom> placement(const Layout &layout) {
  SmallVector<dist::Atom> result;
  for (const dist::Atom *atom : layout.atoms()) {
    auto whole = [](const dist::Atom &a) { return a.axes.empty() && a.padded == a.size && !a.zigzag; };
    if (!result.empty() && whole(*atom) && whole(result.back()))
      result.back() = dist::Atom(result.back().size * atom->size);
    else if (!whole(*atom) || atom->size > 1)
      result.push_back(*atom);
  }
  return result;
}

// Pieces of flat storage are computed with element by element: whatever has the loops of the cut values has
// all of them, in the same order, and is cut alike. Yields the axes that cut.
static FailureOr<AxisList> verifyFlat(nn::FactorOpInterface op, const nn::FactorRule &rule) {
  std::optional<nn::DimFactors> loops;
  AxisList flat;
  auto visit = [&](auto f) {
    for (auto [values, dims, what] :
         {std::tuple(ValueRange(op->getOperands()), ArrayRef(rule.operands), "operand"),
          std::tuple(ValueRange(op->getResults()), ArrayRef(rule.results), "result")})
      for (auto [i, value] : llvm::enumerate(values))
        if (isa<RankedTensorType>(value.getType()) &&
            failed(f(dist::getLayout(value.getType()), dims[i], what, i)))
          return failure();
    return success();
  };
  (void)visit([&](const Layout &layout, const nn::DimFactors &dims, StringRef, size_t) {
    if (!loops && !layout.flat.empty())
      loops = dims, flat = layout.flat;
    return success();
  });
  if (!loops)
    return flat;
  LogicalResult ok =
      visit([&](const Layout &layout, const nn::DimFactors &dims, StringRef what, size_t i) -> LogicalResult {
        bool meets = llvm::any_of(dims, [&](int f) { return f >= 0 && llvm::is_contained(*loops, f); });
        if (meets && dims != *loops)
          return op->emitOpError("computes on pieces of flat storage over {")
                 << dist::toString(flat) << "}, but " << what << " " << i
                 << " has its dimensions otherwise: " << rule.str();
        if (layout.flat != (meets ? flat : AxisList()))
          return op->emitOpError(what) << " " << i << " is stored flat over {" << dist::toString(layout.flat)
                                       << "} and another over {" << dist::toString(flat) << "}";
        return success();
      });
  if (failed(ok))
    return failure();
  return flat;
}

namespace {

/// Checks one operator of factors: whether its operands may be partial, that what runs along one factor is
/// laid out alike, and over which axes its results are partial.
class FactorVerifier {
public:
  explicit FactorVerifier(nn::FactorOpInterface op)
      : op(op), rule(op.getFactorRule()), atoms(rule.factors.size()) {}
  LogicalResult run();

private:
  static Layout layoutOf(Value value) { return dist::getLayout(value.getType()); }
  static auto tensors(ValueRange values) {
    return llvm::make_filter_range(llvm::enumerate(values),
                                   [](auto v) { return isa<RankedTensorType>(v.value().getType()); });
  }
  LogicalResult verifyPartialOperands();
  LogicalResult verifyReshape();
  /// Each factor's dimensions of `values` against those seen before.
  LogicalResult verifyAlike(ValueRange values, ArrayRef<nn::DimFactors> dims, StringRef what);
  LogicalResult verifyMaySplit(const dist::Atom &atom, int factor, const Twine &place);
  LogicalResult verifyPartialResults(const AxisList &flat);

  nn::FactorOpInterface op;
  const nn::FactorRule rule;
  AxisList incoming;                             // over which an operand is partial
  SmallVector<SmallVector<dist::Atom, 1>> atoms; // by factor
};

} // namespace

LogicalResult FactorVerifier::verifyPartialOperands() {
  // A sum is linear in all operands at once, other operators in one at most.
  bool adds = isa<nn::AccOp>(op);
  for (auto [i, value] : tensors(op->getOperands())) {
    Layout layout = layoutOf(value);
    if (adds && i > 0 && !sameAxes(layout.partial, incoming))
      return op->emitOpError("adds operand ")
             << i << ", a partial sum over {" << dist::toString(layout.partial) << "}, to one over {"
             << dist::toString(incoming) << "}";
    if (!layout.partial.empty() && !adds && !op.isLinearIn(i))
      return op->emitOpError("is not linear in operand ")
             << i << ", which is a partial sum over {" << dist::toString(layout.partial)
             << "}; reduce it first";
    if (!layout.partial.empty() && !adds && !incoming.empty())
      return op->emitOpError("is not linear in its operands together, of which more than one is a partial "
                             "sum; reduce operand ")
             << i;
    if (adds || !layout.partial.empty())
      incoming = layout.partial;
  }
  return success();
}

LogicalResult FactorVerifier::verifyReshape() {
  Layout from = layoutOf(op->getOperand(0)), to = layoutOf(op->getResult(0));
  if (placement(from) != placement(to) || from.flat != to.flat)
    return op->emitOpError("would move data: it goes from ")
           << dist::toString(from) << " to " << dist::toString(to);
  if (!sameAxes(from.partial, to.partial))
    return op->emitOpError("result 0 is laid out as a partial sum over {")
           << dist::toString(to.partial) << "} but is one over {" << dist::toString(from.partial) << "}";
  return success();
}

LogicalResult FactorVerifier::verifyMaySplit(const dist::Atom &atom, int factor, const Twine &place) {
  if (!atom.axes.empty() && (factor < 0 || rule.factors[factor].kind == nn::FactorKind::Unsplit))
    return op->emitOpError() << place << " is split over {" << dist::toString(atom.axes) << "} but "
                             << (factor < 0 ? "runs along no factor"
                                            : "factor " + rule.factors[factor].name + " must be whole");
  if (atom.zigzag && factor >= 0 && rule.factors[factor].ordered)
    return op->emitOpError() << place << " is in zig-zag order of " << atom.zigzag << " ranks but factor "
                             << rule.factors[factor].name << " must be in order";
  return success();
}

LogicalResult FactorVerifier::verifyAlike(ValueRange values, ArrayRef<nn::DimFactors> dims, StringRef what) {
  for (auto [i, value] : tensors(values)) {
    Layout layout = layoutOf(value);
    for (auto [d, f] : llvm::enumerate(dims[i])) {
      std::string place = (what + " " + Twine(i) + " dimension " + Twine(d)).str();
      for (const dist::Atom &atom : layout.dims[d])
        if (failed(verifyMaySplit(atom, f, place)))
          return failure();
      if (f < 0 || layout.dims[d].empty())
        continue;
      if (atoms[f].empty())
        atoms[f] = layout.dims[d];
      else if (atoms[f] != layout.dims[d])
        return op->emitOpError() << place << " is laid out otherwise than another along factor "
                                 << rule.factors[f].name << " of " << rule.str();
    }
  }
  return success();
}

LogicalResult FactorVerifier::verifyPartialResults(const AxisList &flat) {
  for (auto [r, value] : llvm::enumerate(op->getResults())) {
    AxisList expected = incoming;
    for (auto [f, factor] : llvm::enumerate(rule.factors)) {
      bool inOperand = llvm::any_of(rule.operands, [&](auto &d) { return llvm::is_contained(d, int(f)); });
      if (inOperand && !rule.resultHas(r, f) && factor.kind != nn::FactorKind::Cooperative &&
          factor.kind != nn::FactorKind::Unsplit)
        for (const dist::Atom &atom : atoms[f])
          expected.append(atom.axes.begin(), atom.axes.end());
    }
    if (layoutOf(value).flat.empty())
      expected.append(flat);
    AxisList partial = dist::mergeNeighbours(layoutOf(value).partial);
    llvm::sort(expected);
    if (!sameAxes(partial, dist::mergeNeighbours(expected)))
      return op->emitOpError("result ")
             << r << " is laid out as a partial sum over {" << dist::toString(partial)
             << "} but is one over {" << dist::toString(expected) << "}";
  }
  return success();
}

LogicalResult FactorVerifier::run() {
  if (failed(verifyPartialOperands()))
    return failure();
  if (rule.isReshape)
    return verifyReshape();
  FailureOr<AxisList> flat = verifyFlat(op, rule);
  if (failed(flat) || failed(verifyAlike(op->getOperands(), rule.operands, "operand")) ||
      failed(verifyAlike(op->getResults(), rule.results, "result")))
    return failure();
  return verifyPartialResults(*flat);
}

namespace {
/// Checks what is no operator of factors: what programs have in common with files and with each other.
class Verifier {
public:
  explicit Verifier(ModuleOp module) : module(module), symbols(module), micro(dist::microbatches(module)) {
    if (auto meshes = module.getOps<dist::MeshOp>(); !meshes.empty())
      mesh = (*meshes.begin()).getMesh().getMesh();
  }
  LogicalResult run();

private:
  LogicalResult verifyAxes(Operation *op, Type type, StringRef what, size_t i);
  LogicalResult verifyVariable(nn::VariableOp variable);
  LogicalResult verifyEnd(Operation *op, const Layout &layout, StringRef what, const Twine &name);
  LogicalResult verifyAccess(Operation *op, StringRef variable, Value value, StringRef verb);
  LogicalResult verifyFunction(func::FuncOp func);
  LogicalResult verifyOp(Operation *op, const llvm::StringMap<Operation *> &forward);

  ModuleOp module;
  SymbolTable symbols;
  int64_t micro;
  std::optional<dist::Mesh> mesh;
};
} // namespace

// Whether the mesh has the axes of a value's layout.
LogicalResult Verifier::verifyAxes(Operation *op, Type type, StringRef what, size_t i) {
  if (!mesh || !isa<RankedTensorType>(type))
    return success();
  for (const dist::AxisRef &axis : dist::getLayout(type).usedAxes()) {
    std::string why;
    if (axis.name == dist::kMicroAxis ? micro % (axis.size * axis.pre) != 0 : !mesh->resolve({axis}, why))
      return op->emitError() << what << " " << i << " is laid out over " << dist::toString({axis}) << ": "
                             << (why.empty() ? "the program has " + std::to_string(micro) + " microbatches"
                                             : why);
  }
  return success();
}

// What files hold is whole or cut, never a sum that nobody has made.
LogicalResult Verifier::verifyEnd(Operation *op, const Layout &layout, StringRef what, const Twine &name) {
  if (layout.isPartial())
    return op->emitError() << what << " " << name << " is a partial sum over {"
                           << dist::toString(layout.partial) << "}, which nobody adds up; reduce it first";
  return success();
}

LogicalResult Verifier::verifyVariable(nn::VariableOp variable) {
  Layout layout = dist::getLayout(variable.getType());
  if (llvm::any_of(layout.splittingAxes(),
                   [](const dist::AxisRef &axis) { return axis.name == dist::kMicroAxis; }))
    return variable.emitError() << "variable @" << variable.getSymName()
                                << " is split over microbatches, which it outlives";
  if (failed(verifyEnd(variable, layout, "variable", "@" + variable.getSymName())))
    return failure();
  return verifyAxes(variable, variable.getType(), "variable", 0);
}

LogicalResult Verifier::verifyAccess(Operation *op, StringRef variable, Value value, StringRef verb) {
  auto declared = symbols.lookup<nn::VariableOp>(variable);
  Layout stored = dist::getLayout(declared.getType()), here = dist::getLayout(value.getType());
  if (stored.canonical() == here.canonical())
    return success();
  return op->emitOpError(verb) << " variable @" << variable << " as " << dist::toString(here)
                               << ", which is stored as " << dist::toString(stored)
                               << "; a dist.reshard takes it from one to the other";
}

LogicalResult Verifier::verifyOp(Operation *op, const llvm::StringMap<Operation *> &forward) {
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    if (failed(verifyAxes(op, result.getType(), "result", i)))
      return failure();
  if (auto read = dyn_cast<nn::ReadOp>(op))
    return verifyAccess(op, read.getVariable(), read.getResult(), "reads");
  if (auto assign = dyn_cast<nn::AssignOp>(op))
    return verifyAccess(op, assign.getVariable(), assign.getValue(), "assigns");
  if (isa<func::ReturnOp>(op)) {
    for (auto [i, value] : llvm::enumerate(op->getOperands()))
      if (failed(verifyEnd(op, dist::getLayout(value.getType()), "result", Twine(i))))
        return failure();
    return success();
  }
  auto factorOp = dyn_cast<nn::FactorOpInterface>(op);
  if (!factorOp)
    return isa<dist::ReshardOp>(op)
               ? success()
               : op->emitOpError("does not belong into a program on whole tensors, before partition");
  if (!dist::kExpand.isOn(op))
    return FactorVerifier(factorOp).run();
  if (!mesh)
    return op->emitOpError("is expanded by a pattern in a program without a dist.mesh");
  return verifyStreamed(factorOp, *mesh, forward);
}

LogicalResult Verifier::verifyFunction(func::FuncOp func) {
  bool ok = true;
  llvm::StringMap<Operation *> forward;
  for (auto [i, type] : llvm::enumerate(func.getArgumentTypes()))
    if (isa<RankedTensorType>(type))
      ok &= succeeded(verifyEnd(func, dist::getLayout(type), "argument", Twine(i))) &&
            succeeded(verifyAxes(func, type, "argument", i));
  for (Operation &op : func.getBody().front()) {
    if (auto id = nn::kId.of(&op); id && !nn::kGradOf.isOn(&op))
      forward[id.getValue()] = &op;
    ok &= succeeded(verifyOp(&op, forward));
  }
  return success(ok);
}

LogicalResult Verifier::run() {
  bool ok = true;
  for (auto variable : module.getOps<nn::VariableOp>())
    ok &= succeeded(verifyVariable(variable));
  for (auto func : module.getOps<func::FuncOp>())
    ok &= succeeded(verifyFunction(func));
  return success(ok);
}

namespace {
struct VerifyLayoutsPass : tessera::impl::VerifyLayoutsBase<VerifyLayoutsPass> {
  void runOnOperation() override {
    if (failed(Verifier(getOperation()).run()))
      signalPassFailure();
  }
};
} // namespace
