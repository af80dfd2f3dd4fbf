// Softmax and the normalisations.
#include "lib/Import/Importer.h"
#include "lib/Import/ops/Families.h"
#include "lib/Import/ops/LogSoftmax.h"

using namespace mlir;

namespace tessera {

Value logSoftmaxOf(Emitter &e, Value x, int64_t axis) {
  Value shifted = e.binary<nn::SubOp>(x, e.reduce(x, {axis}, "max", true));
  Value sum = e.reduce(e.emit<nn::ExpOp>(shifted), {axis}, "sum", true);
  return e.binary<nn::SubOp>(shifted, e.emit<nn::LogOp>(sum));
}

namespace {

/// `value` with dimension `axis` last, after `compute`, put back.
Value alongLast(Emitter &e, Value value, int64_t axis, llvm::function_ref<Value(Value)> compute) {
  auto perm = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(value)));
  std::swap(perm[axis], perm.back());
  return e.transpose(compute(e.transpose(value, perm)), perm);
}

void softmax(NodeImport &n) {
  Value x = n.in(0);
  n.out(alongLast(n.e, x, n.axis(n.intAttr("axis", -1), rankOf(x)),
                  [&](Value v) { return n.e.emit<nn::SoftmaxOp>(v); }));
}

void logSoftmax(NodeImport &n) {
  Value x = n.in(0);
  n.out(logSoftmaxOf(n.e, x, n.axis(n.intAttr("axis", -1), rankOf(x))));
}

/// Runs `compute` on the trailing dimensions from `axis` on as one, in f32 where stash_type asks for it.
template <typename Compute> void overTrailing(NodeImport &n, Compute compute) {
  Emitter &e = n.e;
  Value x = n.in(0);
  int64_t axis = n.axis(n.intAttr("axis", -1), rankOf(x));
  Shape flat(shapeOf(x).take_front(axis)), original(shapeOf(x));
  int64_t size = product(shapeOf(x).drop_front(axis));
  flat.push_back(size);
  Type stored = elementOf(x);
  bool widen = n.intAttr("stash_type", 1) == 1 && (stored.isF16() || stored.isBF16());
  Type type = widen ? Type(e.builder.getF32Type()) : stored;
  auto affine = [&](size_t input, double standard) {
    if (!n.has(input))
      return e.splat(type, standard, {size});
    Shape trailing(original.begin() + axis, original.end());
    return e.cast(e.reshape(e.broadcastTo(n.in(input), trailing), {size}), type);
  };
  Value y = compute(e.cast(e.reshape(x, flat), type), affine);
  n.out(e.reshape(e.cast(y, stored), original));
}

void layerNormalization(NodeImport &n) {
  for (size_t i = 1; i < n.node.outputs.size(); ++i)
    if (!n.node.outputs[i].empty())
      n.fail("the outputs Mean and InvStdDev of LayerNormalization are not supported");
  overTrailing(n, [&](Value x, auto affine) -> Value {
    NamedAttribute eps =
        n.e.builder.getNamedAttr("eps", n.e.builder.getF64FloatAttr(n.floatAttr("epsilon", 1e-5f)));
    return n.e.create<nn::LayerNormOp>({x, affine(1, 1), affine(2, 0)}, eps).getY();
  });
}

void rmsNormalization(NodeImport &n) {
  overTrailing(n, [&](Value x, auto affine) -> Value {
    NamedAttribute eps =
        n.e.builder.getNamedAttr("eps", n.e.builder.getF64FloatAttr(n.floatAttr("epsilon", 1e-5f)));
    return n.e.create<nn::RmsNormOp>({x, affine(1, 1)}, eps).getY();
  });
}

/// A vector over the channels of `x` ([n, c, ..]), ready to broadcast.
Value perChannel(Emitter &e, Value vector, Value x) {
  Shape shape(rankOf(x) - 1, 1);
  shape[0] = typeOf(vector).getNumElements();
  return e.reshape(vector, shape);
}

/// (x - mean) scale / sqrt(variance + eps) + bias: with the file's statistics, or in training mode with those
/// of the batch.
void batchNormalization(NodeImport &n) {
  Emitter &e = n.e;
  Value x = n.in(0), scale = n.in(1), bias = n.in(2), mean = n.in(3), variance = n.in(4);
  if (rankOf(x) < 2)
    n.fail("BatchNormalization needs a channel dimension");
  n.ignore({"momentum"}); // of training alone
  if (n.intAttr("training_mode", 0)) {
    auto dims = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(x)));
    dims.erase(dims.begin() + 1);
    double share = 1.0 * shapeOf(x)[1] / std::max<int64_t>(typeOf(x).getNumElements(), 1);
    auto average = [&](Value values) {
      Value sum = e.reduce(values, dims, "sum", false);
      return e.binary<nn::MulOp>(sum, e.scalarLike(sum, share));
    };
    double kept = n.floatAttr("momentum", 0.9f);
    auto running = [&](Value before, Value now) {
      now = e.cast(now, elementOf(before));
      return e.binary<nn::AddOp>(e.binary<nn::MulOp>(before, e.scalarLike(before, kept)),
                                 e.binary<nn::MulOp>(now, e.scalarLike(before, 1 - kept)));
    };
    Value batchMean = average(x), centred = e.binary<nn::SubOp>(x, perChannel(e, batchMean, x));
    Value batchVariance = average(e.binary<nn::MulOp>(centred, centred));
    n.out(running(mean, batchMean), 1);
    n.out(running(variance, batchVariance), 2);
    mean = batchMean;
    variance = batchVariance;
  }
  Value rstd = e.emit<nn::RsqrtOp>(
      e.binary<nn::AddOp>(variance, e.scalarLike(variance, n.floatAttr("epsilon", 1e-5f))));
  Value factor = e.cast(e.binary<nn::MulOp>(e.cast(scale, elementOf(rstd)), rstd), elementOf(x));
  Value centred = e.binary<nn::SubOp>(x, perChannel(e, e.cast(mean, elementOf(x)), x));
  n.out(e.binary<nn::AddOp>(e.binary<nn::MulOp>(centred, perChannel(e, factor, x)),
                            perChannel(e, e.cast(bias, elementOf(x)), x)));
}

/// `x` as [groups.., elements] normalised over the elements, without an affine part.
Value standardize(NodeImport &n, Value x, llvm::ArrayRef<int64_t> flat) {
  Emitter &e = n.e;
  Value rows = e.reshape(x, flat), one = e.splat(elementOf(x), 1, {flat.back()}),
        zero = e.splat(elementOf(x), 0, {flat.back()});
  NamedAttribute eps =
      e.builder.getNamedAttr("eps", e.builder.getF64FloatAttr(n.floatAttr("epsilon", 1e-5f)));
  return e.reshape(e.create<nn::LayerNormOp>({rows, one, zero}, eps).getY(), shapeOf(x));
}

void instanceNormalization(NodeImport &n) {
  Emitter &e = n.e;
  Value x = n.in(0);
  if (rankOf(x) < 3)
    n.fail("InstanceNormalization needs dimensions after the channels");
  Value y = standardize(n, x, {shapeOf(x)[0], shapeOf(x)[1], product(shapeOf(x).drop_front(2))});
  n.out(e.binary<nn::AddOp>(e.binary<nn::MulOp>(y, perChannel(e, n.in(1), x)), perChannel(e, n.in(2), x)));
}

void groupNormalization(NodeImport &n) {
  Emitter &e = n.e;
  Value x = n.in(0);
  n.ignore({"stash_type"}); // sums are never of a smaller type than f32
  int64_t groups = n.intAttr("num_groups", 0);
  Value scale = n.in(1), bias = n.in(2);
  if (rankOf(x) < 2 || groups < 1 || shapeOf(x)[1] % groups)
    n.fail("the groups of GroupNormalization do not fit its channels");
  // Before opset 21 there is one factor for each group.
  auto channelwise = [&](Value vector) {
    int64_t each = shapeOf(x)[1] / groups;
    if (n.opset >= 21 || rankOf(vector) != 1 || shapeOf(vector)[0] != groups)
      return vector;
    return e.reshape(e.broadcastTo(e.reshape(vector, {groups, 1}), {groups, each}), {groups * each});
  };
  scale = channelwise(scale);
  bias = channelwise(bias);
  for (Value vector : {scale, bias})
    if (typeOf(vector).getNumElements() != shapeOf(x)[1])
      n.fail("the scale and bias of GroupNormalization do not fit its channels");
  Value y = standardize(n, x, {shapeOf(x)[0], groups, product(shapeOf(x).drop_front(1)) / groups});
  n.out(e.binary<nn::AddOp>(e.binary<nn::MulOp>(y, perChannel(e, scale, x)), perChannel(e, bias, x)));
}

} // namespace

void addNormalizationHandlers(HandlerRegistry &r) {
  r.add("Softmax", softmax);
  r.add("LogSoftmax", logSoftmax);
  r.add("LayerNormalization", layerNormalization);
  r.add("RMSNormalization", rmsNormalization);
  r.add("BatchNormalization", batchNormalization);
  r.add("InstanceNormalization", instanceNormalization);
  r.add("GroupNormalization", groupNormalization, 18);
}

} // namespace tessera
