// Operators that move or regroup elements: types, factor rules, folds, gradients. Lowerings are in
// ShapeLowering.cpp.
#include "dialects/nn/Attributes.h"
#include "dialects/nn/OpSupport.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace tessera::nn;

static bool isConsecutive(ArrayRef<int64_t> values) {
  return llvm::all_of(llvm::enumerate(values), [](auto it) { return int64_t(it.index()) == it.value(); });
}

//===- reshape

LogicalResult ReshapeOp::verify() {
  auto from = plainType(getOperand()), to = plainType(getResult());
  if (from.getElementType() != to.getElementType() || from.getNumElements() != to.getNumElements())
    return emitOpError("cannot regroup ")
           << from << " to " << to << ": element types and numbers of elements must agree";
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType())
    return getOperand();
  if (auto dense = dyn_cast_if_present<DenseElementsAttr>(adaptor.getOperand()))
    return dense.isSplat() ? dense.resizeSplat(plainType(getResult()))
                           : dense.reshape(plainType(getResult()));
  if (auto inner = getOperand().getDefiningOp<ReshapeOp>()) {
    getOperandMutable().assign(inner.getOperand());
    return getResult();
  }
  return {};
}

FactorRule ReshapeOp::getFactorRule() {
  FactorRule rule;
  rule.isReshape = true;
  rule.operands.push_back(DimFactors(shapeOf(getOperand()).size(), -1));
  rule.results.push_back(DimFactors(shapeOf(getResult()).size(), -1));
  return rule;
}

LogicalResult ReshapeOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  grad.add(0, ReshapeOp::create(grad, grad.loc(), plainType(getOperand()), cotangents[0]));
  return success();
}

//===- transpose

/// `perm` lists the dimensions 0 .. rank-1, each once.
static bool isPermutation(ArrayRef<int64_t> perm, size_t rank) {
  SmallVector<int64_t> sorted(perm);
  llvm::sort(sorted);
  return perm.size() == rank && isConsecutive(sorted);
}

TESSERA_INFER(TransposeOp) {
  ArrayRef<int64_t> shape = shapeOf(adaptor.getOperand()), perm = adaptor.getPerm();
  if (!isPermutation(perm, shape.size()))
    return inferError(location,
                      "perm " + shapeText(perm) + " does not order the dimensions of " + shapeText(shape));
  SmallVector<int64_t> out;
  for (int64_t d : perm)
    out.push_back(shape[d]);
  types.push_back(RankedTensorType::get(out, elementOf(adaptor.getOperand())));
  return success();
}
LogicalResult TransposeOp::verify() { return success(); }

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (isConsecutive(getPerm()) && getOperand().getType() == getType())
    return getOperand();
  if (elementOf(getOperand()) != elementOf(getResult()))
    return {};
  if (auto dense = dyn_cast_if_present<DenseElementsAttr>(adaptor.getOperand()); dense && dense.isSplat())
    return dense.resizeSplat(plainType(getResult()));
  if (auto inner = getOperand().getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> perm;
    for (int64_t d : getPerm())
      perm.push_back(inner.getPerm()[d]);
    setPerm(perm);
    getOperandMutable().assign(inner.getOperand());
    return getResult();
  }
  return {};
}

FactorRule TransposeOp::getFactorRule() {
  std::string in = freshLetters(getPerm().size()), out;
  for (int64_t d : getPerm())
    out.push_back(in[d]);
  return lettersRule(*this, {in}, {out});
}

LogicalResult TransposeOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  SmallVector<int64_t> inverse(getPerm().size());
  for (auto [i, d] : llvm::enumerate(getPerm()))
    inverse[d] = i;
  grad.add(0, TransposeOp::create(grad, grad.loc(), cotangents[0], inverse));
  return success();
}

//===- broadcast

LogicalResult BroadcastOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getOperand()), to = shapeOf(getResult()), dims = getDims();
  if (dims.size() != from.size())
    return emitOpError("needs one entry of dims for each of the operand's ")
           << from.size() << " dimensions, has " << dims.size();
  for (auto [i, d] : llvm::enumerate(dims)) {
    if (d < 0 || d >= int64_t(to.size()) || (i > 0 && d <= dims[i - 1]))
      return emitOpError("dims ") << shapeText(dims) << " must rise within the result's rank " << to.size();
    if (from[i] != to[d])
      return emitOpError("operand dimension ")
             << i << " of size " << from[i] << " cannot become result dimension " << d << " of size "
             << to[d];
  }
  if (elementOf(getOperand()) != elementOf(getResult()))
    return emitOpError("operand and result have different element types");
  return success();
}

FactorRule BroadcastOp::getFactorRule() {
  std::string out = freshLetters(shapeOf(getResult()).size()), in;
  for (int64_t d : getDims())
    in.push_back(out[d]);
  return lettersRule(*this, {in}, {out});
}
FusionKind BroadcastOp::getFusionKind() { return FusionKind::Elementwise; }

LogicalResult BroadcastOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  SmallVector<int64_t> added;
  for (int64_t d = 0; d < int64_t(shapeOf(getResult()).size()); ++d)
    if (!llvm::is_contained(getDims(), d))
      added.push_back(d);
  grad.add(0, added.empty() ? cotangents[0] : sumOver(grad, grad.loc(), cotangents[0], added));
  return success();
}

//===- slice

TESSERA_INFER(SliceOp) {
  ArrayRef<int64_t> shape = shapeOf(adaptor.getOperand()), starts = adaptor.getStarts(),
                    sizes = adaptor.getSizes(), steps = adaptor.getSteps();
  if (starts.size() != shape.size() || sizes.size() != shape.size() || steps.size() != shape.size())
    return inferError(location, "starts, sizes and steps need one entry for each of the " +
                                    Twine(shape.size()) + " dimensions");
  for (size_t d = 0; d < shape.size(); ++d)
    if (starts[d] < 0 || sizes[d] < 0 || steps[d] < 1 || starts[d] > shape[d] ||
        (sizes[d] > 0 && (sizes[d] - 1) > (shape[d] - 1 - starts[d]) / steps[d]) ||
        (sizes[d] > 0 && starts[d] >= shape[d]))
      return inferError(location, "dimension " + Twine(d) + ": " + Twine(sizes[d]) + " elements from " +
                                      Twine(starts[d]) + " in steps of " + Twine(steps[d]) +
                                      " do not lie in a size of " + Twine(shape[d]));
  types.push_back(RankedTensorType::get(sizes, elementOf(adaptor.getOperand())));
  return success();
}
LogicalResult SliceOp::verify() { return success(); }

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  if (getOperand().getType() == getType() && getSizes() == shapeOf(getOperand()))
    return getOperand();
  auto dense = dyn_cast_if_present<DenseElementsAttr>(adaptor.getOperand());
  if (!dense || elementOf(getOperand()) != elementOf(getResult()))
    return {};
  RankedTensorType type = plainType(getResult());
  if (dense.isSplat())
    return dense.resizeSplat(type);
  // One-dimensional: what arithmetic on shapes uses.
  if (type.getRank() != 1)
    return {};
  SmallVector<Attribute> all(dense.getValues<Attribute>()), taken;
  for (int64_t i = 0; i < getSizes()[0]; ++i)
    taken.push_back(all[getStarts()[0] + i * getSteps()[0]]);
  return DenseElementsAttr::get(type, taken);
}

/// Whether dimension d of `slice`'s operand is taken whole.
static bool takenWhole(SliceOp slice, size_t d) {
  return slice.getStarts()[d] == 0 && slice.getSteps()[d] == 1 &&
         slice.getSizes()[d] == shapeOf(slice.getOperand())[d];
}

FactorRule SliceOp::getFactorRule() {
  size_t rank = getSizes().size();
  std::string in = freshLetters(rank), out = in, more = freshLetters(2 * rank), unsplit;
  for (size_t d = 0; d < rank; ++d)
    if (!takenWhole(*this, d)) {
      out[d] = more[rank + d];
      unsplit += {in[d], out[d]};
    }
  return lettersRule(*this, {in}, {out}, "", unsplit);
}

LogicalResult SliceOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                   SmallVectorImpl<Value> &results) {
  return expandTrimmed(*this, builder, operands, results, [&](ValueRange trimmed, NamedAttrList &attrs) {
    SmallVector<int64_t> sizes(getSizes());
    for (size_t d = 0; d < sizes.size(); ++d)
      if (takenWhole(*this, d))
        sizes[d] = shapeOf(trimmed[0])[d];
    attrs.set("sizes", builder.getDenseI64ArrayAttr(sizes));
  });
}

LogicalResult SliceOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  SmallVector<int64_t> high, interior;
  for (auto [n, start, size, step] : llvm::zip(shapeOf(getOperand()), getStarts(), getSizes(), getSteps())) {
    high.push_back(size == 0 ? n - start : n - (start + (size - 1) * step + 1));
    interior.push_back(step - 1);
  }
  grad.add(0, PadOp::create(grad, grad.loc(), cotangents[0], getStarts(), high, interior));
  return success();
}

//===- pad

TESSERA_INFER(PadOp) {
  ArrayRef<int64_t> shape = shapeOf(adaptor.getOperand()), low = adaptor.getLow(), high = adaptor.getHigh(),
                    interior = adaptor.getInterior();
  if (low.size() != shape.size() || high.size() != shape.size() || interior.size() != shape.size())
    return inferError(location, "low, high and interior need one entry for each of the " +
                                    Twine(shape.size()) + " dimensions");
  SmallVector<int64_t> out;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (low[d] < 0 || high[d] < 0 || interior[d] < 0)
      return inferError(location, "dimension " + Twine(d) + ": low, high and interior must not be negative");
    out.push_back(low[d] + high[d] + shape[d] + std::max<int64_t>(shape[d] - 1, 0) * interior[d]);
  }
  types.push_back(RankedTensorType::get(out, elementOf(adaptor.getOperand())));
  return success();
}
LogicalResult PadOp::verify() { return success(); }

FactorRule PadOp::getFactorRule() {
  size_t rank = getLow().size();
  std::string in = freshLetters(rank), out = in, more = freshLetters(2 * rank), unsplit;
  for (size_t d = 0; d < rank; ++d)
    if (getLow()[d] || getHigh()[d] || getInterior()[d]) {
      out[d] = more[rank + d];
      unsplit += {in[d], out[d]};
    }
  return lettersRule(*this, {in}, {out}, "", unsplit);
}

LogicalResult PadOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                 SmallVectorImpl<Value> &results) {
  return expandTrimmed(*this, builder, operands, results);
}

LogicalResult PadOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  SmallVector<int64_t> steps;
  for (int64_t interior : getInterior())
    steps.push_back(interior + 1);
  grad.add(0, SliceOp::create(grad, grad.loc(), cotangents[0], getLow(), shapeOf(getOperand()), steps));
  return success();
}

//===- insert_slice

TESSERA_INFER(InsertSliceOp) {
  SmallVector<int64_t> into(shapeOf(adaptor.getInto())), slice(shapeOf(adaptor.getSlice()));
  int64_t dim = adaptor.getDim();
  if (dim < 0 || dim >= int64_t(into.size()))
    return inferError(location, "dim " + Twine(dim) + " is not a dimension of an operand of rank " +
                                    Twine(into.size()));
  SmallVector<int64_t> whole = slice;
  if (whole.size() == into.size())
    whole[dim] = into[dim];
  if (whole != into || slice[dim] > into[dim] ||
      elementOf(adaptor.getSlice()) != elementOf(adaptor.getInto()))
    return inferError(location, "a slice " + shapeText(slice) + " is no part of " + shapeText(into) +
                                    " along dimension " + Twine(dim));
  types.push_back(plainType(adaptor.getInto()));
  return success();
}

// In the program of a rank `at` is a number already. Shapes that do not fit are reported where the result's
// type is inferred.
LogicalResult InsertSliceOp::verify() {
  size_t dim = getDim();
  if (dim >= shapeOf(getInto()).size() || dim >= shapeOf(getSlice()).size() ||
      getAt().getType().isInteger(64))
    return success();
  auto arg = dyn_cast<BlockArgument>(getAt());
  auto func = arg ? dyn_cast<FunctionOpInterface>(arg.getOwner()->getParentOp()) : FunctionOpInterface();
  if (!func || inputKind(func, arg.getArgNumber()) != InputKind::Scalar)
    return emitOpError("at must be an input of kind scalar");
  int64_t last = shapeOf(getInto())[dim] - shapeOf(getSlice())[dim];
  DenseI64ArrayAttr range = kRange.ofArgument(func, arg.getArgNumber());
  if (!range || range[0] < 0 || range[1] > last + 1)
    return emitOpError("needs an ") << kRange.name << " of the input within [0, " << last + 1
                                    << ") to keep the slice inside";
  return success();
}

FactorRule InsertSliceOp::getFactorRule() {
  std::string into = freshLetters(shapeOf(getInto()).size()), slice = into, unsplit(1, into[getDim()]);
  slice[getDim()] = freshLetters(into.size() + 1).back();
  unsplit.push_back(slice[getDim()]);
  return lettersRule(*this, {into, slice, ""}, {into}, "", unsplit);
}

//===- concat

TESSERA_INFER(ConcatOp) {
  if (operands.empty())
    return inferError(location, "needs at least one operand");
  SmallVector<int64_t> out(shapeOf(operands[0]));
  int64_t dim = adaptor.getDim();
  if (dim < 0 || dim >= int64_t(out.size()))
    return inferError(location,
                      "dim " + Twine(dim) + " is not a dimension of operands of rank " + Twine(out.size()));
  out[dim] = 0;
  for (Value operand : operands) {
    SmallVector<int64_t> shape(shapeOf(operand));
    if (shape.size() != out.size() || elementOf(operand) != elementOf(operands[0]))
      return inferError(location, "operands must have one rank and element type");
    out[dim] += shape[dim];
    shape[dim] = out[dim];
    if (shape != out)
      return inferError(location, "operands of shapes " + shapeText(shapeOf(operands[0])) + " and " +
                                      shapeText(shapeOf(operand)) + " differ in another dimension than " +
                                      Twine(dim));
  }
  types.push_back(RankedTensorType::get(out, elementOf(operands[0])));
  return success();
}
LogicalResult ConcatOp::verify() { return success(); }

FactorRule ConcatOp::getFactorRule() {
  std::string out = freshLetters(shapeOf(getResult()).size()), unsplit(1, out[getDim()]);
  std::string more = freshLetters(out.size() + getOperands().size());
  SmallVector<std::string> words;
  for (size_t i = 0; i < getOperands().size(); ++i) {
    words.push_back(out);
    words.back()[getDim()] = more[out.size() + i];
    unsplit.push_back(more[out.size() + i]);
  }
  return lettersRule(*this, words, {out}, "", unsplit);
}

LogicalResult ConcatOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                    SmallVectorImpl<Value> &results) {
  return expandTrimmed(*this, builder, operands, results);
}

LogicalResult ConcatOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  SmallVector<int64_t> starts(shapeOf(getResult()).size(), 0), steps(starts.size(), 1);
  for (auto [i, operand] : llvm::enumerate(getOperands())) {
    if (grad.wants(i))
      grad.add(i, SliceOp::create(grad, grad.loc(), cotangents[0], starts, shapeOf(operand), steps));
    starts[getDim()] += shapeOf(operand)[getDim()];
  }
  return success();
}
