// Attention as the library's calls `attention_forward` and `attention_backward`.
#include "dialects/nn/LibraryCalls.h"

using namespace mlir;
using namespace tessera::nn;

/// The values beside the bias and the sums' logarithms, which have the type of q.
static SmallVector<Value> typedAsQ(AttentionOp op) { return {op.getK(), op.getV(), op.getO()}; }
static SmallVector<Value> typedAsQ(AttentionGradOp op) {
  return {op.getK(), op.getV(), op.getO(), op.getDO(), op.getDq(), op.getDk(), op.getDv()};
}

/// Whether the attributes can tell the types.
template <class Op> static bool hasLibraryTypes(Op op) {
  return elementOf(op.getLse()).isF32() &&
         llvm::all_of(typedAsQ(op), [&](Value value) { return elementOf(value) == elementOf(op.getQ()); });
}

/// The attributes of both calls; none when they cannot tell the types or where the keys begin.
template <class Op> static std::optional<CallAttrs> attentionAttrs(Op op) {
  ArrayRef<int64_t> q = shapeOf(op.getQ()), k = shapeOf(op.getK()), v = shapeOf(op.getV());
  // Without a range the library aligns the first query with the first key.
  bool aligned = !op.getCausal() || !op.getRange().empty() || q[1] == k[1];
  bool isPlaced = op.getRandom().empty() || op.getRandom().size() == 3;
  if (!hasLibraryTypes(op) || q[4] != v[3] || !aligned || !isPlaced)
    return std::nullopt;
  CallAttrs attrs(op.getContext());
  attrs.set("batch", q[0]);
  attrs.set("s", q[1]);
  attrs.set("t", k[1]);
  attrs.set("kv_heads", q[2]);
  attrs.set("group", q[3]);
  attrs.set("d", q[4]);
  attrs.setNumber("scale", op.getScale().convertToDouble());
  attrs.setFlag("causal", op.getCausal());
  attrs.set("zigzag", int64_t(op.getZigzag()));
  attrs.setFlag("bias", bool(op.getBias()));
  if (!op.getRandom().empty())
    attrs.setNumber("dropout", op.getRatio().convertToDouble());
  attrs.setType(elementOf(op.getQ()));
  if (op.getBias() && !elementOf(op.getBias()).isF32())
    attrs.set("bias_dtype", dtypeName(elementOf(op.getBias())));
  attrs.set("q_strides", ArrayRef<int64_t>(rowMajorStrides(q)).drop_back());
  attrs.set("k_strides", ArrayRef<int64_t>(rowMajorStrides(k)).drop_back());
  attrs.set("v_strides", ArrayRef<int64_t>(rowMajorStrides(v)).drop_back());
  attrs.set("o_strides", ArrayRef<int64_t>(rowMajorStrides(q)).drop_back());
  if (op.getBias()) {
    SmallVector<int64_t> strides = rowMajorStrides(shapeOf(op.getBias()));
    for (auto [stride, size] : llvm::zip(strides, shapeOf(op.getBias())))
      if (size == 1)
        stride = 0;
    attrs.set("bias_strides", strides);
  }
  return attrs;
}

/// Multiply-adds of one product of queries and keys; half of them for a causal square.
template <class Op> static double productFlops(Op op) {
  ArrayRef<int64_t> q = shapeOf(op.getQ());
  double flops = 2.0 * double(q[0]) * q[1] * q[2] * q[3] * q[4] * shapeOf(op.getK())[1];
  return op.getCausal() ? flops / 2 : flops;
}

/// A dropout's key and the first weights of rows come behind the other buffers; its id is the last of the
/// scalars.
template <class Op> static void addDropout(Op op, SmallVector<int> &buffers) {
  int operands = op->getNumOperands();
  if (!op.getRandom().empty())
    buffers.append({operands - 3, operands - 1});
}

static SmallVector<int> upTo(int count) { return llvm::to_vector(llvm::seq(0, count)); }

std::optional<LibraryCall> AttentionOp::getLibraryCall() {
  auto attrs = attentionAttrs(*this);
  if (!attrs)
    return std::nullopt;
  SmallVector<int> buffers = upTo(getBias() ? 4 : 3);
  int results = getNumOperands();
  buffers.append({results, results + 1});
  addDropout(*this, buffers);
  return attrs->call("attention_forward", buffers);
}

std::optional<LibraryCall> AttentionGradOp::getLibraryCall() {
  auto attrs = attentionAttrs(*this);
  if (!attrs)
    return std::nullopt;
  SmallVector<int> buffers = upTo(getBias() ? 7 : 6);
  int results = getNumOperands();
  buffers.append({results, results + 1, results + 2});
  addDropout(*this, buffers);
  return attrs->call("attention_backward", buffers);
}

/// Each head of each sequence; of a causal square a query sees half of the keys.
template <class Op> static tessera::rt::ProductShape shapeOfHeads(Op op) {
  ArrayRef<int64_t> q = shapeOf(op.getQ());
  return {double(q[0] * q[2] * q[3]), double(q[1]), double(shapeOf(op.getK())[1]) / (op.getCausal() ? 2 : 1),
          double(q[4])};
}
tessera::rt::ProductShape AttentionOp::getProductShape() { return shapeOfHeads(*this); }
tessera::rt::ProductShape AttentionGradOp::getProductShape() { return shapeOfHeads(*this); }
double AttentionOp::getFlops() { return 2 * productFlops(*this); }
double AttentionGradOp::getFlops() { return 5 * productFlops(*this); }
