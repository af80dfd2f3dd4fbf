// A contraction as a call of the library's `gemm`: which letters are rows, columns, summed and batched.
#include "dialects/nn/LibraryCalls.h"
#include "runtime/device/cpu/workspace.h"

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

std::optional<LibraryCall> ContractOp::getLibraryCall(int threads) {
  if (!elementOf(getResult()).isF32())
    return std::nullopt;
  StringRef lhs = getLhsLetters(), rhs = getRhsLetters(), out = getOutLetters();
  auto strideOf = [](StringRef word, ArrayRef<int64_t> strides, char c) -> int64_t {
    size_t d = word.find(c);
    return d == StringRef::npos ? 0 : strides[d];
  };
  auto lhsStrides = rowMajorStrides(shapeOf(getLhs())), rhsStrides = rowMajorStrides(shapeOf(getRhs())),
       outStrides = rowMajorStrides(shapeOf(getResult()));
  // The last letter of the result runs along the columns of C: swap the operands when the first one has it.
  bool swapped = !out.empty() && lhs.contains(out.back()) && !rhs.contains(out.back());
  SmallVector<Loop> batch, rows, columns, summed;
  double flops = 2;
  for (const Factor &factor : getFactorRule().factors) {
    char c = factor.name[0];
    Loop loop{factor.size, strideOf(lhs, lhsStrides, c), strideOf(rhs, rhsStrides, c),
              strideOf(out, outStrides, c), c};
    bool inLhs = lhs.contains(c), inRhs = rhs.contains(c), inOut = out.contains(c);
    flops *= double(factor.size);
    if (factor.size == 1 && c != (out.empty() ? '\0' : out.back()))
      continue;
    if (!inOut && !(inLhs && inRhs))
      return std::nullopt;
    if (swapped)
      std::swap(loop.a, loop.b);
    (inLhs && inRhs ? (inOut ? batch : summed) : inLhs != swapped ? rows : columns).push_back(loop);
  }
  // A bias runs along the last letter alone.
  std::optional<Loop> last;
  if (getBias()) {
    auto it = llvm::find_if(columns, [&](const Loop &loop) { return loop.letter == out.back(); });
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
  SmallVector<SmallVector<int64_t>> items;
  for (ArrayRef<Loop> loops :
       {ArrayRef<Loop>(batch), ArrayRef<Loop>(rows), ArrayRef<Loop>(columns), ArrayRef<Loop>(summed)})
    for (const Loop &loop : loops)
      items.push_back({loop.size, loop.a, loop.b, loop.c});

  CallAttrs attrs(getContext());
  attrs.set("m", m.size);
  attrs.set("n", n.size);
  attrs.set("k", k.size);
  attrs.set("a", {m.a, k.a});
  attrs.set("b", {k.b, n.b});
  attrs.set("c", {m.c, n.c});
  if (!items.empty())
    attrs.setRows("batch", items);
  attrs.set("activation", getActivation());
  attrs.setFlag("bias", bool(getBias()));
  int result = getNumOperands();
  SmallVector<int> buffers = swapped ? SmallVector<int>{1, 0, result} : SmallVector<int>{0, 1, result};
  if (getBias())
    buffers.push_back(2);
  int64_t count = 1;
  for (ArrayRef<int64_t> item : items)
    count *= item.front();
  return attrs.call("gemm", buffers, flops, rt::cpu::gemmWorkspaceBytes(m.size, n.size, k.size, count, threads));
}
