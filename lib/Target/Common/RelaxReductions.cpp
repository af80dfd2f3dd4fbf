// The fast-math flags of kernels. An element may differ from IEEE's value by what a function's polynomial is
// off; a decision made from it (a comparison, a rounding, an index) may not. Arithmetic on elements is
// therefore IEEE's, to the bit, and so does not depend on which operators share a kernel. What a reduction
// accumulates has no order of its own:
//   reassoc   on the operation that accumulates: without it no sum is vectorised.
//   contract  on a sum and on a product that it adds: one rounding less in each term.
//   nsz       on a maximum or minimum: which zero is the larger nobody says, and comparing signs costs.
//   arcp, afn nowhere: they make x / 41 a product, 0.99999994 at 41. What may take a reciprocal (a softmax)
//   says so itself. nnan, ninf nowhere: masked rows hold -infinity, and NaN must come out where it went in.

#include "lib/Target/Common/Loops.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

using namespace mlir;
using arith::FastMathFlags;

namespace tessera::target {

static void setFlags(arith::ArithFastMathInterface op, FastMathFlags flags) {
  op->setAttr(op.getFastMathAttrName(), arith::FastMathFlagsAttr::get(op->getContext(), flags));
}

/// Sets the flags of `op`, which accumulates into `accumulator`.
static void relax(Operation *op, Value accumulator) {
  if (isa<arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp>(op))
    return setFlags(cast<arith::ArithFastMathInterface>(op), FastMathFlags::nsz);
  if (auto product = dyn_cast<arith::MulFOp>(op))
    return setFlags(product, FastMathFlags::reassoc);
  auto sum = dyn_cast<arith::AddFOp>(op);
  if (!sum)
    return;
  setFlags(sum, FastMathFlags::reassoc | FastMathFlags::contract);
  Value term = sum.getLhs() == accumulator ? sum.getRhs() : sum.getLhs();
  if (auto product = term.getDefiningOp<arith::MulFOp>())
    setFlags(product, FastMathFlags::contract);
}

void relaxReductions(func::FuncOp func) {
  func.walk([](linalg::LinalgOp op) {
    if (op.getNumReductionLoops() == 0)
      return;
    for (BlockArgument accumulator : op.getRegionOutputArgs())
      if (accumulator.hasOneUse() && !accumulator.getType().isF64())
        relax(*accumulator.user_begin(), accumulator);
  });
}

} // namespace tessera::target
