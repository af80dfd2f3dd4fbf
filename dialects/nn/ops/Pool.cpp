// The maximum over windows and its gradient.
#include "dialects/nn/LibraryCalls.h"
#include "dialects/nn/Window.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tessera::nn;

TESSERA_INFER(MaxPoolOp) {
  ArrayRef<int64_t> x = shapeOf(adaptor.getX());
  if (x.size() < 3)
    return inferError(location,
                      "x " + shapeText(x) + " needs batch, channels and at least one spatial dimension");
  auto sizes = windowedSizes(location, x.drop_front(2), adaptor.getWindow(), adaptor.getStrides(),
                             adaptor.getPads(), adaptor.getDilations());
  if (failed(sizes))
    return failure();
  sizes->insert(sizes->begin(), x.begin(), x.begin() + 2);
  types.push_back(RankedTensorType::get(*sizes, elementOf(adaptor.getX())));
  types.push_back(RankedTensorType::get(*sizes, IntegerType::get(context, 32)));
  return success();
}

LogicalResult MaxPoolGradOp::verify() {
  if (shapeOf(getDx()).size() < 3 || shapeOf(getDy()).size() != shapeOf(getDx()).size())
    return emitOpError("dx ") << shapeText(shapeOf(getDx())) << " and dy " << shapeText(shapeOf(getDy()))
                              << " need batch, channels and the same spatial dimensions";
  auto sizes = windowedSizes(getLoc(), shapeOf(getDx()).drop_front(2), getWindow(), getStrides(), getPads(),
                             getDilations());
  if (failed(sizes))
    return failure();
  if (shapeOf(getDy()).drop_front(2) != ArrayRef<int64_t>(*sizes) || shapeOf(getDy()) != shapeOf(getChosen()))
    return emitOpError("dy has shape ")
           << shapeText(shapeOf(getDy())) << ", the windows of dx are " << shapeText(*sizes);
  return success();
}

/// "nc" and fresh letters for the image's and the result's spatial dimensions, which are unsplit.
static std::pair<std::string, std::string> letters(size_t spatial) {
  std::string more = freshLetters(2 * spatial, "nc");
  return {"nc" + more.substr(0, spatial), "nc" + more.substr(spatial)};
}
FactorRule MaxPoolOp::getFactorRule() {
  auto [x, y] = letters(getStrides().size());
  return lettersRule(*this, {x}, {y, y}, "", x.substr(2) + y.substr(2));
}
FactorRule MaxPoolGradOp::getFactorRule() {
  auto [x, y] = letters(getStrides().size());
  return lettersRule(*this, {y, y}, {x}, "", x.substr(2) + y.substr(2));
}

LogicalResult MaxPoolOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                     SmallVectorImpl<Value> &results) {
  return expandTrimmed(*this, builder, operands, results);
}
LogicalResult MaxPoolGradOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                         SmallVectorImpl<Value> &results) {
  return expandTrimmed(*this, builder, operands, results);
}

LogicalResult MaxPoolOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  grad.add(0, MaxPoolGradOp::create(grad, grad.loc(), plainType(getX()), getChosen(), cotangents[0],
                                    getWindow(), getStrides(), getPads(), getDilations()));
  return success();
}

/// The number of the window position that the loops are at.
static Value windowNumber(WindowEmitter &e, ArrayRef<int64_t> window) {
  Value number = e.index(0);
  for (size_t d = 0; d < window.size(); ++d)
    number = e.add(e.mul(number, e.index(window[d])), e.position(e.k[d]));
  return arith::IndexCastOp::create(e.b, e.loc, e.b.getI32Type(), number);
}

FailureOr<SmallVector<Value>> MaxPoolOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  WindowEmitter e(builder, *this, "nc");
  auto type = plainType(getY());
  Type element = type.getElementType(), i32 = builder.getI32Type();
  std::string out = "nc" + e.y;
  // Only the shape of the window is read.
  Lettered window{e.filled(getWindow(), builder.getI1Type(), 0), e.k};
  return e.generic(
      {window},
      {{e.filled(type.getShape(), element, lowest(element)), out}, {e.filled(type.getShape(), i32, 0), out}},
      [&](ArrayRef<Value> args) {
        Value best = args[1], chosen = args[2];
        Value x = e.read(operands[0], {e.position('n'), e.position('c')},
                         e.imagePlace(shapeOf(operands[0]).drop_front(2)), lowest(element));
        // Larger, or the first that is not a number.
        auto is = [&](arith::CmpFPredicate p, Value l, Value r) -> Value {
          return arith::CmpFOp::create(builder, getLoc(), p, l, r);
        };
        Value ordered = is(arith::CmpFPredicate::ORD, best, best);
        Value better =
            arith::AndIOp::create(builder, getLoc(), ordered, is(arith::CmpFPredicate::UGT, x, best));
        return SmallVector<Value>{
            arith::SelectOp::create(builder, getLoc(), better, x, best),
            arith::SelectOp::create(builder, getLoc(), better, windowNumber(e, getWindow()), chosen)};
      });
}

/// Of each dimension, how many windows an image position is in, at most.
static SmallVector<int64_t> windowsAround(WindowEmitter &e, ArrayRef<int64_t> window) {
  SmallVector<int64_t> counts;
  for (size_t d = 0; d < window.size(); ++d)
    counts.push_back(llvm::divideCeil((window[d] - 1) * e.dilations[d] + 1, e.strides[d]));
  return counts;
}

/// The window that the loops are at, counted back from the last that begins at or before the image position
/// x, in a result of `sizes`; and the number of its position that is x. What is not in it is not inside.
static std::pair<WindowEmitter::Place, Value> windowAround(WindowEmitter &e, ArrayRef<int64_t> window,
                                                           ArrayRef<int64_t> sizes) {
  WindowEmitter::Place place{{}, e.constant(e.b.getI1Type(), 1)};
  auto require = [&](arith::CmpIPredicate p, Value l, Value r) {
    place.inside =
        arith::AndIOp::create(e.b, e.loc, place.inside, arith::CmpIOp::create(e.b, e.loc, p, l, r));
  };
  Value number = e.index(0);
  for (size_t d = 0; d < window.size(); ++d) {
    Value p = e.add(e.position(e.x[d]), e.index(e.pads[d])), stride = e.index(e.strides[d]);
    Value at = e.sub(arith::DivUIOp::create(e.b, e.loc, p, stride), e.position(e.k[d]));
    Value offset = e.sub(p, e.mul(at, stride)), dilation = e.index(e.dilations[d]);
    require(arith::CmpIPredicate::ult, at, e.index(sizes[d]));
    require(arith::CmpIPredicate::ult, offset, e.index((window[d] - 1) * e.dilations[d] + 1));
    if (e.dilations[d] != 1)
      require(arith::CmpIPredicate::eq, arith::RemUIOp::create(e.b, e.loc, offset, dilation), e.index(0));
    number =
        e.add(e.mul(number, e.index(window[d])),
              e.dilations[d] == 1 ? offset : Value(arith::DivUIOp::create(e.b, e.loc, offset, dilation)));
    place.positions.push_back(at);
  }
  return {place, arith::IndexCastOp::create(e.b, e.loc, e.b.getI32Type(), number)};
}

FailureOr<SmallVector<Value>> MaxPoolGradOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  WindowEmitter e(builder, *this, "nc");
  auto type = plainType(getDx());
  // Only the shape is read.
  Lettered windows{e.filled(windowsAround(e, getWindow()), builder.getI1Type(), 0), e.k};
  return SmallVector<Value>{
      e.sum({windows}, "nc" + e.x, type.getShape(), type.getElementType(), [&](ArrayRef<Value>) -> Value {
        auto [place, number] = windowAround(e, getWindow(), shapeOf(operands[1]).drop_front(2));
        SmallVector<Value> leading = {e.position('n'), e.position('c')};
        Value dy = e.read(operands[1], leading, place, 0), chosen = e.read(operands[0], leading, place, -1);
        Value mine = arith::CmpIOp::create(builder, getLoc(), arith::CmpIPredicate::eq, chosen, number);
        return arith::SelectOp::create(builder, getLoc(), mine, dy, e.constant(type.getElementType(), 0));
      })};
}

std::optional<LibraryCall> MaxPoolGradOp::getLibraryCall() {
  constexpr size_t mostDimensions = 3; // of images
  if (!isAllF32(*this) || getStrides().size() > mostDimensions)
    return std::nullopt;
  ArrayRef<int64_t> image = shapeOf(getDx());
  CallAttrs attrs(getContext());
  attrs.set("images", image[0] * image[1]);
  attrs.set("in", image.drop_front(2));
  attrs.set("out", shapeOf(getDy()).drop_front(2));
  attrs.set("kernel", getWindow());
  attrs.set("strides", getStrides());
  attrs.set("pads", getPads().take_front(getStrides().size()));
  attrs.set("dilations", getDilations());
  return attrs.call("max_pool_backward", {0, 1, 2});
}
