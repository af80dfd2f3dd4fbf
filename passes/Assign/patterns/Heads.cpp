// heads: attention over its own heads.
#include "passes/Assign/Pattern.h"

using namespace tessera;

namespace {
class Heads : public Pattern {
  llvm::StringRef name() const override { return "heads"; }
  llvm::ArrayRef<llvm::StringRef> axes() const override {
    static const llvm::StringRef names[] = {"axis"};
    return names;
  }
  llvm::StringRef doc() const override {
    return "Attention is split by key/value heads, then by the query heads of a group where there are more "
           "ranks than key/value heads; heads that the "
           "ranks do not divide are padded as whole heads. Nothing is sent. Between a column and a row "
           "product it follows by itself.";
  }
  // Key/value heads m and the query heads g of each, the third and fourth dimension of q: both pass through.
  static std::pair<int, int> heads(nn::FactorOpInterface op) {
    nn::FactorRule rule = op.getFactorRule();
    if (rule.operands.size() < 3 || rule.operands[0].size() != 5 || rule.operands[1].size() != 4)
      return {-1, -1};
    int m = rule.operands[0][2], g = rule.operands[0][3];
    return rule.operands[1][2] == m ? std::pair(m, g) : std::pair(-1, -1);
  }
  Applies applies(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList> axes) const override {
    if (heads(op).first < 0)
      return {"'heads' splits the heads of an attention, and this operator is none"};
    return {};
  }
  Choice choose(nn::FactorOpInterface op, llvm::ArrayRef<dist::AxisList> axes,
                const Surroundings &) const override {
    // The key/value heads take what they can use; the rest of the axis splits the groups.
    nn::FactorRule rule = op.getFactorRule();
    auto [m, g] = heads(op);
    dist::AxisList major, minor;
    int64_t have = 1;
    for (dist::AxisRef axis : axes[0]) {
      int64_t part = 1;
      while (axis.size % (2 * part) == 0 && have * part * 2 <= rule.factors[m].size)
        part *= 2;
      if (have * axis.size <= rule.factors[m].size || rule.factors[g].size == 1)
        part = axis.size;
      have *= part;
      if (part == axis.size) {
        major.push_back(axis);
      } else if (part == 1) {
        minor.push_back(axis);
      } else {
        auto halves = *dist::split(axis, part);
        major.push_back(halves.first);
        minor.push_back(halves.second);
      }
    }
    Choice choice{{{m, major}}};
    if (!minor.empty())
      choice.compute.push_back({g, minor});
    return choice;
  }
};
RegisterPattern<Heads> heads;
} // namespace
