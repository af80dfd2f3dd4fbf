// Attention masks: the causal part becomes an attribute, what never masks disappears, and what is left is no
// larger than it must be.
#include "passes/Normalize/Match.h"
#include "passes/Normalize/Patterns.h"
#include <functional>

using namespace mlir;

namespace tessera::normalize {
namespace {

/// Where each dimension of a value lies in the bias [b, m, g, s, t]; -1 for dimensions of size 1 that lie
/// nowhere.
using Places = llvm::SmallVector<int64_t, 6>;

/// A mask taken apart. `rest` builds what remains (null: nothing) in five dimensions, of the shape `shape`.
struct Parts {
  bool causal = false;
  std::function<Value()> rest;
  Shape shape = Shape(5, 1);
};

class MaskAnalysis {
public:
  MaskAnalysis(PatternRewriter &rewriter, Location loc, int64_t queries, int64_t keys)
      : rewriter(rewriter), loc(loc), queries(queries), keys(keys) {}

  /// A mask that is added to the scores.
  std::optional<Parts> added(Value value, const Places &places) {
    if (isSplat(value, 0))
      return Parts{};
    if (auto inner = lookThrough(value, places))
      return added(inner->first, inner->second);
    if (auto add = value.getDefiningOp<nn::AddOp>())
      return merge<nn::AddOp>(added(add.getLhs(), aligned(add.getLhs(), places)),
                              added(add.getRhs(), aligned(add.getRhs(), places)));
    if (auto select = value.getDefiningOp<nn::SelectOp>()) {
      std::optional<double> x = splatValue(select.getX()), y = splatValue(select.getY());
      bool seen = x && y && *x == 0 && *y <= -1e4, hidden = x && y && *y == 0 && *x <= -1e4;
      if (seen || hidden) {
        std::optional<Parts> parts =
            condition(select.getCondition(), aligned(select.getCondition(), places), hidden);
        if (!parts || !parts->rest)
          return parts;
        double low = seen ? *y : *x;
        parts->rest = [this, value, low, condition = parts->rest]() -> Value {
          Value seen = condition(), zero = splat(rewriter, loc, elementOf(value), {}, 0);
          return nn::SelectOp::create(rewriter, loc, seen, zero,
                                      splat(rewriter, loc, elementOf(value), {}, low));
        };
        return parts;
      }
    }
    return whole(value, places);
  }

private:
  /// A condition under which a key is seen; with `inverted`, under which it is not.
  std::optional<Parts> condition(Value value, const Places &places, bool inverted) {
    if (isSplat(value, inverted ? 0 : 1))
      return Parts{};
    if (auto inner = lookThrough(value, places))
      return condition(inner->first, inner->second, inverted);
    if (auto negated = value.getDefiningOp<nn::NotOp>())
      return condition(negated.getOperand(), places, !inverted);
    if (auto both = value.getDefiningOp<nn::AndOp>(); both && !inverted)
      return merge<nn::AndOp>(condition(both.getLhs(), aligned(both.getLhs(), places), false),
                              condition(both.getRhs(), aligned(both.getRhs(), places), false));
    if (auto either = value.getDefiningOp<nn::OrOp>(); either && inverted)
      return merge<nn::AndOp>(condition(either.getLhs(), aligned(either.getLhs(), places), true),
                              condition(either.getRhs(), aligned(either.getRhs(), places), true));
    if (auto compare = value.getDefiningOp<nn::CompareOp>(); compare && isCausal(compare, places, inverted))
      return Parts{true, nullptr, Shape(5, 1)};
    std::optional<Parts> parts = whole(value, places);
    if (parts && inverted)
      parts->rest = [this, condition = parts->rest]() -> Value {
        return nn::NotOp::create(rewriter, loc, condition());
      };
    return parts;
  }

  /// j <= i + (keys - queries), in any spelling.
  bool isCausal(nn::CompareOp op, const Places &places, bool inverted) {
    llvm::StringRef predicate = op.getPredicate();
    Value key = op.getLhs(), query = op.getRhs();
    if (predicate == "ge" || predicate == "lt") { // i >= j, i < j
      std::swap(key, query);
      predicate = predicate == "ge" ? "le" : "gt";
    }
    if (predicate != (inverted ? "gt" : "le"))
      return false;
    std::optional<int64_t> keyOffset = ramp(key, aligned(key, places), 4),
                           queryOffset = ramp(query, aligned(query, places), 3);
    return keyOffset && queryOffset && *queryOffset - *keyOffset == keys - queries;
  }

  /// Whether `value` counts up along the place alone, and from where.
  std::optional<int64_t> ramp(Value value, const Places &places, int64_t place) {
    Value x;
    double offset = 0;
    if (matchPlusScalar(value, x, offset))
      value = x;
    if (auto inner = lookThrough(value, places))
      return ramp(inner->first, inner->second, place);
    auto iota = value.getDefiningOp<nn::IotaOp>();
    if (!iota || places[iota.getDim()] != place ||
        typeOf(value).getNumElements() != (place == 4 ? keys : queries))
      return std::nullopt;
    return static_cast<int64_t>(offset);
  }

  /// The operand of a broadcast, or of a reshape that only adds or removes dimensions of size 1.
  std::optional<std::pair<Value, Places>> lookThrough(Value value, const Places &places) {
    if (auto broadcast = value.getDefiningOp<nn::BroadcastOp>()) {
      Places inner;
      for (int64_t d : broadcast.getDims())
        inner.push_back(places[d]);
      return std::pair{broadcast.getOperand(), inner};
    }
    auto reshape = value.getDefiningOp<nn::ReshapeOp>();
    if (!reshape)
      return std::nullopt;
    llvm::ArrayRef<int64_t> from = shapeOf(reshape.getOperand()), to = shapeOf(reshape);
    Places inner;
    size_t next = 0;
    for (int64_t size : from) {
      if (size == 1) {
        inner.push_back(-1);
        continue;
      }
      while (next < to.size() && to[next] == 1)
        ++next;
      if (next == to.size() || to[next] != size)
        return std::nullopt;
      inner.push_back(places[next++]);
    }
    return std::pair{reshape.getOperand(), inner};
  }

  /// Places of an operand that an elementwise operator aligns at the right.
  static Places aligned(Value operand, const Places &places) {
    Places own(places.end() - rankOf(operand), places.end());
    for (auto [place, size] : llvm::zip(own, shapeOf(operand)))
      if (size == 1)
        place = -1;
    return own;
  }

  template <typename OpTy> std::optional<Parts> merge(std::optional<Parts> a, std::optional<Parts> b) {
    if (!a || !b)
      return std::nullopt;
    Parts parts{a->causal || b->causal, a->rest ? a->rest : b->rest, a->shape};
    for (size_t d = 0; d < 5; ++d)
      parts.shape[d] = std::max(a->shape[d], b->shape[d]);
    if (a->rest && b->rest)
      parts.rest = [this, x = a->rest, y = b->rest]() -> Value {
        Value left = x(), right = y();
        return OpTy::create(rewriter, loc, left, right);
      };
    return parts;
  }

  /// `value` in five dimensions; places must rise.
  std::optional<Parts> whole(Value value, const Places &places) {
    Shape five(5, 1);
    int64_t last = -1;
    for (auto [size, place] : llvm::zip(shapeOf(value), places)) {
      if (size == 1)
        continue;
      if (place <= last)
        return std::nullopt;
      five[place] = size;
      last = place;
    }
    return Parts{false, [this, value, five]() -> Value { return reshape(rewriter, loc, value, five); }, five};
  }

  PatternRewriter &rewriter;
  Location loc;
  int64_t queries, keys;
};

struct SplitAttentionBias : OpRewritePattern<nn::AttentionOp> {
  SplitAttentionBias(MLIRContext *context, Counter &counter) : OpRewritePattern(context), counter(counter) {}
  LogicalResult matchAndRewrite(nn::AttentionOp op, PatternRewriter &rewriter) const override {
    Value bias = op.getBias();
    if (!bias || !op.getRange().empty())
      return rewriter.notifyMatchFailure(op, "has no mask");
    int64_t queries = shapeOf(op.getQ())[1], keys = shapeOf(op.getK())[1];
    MaskAnalysis analysis(rewriter, op.getLoc(), queries, keys);
    std::optional<Parts> parts = analysis.added(bias, {0, 1, 2, 3, 4});
    if (!parts)
      return rewriter.notifyMatchFailure(op, "its mask cannot be taken apart");
    Shape full(parts->shape);
    full.back() = keys;
    if (parts->rest && !parts->causal && product(full) >= typeOf(bias).getNumElements())
      return rewriter.notifyMatchFailure(op, "its mask is as simple as can be");
    Value rest = parts->rest ? parts->rest() : Value();
    if (rest && shapeOf(rest) != llvm::ArrayRef<int64_t>(full)) // nn.attention wants the keys in full
      rest = nn::BroadcastOp::create(
          rewriter, op.getLoc(), RankedTensorType::get(full, elementOf(rest)),
          reshape(rewriter, op.getLoc(), rest, llvm::ArrayRef<int64_t>(full).drop_back()),
          llvm::ArrayRef<int64_t>{0, 1, 2, 3});
    auto simpler = nn::AttentionOp::create(rewriter, op.getLoc(), op.getQ(), op.getK(), op.getV(), rest,
                                           op.getScale().convertToDouble(), op.getCausal() || parts->causal);
    takeDropout(simpler, op);
    simpler->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    rewriter.replaceOp(op, simpler.getResults());
    ++counter;
    return success();
  }
  Counter &counter;
};

} // namespace

void addAttentionBiasPatterns(RewritePatternSet &patterns, Counter &counter) {
  patterns.add<SplitAttentionBias>(patterns.getContext(), counter);
}

} // namespace tessera::normalize
