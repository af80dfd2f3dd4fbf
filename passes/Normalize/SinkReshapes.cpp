// Moves collapsing reshapes ([b, s, h] to [b*s, h]) behind the operators that do not need them, where they
// meet their inverse: batch and sequence stay dimensions of their own.
#include "passes/Normalize/Match.h"
#include "passes/Normalize/Patterns.h"

using namespace mlir;

namespace tessera::normalize {
namespace {

using Groups = llvm::SmallVector<llvm::SmallVector<int64_t>>;

/// A collapsing reshape and its groups.
struct Collapse {
  Value source;
  Groups groups;
  llvm::ArrayRef<int64_t> shape() const { return shapeOf(source); }
  /// Trailing dimensions that the reshape leaves as they are.
  int64_t untouched() const {
    int64_t count = 0;
    for (const auto &group : llvm::reverse(groups)) {
      if (group.size() != 1)
        break;
      ++count;
    }
    return count;
  }
};
std::optional<Collapse> collapseOf(Value value) {
  auto op = value.getDefiningOp<nn::ReshapeOp>();
  auto groups = op ? collapseGroups(shapeOf(op.getOperand()), shapeOf(op)) : std::nullopt;
  if (!groups)
    return std::nullopt;
  return Collapse{op.getOperand(), *groups};
}

/// elementwise(collapse(x), ..): collapse(elementwise(x, ..)), where the others are scalars, vectors over
/// untouched dimensions, the same collapse, or can be reshaped for nothing: what depends on nothing
/// (constants, variables) and what a reshape made.
struct SinkThroughElementwise : RewritePattern {
  SinkThroughElementwise(MLIRContext *context, Counter &counter)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context), counter(counter) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isElementwise(op))
      return rewriter.notifyMatchFailure(op, "not elementwise");
    llvm::ArrayRef<int64_t> result = shapeOf(op->getResult(0));
    std::optional<Collapse> first;
    for (Value operand : op->getOperands())
      if (!first && shapeOf(operand) == result)
        first = collapseOf(operand);
    if (!first)
      return rewriter.notifyMatchFailure(op, "no operand is a collapsing reshape");
    auto sameCollapse = [&](Value operand) {
      std::optional<Collapse> same = collapseOf(operand);
      return same && same->shape() == first->shape() && shapeOf(operand) == result;
    };
    for (Value operand : op->getOperands())
      if (!sameCollapse(operand) && !splatValue(operand) && !trailingShape(operand, first->untouched()) &&
          !expandedShape(operand, *first))
        return rewriter.notifyMatchFailure(op, "another operand needs the collapsed dimensions");
    llvm::SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      if (sameCollapse(operand))
        operands.push_back(collapseOf(operand)->source);
      else if (std::optional<double> scalar = splatValue(operand))
        operands.push_back(splat(rewriter, operand.getLoc(), elementOf(operand), {}, *scalar));
      else if (auto trailing = trailingShape(operand, first->untouched()))
        operands.push_back(reshape(rewriter, operand.getLoc(), operand, *trailing));
      else
        operands.push_back(reshape(rewriter, operand.getLoc(), operand, *expandedShape(operand, *first)));
    Value moved = cloneWith(rewriter, op, operands, first->shape());
    rewriter.replaceOp(op, reshape(rewriter, op->getLoc(), moved, result));
    ++counter;
    return success();
  }
  /// The shape of `value` without leading ones, when it reaches over no more than `count` trailing
  /// dimensions.
  static std::optional<llvm::ArrayRef<int64_t>> trailingShape(Value value, int64_t count) {
    llvm::ArrayRef<int64_t> shape = shapeOf(value);
    while (static_cast<int64_t>(shape.size()) > count && shape.front() == 1)
      shape = shape.drop_front();
    if (static_cast<int64_t>(shape.size()) > count)
      return std::nullopt;
    return shape;
  }
  /// The shape before the collapse of what depends on nothing or is a reshape's result, when it reaches over
  /// each collapsed dimension whole or not at all.
  static std::optional<Shape> expandedShape(Value value, const Collapse &collapse) {
    Operation *made = value.getDefiningOp();
    llvm::ArrayRef<int64_t> shape = shapeOf(value);
    if (!made || (made->getNumOperands() != 0 && !isa<nn::ReshapeOp>(made)) ||
        shape.size() > collapse.groups.size())
      return std::nullopt;
    Shape expanded;
    auto groups = llvm::ArrayRef(collapse.groups).take_back(shape.size());
    for (auto [size, group] : llvm::zip(shape, groups)) {
      int64_t whole = 1;
      for (int64_t d : group)
        whole *= collapse.shape()[d];
      if (size != 1 && size != whole)
        return std::nullopt;
      for (int64_t d : group)
        expanded.push_back(size == 1 ? 1 : collapse.shape()[d]);
    }
    return expanded;
  }
  Counter &counter;
};

/// The same for one operand that is a transpose or a broadcast, when the others are scalars.
template <typename ShapeOp> struct SinkPastScalars : RewritePattern {
  SinkPastScalars(MLIRContext *context, Counter &counter)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context), counter(counter) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isElementwise(op))
      return rewriter.notifyMatchFailure(op, "not elementwise");
    ShapeOp inner;
    for (Value operand : op->getOperands()) {
      auto candidate = operand.getDefiningOp<ShapeOp>();
      if (splatValue(operand))
        continue;
      if (!candidate || (inner && candidate != inner) || shapeOf(operand) != shapeOf(op->getResult(0)))
        return rewriter.notifyMatchFailure(op, "an operand is neither of that kind nor a scalar");
      inner = candidate;
    }
    if (!inner)
      return rewriter.notifyMatchFailure(op, "all operands are scalars");
    llvm::SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      if (std::optional<double> scalar = splatValue(operand))
        operands.push_back(splat(rewriter, operand.getLoc(), elementOf(operand), {}, *scalar));
      else
        operands.push_back(inner.getOperand());
    Value moved = cloneWith(rewriter, op, operands, shapeOf(inner.getOperand()));
    Operation *again = rewriter.clone(*inner);
    again->setOperand(0, moved);
    again->getResult(0).setType(op->getResult(0).getType());
    rewriter.replaceOp(op, again->getResult(0));
    ++counter;
    return success();
  }
  Counter &counter;
};

/// norm(collapse(x)): collapse(norm(x)), when the last dimension is untouched.
struct SinkThroughRows : RewritePattern {
  SinkThroughRows(MLIRContext *context, Counter &counter)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context), counter(counter) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa<nn::SoftmaxOp, nn::LayerNormOp, nn::RmsNormOp>(op))
      return rewriter.notifyMatchFailure(op, "not an operator on rows");
    std::optional<Collapse> collapse = collapseOf(op->getOperand(0));
    if (!collapse || collapse->untouched() < 1)
      return rewriter.notifyMatchFailure(op, "its operand's rows are not untouched by a collapsing reshape");
    llvm::SmallVector<Value> operands(op->getOperands());
    operands[0] = collapse->source;
    OperationState state(op->getLoc(), op->getName());
    state.addOperands(operands);
    state.addAttributes(op->getAttrs());
    for (Value result : op->getResults()) {
      bool rows = shapeOf(result) == shapeOf(op->getOperand(0));
      state.addTypes(
          RankedTensorType::get(rows ? collapse->shape() : collapse->shape().drop_back(), elementOf(result)));
    }
    Operation *moved = rewriter.create(state);
    llvm::SmallVector<Value> results;
    for (auto [from, to] : llvm::zip(moved->getResults(), op->getResults()))
      results.push_back(reshape(rewriter, op->getLoc(), from, shapeOf(to)));
    rewriter.replaceOp(op, results);
    ++counter;
    return success();
  }
  Counter &counter;
};

/// slice(collapse(x)): collapse(slice(x)), when the dimensions cut are untouched.
struct SinkThroughSlice : OpRewritePattern<nn::SliceOp> {
  SinkThroughSlice(MLIRContext *context, Counter &counter) : OpRewritePattern(context), counter(counter) {}
  LogicalResult matchAndRewrite(nn::SliceOp op, PatternRewriter &rewriter) const override {
    std::optional<Collapse> collapse = collapseOf(op.getOperand());
    if (!collapse)
      return rewriter.notifyMatchFailure(op, "its operand is no collapsing reshape");
    Shape starts(collapse->shape().size(), 0), sizes(collapse->shape()), steps(collapse->shape().size(), 1);
    for (auto [d, group] : llvm::enumerate(collapse->groups)) {
      if (op.getSizes()[d] == shapeOf(op.getOperand())[d])
        continue;
      if (group.size() != 1)
        return rewriter.notifyMatchFailure(op, "it cuts a collapsed dimension");
      starts[group[0]] = op.getStarts()[d];
      sizes[group[0]] = op.getSizes()[d];
      steps[group[0]] = op.getSteps()[d];
    }
    Value moved = nn::SliceOp::create(rewriter, op.getLoc(), collapse->source, starts, sizes, steps);
    rewriter.replaceOp(op, reshape(rewriter, op.getLoc(), moved, shapeOf(op)));
    ++counter;
    return success();
  }
  Counter &counter;
};

/// A product of collapsed operands: rows that were merged become letters of their own. Summed dimensions stay
/// merged.
struct SinkThroughProduct : OpRewritePattern<nn::ContractOp> {
  SinkThroughProduct(MLIRContext *context, Counter &counter) : OpRewritePattern(context), counter(counter) {}
  LogicalResult matchAndRewrite(nn::ContractOp op, PatternRewriter &rewriter) const override {
    std::string out = op.getOutLetters().str();
    std::string letters[2] = {op.getLhsLetters().str(), op.getRhsLetters().str()};
    Value operands[2] = {op.getLhs(), op.getRhs()};
    std::optional<Collapse> collapses[2] = {collapseOf(operands[0]), collapseOf(operands[1])};
    if (!collapses[0] && !collapses[1])
      return rewriter.notifyMatchFailure(op, "no operand is a collapsing reshape");
    // letter -> sizes that it splits into
    std::map<char, Shape> splits;
    auto sizesOf = [&](int side, char letter) {
      Shape sizes;
      size_t place = letters[side].find(letter);
      if (collapses[side] && place != std::string::npos)
        for (int64_t d : collapses[side]->groups[place])
          if (collapses[side]->shape()[d] != 1)
            sizes.push_back(collapses[side]->shape()[d]);
      return sizes;
    };
    for (char letter : out) {
      bool in[2] = {letters[0].find(letter) != std::string::npos,
                    letters[1].find(letter) != std::string::npos};
      Shape sizes = in[0] ? sizesOf(0, letter) : sizesOf(1, letter);
      if (sizes.size() > 1 && (!in[0] || !in[1] || sizesOf(1, letter) == sizes))
        splits[letter] = sizes;
    }
    if (splits.empty())
      return rewriter.notifyMatchFailure(op, "what was collapsed is summed, or not by both operands");
    std::map<char, std::string> names = freshNames(splits, letters[0] + letters[1] + out);
    for (int side : {0, 1})
      operands[side] = split(rewriter, op.getLoc(), operands[side], letters[side], splits, names);
    Shape outShape;
    std::string newOut;
    for (auto [d, letter] : llvm::enumerate(out)) {
      auto found = splits.find(letter);
      if (found == splits.end()) {
        outShape.push_back(shapeOf(op)[d]);
        newOut += letter;
      } else {
        outShape.append(found->second);
        newOut += names[letter];
      }
    }
    auto moved = cast<nn::ContractOp>(rewriter.clone(*op));
    moved.getLhsMutable().assign(operands[0]);
    moved.getRhsMutable().assign(operands[1]);
    moved.setLhsLetters(letters[0]);
    moved.setRhsLetters(letters[1]);
    moved.setOutLetters(newOut);
    moved.getResult().setType(RankedTensorType::get(outShape, elementOf(op)));
    rewriter.replaceOp(op, reshape(rewriter, op.getLoc(), moved, shapeOf(op)));
    ++counter;
    return success();
  }

  /// The last part keeps the letter, those before get unused ones: s of [b, s] stays s.
  static std::map<char, std::string> freshNames(const std::map<char, Shape> &splits, std::string used) {
    std::map<char, std::string> names;
    for (const auto &[letter, sizes] : splits) {
      for (size_t k = 0; k + 1 < sizes.size(); ++k)
        for (char candidate : std::string("bhgmnpqruvwxyzacdefjklotis"))
          if (used.find(candidate) == std::string::npos) {
            names[letter] += candidate;
            used += candidate;
            break;
          }
      names[letter] += letter;
    }
    return names;
  }

  static Value split(PatternRewriter &rewriter, Location loc, Value operand, std::string &letters,
                     const std::map<char, Shape> &splits, std::map<char, std::string> &names) {
    Shape shape;
    std::string renamed;
    for (auto [d, letter] : llvm::enumerate(letters)) {
      auto found = splits.find(letter);
      if (found == splits.end()) {
        shape.push_back(shapeOf(operand)[d]);
        renamed += letter;
      } else {
        shape.append(found->second);
        renamed += names[letter];
      }
    }
    letters = renamed;
    return reshape(rewriter, loc, operand, shape);
  }
  Counter &counter;
};

} // namespace

void addSinkReshapePatterns(RewritePatternSet &patterns, Counter &counter) {
  patterns.add<SinkThroughElementwise, SinkPastScalars<nn::TransposeOp>, SinkPastScalars<nn::BroadcastOp>,
               SinkThroughRows, SinkThroughSlice, SinkThroughProduct>(patterns.getContext(), counter);
}

} // namespace tessera::normalize
