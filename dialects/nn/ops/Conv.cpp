// Convolutions: types, factor rules, gradients, library calls. Lowerings are in ConvLowering.cpp.
#include "dialects/nn/LibraryCalls.h"
#include "dialects/nn/Window.h"

using namespace mlir;
using namespace tessera::nn;

/// The shape of conv(x, w), or a diagnosed failure.
static FailureOr<SmallVector<int64_t>> convShape(std::optional<Location> location, ArrayRef<int64_t> x,
                                                 ArrayRef<int64_t> w, ArrayRef<int64_t> strides,
                                                 ArrayRef<int64_t> pads, ArrayRef<int64_t> dilations,
                                                 int64_t groups) {
  size_t spatial = strides.size();
  if (x.size() != spatial + 2 || w.size() != spatial + 2 || pads.size() != 2 * spatial ||
      dilations.size() != spatial || spatial == 0)
    return inferError(location, "x " + shapeText(x) + " and w " + shapeText(w) +
                                    " need two dimensions and one more for each of the " + Twine(spatial) +
                                    " strides; pads need two and dilations one for each");
  if (groups < 1 || w[1] * groups != x[1] || w[0] % groups != 0)
    return inferError(location, "x has " + Twine(x[1]) + " channels, w " + shapeText(w) + " takes " +
                                    Twine(w[1]) + " in each of " + Twine(groups) +
                                    " groups, which must divide its output channels");
  auto sizes = windowedSizes(location, x.drop_front(2), w.drop_front(2), strides, pads, dilations);
  if (failed(sizes))
    return failure();
  SmallVector<int64_t> out = {x[0], w[0]};
  llvm::append_range(out, *sizes);
  return out;
}

TESSERA_INFER(ConvOp) {
  auto shape = convShape(location, shapeOf(adaptor.getX()), shapeOf(adaptor.getW()), adaptor.getStrides(),
                         adaptor.getPads(), adaptor.getDilations(), int64_t(adaptor.getGroups()));
  if (failed(shape))
    return failure();
  if (elementOf(adaptor.getX()) != elementOf(adaptor.getW()))
    return inferError(location, "x and w have different element types");
  if (Value bias = adaptor.getBias())
    if (shapeOf(bias) != ArrayRef<int64_t>{(*shape)[1]})
      return inferError(location, "bias must have one element for each of the " + Twine((*shape)[1]) +
                                      " output channels");
  types.push_back(RankedTensorType::get(*shape, elementOf(adaptor.getX())));
  return success();
}
LogicalResult ConvOp::verify() { return success(); }

/// Whether (x, w) -> y are the shapes of a convolution with the attributes of `op`.
template <class Op> static LogicalResult verifyGrad(Op op, Value x, Value w, Value y) {
  auto shape = convShape(op.getLoc(), shapeOf(x), shapeOf(w), op.getStrides(), op.getPads(),
                         op.getDilations(), int64_t(op.getGroups()));
  if (failed(shape))
    return failure();
  if (shapeOf(y) != ArrayRef<int64_t>(*shape))
    return op.emitOpError("dy has shape ")
           << shapeText(shapeOf(y)) << ", the convolution's result has " << shapeText(*shape);
  return success();
}
LogicalResult ConvGradInputOp::verify() { return verifyGrad(*this, getDx(), getW(), getDy()); }
LogicalResult ConvGradWeightsOp::verify() { return verifyGrad(*this, getX(), getDw(), getDy()); }

namespace {
/// Letters of x, w and y. Channels in groups and spatial dimensions are whole.
struct Words {
  std::string x = "nc", w = "oc", y = "no", unsplit;
  Words(size_t spatial, int64_t groups) {
    if (groups != 1) {
      x[1] = 'C';
      unsplit = "coC";
    }
    std::string more = freshLetters(3 * spatial, "nocC");
    x += more.substr(0, spatial);
    w += more.substr(spatial, spatial);
    y += more.substr(2 * spatial);
    unsplit += more;
  }
};
} // namespace

FactorRule ConvOp::getFactorRule() {
  Words w(getStrides().size(), getGroups());
  SmallVector<std::string> words = {w.x, w.w};
  if (getBias()) {
    // Each term of a sum over split channels would have the bias.
    words.push_back("o");
    w.unsplit += 'c';
  }
  return lettersRule(*this, words, {w.y}, "", w.unsplit);
}
FactorRule ConvGradInputOp::getFactorRule() {
  Words w(getStrides().size(), getGroups());
  return lettersRule(*this, {w.w, w.y}, {w.x}, "", w.unsplit);
}
FactorRule ConvGradWeightsOp::getFactorRule() {
  Words w(getStrides().size(), getGroups());
  return lettersRule(*this, {w.x, w.y}, {w.w}, "", w.unsplit);
}

/// Zero along what is summed.
template <class Op> static std::optional<double> summedNeutral(Op op, unsigned factor) {
  FactorRule rule = op.getFactorRule();
  return rule.resultHas(0, factor) ? std::nullopt : std::optional<double>(0);
}
std::optional<double> ConvOp::getNeutral(unsigned, unsigned factor) { return summedNeutral(*this, factor); }
std::optional<double> ConvGradInputOp::getNeutral(unsigned, unsigned factor) {
  return summedNeutral(*this, factor);
}
std::optional<double> ConvGradWeightsOp::getNeutral(unsigned, unsigned factor) {
  return summedNeutral(*this, factor);
}

LogicalResult ConvOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                  SmallVectorImpl<Value> &results) {
  return expandTrimmed(*this, builder, operands, results);
}
LogicalResult ConvGradInputOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                           SmallVectorImpl<Value> &results) {
  return expandTrimmed(*this, builder, operands, results);
}
LogicalResult ConvGradWeightsOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                             SmallVectorImpl<Value> &results) {
  return expandTrimmed(*this, builder, operands, results);
}

LogicalResult ConvOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  Value dy = cotangents[0];
  if (grad.wants(0))
    grad.add(0, ConvGradInputOp::create(grad, grad.loc(), plainType(getX()), getW(), dy, getStrides(),
                                        getPads(), getDilations(), getGroups()));
  if (grad.wants(1))
    grad.add(1, ConvGradWeightsOp::create(grad, grad.loc(), plainType(getW()), getX(), dy, getStrides(),
                                          getPads(), getDilations(), getGroups()));
  if (getBias() && grad.wants(2)) {
    SmallVector<int64_t> dims = {0};
    for (size_t d = 0; d < getStrides().size(); ++d)
      dims.push_back(2 + d);
    grad.add(2, sumOver(grad, grad.loc(), dy, dims));
  }
  return success();
}

/// A call of one of the library's three functions on x, w, y.
template <class Op>
static std::optional<LibraryCall> convCall(Op op, StringRef function, ArrayRef<int> buffers, Value x, Value w,
                                           Value y, bool bias) {
  ArrayRef<int64_t> strides = op.getStrides();
  // One type for all arrays.
  auto typed = [&](Value value) { return elementOf(value) == elementOf(x); };
  if (!llvm::all_of(op->getOperands(), typed) || !llvm::all_of(op->getResults(), typed))
    return std::nullopt;
  CallAttrs attrs(op.getContext());
  attrs.setType(elementOf(x));
  attrs.set("batch", shapeOf(x)[0]);
  attrs.set("in_channels", shapeOf(x)[1]);
  attrs.set("out_channels", shapeOf(w)[0]);
  attrs.set("groups", int64_t(op.getGroups()));
  attrs.set("in", shapeOf(x).drop_front(2));
  attrs.set("out", shapeOf(y).drop_front(2));
  attrs.set("kernel", shapeOf(w).drop_front(2));
  attrs.set("strides", strides);
  attrs.set("pads", op.getPads().take_front(strides.size()));
  attrs.set("dilations", op.getDilations());
  attrs.setFlag("bias", bias);
  return attrs.call(function, buffers);
}
std::optional<LibraryCall> ConvOp::getLibraryCall() {
  int result = getNumOperands();
  SmallVector<int> buffers = {0, 1, result};
  if (getBias())
    buffers.push_back(2);
  return convCall(*this, "conv_forward", buffers, getX(), getW(), getResult(), bool(getBias()));
}
std::optional<LibraryCall> ConvGradInputOp::getLibraryCall() {
  return convCall(*this, "conv_backward_data", {0, 1, 2}, getDx(), getW(), getDy(), false);
}
std::optional<LibraryCall> ConvGradWeightsOp::getLibraryCall() {
  return convCall(*this, "conv_backward_weights", {0, 1, 2}, getX(), getDw(), getDy(), false);
}

/// Of each element of y with what the weights have for its channel.
static double convFlops(Value w, Value y) {
  return 2.0 * double(plainType(y).getNumElements()) * double(plainType(w).getNumElements()) /
         double(std::max<int64_t>(shapeOf(w)[0], 1));
}
/// A product of each image and group: positions, channels of the result, what each of these is a sum over.
static tessera::rt::ProductShape convShape(Value w, Value y, int64_t groups) {
  const double images = double(shapeOf(y)[0]), all = double(std::max<int64_t>(shapeOf(w)[0], 1));
  return {images * double(groups), double(plainType(y).getNumElements()) / (all * std::max(images, 1.0)),
          all / double(groups), double(plainType(w).getNumElements()) / all};
}
tessera::rt::ProductShape ConvOp::getProductShape() { return convShape(getW(), getResult(), getGroups()); }
tessera::rt::ProductShape ConvGradInputOp::getProductShape() {
  return convShape(getW(), getDy(), getGroups());
}
tessera::rt::ProductShape ConvGradWeightsOp::getProductShape() {
  return convShape(getDw(), getDy(), getGroups());
}
double ConvOp::getFlops() { return convFlops(getW(), getResult()); }
double ConvGradInputOp::getFlops() { return convFlops(getW(), getDy()); }
double ConvGradWeightsOp::getFlops() { return convFlops(getDw(), getDy()); }
