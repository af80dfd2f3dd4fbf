// Convolutions.
#include "dialects/nn/Size.h"
#include "lib/Import/ops/Families.h"
#include "lib/Import/ops/Window.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using llvm::Twine;

namespace tessera {

Window windowOf(NodeImport &n, llvm::ArrayRef<int64_t> image, llvm::ArrayRef<int64_t> sizes) {
  int64_t spatial = image.size();
  std::vector<int64_t> ones(spatial, 1);
  Window w{sizes, n.intsAttr("strides", ones), n.intsAttr("pads", std::vector<int64_t>(2 * spatial, 0)),
           n.intsAttr("dilations", ones)};
  auto differs = [&](const std::vector<int64_t> &list, int64_t count) {
    return static_cast<int64_t>(list.size()) != count;
  };
  if (spatial < 1 || differs(w.sizes, spatial) || differs(w.strides, spatial) ||
      differs(w.dilations, spatial) || differs(w.pads, 2 * spatial))
    n.fail("the window, its strides, dilations and pads must fit " + Twine(spatial) + " spatial dimensions");
  auto impossible = [](int64_t v) { return v < 1 || v > INT32_MAX; };
  if (llvm::any_of(w.sizes, impossible) || llvm::any_of(w.strides, impossible) ||
      llvm::any_of(w.dilations, impossible) ||
      llvm::any_of(w.pads, [](int64_t p) { return p < 0 || p > INT32_MAX; }))
    n.fail("the window, its strides, dilations or pads are impossible");
  int64_t elements = 1;
  for (int64_t size : w.sizes)
    if (llvm::MulOverflow(elements, size, elements) || elements > nn::maxElements)
      n.fail("the window has more elements than any machine can hold");
  std::string autoPad = n.stringAttr("auto_pad", "NOTSET");
  if (autoPad == "SAME_UPPER" || autoPad == "SAME_LOWER") {
    for (int64_t d = 0; d < spatial; ++d) {
      int64_t outputs = llvm::divideCeil(image[d], w.strides[d]);
      int64_t total = std::max<int64_t>((outputs - 1) * w.strides[d] + w.extent(d) - image[d], 0);
      w.pads[d] = autoPad == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.pads[d + spatial] = total - w.pads[d];
    }
  } else if (autoPad != "NOTSET" && autoPad != "VALID") {
    n.fail("auto_pad '" + autoPad + "' is unknown");
  }
  return w;
}

namespace {

void convolve(NodeImport &n, Value x, Value weights, const Window &w, int64_t groups) {
  Builder &b = n.e.builder;
  SmallVector<Value> operands = {x, weights};
  if (n.has(2)) {
    if (shapeOf(n.in(2)) != llvm::ArrayRef<int64_t>(shapeOf(weights)[0]))
      n.fail("the bias must have one element for each of " + Twine(shapeOf(weights)[0]) + " channels");
    operands.push_back(n.in(2));
  }
  n.out(n.e.emit<nn::ConvOp>(operands, {b.getNamedAttr("strides", b.getDenseI64ArrayAttr(w.strides)),
                                        b.getNamedAttr("pads", b.getDenseI64ArrayAttr(w.pads)),
                                        b.getNamedAttr("dilations", b.getDenseI64ArrayAttr(w.dilations)),
                                        b.getNamedAttr("groups", b.getI64IntegerAttr(groups))}));
}

void checkWeights(NodeImport &n) {
  if (rankOf(n.in(0)) < 3 || rankOf(n.in(1)) != rankOf(n.in(0)))
    n.fail(n.node.opType + " needs operands [n, c, ..] and weights of equal rank, 3 or more");
  std::vector<int64_t> sizes = shapeOf(n.in(1)).drop_front(2).vec();
  if (n.intsAttr("kernel_shape", sizes) != sizes)
    n.fail("kernel_shape differs from the window of the weights");
}

void conv(NodeImport &n) {
  checkWeights(n);
  Window w = windowOf(n, shapeOf(n.in(0)).drop_front(2), shapeOf(n.in(1)).drop_front(2));
  convolve(n, n.in(0), n.in(1), w, n.intAttr("group", 1));
}

/// The gradient of a convolution with respect to its image, written as one: of the image with strides - 1
/// zeros between neighbours, with the window reversed and the channels' roles exchanged.
void convTranspose(NodeImport &n) {
  checkWeights(n);
  Emitter &e = n.e;
  Value x = n.in(0), weights = n.in(1);
  llvm::ArrayRef<int64_t> image = shapeOf(x).drop_front(2);
  int64_t spatial = image.size(), groups = n.intAttr("group", 1), channels = shapeOf(x)[1];
  if (groups < 1 || shapeOf(weights)[0] != channels || channels % groups)
    n.fail("weights for " + Twine(shapeOf(weights)[0]) + " channels in " + Twine(groups) +
           " groups, the image has " + Twine(channels));
  Window w = windowOf(n, image, shapeOf(weights).drop_front(2));
  std::vector<int64_t> extra = n.intsAttr("output_padding", std::vector<int64_t>(spatial, 0));
  std::vector<int64_t> wanted = n.intsAttr("output_shape");
  if (static_cast<int64_t>(extra.size()) != spatial ||
      (!wanted.empty() && static_cast<int64_t>(wanted.size()) != spatial))
    n.fail("output_padding and output_shape must fit " + Twine(spatial) + " spatial dimensions");
  std::string autoPad = n.stringAttr("auto_pad", "NOTSET");
  for (int64_t d = 0; d < spatial; ++d) {
    n.checkListed(w.sizes[d]);
    n.checkListed(image[d]); // times a stride it stays a number
    auto impossible = [](int64_t v) { return v < 0 || v > INT32_MAX; };
    if (impossible(extra[d]) || (!wanted.empty() && impossible(wanted[d])))
      n.fail("output_padding or output_shape is impossible");
    int64_t full = (image[d] - 1) * w.strides[d] + w.extent(d) + extra[d];
    if (wanted.empty() && autoPad.substr(0, 4) != "SAME")
      continue;
    int64_t total = full - (wanted.empty() ? image[d] * w.strides[d] : wanted[d]);
    // What is wanted beyond the whole is zeros at the end.
    w.pads[d] = total < 0 ? 0 : autoPad == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.pads[d + spatial] = total - w.pads[d];
  }
  Shape interior(rankOf(x), 0), zeros(rankOf(x), 0);
  for (int64_t d = 0; d < spatial; ++d) {
    interior[d + 2] = w.strides[d] - 1;
    int64_t low = w.extent(d) - 1 - w.pads[d], high = w.extent(d) - 1 - w.pads[d + spatial] + extra[d];
    if (low < 0 || high < 0)
      n.fail("pads beyond the window are not supported in a ConvTranspose");
    w.pads[d] = low;
    w.pads[d + spatial] = high;
    std::vector<int64_t> backward(w.sizes[d]);
    std::iota(backward.rbegin(), backward.rend(), 0);
    weights = e.take(weights, d + 2, backward);
  }
  Builder &b = e.builder;
  if (llvm::any_of(w.strides, [](int64_t s) { return s != 1; }))
    x = e.emit<nn::PadOp>(x, {b.getNamedAttr("low", b.getDenseI64ArrayAttr(zeros)),
                              b.getNamedAttr("high", b.getDenseI64ArrayAttr(zeros)),
                              b.getNamedAttr("interior", b.getDenseI64ArrayAttr(interior)),
                              b.getNamedAttr("value", b.getF64FloatAttr(0))});
  w.strides.assign(spatial, 1);
  // [c, o/groups, ..] to [o, c/groups, ..], each group by itself.
  Shape split{groups, channels / groups}, merged{shapeOf(weights)[1] * groups, channels / groups};
  llvm::append_range(split, shapeOf(weights).drop_front(1));
  llvm::append_range(merged, w.sizes);
  auto perm = llvm::to_vector(llvm::seq<int64_t>(0, split.size()));
  std::swap(perm[1], perm[2]);
  convolve(n, x, e.reshape(e.transpose(e.reshape(weights, split), perm), merged), w, groups);
}

} // namespace

void addConvHandlers(HandlerRegistry &r) {
  r.add("Conv", conv);
  r.add("ConvTranspose", convTranspose);
}

} // namespace tessera
