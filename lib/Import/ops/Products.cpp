// Matrix products: all become nn.contract.
#include "lib/Import/Importer.h"
#include "lib/Import/ops/Families.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using llvm::Twine;

namespace tessera {
namespace {

/// Letters of `count` leading dimensions: b, h, g, ...
std::string leading(NodeImport &n, int64_t count) {
  static const std::string pool = "bhgpqruvwxyz";
  if (count > static_cast<int64_t>(pool.size()))
    n.fail("a product of tensors with " + Twine(count + 2) + " dimensions is not supported");
  return pool.substr(0, count);
}

/// Drops dimensions of size 1 that the other operand repeats, with their letters: nn.contract wants equal
/// sizes.
Value dropStretched(Emitter &e, Value value, std::string &letters, Value other,
                    llvm::StringRef otherLetters) {
  Shape kept;
  std::string keptLetters;
  for (auto [size, letter] : llvm::zip(shapeOf(value), letters)) {
    size_t place = otherLetters.find(letter);
    if (size == 1 && place != llvm::StringRef::npos && shapeOf(other)[place] != 1)
      continue;
    kept.push_back(size);
    keptLetters += letter;
  }
  letters = keptLetters;
  return e.reshape(value, kept);
}

void matMul(NodeImport &n) {
  Emitter &e = n.e;
  Value lhs = n.in(0), rhs = n.in(1);
  int64_t lhsRank = rankOf(lhs), rhsRank = rankOf(rhs);
  if (!lhsRank || !rhsRank)
    n.fail("a scalar has no matrix product");
  std::string lhsLetters, rhsLetters, out;
  if (rhsRank <= 2) { // all leading dimensions of the left operand are rows
    std::string rows = lhsRank == 1 ? "" : leading(n, lhsRank - 2) + "s";
    lhsLetters = rows + "i";
    rhsLetters = rhsRank == 2 ? "io" : "i";
    out = rows + (rhsRank == 2 ? "o" : "");
    return n.out(e.contract(lhs, rhs, lhsLetters, rhsLetters, out));
  }
  int64_t batch = std::max(lhsRank, rhsRank) - 2;
  std::string letters = leading(n, batch);
  auto own = [&](int64_t rank) { return rank <= 2 ? std::string() : letters.substr(batch - (rank - 2)); };
  lhsLetters = own(lhsRank) + (lhsRank == 1 ? "i" : "si");
  rhsLetters = own(rhsRank) + "io";
  out = letters + (lhsRank == 1 ? "o" : "so");
  Value right = dropStretched(e, rhs, rhsLetters, lhs, lhsLetters);
  Value left = dropStretched(e, lhs, lhsLetters, rhs, own(rhsRank) + "io");
  n.out(e.contract(left, right, lhsLetters, rhsLetters, out));
}

void gemm(NodeImport &n) {
  Emitter &e = n.e;
  Value a = n.in(0), b = n.in(1);
  if (rankOf(a) != 2 || rankOf(b) != 2)
    n.fail("Gemm multiplies matrices");
  Value result =
      e.contract(a, b, n.intAttr("transA", 0) ? "is" : "si", n.intAttr("transB", 0) ? "oi" : "io", "so");
  double alpha = n.floatAttr("alpha", 1), beta = n.floatAttr("beta", 1);
  if (alpha != 1)
    result = e.binary<nn::MulOp>(result, e.scalarLike(result, alpha));
  if (n.has(2) && beta != 0) {
    Value c = n.in(2);
    result = e.binary<nn::AddOp>(result, beta == 1 ? c : e.binary<nn::MulOp>(c, e.scalarLike(c, beta)));
  }
  n.out(result);
}

void einsum(NodeImport &n) {
  std::string equation = n.stringAttr("equation", "");
  llvm::erase(equation, ' ');
  auto [inputs, out] = llvm::StringRef(equation).split("->");
  auto [lhs, rhs] = inputs.split(',');
  auto plain = [](llvm::StringRef word) { return llvm::all_of(word, llvm::isAlpha); };
  if (n.node.inputs.size() != 2 || !llvm::StringRef(equation).contains("->") || !plain(lhs) || !plain(rhs) ||
      !plain(out))
    n.fail("the Einsum '" + equation +
           "' is not supported: two operands and an explicit result without '...' are");
  n.out(n.e.contract(n.in(0), n.in(1), lhs, rhs, out));
}

} // namespace

void addProductHandlers(HandlerRegistry &r) {
  r.add("MatMul", matMul);
  r.add("Gemm", gemm);
  r.add("Einsum", einsum);
}

} // namespace tessera
