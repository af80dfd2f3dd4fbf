#include "dialects/nn/Window.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace tessera::nn;

FailureOr<SmallVector<int64_t>> tessera::nn::windowedSizes(std::optional<Location> location,
                                                           ArrayRef<int64_t> x, ArrayRef<int64_t> window,
                                                           ArrayRef<int64_t> strides, ArrayRef<int64_t> pads,
                                                           ArrayRef<int64_t> dilations) {
  size_t spatial = strides.size();
  if (x.size() != spatial || window.size() != spatial || pads.size() != 2 * spatial ||
      dilations.size() != spatial || spatial == 0)
    return inferError(location, "spatial sizes " + shapeText(x) + ", a window of " + shapeText(window) +
                                    ", " + Twine(spatial) + " strides, " + Twine(dilations.size()) +
                                    " dilations and " + Twine(pads.size()) +
                                    " pads do not fit: pads need two, the others one for each dimension");
  SmallVector<int64_t> out;
  for (size_t d = 0; d < spatial; ++d) {
    if (strides[d] < 1 || dilations[d] < 1 || pads[d] < 0 || pads[spatial + d] < 0)
      return inferError(location, "strides and dilations must be positive and pads not negative");
    int64_t room = x[d] + pads[d] + pads[spatial + d] - (window[d] - 1) * dilations[d] - 1;
    if (room < 0 || window[d] < 1)
      return inferError(location,
                        "the window does not fit spatial dimension " + Twine(d) + " of size " + Twine(x[d]));
    out.push_back(room / strides[d] + 1);
  }
  return out;
}

static Value compare(LinalgEmitter &e, arith::CmpIPredicate p, Value l, Value r) {
  return arith::CmpIOp::create(e.b, e.loc, p, l, r);
}

WindowEmitter::Place WindowEmitter::imagePlace(ArrayRef<int64_t> sizes) {
  Place place{{}, constant(b.getI1Type(), 1)};
  for (size_t d = 0; d < spatial; ++d) {
    Value p = sub(add(mul(position(y[d]), index(strides[d])), mul(position(k[d]), index(dilations[d]))),
                  index(pads[d]));
    Value inside = compare(*this, arith::CmpIPredicate::ult, p, index(sizes[d]));
    place.inside = arith::AndIOp::create(b, loc, place.inside, inside);
    place.positions.push_back(p);
  }
  return place;
}

WindowEmitter::Place WindowEmitter::resultPlace(ArrayRef<int64_t> sizes) {
  Place place{{}, constant(b.getI1Type(), 1)};
  auto require = [&](arith::CmpIPredicate p, Value l, Value r) {
    place.inside = arith::AndIOp::create(b, loc, place.inside, compare(*this, p, l, r));
  };
  for (size_t d = 0; d < spatial; ++d) {
    Value p = sub(add(position(x[d]), index(pads[d])), mul(position(k[d]), index(dilations[d])));
    Value stride = index(strides[d]), at = arith::DivSIOp::create(b, loc, p, stride);
    require(arith::CmpIPredicate::eq, arith::RemSIOp::create(b, loc, p, stride), index(0));
    require(arith::CmpIPredicate::sge, p, index(0));
    require(arith::CmpIPredicate::slt, at, index(sizes[d]));
    place.positions.push_back(at);
  }
  return place;
}

Value WindowEmitter::read(Value from, ArrayRef<Value> leading, const Place &place, double outside) {
  SmallVector<Value> where(leading);
  for (Value p : place.positions)
    where.push_back(arith::SelectOp::create(b, loc, place.inside, p, index(0)));
  Value element = tensor::ExtractOp::create(b, loc, from, where);
  return arith::SelectOp::create(b, loc, place.inside, element, constant(elementOf(from), outside));
}
