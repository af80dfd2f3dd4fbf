// ONNX Runtime's mixture of experts: what normalisation makes of others' forms, at once.
#include "lib/Import/Importer.h"
#include "lib/Import/ops/Families.h"
#include "lib/Import/ops/TopK.h"

using namespace mlir;
using llvm::Twine;

namespace tessera {
namespace {

/// rows [e, t, i] times the weights of input `at`, [e, o, i] (older files: [e, i, o]), plus the bias behind
/// it.
Value layer(NodeImport &n, Value rows, size_t at) {
  Emitter &e = n.e;
  Value weights = n.in(at);
  int64_t width = shapeOf(rows).back();
  if (rankOf(weights) != 3 || shapeOf(weights)[0] != shapeOf(rows)[0] ||
      (shapeOf(weights)[1] != width && shapeOf(weights)[2] != width))
    n.fail("input " + Twine(at) + " must be weights of " + Twine(shapeOf(rows)[0]) + " experts for rows of " +
           Twine(width));
  Value result = e.contract(rows, weights, "eti", shapeOf(weights)[2] == width ? "eoi" : "eio", "eto");
  if (!n.has(at + 1))
    return result;
  Value bias = n.in(at + 1);
  return e.binary<nn::AddOp>(result, e.reshape(bias, {shapeOf(rows)[0], 1, shapeOf(result).back()}));
}

/// g sigmoid(alpha g) (l + beta), both cut at a limit where there is one.
Value swiglu(NodeImport &n, Value gate, Value linear) {
  Emitter &e = n.e;
  if (n.hasAttr("swiglu_limit")) {
    double limit = n.floatAttr("swiglu_limit", 0);
    gate = e.binary<nn::MinOp>(gate, e.scalarLike(gate, limit));
    linear = e.binary<nn::MaxOp>(e.binary<nn::MinOp>(linear, e.scalarLike(linear, limit)),
                                 e.scalarLike(linear, -limit));
  }
  double alpha = n.floatAttr("activation_alpha", 1), beta = n.floatAttr("activation_beta", 0);
  Value scaled = alpha == 1 ? gate : e.binary<nn::MulOp>(gate, e.scalarLike(gate, alpha));
  Value on = e.binary<nn::MulOp>(gate, e.emit<nn::SigmoidOp>(scaled));
  return e.binary<nn::MulOp>(on,
                             beta == 0 ? linear : e.binary<nn::AddOp>(linear, e.scalarLike(linear, beta)));
}

Value activated(NodeImport &n, Value x) {
  Emitter &e = n.e;
  std::string kind = n.stringAttr("activation_type", "relu");
  if (kind == "swiglu") {
    int64_t fusion = n.intAttr("swiglu_fusion", 0), half = shapeOf(x).back() / 2;
    if (fusion == 2)
      return swiglu(n, e.slice(x, 2, 0, half), e.slice(x, 2, half, half));
    if (fusion != 1)
      n.fail("a swiglu that is not fused needs a third layer");
    Shape sizes(shapeOf(x));
    sizes[2] = half;
    return swiglu(n, e.slice(x, {0, 0, 0}, sizes, {1, 1, 2}), e.slice(x, {0, 0, 1}, sizes, {1, 1, 2}));
  }
  if (kind == "relu")
    return e.emit<nn::ReluOp>(x);
  if (kind == "silu")
    return e.emit<nn::SiluOp>(x);
  if (kind == "gelu")
    return e.emit<nn::GeluOp>(x, e.builder.getNamedAttr("tanh", e.builder.getBoolAttr(true)));
  if (kind == "identity")
    return x;
  n.fail("the activation '" + kind + "' of a mixture of experts is unknown");
}

void moe(NodeImport &n) {
  Emitter &e = n.e;
  Value x = n.in(0), scores = n.in(1);
  n.ignore({"activation_alpha", "activation_beta", "swiglu_fusion", "swiglu_limit"}); // of swiglu alone
  if (n.intAttr("use_sparse_mixer", 0))
    n.fail("a mixture of experts with use_sparse_mixer is not supported");
  if (rankOf(x) < 2 || rankOf(scores) != 2)
    n.fail("tokens and scores of experts for each are expected");
  int64_t width = shapeOf(x).back(), experts = shapeOf(scores)[1], tokens = shapeOf(scores)[0];
  if (typeOf(x).getNumElements() != tokens * width)
    n.fail("there are scores for " + Twine(tokens) + " tokens, and " +
           Twine(typeOf(x).getNumElements() / std::max<int64_t>(width, 1)) + " tokens");
  Top top = topOf(e, e.emit<nn::SoftmaxOp>(scores), 1, n.intAttr("k", 1), true);
  Value weights = top.values;
  if (n.intAttr("normalize_routing_weights", 0))
    weights = e.binary<nn::DivOp>(weights, e.reduce(weights, {1}, "sum", true));
  Value one = e.splat(elementOf(x), 1, shapeOf(weights));
  Value rows = e.emitAs<nn::DispatchOp>(elementOf(x), {experts, tokens, width},
                                        {e.reshape(x, {tokens, width}), top.indices, one});
  Value first = layer(n, rows, 2), inner;
  bool hasThird = n.has(6);
  if (hasThird && n.stringAttr("activation_type", "relu") == "swiglu")
    inner = swiglu(n, first, layer(n, rows, 6));
  else
    inner = hasThird ? e.binary<nn::MulOp>(activated(n, first), layer(n, rows, 6)) : activated(n, first);
  Value result = e.emit<nn::CombineOp>({layer(n, inner, 4), top.indices, weights});
  n.out(e.reshape(result, shapeOf(x)));
}

} // namespace

void addExpertHandlers(HandlerRegistry &r) { r.add("MoE", moe, 1, "com.microsoft"); }

} // namespace tessera
