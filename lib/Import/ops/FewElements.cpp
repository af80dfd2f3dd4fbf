#include "lib/Import/ops/FewElements.h"

using namespace mlir;

namespace tessera {

static constexpr int64_t kFew = 64;

Value wrapped(Emitter &e, Value indices, int64_t size) {
  Value fromEnd = e.binary<nn::AddOp>(indices, e.scalarLike(indices, size));
  return e.emit<nn::SelectOp>({e.compare(indices, e.scalarLike(indices, 0), "lt"), fromEnd, indices});
}

std::optional<FewElements> FewElements::along(Emitter &e, Value data, Value indices, int64_t axis) {
  Shape like(shapeOf(data)), wide(shapeOf(indices)), line(wide.size() + 1, 1);
  int64_t size = like[axis];
  like[axis] = wide[axis];
  if (size > kFew || wide[axis] > kFew || like != wide)
    return std::nullopt;
  wide.insert(wide.begin() + axis + 1, 1);
  line[axis + 1] = size;
  FewElements few;
  few.axis = axis;
  few.chosen =
      e.compare(e.reshape(wrapped(e, indices, size), wide), e.iota(elementOf(indices), line, axis + 1), "eq");
  return few;
}

Value FewElements::pick(Emitter &e, Value from, int64_t inserted, int64_t reduced, StringRef kind,
                        Value neutral) const {
  Shape wide(shapeOf(from));
  wide.insert(wide.begin() + inserted, 1);
  return e.reduce(e.emit<nn::SelectOp>({chosen, e.reshape(from, wide), neutral}), {reduced}, kind, false);
}

Value FewElements::read(Emitter &e, Value data) const {
  Type type = elementOf(data), computed = type.isInteger(1) ? Type(e.builder.getI32Type()) : type;
  return e.cast(pick(e, e.cast(data, computed), axis, axis + 1, "sum", e.splat(computed, -0.0)), type);
}
Value FewElements::merge(Emitter &e, Value updates, StringRef kind, Value neutral) const {
  return pick(e, updates, axis + 1, axis, kind, neutral);
}

} // namespace tessera
