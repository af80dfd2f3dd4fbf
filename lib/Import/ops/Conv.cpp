// Convolution and global pooling.
#include "lib/Import/Importer.h"
#include "lib/Import/ops/Families.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using llvm::Twine;

namespace tessera {
namespace {

void conv(NodeImport &n) {
  Emitter &e = n.e;
  Value x = n.in(0), w = n.in(1);
  int64_t spatial = rankOf(x) - 2;
  if (spatial < 1 || rankOf(w) != rankOf(x))
    n.fail("Conv needs operands [n, c, ..] and [o, c/groups, ..] of equal rank");
  std::vector<int64_t> ones(spatial, 1);
  std::vector<int64_t> strides = n.intsAttr("strides", ones), dilations = n.intsAttr("dilations", ones);
  std::vector<int64_t> pads = n.intsAttr("pads", std::vector<int64_t>(2 * spatial, 0));
  if (static_cast<int64_t>(strides.size()) != spatial || static_cast<int64_t>(dilations.size()) != spatial ||
      static_cast<int64_t>(pads.size()) != 2 * spatial)
    n.fail("strides, dilations and pads must fit " + Twine(spatial) + " spatial dimensions");
  auto tooLarge = [](int64_t v) { return v < 1 || v > INT32_MAX; };
  if (llvm::any_of(strides, tooLarge) || llvm::any_of(dilations, tooLarge) ||
      llvm::any_of(pads, [](int64_t p) { return p < 0 || p > INT32_MAX; }))
    n.fail("strides, dilations or pads are impossible");
  std::string autoPad = n.stringAttr("auto_pad", "NOTSET");
  if (autoPad == "SAME_UPPER" || autoPad == "SAME_LOWER") {
    for (int64_t d = 0; d < spatial; ++d) {
      int64_t size = shapeOf(x)[d + 2], outputs = llvm::divideCeil(size, strides[d]);
      int64_t total = std::max<int64_t>(
          (outputs - 1) * strides[d] + (shapeOf(w)[d + 2] - 1) * dilations[d] + 1 - size, 0);
      pads[d] = autoPad == "SAME_UPPER" ? total / 2 : total - total / 2;
      pads[d + spatial] = total - pads[d];
    }
  } else if (autoPad != "NOTSET" && autoPad != "VALID") {
    n.fail("auto_pad '" + autoPad + "' is unknown");
  }
  llvm::SmallVector<Value> operands{x, w};
  if (n.has(2))
    operands.push_back(n.in(2));
  Builder &b = e.builder;
  n.out(e.emit<nn::ConvOp>(operands, {b.getNamedAttr("strides", b.getDenseI64ArrayAttr(strides)),
                                      b.getNamedAttr("pads", b.getDenseI64ArrayAttr(pads)),
                                      b.getNamedAttr("dilations", b.getDenseI64ArrayAttr(dilations)),
                                      b.getNamedAttr("groups", b.getI64IntegerAttr(n.intAttr("group", 1)))}));
}

template <bool average> void globalPool(NodeImport &n) {
  Emitter &e = n.e;
  Value x = n.in(0);
  auto dims = llvm::to_vector(llvm::seq<int64_t>(2, std::max<int64_t>(rankOf(x), 2)));
  Value pooled = e.reduce(x, dims, average ? "sum" : "max", true);
  if (average)
    pooled = e.binary<nn::MulOp>(pooled, e.scalarLike(pooled, 1.0 / product(shapeOf(x).drop_front(2))));
  n.out(pooled);
}

} // namespace

void addConvHandlers(HandlerRegistry &r) {
  r.add("Conv", conv);
  r.add("GlobalAveragePool", globalPool<true>);
  r.add("GlobalMaxPool", globalPool<false>);
}

} // namespace tessera
