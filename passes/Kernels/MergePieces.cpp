// Sums of padded pieces, as the gradients of slices leave them, become concatenations.
#include "dialects/nn/NN.h"
#include "passes/Kernels/Passes.h"

namespace tessera {
#define GEN_PASS_DEF_MERGEPIECES
#include "passes/Kernels/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

/// A value with zeros around it in one dimension.
struct Piece {
  nn::PadOp pad;
  int64_t dim, begin, end;
};

std::optional<Piece> pieceOf(Value value) {
  auto pad = value.getDefiningOp<nn::PadOp>();
  if (!pad || !pad->hasOneUse() || !pad.getValue().isZero() ||
      llvm::any_of(pad.getInterior(), [](int64_t gap) { return gap != 0; }))
    return std::nullopt;
  std::optional<Piece> piece;
  ArrayRef<int64_t> shape = cast<RankedTensorType>(pad.getOperand().getType()).getShape();
  for (auto [dim, size] : llvm::enumerate(shape)) {
    int64_t low = pad.getLow()[dim];
    if (low == 0 && pad.getHigh()[dim] == 0)
      continue;
    if (piece)
      return std::nullopt;
    piece = Piece{pad, int64_t(dim), low, low + size};
  }
  return piece;
}

/// Replaces the terms of a sum that are pieces of one whole, each place covered once.
void merge(nn::AccOp acc) {
  SmallVector<Piece> pieces;
  SmallVector<Value> rest;
  for (Value term : acc.getTerms()) {
    std::optional<Piece> piece = pieceOf(term);
    if (piece && (pieces.empty() || piece->dim == pieces.front().dim))
      pieces.push_back(*piece);
    else
      rest.push_back(term);
  }
  if (pieces.size() < 2)
    return;
  llvm::stable_sort(pieces, [](const Piece &a, const Piece &b) { return a.begin < b.begin; });
  auto type = cast<RankedTensorType>(acc.getType());
  int64_t dim = pieces.front().dim, covered = 0;
  SmallVector<Value> operands;
  for (Piece &piece : pieces) {
    if (piece.begin != covered)
      return;
    covered = piece.end;
    operands.push_back(piece.pad.getOperand());
  }
  if (covered != type.getDimSize(dim))
    return;
  OpBuilder b(acc);
  Value whole = nn::ConcatOp::create(b, acc.getLoc(), type, operands, dim);
  if (!rest.empty()) {
    rest.insert(rest.begin(), whole);
    whole = nn::AccOp::create(b, acc.getLoc(), type, rest);
  }
  acc.replaceAllUsesWith(whole);
  acc.erase();
  for (Piece &piece : pieces)
    piece.pad.erase();
}

struct MergePiecesPass : tessera::impl::MergePiecesBase<MergePiecesPass> {
  void runOnOperation() override {
    SmallVector<nn::AccOp> sums;
    getOperation().walk([&](nn::AccOp acc) { sums.push_back(acc); });
    for (nn::AccOp acc : sums)
      merge(acc);
  }
};

} // namespace
