// Attention from its two products: softmax(scale q k^T + masks) v, in whatever order of dimensions, with the
// guards, split scales and expanded key/value heads that the exporters write.
#include "passes/Normalize/Match.h"
#include "passes/Normalize/Patterns.h"
#include "llvm/ADT/APFloat.h"
#include <algorithm>
#include <cmath>

using namespace mlir;

namespace tessera::normalize {
namespace {

/// Where keys are not seen, a number stands instead of the score.
struct Condition {
  Value value;
  bool seen; ///< whether it holds where keys are seen, or where they are not
  double low;
};

/// What lies between the first product and the softmax.
struct Scores {
  nn::ContractOp product;
  double scale = 1;
  llvm::SmallVector<std::pair<Value, double>> masks; // added, times the number
  llvm::SmallVector<Condition> conditions;
};

bool traceScores(Value value, llvm::ArrayRef<int64_t> shape, Scores &scores, int depth = 0) {
  if (depth > 8 || shapeOf(value) != shape)
    return false;
  if (auto product = value.getDefiningOp<nn::ContractOp>()) {
    scores.product = product;
    return true;
  }
  Value x;
  double c;
  if (auto cast = value.getDefiningOp<nn::CastOp>(); cast && isa<FloatType>(elementOf(cast.getOperand())))
    return traceScores(cast.getOperand(), shape, scores, depth + 1);
  if (matchTimesScalar(value, x, c)) {
    scores.scale *= c;
    return traceScores(x, shape, scores, depth + 1);
  }
  // A mask inside of the scaling is scaled too.
  if (auto select = value.getDefiningOp<nn::SelectOp>()) {
    bool seen = splatValue(select.getY()).has_value();
    std::optional<double> low = splatValue(seen ? select.getY() : select.getX());
    if (!low || *low * scores.scale > -1e4)
      return false;
    scores.conditions.push_back({select.getCondition(), seen, *low * scores.scale});
    return traceScores(seen ? select.getX() : select.getY(), shape, scores, depth + 1);
  }
  return matchEither<nn::AddOp>(value, [&](Value a, Value mask) {
    Scores attempt = scores;
    attempt.masks.push_back({mask, scores.scale});
    if (!traceScores(a, shape, attempt, depth + 1))
      return false;
    scores = attempt;
    return true;
  });
}

/// The softmax under a dropout, a guard against NaN and casts.
nn::SoftmaxOp traceSoftmax(Value value, nn::DropoutOp &dropout) {
  auto skipCast = [&] {
    if (auto cast = value.getDefiningOp<nn::CastOp>())
      value = cast.getOperand();
  };
  skipCast();
  dropout = value.getDefiningOp<nn::DropoutOp>();
  if (dropout) {
    value = dropout.getX();
    skipCast();
  }
  if (auto select = value.getDefiningOp<nn::SelectOp>()) {
    auto isNan = select.getCondition().getDefiningOp<nn::IsNanOp>();
    if (isNan && isNan.getOperand() == select.getY() && isSplat(select.getX(), 0))
      value = select.getY();
  }
  skipCast();
  return value.getDefiningOp<nn::SoftmaxOp>();
}

/// An operand of a product: its dimensions by letter.
struct Lettered {
  Value value;
  std::string letters;
  bool has(char letter) const { return letters.find(letter) != std::string::npos; }
  int64_t size(char letter) const { return shapeOf(value)[letters.find(letter)]; }
};

/// Scalar factors, also beneath transposes.
void dropScales(Lettered &operand, double &scale) {
  while (true) {
    Value x;
    double c;
    if (auto inner = operand.value.getDefiningOp<nn::TransposeOp>()) {
      std::string moved = operand.letters;
      for (auto [i, d] : llvm::enumerate(inner.getPerm()))
        moved[d] = operand.letters[i];
      operand = {inner.getOperand(), moved};
    } else if (matchTimesScalar(operand.value, x, c)) {
      operand.value = x;
      scale *= c;
    } else {
      return;
    }
  }
}

/// Key or value heads that were repeated for a group of query heads each: the operand before that.
void dropRepeatedHeads(Lettered &operand, char head) {
  auto merge = operand.value.getDefiningOp<nn::ReshapeOp>();
  auto repeat = merge ? merge.getOperand().getDefiningOp<nn::BroadcastOp>() : nullptr;
  auto groups = repeat ? collapseGroups(shapeOf(repeat), shapeOf(merge)) : std::nullopt;
  if (!groups)
    return;
  llvm::SmallVector<int64_t> expected; // all dimensions but the group
  for (auto [d, letter] : llvm::enumerate(operand.letters)) {
    const auto &group = (*groups)[d];
    if (group.size() != (letter == head ? 2u : 1u))
      return;
    expected.push_back(group[0]);
  }
  if (llvm::ArrayRef<int64_t>(expected) == repeat.getDims()) {
    operand.value = repeat.getOperand();
    return;
  }
  // A single head is not a dimension of the broadcast's operand.
  size_t place = operand.letters.find(head);
  expected.erase(expected.begin() + place);
  if (llvm::ArrayRef<int64_t>(expected) == repeat.getDims() && shapeOf(repeat)[(*groups)[place][0]] == 1) {
    operand.value = repeat.getOperand();
    operand.letters.erase(place, 1);
  }
}

Value ordered(PatternRewriter &rewriter, Location loc, const Lettered &operand, llvm::StringRef order) {
  llvm::SmallVector<int64_t> perm;
  for (char letter : order)
    perm.push_back(operand.letters.find(letter));
  return transpose(rewriter, loc, operand.value, perm);
}

/// The number of key/value heads: the operand has a prefix of the head dimensions. None otherwise.
std::optional<int64_t> kvHeads(const Lettered &operand, llvm::StringRef heads) {
  int64_t count = 1;
  bool prefix = true;
  for (char letter : heads) {
    if (operand.has(letter) && !prefix)
      return std::nullopt;
    prefix &= operand.has(letter);
    if (prefix)
      count *= operand.size(letter);
  }
  return count;
}

/// The shape of a mask, with leading ones like the scores.
Shape fullShape(Value mask, size_t rank) {
  Shape full(rank - rankOf(mask), 1);
  full.append(shapeOf(mask).begin(), shapeOf(mask).end());
  return full;
}
llvm::ArrayRef<int64_t> headSizes(llvm::ArrayRef<int64_t> shape) { return shape.drop_front(1).drop_back(2); }

/// Every mask reaches over all keys, and over all heads or none.
bool masksFit(const Scores &scores, llvm::ArrayRef<int64_t> shape) {
  auto fits = [&](Value mask) {
    Shape full = fullShape(mask, shape.size());
    return full.back() == shape.back() &&
           (product(headSizes(full)) == 1 || headSizes(full) == headSizes(shape));
  };
  return llvm::all_of(scores.masks, [&](const auto &mask) { return fits(mask.first); }) &&
         llvm::all_of(scores.conditions, [&](const Condition &condition) { return fits(condition.value); });
}

/// `mask` times `factor`. A choice between two numbers stays one, so that its meaning can still be seen.
Value scaled(PatternRewriter &rewriter, Location loc, Value mask, double factor) {
  if (factor == 1)
    return mask;
  auto number = [&](double value) {
    double limit =
        llvm::APFloat::getLargest(cast<FloatType>(elementOf(mask)).getFloatSemantics()).convertToDouble();
    return splat(rewriter, loc, elementOf(mask), {},
                 std::isinf(value) ? value : std::clamp(value * factor, -limit, limit));
  };
  auto select = mask.getDefiningOp<nn::SelectOp>();
  std::optional<double> x = select ? splatValue(select.getX()) : std::nullopt,
                        y = select ? splatValue(select.getY()) : std::nullopt;
  if (x && y)
    return nn::SelectOp::create(rewriter, loc, select.getCondition(), number(*x), number(*y));
  return nn::MulOp::create(rewriter, loc, mask, splat(rewriter, loc, elementOf(mask), {}, factor));
}

/// The sum of all masks as [b|1, m|1, g|1, s|1, t]; null without masks.
Value biasOf(PatternRewriter &rewriter, Location loc, const Scores &scores, llvm::ArrayRef<int64_t> shape,
             int64_t m, int64_t g, Type element) {
  llvm::SmallVector<Value> masks;
  for (auto [mask, factor] : scores.masks)
    masks.push_back(scaled(rewriter, loc, mask, factor));
  for (const Condition &condition : scores.conditions) {
    Value zero = splat(rewriter, loc, element, {}, 0),
          never = splat(rewriter, loc, element, {}, condition.low);
    masks.push_back(nn::SelectOp::create(rewriter, loc, condition.value, condition.seen ? zero : never,
                                         condition.seen ? never : zero));
  }
  Value sum;
  for (Value mask : masks) {
    Shape full = fullShape(mask, shape.size());
    bool perHead = product(headSizes(full)) != 1;
    Value five = reshape(rewriter, loc, mask,
                         {full[0], perHead ? m : 1, perHead ? g : 1, full[full.size() - 2], full.back()});
    if (elementOf(five) != element)
      five = nn::CastOp::create(rewriter, loc, five, element);
    sum = sum ? Value(nn::AddOp::create(rewriter, loc, sum, five)) : five;
  }
  return sum;
}

/// Why a step of the recognition does not match, for `explain --why`.
constexpr const char *mismatch(const char *why) { return why; }

/// The product of softmaxed scores with values, as it is recognised: each step says why it does not match, or
/// null. Dimensions are the letters of the first product; values have one of their own besides.
class AttentionMatch {
public:
  explicit AttentionMatch(nn::ContractOp op) : op(op) {}
  const char *findScores();
  const char *findQueriesAndKeys();
  const char *findValues();
  /// Scales are taken off the operands, and key and value heads that were repeated are not.
  const char *findHeads();
  /// What the product computes, by an attention.
  Value build(PatternRewriter &rewriter);

private:
  Value withHeads(PatternRewriter &rewriter, const Lettered &operand, char row, char column);
  static constexpr char e = '#'; // the values' own dimension

  nn::ContractOp op;
  bool probsAreLeft = true; // whether the probabilities are its left operand
  nn::DropoutOp dropout;
  nn::SoftmaxOp softmax;
  Scores scores;
  Lettered q, k, v;
  std::string dims;       // of the scores: batch, heads, s, t
  std::string heads, out; // out: of the result
  char b = 0, s = 0, t = 0, d = 0;
  double scale = 1;
  int64_t m = 0, g = 0; // key/value heads, query heads of each
};

const char *AttentionMatch::findScores() {
  softmax = traceSoftmax(op.getLhs(), dropout);
  if (!softmax) {
    probsAreLeft = false;
    softmax = traceSoftmax(op.getRhs(), dropout);
  }
  if (!softmax)
    return mismatch("no operand is a softmax");
  if (!traceScores(softmax.getOperand(), shapeOf(softmax), scores))
    return mismatch("the softmax is not of a product with scales and masks");
  return nullptr;
}

const char *AttentionMatch::findQueriesAndKeys() {
  nn::ContractOp first = scores.product;
  dims = first.getOutLetters().str();
  t = dims.back();
  q = {first.getLhs(), first.getLhsLetters().str()};
  k = {first.getRhs(), first.getRhsLetters().str()};
  if (q.has(t))
    std::swap(q, k);
  if (q.has(t) || !k.has(t) || dims.size() < 3)
    return mismatch("the softmax is not over the keys");
  s = dims[dims.size() - 2];
  if (!q.has(s) || k.has(s))
    return mismatch("the queries are not the last but one dimension of the scores");
  std::string summed;
  for (char letter : q.letters)
    if (k.has(letter) && dims.find(letter) == std::string::npos)
      summed += letter;
  std::string batch = dims.substr(0, dims.size() - 2);
  heads = batch.substr(1);
  if (summed.size() != 1 || q.letters.size() != batch.size() + 2)
    return mismatch("the queries lack a batch dimension, or more than one dimension is summed");
  b = batch[0];
  d = summed[0];
  auto known = [&](char letter) { return letter == d || dims.find(letter) != std::string::npos; };
  if (!llvm::all_of(q.letters, known) || !llvm::all_of(k.letters, known))
    return mismatch("a dimension of the queries alone, or of the keys alone, is summed");
  if (!k.has(b))
    return mismatch("the keys lack the batch dimension");
  return nullptr;
}

const char *AttentionMatch::findValues() {
  std::string probs = (probsAreLeft ? op.getLhsLetters() : op.getRhsLetters()).str();
  v = {probsAreLeft ? op.getRhs() : op.getLhs(),
       (probsAreLeft ? op.getRhsLetters() : op.getLhsLetters()).str()};
  out = op.getOutLetters().str();
  auto translate = [&](char letter) {
    size_t place = probs.find(letter);
    return place == std::string::npos ? e : dims[place];
  };
  llvm::transform(v.letters, v.letters.begin(), translate);
  llvm::transform(out, out.begin(), translate);
  if (llvm::count(v.letters, e) != 1 || !v.has(t) || v.has(s) || !v.has(b) || llvm::count(out, e) != 1 ||
      out.size() != dims.size() || out.find(t) != std::string::npos)
    return mismatch("the second product is not over the keys");
  return nullptr;
}

const char *AttentionMatch::findHeads() {
  scale = scores.scale;
  dropScales(q, scale);
  dropScales(k, scale);
  int64_t headCount = 1;
  for (char letter : heads)
    headCount *= q.size(letter);
  if (heads.size() == 1) {
    Lettered fewerK = k, fewerV = v;
    dropRepeatedHeads(fewerK, heads[0]);
    dropRepeatedHeads(fewerV, heads[0]);
    if (kvHeads(fewerK, heads) == kvHeads(fewerV, heads)) {
      k = fewerK;
      v = fewerV;
      dropScales(k, scale);
    }
  }
  std::optional<int64_t> shared = kvHeads(k, heads);
  if (!shared || shared != kvHeads(v, heads) || headCount % *shared)
    return mismatch("keys and values do not share the heads evenly");
  m = *shared;
  g = headCount / m;
  if (!masksFit(scores, shapeOf(softmax)))
    return mismatch("a mask does not fit the heads");
  return nullptr;
}

/// The operand in the order batch, row, heads that it has, column.
Value AttentionMatch::withHeads(PatternRewriter &rewriter, const Lettered &operand, char row, char column) {
  std::string order{b, row};
  for (char letter : heads)
    if (operand.has(letter))
      order += letter;
  order += column;
  return ordered(rewriter, op.getLoc(), operand, order);
}

Value AttentionMatch::build(PatternRewriter &rewriter) {
  Location loc = op.getLoc();
  int64_t keys = k.size(t), queries = q.size(s), batches = q.size(b), width = q.size(d);
  Value bias = biasOf(rewriter, loc, scores, shapeOf(softmax), m, g, elementOf(q.value));
  Value q5 = reshape(rewriter, loc, withHeads(rewriter, q, s, d), {batches, queries, m, g, width});
  Value k4 = reshape(rewriter, loc, withHeads(rewriter, k, t, d), {batches, keys, m, width});
  Value v4 = reshape(rewriter, loc, withHeads(rewriter, v, t, e), {batches, keys, m, v.size(e)});
  auto attention = nn::AttentionOp::create(rewriter, loc, q5, k4, v4, bias, scale, false);
  if (dropout) {
    attention.getRandomMutable().assign(dropout.getKey());
    attention.setRatioAttr(dropout.getRatioAttr());
    attention.setIdAttr(dropout.getIdAttr());
  }
  Shape split{batches, queries};
  for (char letter : heads)
    split.push_back(q.size(letter));
  split.push_back(v.size(e));
  Value result = reshape(rewriter, loc, attention.getO(), split);
  return ordered(rewriter, loc, {result, std::string{b, s} + heads + e}, out);
}

struct RaiseAttention : OpRewritePattern<nn::ContractOp> {
  RaiseAttention(MLIRContext *context, Counter &counter) : OpRewritePattern(context), counter(counter) {}

  LogicalResult matchAndRewrite(nn::ContractOp op, PatternRewriter &rewriter) const override {
    AttentionMatch match(op);
    for (auto step : {&AttentionMatch::findScores, &AttentionMatch::findQueriesAndKeys,
                      &AttentionMatch::findValues, &AttentionMatch::findHeads})
      if (const char *why = (match.*step)())
        return rewriter.notifyMatchFailure(op, why);
    rewriter.replaceOp(op, match.build(rewriter));
    ++counter;
    return success();
  }

  Counter &counter;
};

/// attention(c q, k) or (q, c k), also where a reshape or transpose lies between: the factor joins the scale.
struct FoldScale : OpRewritePattern<nn::AttentionOp> {
  FoldScale(MLIRContext *context, Counter &) : OpRewritePattern(context) {}
  LogicalResult matchAndRewrite(nn::AttentionOp op, PatternRewriter &rewriter) const override {
    for (unsigned operand : {0u, 1u}) {
      llvm::SmallVector<Operation *> between;
      Value x = op->getOperand(operand), inner;
      double factor;
      while (isa_and_nonnull<nn::ReshapeOp, nn::TransposeOp>(x.getDefiningOp())) {
        between.push_back(x.getDefiningOp());
        x = x.getDefiningOp()->getOperand(0);
      }
      if (!matchTimesScalar(x, inner, factor))
        continue;
      for (Operation *shape : llvm::reverse(between)) {
        Operation *again = rewriter.clone(*shape);
        again->setOperand(0, inner);
        inner = again->getResult(0);
      }
      rewriter.modifyOpInPlace(op, [&] {
        op->setOperand(operand, inner);
        op.setScaleAttr(rewriter.getF64FloatAttr(op.getScale().convertToDouble() * factor));
      });
      return success();
    }
    return rewriter.notifyMatchFailure(op, "neither queries nor keys are scaled");
  }
};

/// attention whose keys and values repeat each head for a group of query heads: the groups become its own.
struct ShareRepeatedHeads : OpRewritePattern<nn::AttentionOp> {
  ShareRepeatedHeads(MLIRContext *context, Counter &) : OpRewritePattern(context) {}
  LogicalResult matchAndRewrite(nn::AttentionOp op, PatternRewriter &rewriter) const override {
    Lettered k{op.getK(), "bthd"}, v{op.getV(), "bthd"};
    dropRepeatedHeads(k, 'h');
    dropRepeatedHeads(v, 'h');
    if (shapeOf(op.getQ())[3] != 1 || k.value == op.getK() || v.value == op.getV() ||
        k.letters.size() != v.letters.size() || !op.getRange().empty())
      return rewriter.notifyMatchFailure(op, "keys and values are not both repeated");
    int64_t heads = shapeOf(op.getQ())[2], m = k.has('h') ? k.size('h') : 1;
    if (m != (v.has('h') ? v.size('h') : 1))
      return rewriter.notifyMatchFailure(op, "keys and values are repeated differently");
    auto regrouped = [&](llvm::ArrayRef<int64_t> shape, size_t at) { // [.., heads, 1, ..] to [.., m, g, ..]
      Shape grouped(shape);
      if (shape[at] == heads) {
        grouped[at] = m;
        grouped[at + 1] = heads / m;
      }
      return grouped;
    };
    Location loc = op.getLoc();
    auto fourD = [&](const Lettered &operand) {
      return reshape(rewriter, loc, operand.value,
                     {operand.size('b'), operand.size('t'), m, operand.size('d')});
    };
    Value q = reshape(rewriter, loc, op.getQ(), regrouped(shapeOf(op.getQ()), 2)), bias = op.getBias();
    if (bias)
      bias = reshape(rewriter, loc, bias, regrouped(shapeOf(bias), 1));
    auto shared = nn::AttentionOp::create(rewriter, loc, q, fourD(k), fourD(v), bias,
                                          op.getScale().convertToDouble(), op.getCausal());
    takeDropout(shared, op);
    shared->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    rewriter.replaceOp(op, {reshape(rewriter, loc, shared.getO(), shapeOf(op.getO())),
                            reshape(rewriter, loc, shared.getLse(), shapeOf(op.getLse()))});
    return success();
  }
};

} // namespace

void addAttentionPatterns(RewritePatternSet &patterns, Counter &counter) {
  patterns.add<RaiseAttention, ShareRepeatedHeads, FoldScale>(patterns.getContext(), counter);
}

} // namespace tessera::normalize
