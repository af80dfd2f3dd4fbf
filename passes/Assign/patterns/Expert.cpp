// expert: the experts of a mixture, a few a rank, between two exchanges with tokens (GShard, Lepikhin et al.
// 2020).
#include "passes/Assign/Pattern.h"
#include "llvm/ADT/Twine.h"

using namespace tessera;

namespace {
class Expert : public Pattern {
  llvm::StringRef name() const override { return "expert"; }
  llvm::ArrayRef<llvm::StringRef> axes() const override {
    static const llvm::StringRef names[] = {"axis", "inner"};
    return names;
  }
  unsigned fewestAxes() const override { return 1; }
  llvm::StringRef doc() const override {
    return "Products whose weights have a dimension of experts are computed with the experts split over the "
           "axis, and so are their weights, gradients and "
           "optimizer state. Over an axis that splits the tokens too, as by the recipe, rows of tokens are "
           "exchanged for rows of experts by an all-to-all behind "
           "the dispatch, and back by another before the combination; backward by two more; each sends "
           "(n-1)/n of a rank's block [E, tokens, width]. Every "
           "expert has a row for each token, so nothing is dropped, no collective depends on the routing, "
           "and an expert without tokens is one of zeros. With a capacity "
           "(--capacity-factor) it has that many rows for each row of the batch, and blocks are smaller by "
           "as much; tokens of one row that an axis splits are "
           "gathered before the dispatch. Over an "
           "axis that does not split the tokens (list it before one that does) each rank fills the rows of "
           "its own experts and the combination is a partial sum, "
           "all-reduced: 2(n-1)/n of a rank's tokens. Gradients of experts have no divisor and no reduction "
           "over the axis.";
  }
  // The factor of experts of a product with a parameter, or of what goes between tokens and experts; -1 for
  // others.
  static int experts(nn::FactorOpInterface op) {
    if (auto routing = mlir::dyn_cast<nn::RoutingOpInterface>(op.getOperation()))
      return routing.getExpertFactor();
    nn::FactorRule rule = op.getFactorRule();
    auto linear = linearOf(op);
    if (!linear || linear->in < 0 || linear->lookup)
      return -1;
    for (int f : rule.operands[linear->weight])
      if (f >= 0 && rule.operandHas(linear->input, f) && rule.resultHas(0, f))
        return f;
    return -1;
  }
  Applies applies(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList> axes) const override {
    int f = experts(op);
    if (f < 0)
      return {"'expert' splits a dimension of experts that a weight and what it multiplies have, and this "
              "operator has none"};
    int64_t ranks = 1, size = op.getFactorRule().factors[f].size;
    for (const dist::AxisList &list : axes)
      ranks *= dist::product(list);
    if (ranks > size)
      return {("'expert' has no expert for each of " + llvm::Twine(ranks) + " ranks here, where there are " +
               llvm::Twine(size) + "; an axis of at most " + llvm::Twine(size) + " would do")
                  .str()};
    return {};
  }
  Choice choose(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList> axes,
                const Surroundings &around) const override {
    Choice choice;
    dist::AxisList list;
    for (const dist::AxisList &axis : axes)
      list.append(axis.begin(), axis.end());
    // Tokens are where the router's choices are; experts are split over what is left of the axes.
    if (auto routing = mlir::dyn_cast<nn::RoutingOpInterface>(op.getOperation())) {
      choice.firstFollowed = 1;
      // With a capacity, only rows of the batch are apart in places: where the tokens of one are split they
      // are gathered for the dispatch, and what the combination has of them is a partial sum.
      nn::FactorRule rule = op.getFactorRule();
      int sequence = routing.getCapacity() ? rule.operands[1][rule.operands[1].size() - 2] : -1;
      if (sequence >= 0)
        choice.compute.push_back({sequence, {}});
      for (int token : rule.operands[1])
        if (token != sequence)
          llvm::erase_if(list, [&](const dist::AxisRef &axis) {
            return dist::overlapsAny(axis, around.home(1, token));
          });
    }
    choice.compute.push_back({experts(op), list});
    return choice;
  }
};
RegisterPattern<Expert> expert;
} // namespace
