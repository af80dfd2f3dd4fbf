// A contraction as a call of the library's `gemm`: which letters are rows, columns, summed and batched.
#include "dialects/nn/Epilogue.h"
#include "dialects/nn/LibraryCalls.h"
#include "dialects/nn/Panel.h"

using namespace mlir;
using namespace tessera::nn;

namespace {
/// A loop of the product with its strides in A, B and C (0: absent).
struct Loop {
  int64_t size, a, b, c;
  char letter; // the innermost one merged into it
};
} // namespace

/// Merges loops that together run through every operand with one stride. Longest strides first.
static void mergeLoops(SmallVectorImpl<Loop> &loops, int64_t Loop::*order) {
  llvm::stable_sort(loops, [&](const Loop &x, const Loop &y) { return x.*order > y.*order; });
  for (size_t i = 0; i + 1 < loops.size();) {
    Loop &outer = loops[i], &inner = loops[i + 1];
    if (outer.a == inner.a * inner.size && outer.b == inner.b * inner.size &&
        outer.c == inner.c * inner.size) {
      inner.size *= outer.size;
      loops.erase(loops.begin() + i);
    } else {
      ++i;
    }
  }
}

/// Takes the loop to run as the product's own dimension out of `loops`: the one along `letter`, else the
/// longest.
static Loop takeMain(SmallVectorImpl<Loop> &loops, char letter = 0) {
  if (loops.empty())
    return {1, 1, 1, 1, 0};
  auto it = llvm::max_element(loops, [&](const Loop &x, const Loop &y) {
    return std::pair(x.letter == letter, x.size) < std::pair(y.letter == letter, y.size);
  });
  Loop main = *it;
  loops.erase(it);
  return main;
}

namespace {
/// What the kinds of contraction say of themselves.
struct Product {
  StringRef lhs, rhs, out;
  Value a, b, c;
  /// Letters with their sizes, in the order of their first appearance.
  SmallVector<std::pair<char, int64_t>> letters = {};
  StringRef activation = "none";
  Value bias = {}, at = {}, kept = {}, sums = {};
  bool sumsOfLhs = false;
  int64_t starts[3] = {0, 0, 0}; // in elements
  bool accumulates = false;
};
} // namespace

static int64_t strideOf(StringRef word, ArrayRef<int64_t> strides, char c) {
  size_t d = word.find(c);
  return d == StringRef::npos ? 0 : strides[d];
}

/// Adds the letters of operands in whose words they are new.
static void addLetters(Product &p) {
  for (auto [word, value] : {std::pair(p.lhs, p.a), {p.rhs, p.b}})
    for (auto [letter, size] : llvm::zip(word, shapeOf(value)))
      if (llvm::none_of(p.letters, [&](auto &known) { return known.first == letter; }))
        p.letters.push_back({letter, size});
}

namespace {
/// The loops of a product as the function's dimensions.
struct GemmLoops {
  Loop m, n, k;
  /// The others, which repeat it.
  SmallVector<Loop> batch = {};
  /// Whether the second operand is the function's first.
  bool swapped = false;
};
} // namespace

/// None where the product has no such form.
static std::optional<GemmLoops> loopsOf(const Product &p) {
  StringRef lhs = p.lhs, rhs = p.rhs, out = p.out;
  auto lhsStrides = rowMajorStrides(shapeOf(p.a)), rhsStrides = rowMajorStrides(shapeOf(p.b)),
       outStrides = rowMajorStrides(shapeOf(p.c));
  // The last letter of the result runs along the columns of C: swap the operands when the first one has it.
  bool swapped = !out.empty() && lhs.contains(out.back()) && !rhs.contains(out.back());
  SmallVector<Loop> batch, rows, columns, summed;
  for (auto [c, size] : p.letters) {
    Loop loop{size, strideOf(lhs, lhsStrides, c), strideOf(rhs, rhsStrides, c), strideOf(out, outStrides, c),
              c};
    bool inLhs = lhs.contains(c), inRhs = rhs.contains(c), inOut = out.contains(c);
    if (size == 1 && c != (out.empty() ? '\0' : out.back()))
      continue;
    if (!inOut && !(inLhs && inRhs))
      return std::nullopt;
    if (swapped)
      std::swap(loop.a, loop.b);
    (inLhs && inRhs ? (inOut ? batch : summed) : inLhs != swapped ? rows : columns).push_back(loop);
  }
  // A bias runs along the last letter alone.
  std::optional<Loop> last;
  if (p.bias) {
    auto *it = llvm::find_if(columns, [&](const Loop &loop) { return loop.letter == out.back(); });
    if (it == columns.end())
      return std::nullopt;
    last = *it;
    columns.erase(it);
  }
  mergeLoops(rows, &Loop::c);
  mergeLoops(columns, &Loop::c);
  mergeLoops(summed, &Loop::a);
  mergeLoops(batch, &Loop::c);
  Loop m = takeMain(rows), n = last ? *last : takeMain(columns, out.empty() ? 0 : out.back()),
       k = takeMain(summed);
  // Sums of one operand are one vector.
  if (p.sums && (!batch.empty() || !rows.empty() || !columns.empty()))
    return std::nullopt;
  for (ArrayRef<Loop> others : {ArrayRef<Loop>(rows), ArrayRef<Loop>(columns), ArrayRef<Loop>(summed)})
    llvm::append_range(batch, others);
  return GemmLoops{m, n, k, batch, swapped};
}

/// The call as far as it is the same for all. `number` says what a value is called in the call's `buffers`.
static std::optional<LibraryCall> gemmCall(MLIRContext *context, const Product &p,
                                           llvm::function_ref<int(Value)> number) {
  Type type = elementOf(p.a), resultType = elementOf(p.c);
  if (elementOf(p.b) != type)
    return std::nullopt;
  for (Value other : {p.bias, p.at, p.kept, p.sums})
    if (other && elementOf(other) != resultType)
      return std::nullopt;
  std::optional<GemmLoops> loops = loopsOf(p);
  if (!loops)
    return std::nullopt;
  const auto &[m, n, k, batch, swapped] = *loops;
  SmallVector<SmallVector<int64_t>> items;
  for (const Loop &loop : batch)
    items.push_back({loop.size, loop.a, loop.b, loop.c});

  CallAttrs attrs(context);
  attrs.set("m", m.size);
  attrs.set("n", n.size);
  attrs.set("k", k.size);
  attrs.set("a", {m.a, k.a});
  attrs.set("b", {k.b, n.b});
  attrs.set("c", {m.c, n.c});
  if (!items.empty())
    attrs.setRows("batch", items);
  attrs.set("activation", p.activation);
  attrs.setFlag("bias", bool(p.bias));
  if (p.at || p.kept)
    attrs.set("pre_activation", p.at ? "given" : "kept");
  if (p.sums)
    attrs.set("sums", p.sumsOfLhs != swapped ? "a" : "b");
  attrs.setType(type);
  if (resultType != type)
    attrs.set("c_dtype", dtypeName(resultType));
  const char *const names[] = {swapped ? "b_offset" : "a_offset", swapped ? "a_offset" : "b_offset",
                               "c_offset"};
  for (auto [name, start] : llvm::zip(names, p.starts))
    if (start != 0)
      attrs.set(name, start);
  if (p.accumulates)
    attrs.setFlag("accumulate", true);
  SmallVector<int> buffers;
  for (Value value : {swapped ? p.b : p.a, swapped ? p.a : p.b, p.c, p.bias, p.at, p.kept, p.sums})
    if (value)
      buffers.push_back(number(value));
  return attrs.call("gemm", buffers);
}

/// Operands count first, results behind them.
static std::optional<LibraryCall> gemmCall(Operation *op, const Product &p) {
  return gemmCall(op->getContext(), p, [&](Value value) {
    auto result = dyn_cast<OpResult>(value);
    return result && result.getOwner() == op
               ? int(op->getNumOperands() + result.getResultNumber())
               : int(llvm::find(op->getOperands(), value) - op->operand_begin());
  });
}

template <class Op> static Product lettersOf(Op op) {
  Product product{op.getLhsLetters(), op.getRhsLetters(), op.getOutLetters(),
                  op.getLhs(),        op.getRhs(),        op.getResult()};
  addLetters(product);
  return product;
}

std::optional<LibraryCall> ContractOp::getLibraryCall() { return gemmCall(*this, lettersOf(*this)); }

std::optional<LibraryCall> FusedContractOp::getLibraryCall() {
  Product product = lettersOf(*this);
  product.activation = getActivation();
  product.bias = getBias();
  product.at = getAt();
  product.kept = getKept();
  product.sums = getSums();
  product.sumsOfLhs = getSumsOf() == "lhs";
  return gemmCall(*this, product);
}

/// The contraction over the panel's positions.
static Product productOf(ContractPanelOp op) {
  Product product = lettersOf(op);
  for (auto &[letter, size] : product.letters)
    if (letter == op.getLetter()[0])
      size = op.getSize();
  return product;
}

std::optional<LibraryCall> ContractPanelOp::getLibraryCall() {
  Product product = productOf(*this);
  char panel = getLetter()[0];
  StringRef words[] = {getLhsLetters(), getRhsLetters(), getOutLetters()};
  Value values[] = {getLhs(), getRhs(), getResult()};
  for (int i = 0; i < 3; ++i)
    product.starts[i] = getStarts()[i] * strideOf(words[i], rowMajorStrides(shapeOf(values[i])), panel);
  product.accumulates = getInto() && !getOutLetters().contains(panel);
  std::optional<LibraryCall> call = gemmCall(*this, product);
  // Computed where `into` lies: the result has no name of its own then.
  if (call && getInto()) {
    call->inPlace = {2};
    call->buffers[2] = 2;
  }
  return call;
}

/// A multiplication and an addition for each position of all letters.
static double flopsOf(const Product &product) {
  double flops = 2;
  for (auto [letter, size] : product.letters)
    flops *= double(size);
  return flops;
}
/// As the library's function has it; of another form: what is in the result's last dimension and not, and
/// what is summed.
static tessera::rt::ProductShape shapeOfProduct(const Product &p) {
  tessera::rt::ProductShape shape = {1, 1, 1, 1};
  if (std::optional<GemmLoops> loops = loopsOf(p)) {
    for (const Loop &loop : loops->batch)
      shape.count *= double(loop.size);
    shape.m = double(loops->m.size);
    shape.n = double(loops->n.size);
    shape.k = double(loops->k.size);
    return shape;
  }
  for (auto [letter, size] : p.letters)
    (!p.out.contains(letter) ? shape.k : letter == p.out.back() ? shape.n : shape.m) *= double(size);
  return shape;
}
tessera::rt::ProductShape ContractOp::getProductShape() { return shapeOfProduct(lettersOf(*this)); }
tessera::rt::ProductShape ContractPanelOp::getProductShape() { return shapeOfProduct(productOf(*this)); }
tessera::rt::ProductShape FusedContractOp::getProductShape() {
  Product product = lettersOf(*this);
  product.bias = getBias();
  product.sums = getSums();
  return shapeOfProduct(product);
}
/// Of the activation, or its derivative.
double FusedContractOp::getFunctions() {
  bool evaluates = getActivation() != "none" && getActivation() != "relu";
  return evaluates ? double(plainType(getResult()).getNumElements()) : 0;
}
double ContractOp::getFlops() { return flopsOf(lettersOf(*this)); }
double FusedContractOp::getFlops() { return flopsOf(lettersOf(*this)); }
double ContractPanelOp::getFlops() { return flopsOf(productOf(*this)); }
