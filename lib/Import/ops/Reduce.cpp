// Reductions, and cumulative sums.
#include "lib/Import/Importer.h"
#include "lib/Import/ops/Families.h"
#include "lib/Import/ops/Mean.h"
#include <limits>

using namespace mlir;

namespace tessera {
namespace {

/// The reduced dimensions: an input since opset 18 (13 for ReduceSum), an attribute before; none given: all,
/// or none with noop_with_empty_axes.
std::vector<int64_t> reducedAxes(NodeImport &n) {
  int64_t rank = rankOf(n.in(0));
  bool none = n.intAttr("noop_with_empty_axes", 0);
  std::vector<int64_t> axes = n.has(1) ? n.ints(1) : n.intsAttr("axes");
  if (axes.empty() && !none)
    for (int64_t d = 0; d < rank; ++d)
      axes.push_back(d);
  return n.axes(axes, rank);
}

enum class Kind { Sum, Mean, Max, Min, Prod, L1, L2, SumSquare, LogSum, LogSumExp };

template <Kind kind> void reduce(NodeImport &n) {
  Emitter &e = n.e;
  Value x = n.in(0);
  std::vector<int64_t> axes = reducedAxes(n);
  bool keep = n.intAttr("keepdims", 1);
  // Roots and logarithms of integers are f64's, truncated.
  Type type = elementOf(x);
  if ((kind == Kind::L2 || kind == Kind::LogSum || kind == Kind::LogSumExp) && !isa<FloatType>(type))
    x = e.cast(x, e.builder.getF64Type());
  switch (kind) {
  case Kind::Sum:
    return n.out(e.reduce(x, axes, "sum", keep));
  case Kind::Max:
    return n.out(e.reduce(x, axes, "max", keep));
  case Kind::Min:
    return n.out(e.reduce(x, axes, "min", keep));
  case Kind::Prod:
    return n.out(e.reduce(x, axes, "prod", keep));
  case Kind::Mean: {
    int64_t count = 1;
    for (int64_t axis : axes)
      count *= shapeOf(x)[axis];
    return n.out(meanOf(e, e.reduce(x, axes, "sum", keep), count));
  }
  case Kind::L1:
    return n.out(e.reduce(e.emit<nn::AbsOp>(x), axes, "sum", keep));
  case Kind::SumSquare:
    return n.out(e.reduce(e.binary<nn::MulOp>(x, x), axes, "sum", keep));
  case Kind::L2:
    return n.out(e.cast(e.emit<nn::SqrtOp>(e.reduce(e.binary<nn::MulOp>(x, x), axes, "sum", keep)), type));
  case Kind::LogSum:
    return n.out(e.cast(e.emit<nn::LogOp>(e.reduce(x, axes, "sum", keep)), type));
  case Kind::LogSumExp: {
    // Shifted by the largest, where that is finite: of a row of -inf the sum is 0.
    Value max = e.reduce(x, axes, "max", true), zero = e.scalarLike(x, 0);
    Value isFinite =
        e.compare(e.emit<nn::AbsOp>(max), e.scalarLike(x, std::numeric_limits<double>::infinity()), "lt");
    Value shift = e.emit<nn::SelectOp>({isFinite, max, zero});
    Value sum = e.reduce(e.emit<nn::ExpOp>(e.binary<nn::SubOp>(x, shift)), axes, "sum", true);
    Value result = e.binary<nn::AddOp>(e.emit<nn::LogOp>(sum), shift);
    result = keep ? result : e.reduce(result, axes, "sum", false); // dimensions of size 1
    return n.out(e.cast(result, type));
  }
  }
}

/// The first (or last) position of the largest (or smallest) element; NaN is either.
template <bool largest> void argExtreme(NodeImport &n) {
  Emitter &e = n.e;
  Value x = n.in(0);
  int64_t rank = rankOf(x), axis = n.axis(n.intAttr("axis", 0), rank);
  bool last = n.intAttr("select_last_index", 0);
  Shape along(rank, 1);
  along[axis] = shapeOf(x)[axis];
  Value position = e.iota(e.builder.getI64Type(), along, axis);
  Value hit = e.compare(x, e.reduce(x, {axis}, largest ? "max" : "min", true), "eq");
  if (isa<FloatType>(elementOf(x)))
    hit = e.binary<nn::OrOp>(hit, e.emit<nn::IsNanOp>(x));
  Value candidate =
      e.emit<nn::SelectOp>({hit, position, e.scalarLike(position, last ? -1 : shapeOf(x)[axis])});
  n.out(e.reduce(candidate, {axis}, last ? "max" : "min", n.intAttr("keepdims", 1)));
}

/// Running sums of known values: the general form below would need a square of them.
HostTensor knownCumSum(const HostTensor &x, int64_t axis, bool exclusive, bool reverse) {
  HostTensor result = x.dense();
  int64_t size = x.shape[axis], inner = product(llvm::ArrayRef<int64_t>(x.shape).drop_front(axis + 1)),
          outer = size && inner ? result.size() / (size * inner) : 0;
  auto accumulate = [&](auto &data) {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t k = 0; k < inner; ++k) {
        using Number = std::decay_t<decltype(data[0])>;
        Number sum = static_cast<Number>(exclusive ? 0.0 : -0.0);
        for (int64_t j = 0; j < size; ++j) {
          auto &element = data[(o * size + (reverse ? size - 1 - j : j)) * inner + k];
          auto value = element;
          element = exclusive ? sum : sum + value;
          sum += value;
        }
      }
  };
  if (result.isFloat())
    accumulate(result.f);
  else
    accumulate(result.i);
  for (double &value : result.f)
    value = roundTo(result.type, value);
  for (int64_t &value : result.i)
    value = wrapTo(result.type, value);
  return result.compressed();
}

/// Sums over j <= i (or >=, <, >) with the comparison as a mask: only ever small integers in models.
void cumSum(NodeImport &n) {
  Value x = n.in(0);
  int64_t rank = rankOf(x), axis = n.axis(n.integer(1), rank), size = shapeOf(x)[axis];
  bool exclusive = n.intAttr("exclusive", 0), reverse = n.intAttr("reverse", 0);
  if (const HostTensor *known = n.e.known(x); known && known->size() <= maxHostElements)
    return n.out(n.e.constant(knownCumSum(*known, axis, exclusive, reverse)));
  // [.., i, j, ..]: dimension `axis` becomes i, a new one after it is j.
  Shape spread(shapeOf(x)), row(rank + 1, 1), column(rank + 1, 1);
  spread.insert(spread.begin() + axis, 1);
  row[axis] = size;
  column[axis + 1] = size;
  Emitter &e = n.e;
  Type i64 = e.builder.getI64Type();
  Value mask = e.compare(e.iota(i64, column, axis + 1), e.iota(i64, row, axis),
                         reverse     ? exclusive ? "gt" : "ge"
                         : exclusive ? "lt"
                                     : "le");
  Value nothing = e.scalarLike(x, exclusive ? 0.0 : -0.0); // the sum of no element is 0
  Value chosen = e.emit<nn::SelectOp>({mask, e.reshape(x, spread), nothing});
  n.out(e.reduce(chosen, {axis + 1}, "sum", false));
}

} // namespace

void addReduceHandlers(HandlerRegistry &r) {
  r.add("ReduceSum", reduce<Kind::Sum>);
  r.add("ReduceMean", reduce<Kind::Mean>);
  r.add("ReduceMax", reduce<Kind::Max>);
  r.add("ReduceMin", reduce<Kind::Min>);
  r.add("ReduceProd", reduce<Kind::Prod>);
  r.add("ReduceL1", reduce<Kind::L1>);
  r.add("ReduceL2", reduce<Kind::L2>);
  r.add("ReduceSumSquare", reduce<Kind::SumSquare>);
  r.add("ReduceLogSum", reduce<Kind::LogSum>);
  r.add("ReduceLogSumExp", reduce<Kind::LogSumExp>);
  r.add("ArgMax", argExtreme<true>);
  r.add("ArgMin", argExtreme<false>);
  r.add("CumSum", cumSum);
}

} // namespace tessera
