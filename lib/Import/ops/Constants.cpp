// Operators that make values out of nothing, or out of shapes.
#include "lib/Import/Importer.h"
#include "lib/Import/ops/Families.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace mlir;
using llvm::Twine;

namespace tessera {
namespace {

void constant(NodeImport &n) {
  MLIRContext *context = n.e.builder.getContext();
  Builder b(context);
  if (const OnnxAttribute *value = n.attr("value", OnnxAttribute::Kind::Tensor))
    return n.out(n.e.constant(decode(context, value->t).compressed()));
  if (n.hasAttr("value_int"))
    return n.out(n.e.constant(HostTensor::splatInt(b.getI64Type(), {}, n.intAttr("value_int", 0))));
  if (n.hasAttr("value_ints"))
    return n.out(n.e.constant(HostTensor::ints(context, n.intsAttr("value_ints"))));
  if (n.hasAttr("value_float"))
    return n.out(n.e.splat(b.getF32Type(), n.floatAttr("value_float", 0)));
  if (const OnnxAttribute *floats = n.attr("value_floats", OnnxAttribute::Kind::Floats)) {
    int64_t size = floats->floats.size();
    HostTensor tensor(b.getF32Type(), {size}, {size});
    tensor.f = floats->floats;
    return n.out(n.e.constant(std::move(tensor)));
  }
  n.fail("the constant has no value of a supported kind");
}

/// A shape out of the file, checked before anything is allocated for it.
Shape checkedShape(NodeImport &n, llvm::ArrayRef<int64_t> dims) {
  int64_t size = 1;
  for (int64_t dim : dims)
    if (dim < 0 || llvm::MulOverflow(size, dim, size))
      n.fail("the shape is impossible");
  return Shape(dims);
}

void constantOfShape(NodeImport &n) {
  Shape shape = checkedShape(n, n.ints(0));
  const OnnxAttribute *value = n.attr("value", OnnxAttribute::Kind::Tensor);
  if (!value)
    return n.out(n.e.splat(n.e.builder.getF32Type(), 0, shape));
  HostTensor one = decode(n.e.builder.getContext(), value->t);
  if (one.storedSize() != 1)
    n.fail("the value must have one element");
  n.out(n.e.constant(one.isFloat() ? HostTensor::splat(one.type, shape, one.f[0])
                                   : HostTensor::splatInt(one.type, shape, one.i[0])));
}

void shape(NodeImport &n) {
  int64_t rank = rankOf(n.in(0));
  auto clamp = [&](int64_t value) { return std::clamp<int64_t>(value < 0 ? value + rank : value, 0, rank); };
  int64_t start = clamp(n.intAttr("start", 0)), end = clamp(n.intAttr("end", rank));
  n.out(n.e.constant(HostTensor::ints(n.e.builder.getContext(),
                                      shapeOf(n.in(0)).slice(start, std::max<int64_t>(end - start, 0)))));
}

void size(NodeImport &n) {
  n.out(n.e.constant(HostTensor::splat(n.e.builder.getI64Type(), {}, typeOf(n.in(0)).getNumElements())));
}

/// start, start + delta, .. up to limit, which does not belong to it: exact, whatever the bounds are.
HostTensor integerRange(NodeImport &n, const HostTensor &start, const HostTensor &limit,
                        const HostTensor &delta) {
  auto number = [](const HostTensor &bound) -> __int128 {
    return bound.type.isUnsignedInteger(64) ? __int128(uint64_t(bound.i[0])) : bound.i[0];
  };
  __int128 first = number(start), step = number(delta), span = number(limit) - first;
  __int128 count = step == 0 ? -1 : (span < 0) != (step < 0) ? 0 : (span + step - (step > 0 ? 1 : -1)) / step;
  if (count < 0 || count > maxHostElements)
    n.fail("a Range from " + Twine(start.i[0]) + " to " + Twine(limit.i[0]) + " by " + Twine(delta.i[0]) +
           " is not possible");
  int64_t length = count;
  HostTensor tensor(start.type, {length}, {length});
  for (int64_t k = 0; k < length; ++k)
    tensor.i[k] = wrapTo(start.type, static_cast<int64_t>(first + k * step));
  return tensor;
}

void range(NodeImport &n) {
  n.ignore({"stash_type"}); // floating numbers are computed as f64
  const HostTensor *bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    bounds[i] = n.known(i);
    if (!bounds[i] || bounds[i]->storedSize() != 1)
      n.fail("the bounds of a Range must be scalars known at compile time");
  }
  if (!bounds[0]->isFloat())
    return n.out(n.e.constant(integerRange(n, *bounds[0], *bounds[1], *bounds[2])));
  double start = bounds[0]->number(0), limit = bounds[1]->number(0), delta = bounds[2]->number(0);
  double count = delta == 0 ? -1 : std::max(std::ceil((limit - start) / delta), 0.0);
  if (!(count >= 0 && count <= maxHostElements))
    n.fail("a Range from " + std::to_string(start) + " to " + std::to_string(limit) + " by " +
           std::to_string(delta) + " is not possible");
  int64_t length = static_cast<int64_t>(count);
  HostTensor tensor(bounds[0]->type, {length}, {length});
  for (int64_t k = 0; k < length; ++k)
    tensor.set(k, start + k * delta);
  n.out(n.e.constant(std::move(tensor)));
}

void eyeLike(NodeImport &n) {
  llvm::ArrayRef<int64_t> shape = shapeOf(n.in(0));
  if (shape.size() != 2)
    n.fail("EyeLike needs a matrix");
  Type i64 = n.e.builder.getI64Type();
  Value row = n.e.iota(i64, {shape[0], 1}, 0), column = n.e.iota(i64, {1, shape[1]}, 1);
  Value diagonal = n.e.binary<nn::AddOp>(row, n.e.scalarLike(row, n.intAttr("k", 0)));
  Type type = n.hasAttr("dtype")
                  ? elementType(n.e.builder.getContext(), static_cast<OnnxType>(n.intAttr("dtype", 1)))
                  : elementOf(n.in(0));
  if (!type)
    n.fail("the element type is not supported");
  n.out(n.e.cast(n.e.compare(column, diagonal, "eq"), type));
}

} // namespace

void addConstantHandlers(HandlerRegistry &r) {
  r.add("Constant", constant);
  r.add("ConstantOfShape", constantOfShape);
  r.add("Shape", shape);
  r.add("Size", size);
  r.add("Range", range);
  r.add("EyeLike", eyeLike);
}

} // namespace tessera
