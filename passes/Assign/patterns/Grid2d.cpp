// 2d and 2.5d: a product on a grid of ranks (SUMMA, van de Geijn and Watts 1997; Optimus, Xu et al. 2021;
// Tesseract, Wang et al. 2021).
#include "passes/Assign/Pattern.h"

using namespace tessera;

namespace {
class Grid : public Pattern {
public:
  Applies applies(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList>) const override {
    auto linear = linearOf(op);
    if (!linear || linear->batch < 0 || linear->in < 0 || linear->out < 0)
      return {"'" + name().str() +
              "' splits a product with a parameter or a look-up in a table over a grid, and this operator is "
              "neither"};
    return {};
  }
  Choice choose(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList> axes,
                const Surroundings &around) const override {
    Linear l = *linearOf(op);
    const dist::AxisList &row = axes[0], &column = axes[1];
    dist::AxisList batch;
    if (axes.size() > 2)
      batch = axes[2]; // depth
    batch.append(row.begin(), row.end());
    batch = batchOver(l, around, axes, batch);
    // A table is stored as the head that shares it: classes over the columns of the grid, width over its
    // rows.
    if (l.lookup)
      return {{{l.batch, batch}, {l.in, column}},
              {{l.weight, {{l.in, column}, {l.out, row}}}},
              {{0, {{l.batch, batch}, {l.out, column}}}}};
    return {{{l.batch, batch}, {l.out, column}}, {{l.weight, {{l.in, row}, {l.out, column}}}}};
  }
};

class Grid2d : public Grid {
  llvm::StringRef name() const override { return "2d"; }
  llvm::ArrayRef<llvm::StringRef> axes() const override {
    static const llvm::StringRef names[] = {"row", "col"};
    return names;
  }
  llvm::StringRef doc() const override {
    return "y[b, o] = x[b, i] w[i, o] on a grid of R x C ranks, which need not be square: x and y live with "
           "b over the rows and i or o over the columns, w "
           "with i over the rows and o over the columns. Forward each rank receives the blocks of x in its "
           "row and those of w in its column, "
           "(C-1)/(RC) of x and (R-1)/(RC) of w; backward the same for each of the two products. A layer "
           "norm over the split width gathers two numbers a "
           "token from each rank of a row, and backward adds up two. A table that is looked up lives with "
           "its rows over C and its width over R. Activations, parameters and their state are "
           "1/(RC) of the whole on each rank. By panels (--stream) two blocks of an operand are on a rank "
           "instead of all of its row or column, and travel beside the product.";
  }
};

class Grid25d : public Grid {
  llvm::StringRef name() const override { return "2.5d"; }
  llvm::ArrayRef<llvm::StringRef> axes() const override {
    static const llvm::StringRef names[] = {"row", "col", "depth"};
    return names;
  }
  llvm::StringRef doc() const override {
    return "As 2d on each of D layers of R x C ranks: the batch is split over depth first, then over the "
           "rows; weights are the same on every layer, and "
           "their gradients are summed over depth once a step, 2(D-1)/D of a rank's block. Blocks of x are "
           "1/D as large as in 2d, blocks of w D times as "
           "large on as many ranks: deeper is better where activations outweigh weights.";
  }
};
RegisterPattern<Grid2d> grid2d;
RegisterPattern<Grid25d> grid25d;
} // namespace
