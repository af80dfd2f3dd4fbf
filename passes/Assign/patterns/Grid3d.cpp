// 3d: a product on a cube of ranks (Agarwal et al. 1995; Bian et al. 2021).
#include "passes/Assign/Pattern.h"

using namespace tessera;

namespace {
class Grid3d : public Pattern {
  llvm::StringRef name() const override { return "3d"; }
  llvm::ArrayRef<llvm::StringRef> axes() const override {
    static const llvm::StringRef names[] = {"i", "j", "k"};
    return names;
  }
  llvm::StringRef doc() const override {
    return "y[b, o] = x[b, i] w[i, o] on I x J x K ranks, which need not be a cube: each computes with b "
           "over I, i over K and o over J. x lives with b over "
           "(I, J) and i over K and is gathered over J; w lives with i over (K, I) and o over J and is "
           "gathered over I; y, a partial sum, is reduce-scattered over K "
           "and lives with b over (I, K) and o over J, so that the next product finds the roles of J and K "
           "exchanged and reads them off its operand. "
           "Forward (J-1)/(IJK) of x, (I-1)/(IJK) of w and (K-1)/(IJK) of y are sent by a rank, backward as "
           "much again when the gathered copies are kept.";
  }
  Applies applies(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList>) const override {
    auto linear = linearOf(op);
    if (!linear || linear->batch < 0 || linear->in < 0 || linear->out < 0)
      return {"'3d' splits a product with a parameter or a look-up in a table over a cube, and this operator "
              "is neither"};
    return {};
  }
  static dist::AxisList join(dist::AxisList a, const dist::AxisList &b) {
    a.append(b.begin(), b.end());
    return a;
  }
  Choice choose(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList> axes,
                const Surroundings &around) const override {
    Linear l = *linearOf(op);
    dist::AxisList i = axes[0], j = axes[1], k = axes[2];
    auto over = [&](const dist::AxisList &own) { return batchOver(l, around, axes, own); };
    // A table is stored as the head that shares it.
    if (l.lookup)
      return {{{l.batch, over(i)}, {l.in, j}, {l.out, k}},
              {{l.weight, {{l.in, j}, {l.out, join(k, i)}}}},
              {{0, {{l.batch, over(join(i, j))}, {l.out, k}}}}};
    // The product before may have left the input split over j.
    dist::AxisList input = around.home(l.input, l.in);
    if (llvm::any_of(input, [&](const dist::AxisRef &axis) { return dist::overlapsAny(axis, j); }))
      std::swap(j, k);
    Choice choice{{{l.batch, over(i)}, {l.in, k}, {l.out, j}},
                  {{l.weight, {{l.in, join(k, i)}, {l.out, j}}}},
                  {{0, {{l.batch, over(join(i, k))}, {l.out, j}}}}};
    choice.keepsGathered = true;
    return choice;
  }
};
RegisterPattern<Grid3d> grid3d;
} // namespace
