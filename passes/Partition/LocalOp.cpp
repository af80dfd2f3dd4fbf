#include "passes/Partition/LocalOp.h"
#include "dialects/nn/ByNumber.h"

using namespace mlir;
using namespace tessera;
using dist::Atom;
using dist::AxisList;
using dist::Layout;

LocalOp::LocalOp(OpBuilder &builder, nn::FactorOpInterface op)
    : nn::LocalBuilder(builder.getContext()), op(op), rule(op.getFactorRule()) {
  restoreInsertionPoint(builder.saveInsertionPoint());
  atoms.resize(rule.factors.size());
  auto read = [&](ValueRange values, ArrayRef<nn::DimFactors> dims) {
    for (auto [value, factors] : llvm::zip(values, dims)) {
      if (!isa<RankedTensorType>(value.getType()))
        continue;
      Layout layout = dist::getLayout(value.getType());
      for (auto [d, f] : llvm::enumerate(factors))
        if (f >= 0 && atoms[f].empty())
          atoms[f].append(layout.dims[d].begin(), layout.dims[d].end());
    }
  };
  if (!rule.isReshape) {
    read(op->getOperands(), rule.operands);
    read(op->getResults(), rule.results);
  }
}

RankedTensorType LocalOp::resultType(unsigned result) const {
  return dist::localType(cast<RankedTensorType>(op->getResult(result).getType()));
}

AxisList LocalOp::axesOf(int factor) const {
  AxisList axes;
  for (const Atom &atom : atoms[factor])
    axes.append(atom.axes.begin(), atom.axes.end());
  return axes;
}

bool LocalOp::isSplit(int factor) const { return factor >= 0 && !axesOf(factor).empty(); }

Value LocalOp::blockStart(int factor) {
  int64_t block = 1;
  for (auto [k, atom] : llvm::enumerate(atoms[factor])) {
    // Of several atoms only a split of the major one leaves a contiguous block; padding inside it is taken
    // out where elements are counted.
    bool isTrimmed = k > 0 && countsThrough(factor);
    if (k > 0 && (!atom.axes.empty() || (atom.padded != atom.size && !isTrimmed)))
      ok = op->emitOpError("needs a contiguous block of factor ")
           << rule.factors[factor].name << ", which is split inside; split its major part";
    block *= isTrimmed ? atom.size : atom.local();
  }
  return dist::BlockStartOp::create(*this, loc(), getI64Type(),
                                    dist::AxesAttr::get(getContext(), axesOf(factor)), block,
                                    /*shift=*/nullptr);
}

Value LocalOp::allReduce(Value value, int factor, StringRef kind) {
  AxisList axes = axesOf(factor);
  if (axes.empty())
    return value;
  dist::CollectiveSpec spec{.kind = dist::CollectiveKind::AllReduce,
                            .axes = axes,
                            .reduce = kind == "max" ? dist::ReduceKind::Max : dist::ReduceKind::Sum};
  return dist::CollectiveOp::create(*this, loc(), value, spec);
}

Value LocalOp::allGather(Value value, int factor) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape = {1};
  llvm::append_range(shape, type.getShape());
  Value row = nn::ReshapeOp::create(*this, loc(), type.clone(shape), value);
  AxisList axes = axesOf(factor);
  if (axes.empty())
    return row;
  SmallVector<int64_t> all(shape);
  all[0] = dist::product(axes);
  dist::CollectiveSpec spec{.kind = dist::CollectiveKind::AllGather, .axes = axes, .concat = 0};
  return dist::CollectiveOp::create(*this, loc(), type.clone(all), row, spec);
}

SmallVector<int64_t> LocalOp::blockSizes(int factor) const {
  SmallVector<int64_t> sizes = {1};
  for (const Atom &atom : atoms[factor]) {
    SmallVector<int64_t> next;
    for (int64_t major : sizes)
      for (int64_t start = 0; start < atom.padded; start += atom.local())
        next.push_back(major * std::clamp<int64_t>(atom.size - start, 0, atom.local()));
    sizes = next;
  }
  return sizes;
}

Value LocalOp::ownElement(Value list, int factor) {
  AxisList axes = axesOf(factor);
  if (axes.empty())
    return list;
  auto type = cast<RankedTensorType>(list.getType());
  return dist::SliceOp::create(*this, loc(), type.clone({1}), list, dist::AxesAttr::get(getContext(), axes),
                               getDenseI64ArrayAttr(type.getShape()), int64_t(0), /*shift=*/nullptr);
}

Value LocalOp::validity(int factor, Type element) {
  int64_t size = 1, outer = 1;
  for (const Atom &atom : atoms[factor])
    size *= atom.local();
  auto type = RankedTensorType::get({size}, element);
  Value valid;
  for (const Atom &atom : atoms[factor]) {
    int64_t before = outer, local = atom.local();
    outer *= local;
    if (atom.padded == atom.size)
      continue;
    if (!valid)
      valid =
          nn::ConstantOp::create(*this, loc(), type, SplatElementsAttr::get(type, getFloatAttr(element, 1)));
    valid =
        dist::MaskPaddingOp::create(*this, loc(), type, valid, dist::AxesAttr::get(getContext(), atom.axes),
                                    getDenseI64ArrayAttr({before, local, size / outer}),
                                    getI64IntegerAttr(atom.size), getFloatAttr(element, 0), dist::AxesAttr());
  }
  return valid;
}

// The logical position of each position of an atom in zig-zag order.
static SmallVector<int64_t> positions(const Atom &atom) {
  SmallVector<int64_t> list;
  int64_t chunk = atom.padded / (2 * atom.zigzag);
  for (int64_t first : atom.chunkOrder())
    for (int64_t i = 0; i < chunk; ++i)
      list.push_back(first * chunk + i);
  return list;
}

bool LocalOp::isWhole(unsigned result, unsigned dim) const {
  Layout layout = dist::getLayout(op->getResult(result).getType());
  return llvm::all_of(llvm::enumerate(layout.dims[dim]), [](auto entry) {
    const Atom &atom = entry.value();
    return atom.axes.empty() && !atom.zigzag && (entry.index() == 0 || atom.padded == atom.size);
  });
}

SmallVector<int64_t> LocalOp::heldOrder(unsigned result, unsigned dim) {
  Layout layout = dist::getLayout(op->getResult(result).getType());
  auto &list = layout.dims[dim];
  if (llvm::none_of(list, [](const Atom &atom) { return atom.zigzag; }))
    return {};
  // Mixed radix over the atoms, major to minor.
  SmallVector<int64_t> held = {0};
  for (const Atom &atom : list) {
    SmallVector<int64_t> own = atom.zigzag ? positions(atom)
                                           : llvm::to_vector(llvm::seq<int64_t>(0, atom.padded)),
                         next;
    for (int64_t major : held)
      for (int64_t minor : own)
        next.push_back(major * atom.padded + minor);
    held = next;
  }
  return held;
}

Value LocalOp::logicalIndex(unsigned result, unsigned dim) {
  Layout layout = dist::getLayout(op->getResult(result).getType());
  auto &list = layout.dims[dim];
  auto numbers = [&](ArrayRef<int64_t> values) -> Value {
    auto type = RankedTensorType::get({int64_t(values.size())}, getI64Type());
    return nn::ConstantOp::create(*this, loc(), type, DenseElementsAttr::get(type, values));
  };
  auto index = [&](const Atom &atom) -> Value {
    if (atom.zigzag) {
      Value held = numbers(positions(atom));
      return atom.axes.empty()
                 ? held
                 : dist::SliceOp::create(*this, loc(), RankedTensorType::get({atom.local()}, getI64Type()),
                                         held, dist::AxesAttr::get(getContext(), atom.axes),
                                         getDenseI64ArrayAttr({atom.padded}), int64_t(0),
                                         /*shift=*/nullptr);
    }
    return dist::LogicalIndexOp::create(*this, loc(), RankedTensorType::get({atom.local()}, getI64Type()),
                                        dist::AxesAttr::get(getContext(), atom.axes), atom.size, atom.padded);
  };
  if (list.empty())
    return nn::ConstantOp::create(
        *this, loc(), RankedTensorType::get({1}, getI64Type()),
        DenseElementsAttr::get(RankedTensorType::get({1}, getI64Type()), int64_t(0)));
  // Mixed radix over the atoms, major to minor.
  Value sum;
  int64_t rows = 1;
  for (const Atom &atom : list) {
    Value next = index(atom);
    if (!sum) {
      sum = next;
      rows = atom.local();
      continue;
    }
    auto type = RankedTensorType::get({rows, atom.local()}, getI64Type());
    Value scale =
        nn::ConstantOp::create(*this, loc(), RankedTensorType::get({}, getI64Type()),
                               DenseElementsAttr::get(RankedTensorType::get({}, getI64Type()), atom.size));
    Value column = nn::ReshapeOp::create(*this, loc(), RankedTensorType::get({rows, 1}, getI64Type()), sum);
    Value scaled =
        nn::MulOp::create(*this, loc(), RankedTensorType::get({rows, 1}, getI64Type()), column, scale);
    Value both = nn::AddOp::create(*this, loc(), type, scaled, next);
    rows *= atom.local();
    sum = nn::ReshapeOp::create(*this, loc(), RankedTensorType::get({rows}, getI64Type()), both);
  }
  return sum;
}

// The number as an element, or what is next to it: the greatest of 64 bits is no double.
static TypedAttr numberOf(Type element, double number) {
  if (isa<FloatType>(element))
    return FloatAttr::get(element, number);
  unsigned bits = element.getIntOrFloatBitWidth();
  llvm::APSInt value(bits, /*isUnsigned=*/bits == 1 || element.isUnsignedInteger());
  bool isExact;
  llvm::APFloat(number).convertToInteger(value, llvm::APFloat::rmTowardZero, &isExact);
  return IntegerAttr::get(element, value);
}

// What the vector that flat storage cuts has beyond the block's elements.
Value LocalOp::maskEnd(unsigned operand, Value local, const Layout &layout, int64_t &numMasks) {
  int64_t size = layout.withoutFlat().localElements(), block = layout.localElements();
  std::optional<double> neutral;
  for (int f : rule.operands[operand])
    if (f >= 0 && !neutral)
      neutral = op.getNeutral(operand, f);
  if (!neutral || size == block * dist::product(layout.flat))
    return local;
  ++numMasks;
  Type element = cast<RankedTensorType>(local.getType()).getElementType();
  return dist::MaskPaddingOp::create(*this, loc(), local.getType(), local,
                                     dist::AxesAttr::get(getContext(), layout.flat),
                                     getDenseI64ArrayAttr({1, block, 1}), getI64IntegerAttr(size),
                                     numberOf(element, *neutral), dist::AxesAttr());
}

Value LocalOp::masked(unsigned operand, Value local, int64_t &numMasks) {
  auto type = dyn_cast<RankedTensorType>(op->getOperand(operand).getType());
  if (!type || rule.isReshape)
    return local;
  Layout layout = dist::getLayout(type);
  SmallVector<int64_t> shape = layout.withoutFlat().localAtoms();
  auto piece = layout.flat.empty() ? dist::AxesAttr() : dist::AxesAttr::get(getContext(), layout.flat);
  if (piece)
    local = maskEnd(operand, local, layout, numMasks);
  for (auto [d, f] : llvm::enumerate(rule.operands[operand])) {
    if (f < 0)
      continue;
    std::optional<double> neutral;
    size_t position = layout.firstAtom(d);
    for (const Atom &atom : layout.dims[d]) {
      size_t at = position++;
      if (atom.padded == atom.size)
        continue;
      if (!neutral)
        neutral = op.getNeutral(operand, f);
      if (!neutral)
        break;
      int64_t outer = 1, inner = 1;
      for (size_t k = 0; k < shape.size(); ++k)
        (k < at ? outer : inner) *= k == at ? 1 : shape[k];
      Type element = type.getElementType();
      TypedAttr value = numberOf(element, *neutral);
      local = dist::MaskPaddingOp::create(
          *this, loc(), local.getType(), local, dist::AxesAttr::get(getContext(), atom.axes),
          getDenseI64ArrayAttr({outer, shape[at], inner}), getI64IntegerAttr(atom.size), value, piece);
      ++numMasks;
    }
  }
  return local;
}

// The atoms of a value of which some dimensions are whole and padded inside: as the rank holds them, and
// without that padding.
namespace {
struct Inside {
  SmallVector<int64_t> held, kept;     // per atom
  SmallVector<int64_t> local, logical; // per dimension
  bool any = false;
};
} // namespace

// Dimensions along factors that `counts` says are counted through, by the number of the element.
static Inside insideOf(const Layout &layout, const nn::DimFactors &factors,
                       llvm::function_ref<bool(int)> counts) {
  Inside inside;
  for (auto [d, f] : llvm::enumerate(factors)) {
    ArrayRef<Atom> atoms = layout.dims[d];
    ArrayRef<Atom> inner = atoms.drop_front(!atoms.empty());
    bool cut = f >= 0 && counts(f) && llvm::all_of(inner, [](const Atom &a) { return a.axes.empty(); }) &&
               llvm::any_of(inner, [](const Atom &a) { return a.padded != a.size; });
    inside.any |= cut;
    int64_t local = 1, kept = 1;
    for (auto [k, atom] : llvm::enumerate(atoms)) {
      inside.held.push_back(atom.local());
      inside.kept.push_back(cut && (k > 0 || atom.axes.empty()) ? atom.size : atom.local());
      local *= inside.held.back(), kept *= inside.kept.back();
    }
    inside.local.push_back(local), inside.logical.push_back(kept);
  }
  return inside;
}

static Value reshaped(OpBuilder &b, Location loc, Value value, ArrayRef<int64_t> shape) {
  return nn::ReshapeOp::create(
      b, loc, RankedTensorType::get(shape, cast<RankedTensorType>(value.getType()).getElementType()), value);
}
static Value trimmed(OpBuilder &b, Location loc, Value value, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> starts(shape.size(), 0), steps(shape.size(), 1);
  return nn::SliceOp::create(b, loc, value, starts, shape, steps);
}
static Value padded(OpBuilder &b, Location loc, Value value, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> none(shape.size(), 0), high;
  for (auto [to, from] : llvm::zip(shape, cast<RankedTensorType>(value.getType()).getShape()))
    high.push_back(to - from);
  return nn::PadOp::create(b, loc, value, none, high, none);
}

bool LocalOp::countsThrough(int factor) {
  return rule.factors[factor].kind == nn::FactorKind::Unsplit || nn::isByNumber(op, rule, factor);
}

Value LocalOp::paddedAtEnds(unsigned operand, Value local) {
  auto type = dyn_cast<RankedTensorType>(op->getOperand(operand).getType());
  if (!type || rule.isReshape)
    return local;
  Inside inside =
      insideOf(dist::getLayout(type), rule.operands[operand], [&](int f) { return countsThrough(f); });
  if (!inside.any)
    return local;
  Value kept = trimmed(*this, loc(), reshaped(*this, loc(), local, inside.held), inside.kept);
  return padded(*this, loc(), reshaped(*this, loc(), kept, inside.logical), inside.local);
}

Value LocalOp::paddedInside(unsigned result, Value local) {
  auto type = dyn_cast<RankedTensorType>(op->getResult(result).getType());
  if (!type || rule.isReshape)
    return local;
  Inside inside =
      insideOf(dist::getLayout(type), rule.results[result], [&](int f) { return countsThrough(f); });
  if (!inside.any)
    return local;
  Value kept = reshaped(*this, loc(), trimmed(*this, loc(), local, inside.logical), inside.kept);
  return reshaped(*this, loc(), padded(*this, loc(), kept, inside.held), inside.local);
}

FailureOr<Value> tessera::emitReshard(OpBuilder &b, Location loc, dist::ReshardPlanner &planner, Value local,
                                      const Layout &from, const Layout &to, int64_t &numCollectives) {
  Type element = cast<RankedTensorType>(local.getType()).getElementType();
  FailureOr<dist::ReshardPlan> plan =
      planner.plan(dist::elementBytes(element), from, to, [&] { return emitError(loc); });
  if (failed(plan))
    return failure();
  for (const dist::ReshardStep &step : plan->steps)
    local = dist::buildStep(b, loc, local, step);
  numCollectives += plan->numCollectives();
  return local;
}
