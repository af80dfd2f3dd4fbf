// Dropout and random values: live, where the file says so.
#include "lib/Import/Importer.h"
#include "lib/Import/ops/Families.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace tessera {
namespace {

/// The operator's own number: its place among the file's random operators, and the seed that its node names,
/// an integer of Dropout's, a number of the others'.
int64_t nextId(NodeImport &n, OnnxAttribute::Kind kind) {
  uint64_t seed = 0;
  if (const OnnxAttribute *attribute = n.attr("seed", kind))
    seed = attribute->kind == OnnxAttribute::Kind::Int
               ? static_cast<uint64_t>(attribute->i)
               : llvm::bit_cast<uint32_t>(static_cast<float>(attribute->f));
  return n.e.nextRandom() | static_cast<int64_t>((seed ^ seed >> 32) << 32);
}

/// Whether the node trains: an error where that is known at run time only.
bool isTraining(NodeImport &n) {
  if (!n.has(2))
    return false;
  const HostTensor *mode = n.known(2);
  std::optional<double> value = mode ? mode->scalar() : std::nullopt;
  if (!value)
    n.fail("its training_mode ('" + n.node.inputs[2] +
           "') is computed at run time, a constant is expected: export the model for training or for "
           "inference (torch.onnx.export(.., "
           "training=TrainingMode.TRAINING) or EVAL); 'train' drops and 'infer' does not, whatever runs");
  return *value != 0;
}

void dropout(NodeImport &n) {
  Emitter &e = n.e;
  Value x = n.in(0);
  bool wantsMask = n.node.outputs.size() > 1 && !n.node.outputs[1].empty();
  double ratio = 0;
  bool trains = isTraining(n);
  int64_t id = nextId(n, OnnxAttribute::Kind::Int);
  if (n.has(1) && trains) {
    const HostTensor *known = n.known(1);
    std::optional<double> value = known ? known->scalar() : std::nullopt;
    if (!value)
      n.fail("its ratio ('" + n.node.inputs[1] + "') is computed at run time, a constant is expected");
    ratio = *value;
  } else if (trains) {
    ratio = 0.5;
  }
  if (!(ratio >= 0 && ratio < 1))
    n.fail(llvm::formatv("its ratio is {0}, expected one in [0, 1)", llvm::format("%g", ratio)).str());
  auto dropped = [&](Value value) -> Value {
    return ratio == 0 ? value
                      : Value(nn::DropoutOp::create(e.builder, e.loc, value, e.randomKey(), ratio, id));
  };
  n.out(dropped(x));
  if (!wantsMask)
    return;
  // What is left of ones: all of them outside of training.
  Value ones = e.splat(elementOf(x), 1, shapeOf(x));
  n.out(e.compare(dropped(ones), e.scalarLike(x, 0), "ne"), 1);
}

/// The element type that attribute `dtype` names, `standard` without it.
Type typeAttr(NodeImport &n, Type standard) {
  if (!n.hasAttr("dtype"))
    return standard;
  Type type = elementType(n.e.builder.getContext(), static_cast<OnnxType>(n.intAttr("dtype", 0)));
  if (!type)
    n.fail("its element type " + llvm::Twine(n.intAttr("dtype", 0)) + " is not supported");
  return type;
}

Value random(NodeImport &n, llvm::ArrayRef<int64_t> shape, llvm::StringRef distribution) {
  Emitter &e = n.e;
  auto type = RankedTensorType::get(shape, e.builder.getF32Type());
  return nn::RandomOp::create(e.builder, e.loc, type, e.randomKey(), ValueRange(), distribution,
                              nextId(n, OnnxAttribute::Kind::Float), nullptr, nullptr);
}

/// factor * x + offset, as `type`.
Value affine(NodeImport &n, Value x, double factor, double offset, Type type) {
  Emitter &e = n.e;
  if (!isa<FloatType>(type))
    n.fail("random numbers are of a floating type");
  if (factor != 1)
    x = e.binary<nn::MulOp>(x, e.scalarLike(x, factor));
  if (offset != 0)
    x = e.binary<nn::AddOp>(x, e.scalarLike(x, offset));
  return e.cast(x, type);
}

Value normal(NodeImport &n, llvm::ArrayRef<int64_t> shape, Type type) {
  return affine(n, random(n, shape, "normal"), n.floatAttr("scale", 1), n.floatAttr("mean", 0), type);
}
Value uniform(NodeImport &n, llvm::ArrayRef<int64_t> shape, Type type) {
  double low = n.floatAttr("low", 0), high = n.floatAttr("high", 1);
  return affine(n, random(n, shape, "uniform"), high - low, low, type);
}

template <Value (*make)(NodeImport &, llvm::ArrayRef<int64_t>, Type)> void ofShape(NodeImport &n) {
  n.out(make(n, n.intsAttr("shape"), typeAttr(n, n.e.builder.getF32Type())));
}
template <Value (*make)(NodeImport &, llvm::ArrayRef<int64_t>, Type)> void like(NodeImport &n) {
  n.out(make(n, shapeOf(n.in(0)), typeAttr(n, elementOf(n.in(0)))));
}

/// 1 with the probability that the input says, which numbers of 24 bits are compared with.
void bernoulli(NodeImport &n) {
  Value p = n.in(0), number = random(n, shapeOf(p), "uniform");
  Type wide = elementOf(p).isF64() ? elementOf(p) : elementOf(number);
  n.out(n.e.cast(n.e.compare(n.e.cast(number, wide), n.e.cast(p, wide), "lt"), typeAttr(n, elementOf(p))));
}

} // namespace

void addRandomHandlers(HandlerRegistry &r) {
  r.add("Dropout", dropout);
  r.add("RandomNormal", ofShape<normal>);
  r.add("RandomUniform", ofShape<uniform>);
  r.add("RandomNormalLike", like<normal>);
  r.add("RandomUniformLike", like<uniform>);
  r.add("Bernoulli", bernoulli);
}

} // namespace tessera
