#include "passes/Propagate/Atoms.h"
#include "dialects/dist/Attributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace tessera;

int Atoms::node(void *key, int dim, int64_t size) {
  auto [it, isNew] = nodes.try_emplace({key, dim}, parent.size());
  if (isNew) {
    parent.push_back(it->second);
    extents.push_back(size);
  }
  return it->second;
}

int Atoms::find(int n) const {
  while (parent[n] != n)
    n = parent[n];
  return n;
}

void Atoms::unite(int a, int b) {
  a = find(a), b = find(b);
  // The smaller number is the root, so that the result does not depend on the order of unions.
  if (a != b)
    parent[std::max(a, b)] = std::min(a, b);
}

LogicalResult Atoms::visit(Operation *op) {
  auto united = [&](Value value, Operation *variable) {
    auto type = cast<RankedTensorType>(value.getType());
    for (int d = 0; d < type.getRank(); ++d)
      unite(node(value.getAsOpaquePointer(), d, type.getDimSize(d)), node(variable, d, type.getDimSize(d)));
  };
  if (auto read = dyn_cast<nn::ReadOp>(op)) {
    Operation *variable = variables.lookup(read.getVariable());
    if (!variable)
      return op->emitOpError("names an unknown variable @") << read.getVariable();
    united(read.getResult(), variable);
    return success();
  }
  if (auto assign = dyn_cast<nn::AssignOp>(op)) {
    Operation *variable = variables.lookup(assign.getVariable());
    if (!variable)
      return op->emitOpError("names an unknown variable @") << assign.getVariable();
    united(assign.getValue(), variable);
    return success();
  }
  auto factorOp = dyn_cast<nn::FactorOpInterface>(op);
  if (!factorOp)
    return success();
  nn::FactorRule rule = factorOp.getFactorRule();
  if (rule.isReshape)
    return success();
  SmallVector<int> first(rule.factors.size(), -1);
  auto join = [&](ValueRange values, ArrayRef<nn::DimFactors> dims) -> LogicalResult {
    for (auto [value, factors] : llvm::zip(values, dims)) {
      auto type = dyn_cast<RankedTensorType>(value.getType());
      if (!type)
        continue;
      if (int64_t(factors.size()) != type.getRank())
        return op->emitOpError("has a factor rule of another rank than its values: ") << rule.str();
      for (auto [d, f] : llvm::enumerate(factors)) {
        int n = node(value.getAsOpaquePointer(), d, type.getDimSize(d));
        if (f < 0 || type.getDimSize(d) == 1)
          continue;
        if (first[f] < 0)
          first[f] = n;
        else if (extents[first[f]] != type.getDimSize(d))
          return op->emitOpError("has factor ") << rule.factors[f].name << " of two sizes: " << rule.str();
        else
          unite(first[f], n);
      }
    }
    return success();
  };
  if (failed(join(op->getOperands(), rule.operands)) || failed(join(op->getResults(), rule.results)))
    return failure();
  return success();
}

// One dimension of a reshape's side inside a group: its class and the product of what is minor to it in the
// group.
namespace {
struct Segment {
  int root;
  int64_t low, size;
};
} // namespace

bool Atoms::refine(Operation *reshape) {
  if (barriers.contains(reshape))
    return false;
  Value in = reshape->getOperand(0), out = reshape->getResult(0);
  auto segments = [&](Value value) {
    SmallVector<Segment> list;
    auto type = cast<RankedTensorType>(value.getType());
    int64_t low = 1;
    for (int d = type.getRank() - 1; d >= 0; --d)
      if (type.getDimSize(d) != 1) {
        list.push_back({find(nodes.at({value.getAsOpaquePointer(), d})), low, type.getDimSize(d)});
        low *= type.getDimSize(d);
      }
    return list; // minor to major, positions over the whole value
  };
  SmallVector<Segment> a = segments(in), b = segments(out);
  std::set<int64_t> positions;
  for (auto &side : {a, b})
    for (const Segment &s : side) {
      positions.insert(s.low);
      for (int64_t p : breaks[s.root])
        positions.insert(p * s.low);
    }
  bool changed = false;
  auto impose = [&](ArrayRef<Segment> side) {
    for (const Segment &s : side)
      for (int64_t p : positions) {
        if (p <= s.low || p >= s.low * s.size)
          continue;
        if (p % s.low != 0 || s.size % (p / s.low) != 0)
          return false;
        std::set<int64_t> &set = breaks[s.root];
        int64_t q = p / s.low;
        for (int64_t other : set)
          if (std::max(q, other) % std::min(q, other) != 0)
            return false;
        changed |= set.insert(q).second;
      }
    return true;
  };
  if (!impose(a) || !impose(b)) {
    barriers.insert(reshape);
    return true;
  }
  return changed;
}

void Atoms::refineAll() {
  for (bool changed = true; changed;) {
    changed = false;
    for (Operation *reshape : reshapes)
      changed |= refine(reshape);
  }
}

bool Atoms::cutMicrobatches(ModuleOp module, int64_t micro) {
  for (auto func : module.getOps<func::FuncOp>())
    for (BlockArgument arg : func.getArguments()) {
      auto splits = dist::kSplit.ofArgument(func, arg.getArgNumber());
      for (int d = 0, e = splits ? splits.size() : 0; d < e; ++d) {
        if (!llvm::is_contained(cast<ArrayAttr>(splits[d]).getAsValueRange<StringAttr>(), dist::kMicroAxis))
          continue;
        int root = find(nodes.at({arg.getAsOpaquePointer(), d}));
        int64_t rows = extents[root] / micro;
        // A batch of one row has nothing left to split.
        auto isCoarser = [&](int64_t other) { return other > rows || rows % other != 0; };
        if (extents[root] % micro != 0 || rows == 1 || llvm::any_of(breaks[root], isCoarser))
          return false;
        breaks[root].insert(rows);
        microClasses.insert(root);
      }
    }
  size_t barriersBefore = barriers.size();
  refineAll();
  return barriers.size() == barriersBefore && llvm::all_of(microClasses, [&](int root) {
           return *breaks[root].rbegin() == extents[root] / micro;
         });
}

FailureOr<Atoms> Atoms::analyse(ModuleOp module, int64_t micro) {
  Atoms atoms;
  SmallVector<Operation *> factorOps;
  for (auto variable : module.getOps<nn::VariableOp>()) {
    atoms.variables[variable.getSymName()] = variable;
    auto type = cast<RankedTensorType>(variable.getType());
    for (int d = 0; d < type.getRank(); ++d)
      atoms.node(variable, d, type.getDimSize(d));
  }
  WalkResult result = module.walk([&](Operation *op) {
    for (ValueRange values : {ValueRange(op->getOperands()), ValueRange(op->getResults())})
      for (Value value : values)
        if (auto type = dyn_cast<RankedTensorType>(value.getType()))
          for (int d = 0; d < type.getRank(); ++d)
            atoms.node(value.getAsOpaquePointer(), d, type.getDimSize(d));
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Value value : block.getArguments())
          if (auto type = dyn_cast<RankedTensorType>(value.getType()))
            for (int d = 0; d < type.getRank(); ++d)
              atoms.node(value.getAsOpaquePointer(), d, type.getDimSize(d));
    if (failed(atoms.visit(op)))
      return WalkResult::interrupt();
    if (auto factorOp = dyn_cast<nn::FactorOpInterface>(op))
      (factorOp.getFactorRule().isReshape ? atoms.reshapes : factorOps).push_back(op);
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  atoms.refineAll();
  if (micro > 1)
    if (Atoms cut = atoms; cut.cutMicrobatches(module, micro))
      atoms = cut;
  for (int n = 0, e = atoms.parent.size(); n < e; ++n) {
    int root = atoms.find(n);
    if (root != n || atoms.extents[n] == 1)
      continue;
    SmallVector<int64_t> sizes;
    int64_t high = atoms.extents[n];
    const std::set<int64_t> &set = atoms.breaks[n];
    for (auto it = set.rbegin(); it != set.rend(); ++it) {
      sizes.push_back(high / *it);
      high = *it;
    }
    sizes.push_back(high);
    atoms.sizes[n] = sizes;
  }
  for (Operation *reshape : atoms.reshapes)
    if (!atoms.isBarrier(reshape))
      for (auto [a, b] :
           llvm::zip_equal(atoms.flat(reshape->getOperand(0)), atoms.flat(reshape->getResult(0))))
        atoms.joined.unionSets({a.cls, a.index}, {b.cls, b.index});
  for (Operation *op : factorOps) {
    nn::FactorRule rule = cast<nn::FactorOpInterface>(op).getFactorRule();
    auto mark = [&](ValueRange values, ArrayRef<nn::DimFactors> dims) {
      for (auto [value, factors] : llvm::zip(values, dims)) {
        SmallVector<SmallVector<AtomId, 1>> ids = atoms.of(value);
        for (auto [d, f] : llvm::enumerate(factors))
          if (f >= 0 && rule.factors[f].kind == nn::FactorKind::Unsplit && rule.factors[f].size != 1)
            for (AtomId atom : ids[d]) {
              AtomId one = atoms.representative(atom);
              atoms.unsplit.insert({one.cls, one.index});
            }
      }
    };
    mark(op->getOperands(), rule.operands);
    mark(op->getResults(), rule.results);
  }
  return atoms;
}

SmallVector<SmallVector<AtomId, 1>> Atoms::lookup(void *key, unsigned rank) const {
  SmallVector<SmallVector<AtomId, 1>> dims(rank);
  for (unsigned d = 0; d < rank; ++d) {
    auto it = nodes.find({key, int(d)});
    if (it == nodes.end() || extents[it->second] == 1)
      continue;
    int root = find(it->second);
    for (int i = 0, e = sizes.at(root).size(); i < e; ++i)
      dims[d].push_back({root, i});
  }
  return dims;
}

SmallVector<SmallVector<AtomId, 1>> Atoms::of(Value value) const {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return lookup(value.getAsOpaquePointer(), type ? type.getRank() : 0);
}

SmallVector<SmallVector<AtomId, 1>> Atoms::ofVariable(StringRef name) const {
  Operation *variable = variables.lookup(name);
  return lookup(variable, cast<RankedTensorType>(cast<nn::VariableOp>(variable).getType()).getRank());
}

SmallVector<AtomId> Atoms::flat(Value value) const {
  SmallVector<AtomId> list;
  for (auto &dim : of(value))
    list.append(dim.begin(), dim.end());
  return list;
}

AtomId Atoms::representative(AtomId atom) const {
  auto it = joined.findLeader({atom.cls, atom.index});
  return it == joined.member_end() ? atom : AtomId{it->first, it->second};
}

bool Atoms::unsplitSomewhere(AtomId atom) const {
  AtomId one = representative(atom);
  return unsplit.contains({one.cls, one.index});
}

bool Atoms::isMicro(AtomId atom) const {
  AtomId one = representative(atom);
  return llvm::any_of(microClasses, [&](int root) { return representative({root, 0}) == one; });
}

int64_t Atoms::size(AtomId atom) const { return sizes.at(atom.cls)[atom.index]; }
