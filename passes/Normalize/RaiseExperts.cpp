// Mixture of experts from the form that gathers the weights of each choice: y[r] = W[ids[r]] x[r] for the
// rows r = (token, choice), which executed as written copies a weight for every row. What depends on a choice
// through its expert alone is computed for experts and tokens instead: dispatch, products over a dimension of
// experts, combine.
#include "mlir/IR/BuiltinOps.h"
#include "passes/Normalize/Match.h"
#include "passes/Normalize/Patterns.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace tessera::normalize {
namespace {

/// A value over rows, by experts and tokens: element [r, rest..] is `value`[expert of r, token of r, rest..],
/// without the dimensions that it does not depend on.
struct Lifted {
  Value value;
  bool byExpert = false, byToken = false;
  int64_t leading() const { return byExpert + byToken; }
};

/// How many leading dimensions make up `rows` rows.
std::optional<int64_t> rowRank(llvm::ArrayRef<int64_t> shape, int64_t rows) {
  int64_t n = 1;
  for (size_t d = 0; d < shape.size(); ++d)
    if ((n *= shape[d]) == rows)
      return d + 1;
  return std::nullopt;
}

/// The ids that others are a view of, or that count from the end where they are negative.
Value sourceOfIds(Value ids) {
  while (Operation *op = ids.getDefiningOp()) {
    if (isa<nn::ReshapeOp, nn::CastOp>(op)) {
      ids = op->getOperand(0);
      continue;
    }
    auto select = dyn_cast<nn::SelectOp>(op);
    auto isNegative = select ? select.getCondition().getDefiningOp<nn::CompareOp>() : nullptr;
    if (!isNegative || isNegative.getPredicate() != "lt" || !isSplat(isNegative.getRhs(), 0) ||
        isNegative.getLhs() != select.getY())
      break;
    ids = select.getY();
  }
  return ids;
}

/// One mixture: the sum over choices of weights times what `lift` can tell about.
class Mixture {
public:
  Mixture(OpBuilder &b, int64_t tokens, int64_t choices)
      : b(b), tokens(tokens), choices(choices), rows(tokens * choices) {}

  /// Finds the gathered weights that `value`, over rows, is computed from.
  bool findExperts(Value value);
  std::optional<Lifted> lift(Value value);
  /// sum over choices of weights (as many elements as rows) times the lifted value.
  Value combine(Location loc, const Lifted &lifted, Value weights);
  /// Takes back what was made in vain.
  void undo() {
    for (Operation *op : llvm::reverse(made))
      op->erase();
  }

private:
  template <class Op, class... Args> Value make(Location loc, Args &&...args) {
    auto op = Op::create(b, loc, std::forward<Args>(args)...);
    made.push_back(op);
    return op->getResult(0);
  }
  Value reshaped(Location loc, Value value, llvm::ArrayRef<int64_t> shape) {
    return shapeOf(value) == shape
               ? value
               : make<nn::ReshapeOp>(loc, RankedTensorType::get(shape, elementOf(value)), value);
  }
  /// The dimensions of experts and tokens that `lifted` has, then `rest`.
  Shape shapeFor(bool byExpert, bool byToken, llvm::ArrayRef<int64_t> rest) const {
    Shape shape;
    if (byExpert)
      shape.push_back(experts);
    if (byToken)
      shape.push_back(tokens);
    shape.append(rest.begin(), rest.end());
    return shape;
  }
  std::optional<Lifted> liftNew(Value value);
  std::optional<Lifted> dispatch(Location loc, Value x, llvm::ArrayRef<int64_t> rest);
  std::optional<Lifted> liftBroadcast(nn::BroadcastOp op, int64_t n);
  std::optional<Lifted> liftElementwise(Operation *op, int64_t n);
  std::optional<Lifted> liftOperand(Value operand, llvm::ArrayRef<int64_t> result, int64_t n);
  std::optional<Lifted> liftContract(nn::ContractOp op, int64_t n);
  std::optional<Lifted> liftSlice(nn::SliceOp op, int64_t n);
  std::optional<Lifted> liftTranspose(nn::TransposeOp op, int64_t n);

  OpBuilder &b;
  int64_t tokens, choices, rows, experts = 0;
  Value ids;                               // their source
  llvm::DenseMap<Value, Lifted> known;     // of values over rows
  llvm::DenseMap<Value, Value> dispatched; // of tokens
  llvm::SmallVector<Operation *> made;
};

bool Mixture::findExperts(Value value) {
  llvm::SmallVector<Value> work = {value};
  llvm::DenseSet<Value> seen;
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op || seen.size() > 256)
      continue;
    auto gather = dyn_cast<nn::GatherOp>(op);
    if (gather && rankOf(gather.getTable()) >= 3 && typeOf(gather.getIds()).getNumElements() == rows) {
      ids = sourceOfIds(gather.getIds());
      experts = shapeOf(gather.getTable())[0];
      return typeOf(ids).getNumElements() == rows;
    }
    for (Value operand : op->getOperands())
      if (isa<RankedTensorType>(operand.getType()) && rowRank(shapeOf(operand), rows) &&
          seen.insert(operand).second)
        work.push_back(operand);
  }
  return false;
}

std::optional<Lifted> Mixture::lift(Value value) {
  if (auto it = known.find(value); it != known.end())
    return it->second;
  std::optional<Lifted> lifted = liftNew(value);
  if (lifted)
    known[value] = *lifted;
  return lifted;
}

std::optional<Lifted> Mixture::liftNew(Value value) {
  Operation *op = value.getDefiningOp();
  std::optional<int64_t> n = rowRank(shapeOf(value), rows);
  if (!op || !n)
    return std::nullopt;
  llvm::ArrayRef<int64_t> rest = shapeOf(value).drop_front(*n);
  if (auto view = dyn_cast<nn::ReshapeOp>(op)) {
    std::optional<Lifted> source =
        rowRank(shapeOf(view.getOperand()), rows) ? lift(view.getOperand()) : std::nullopt;
    if (source)
      source->value =
          reshaped(op->getLoc(), source->value, shapeFor(source->byExpert, source->byToken, rest));
    return source;
  }
  if (auto gather = dyn_cast<nn::GatherOp>(op)) {
    bool own = shapeOf(gather.getTable())[0] == experts && typeOf(gather.getIds()).getNumElements() == rows &&
               sourceOfIds(gather.getIds()) == ids && !gather.getStart();
    return own ? std::optional<Lifted>({gather.getTable(), true, false}) : std::nullopt;
  }
  if (auto broadcast = dyn_cast<nn::BroadcastOp>(op))
    return liftBroadcast(broadcast, *n);
  if (auto contract = dyn_cast<nn::ContractOp>(op))
    return liftContract(contract, *n);
  if (auto slice = dyn_cast<nn::SliceOp>(op))
    return liftSlice(slice, *n);
  if (auto transposed = dyn_cast<nn::TransposeOp>(op))
    return liftTranspose(transposed, *n);
  return isElementwise(op) ? liftElementwise(op, *n) : std::nullopt;
}

/// `x`, [tokens.., rest..], the same for all choices: each expert gets the tokens that chose it.
std::optional<Lifted> Mixture::dispatch(Location loc, Value x, llvm::ArrayRef<int64_t> rest) {
  if (!isa<FloatType>(elementOf(x)) || typeOf(x).getNumElements() != tokens * product(rest))
    return std::nullopt;
  if (auto it = dispatched.find(x); it != dispatched.end())
    return Lifted{reshaped(loc, it->second, shapeFor(true, true, rest)), true, true};
  Value flat = reshaped(loc, x, {tokens, product(rest)}), choice = reshaped(loc, ids, {tokens, choices});
  auto ones = RankedTensorType::get({tokens, choices}, elementOf(x));
  Value one = make<nn::ConstantOp>(loc, ones,
                                   DenseElementsAttr::get(ones, Attribute(b.getFloatAttr(elementOf(x), 1))));
  Value all = make<nn::DispatchOp>(loc, RankedTensorType::get({experts, tokens, product(rest)}, elementOf(x)),
                                   flat, choice, one, Value());
  dispatched[x] = all;
  return Lifted{reshaped(loc, all, shapeFor(true, true, rest)), true, true};
}

/// A token repeated for each of its choices, or a value that is the same for all rows.
std::optional<Lifted> Mixture::liftBroadcast(nn::BroadcastOp op, int64_t n) {
  llvm::ArrayRef<int64_t> result = shapeOf(op);
  int64_t kept = 0, firstNew = n;
  for (int64_t d = 0; d < n; ++d) {
    bool isKept = llvm::is_contained(op.getDims(), d);
    kept += isKept;
    if (!isKept && result[d] != 1)
      firstNew = std::min(firstNew, d);
    else if (isKept && result[d] != 1 && firstNew < d)
      return std::nullopt;
  }
  // All dimensions of the rest are the operand's.
  if (int64_t(op.getDims().size()) - kept != int64_t(result.size()) - n || !llvm::is_sorted(op.getDims()))
    return std::nullopt;
  llvm::ArrayRef<int64_t> rest = result.drop_front(n);
  if (product(result.take_front(firstNew)) == tokens)
    return dispatch(op.getLoc(), op.getOperand(), rest);
  if (typeOf(op.getOperand()).getNumElements() == product(rest))
    return Lifted{reshaped(op.getLoc(), op.getOperand(), rest)};
  return std::nullopt;
}

/// An operand of an elementwise operator whose result has `n` dimensions of rows.
std::optional<Lifted> Mixture::liftOperand(Value operand, llvm::ArrayRef<int64_t> result, int64_t n) {
  llvm::ArrayRef<int64_t> shape = shapeOf(operand);
  int64_t missing = int64_t(result.size()) - int64_t(shape.size());
  llvm::ArrayRef<int64_t> own = shape.take_front(std::max<int64_t>(0, n - missing)),
                          rest = shape.drop_front(own.size());
  if (std::optional<double> scalar = splatValue(operand)) {
    auto type = RankedTensorType::get({}, elementOf(operand));
    Attribute number = isa<FloatType>(type.getElementType())
                           ? Attribute(b.getFloatAttr(type.getElementType(), *scalar))
                           : b.getIntegerAttr(type.getElementType(), int64_t(*scalar));
    return Lifted{make<nn::ConstantOp>(operand.getLoc(), type, DenseElementsAttr::get(type, number))};
  }
  if (missing == 0 && product(own) == rows)
    return lift(operand);
  if (llvm::all_of(own, [](int64_t d) { return d == 1; }))
    return Lifted{reshaped(operand.getLoc(), operand, rest)};
  // Of a token: dimensions of size 1 where the choices are.
  return missing == 0 && product(own) == tokens && own.back() == 1 ? dispatch(operand.getLoc(), operand, rest)
                                                                   : std::nullopt;
}

std::optional<Lifted> Mixture::liftElementwise(Operation *op, int64_t n) {
  llvm::ArrayRef<int64_t> result = shapeOf(op->getResult(0)), rest = result.drop_front(n);
  llvm::SmallVector<Lifted> operands;
  bool byExpert = false, byToken = false;
  for (Value operand : op->getOperands()) {
    std::optional<Lifted> lifted = liftOperand(operand, result, n);
    if (!lifted)
      return std::nullopt;
    byExpert |= lifted->byExpert;
    byToken |= lifted->byToken;
    operands.push_back(*lifted);
  }
  llvm::SmallVector<Value> values;
  for (const Lifted &operand : operands) {
    // Aligned at the right, as numpy does.
    llvm::ArrayRef<int64_t> own = shapeOf(operand.value).drop_front(operand.leading());
    Shape shape;
    if (operand.leading()) {
      if (byExpert)
        shape.push_back(operand.byExpert ? experts : 1);
      if (byToken)
        shape.push_back(operand.byToken ? tokens : 1);
      shape.append(rest.size() - own.size(), 1);
    }
    shape.append(own.begin(), own.end());
    values.push_back(reshaped(op->getLoc(), operand.value, shape));
  }
  Value value = cloneWith(b, op, values, shapeFor(byExpert, byToken, rest));
  made.push_back(value.getDefiningOp());
  return Lifted{value, byExpert, byToken};
}

std::optional<Lifted> Mixture::liftContract(nn::ContractOp op, int64_t n) {
  llvm::StringRef words[] = {op.getLhsLetters(), op.getRhsLetters()}, out = op.getOutLetters(),
                  row = out.take_front(n);
  std::string fresh;
  for (char c : llvm::StringRef("etnqxyzuvwabcdfghijklmoprs"))
    if (!words[0].contains(c) && !words[1].contains(c))
      fresh += c;
  if (fresh.size() < 2)
    return std::nullopt;
  char expert = fresh[0], token = fresh[1];
  Value values[2];
  std::string letters[2];
  bool byExpert = false, byToken = false;
  for (int side : {0, 1}) {
    Value operand = op->getOperand(side);
    llvm::StringRef own = words[side].take_while([&](char c) { return row.contains(c); }),
                    rest = words[side].drop_front(own.size());
    std::optional<Lifted> lifted;
    if (llvm::any_of(rest, [&](char c) { return row.contains(c); }))
      return std::nullopt;
    if (own.empty())
      lifted = Lifted{operand};
    else if (own == row)
      lifted = lift(operand);
    else if (row.starts_with(own) && product(shapeOf(operand).take_front(own.size())) == tokens)
      lifted = dispatch(op.getLoc(), operand, shapeOf(operand).drop_front(own.size()));
    if (!lifted)
      return std::nullopt;
    // Rows are written as matrices of one column: without it, tokens are the columns.
    letters[side] =
        (lifted->byExpert ? std::string(1, expert) : "") + (lifted->byToken ? std::string(1, token) : "");
    Shape shape(shapeOf(lifted->value).take_front(lifted->leading()));
    for (auto [c, size] : llvm::zip_equal(rest, shapeOf(lifted->value).drop_front(lifted->leading())))
      if (size != 1 || words[1 - side].contains(c)) {
        letters[side] += c;
        shape.push_back(size);
      }
    values[side] = reshaped(op.getLoc(), lifted->value, shape);
    byExpert |= lifted->byExpert;
    byToken |= lifted->byToken;
  }
  std::string result = (byExpert ? std::string(1, expert) : "") + (byToken ? std::string(1, token) : "");
  for (char c : out.drop_front(n))
    if (letters[0].find(c) != std::string::npos || letters[1].find(c) != std::string::npos)
      result += c;
  Value value = make<nn::ContractOp>(op.getLoc(), values[0], values[1], letters[0], letters[1], result);
  return Lifted{reshaped(op.getLoc(), value, shapeFor(byExpert, byToken, shapeOf(op).drop_front(n))),
                byExpert, byToken};
}

std::optional<Lifted> Mixture::liftSlice(nn::SliceOp op, int64_t n) {
  for (int64_t d = 0; d < n; ++d)
    if (op.getSizes()[d] != shapeOf(op.getOperand())[d])
      return std::nullopt;
  std::optional<Lifted> source = lift(op.getOperand());
  if (!source)
    return std::nullopt;
  llvm::SmallVector<int64_t> starts(source->leading(), 0), steps(source->leading(), 1);
  Shape sizes = shapeFor(source->byExpert, source->byToken, op.getSizes().drop_front(n));
  llvm::append_range(starts, op.getStarts().drop_front(n));
  llvm::append_range(steps, op.getSteps().drop_front(n));
  source->value = make<nn::SliceOp>(op.getLoc(), source->value, starts, sizes, steps);
  return source;
}

std::optional<Lifted> Mixture::liftTranspose(nn::TransposeOp op, int64_t n) {
  for (int64_t d = 0; d < n; ++d)
    if (op.getPerm()[d] != d)
      return std::nullopt;
  std::optional<Lifted> source = lift(op.getOperand());
  if (!source)
    return std::nullopt;
  llvm::SmallVector<int64_t> perm = llvm::to_vector(llvm::seq<int64_t>(0, source->leading()));
  for (int64_t d : op.getPerm().drop_front(n))
    perm.push_back(d - n + source->leading());
  source->value = make<nn::TransposeOp>(op.getLoc(), source->value, perm);
  return source;
}

Value Mixture::combine(Location loc, const Lifted &lifted, Value weights) {
  Value y = reshaped(loc, lifted.value,
                     {experts, tokens, typeOf(lifted.value).getNumElements() / experts / tokens});
  Value choice = reshaped(loc, ids, {tokens, choices}), weight = reshaped(loc, weights, {tokens, choices});
  return make<nn::CombineOp>(loc, y, choice, weight, Value());
}

/// A sum over choices: of `value` times `weights`, which is null or has one element a row.
struct Sum {
  Value value, weights;
  int64_t tokens, choices;
};

std::optional<Sum> matchSum(Operation *op) {
  if (auto contract = dyn_cast<nn::ContractOp>(op)) { // [t.., k, h..], [t.., k] -> [t.., h..]
    llvm::StringRef lhs = contract.getLhsLetters(), rhs = contract.getRhsLetters(),
                    out = contract.getOutLetters();
    if (rhs.size() < 2 || lhs.size() <= rhs.size() || !lhs.starts_with(rhs) ||
        out != (rhs.drop_back() + lhs.drop_front(rhs.size())).str())
      return std::nullopt;
    llvm::ArrayRef<int64_t> shape = shapeOf(contract.getRhs());
    return Sum{contract.getLhs(), contract.getRhs(), product(shape.drop_back()), shape.back()};
  }
  auto reduce = dyn_cast<nn::ReduceOp>(op);
  if (!reduce || reduce.getKind() != "sum" || reduce.getDims().size() != 1 || reduce.getDims()[0] < 1)
    return std::nullopt;
  llvm::ArrayRef<int64_t> shape = shapeOf(reduce.getOperand());
  int64_t d = reduce.getDims()[0];
  Sum sum{reduce.getOperand(), Value(), product(shape.take_front(d)), shape[d]};
  Value value = sum.value;
  while (auto view = value.getDefiningOp<nn::ReshapeOp>())
    value = view.getOperand();
  matchEither<nn::MulOp>(value, [&](Value x, Value weights) {
    std::optional<int64_t> n = rowRank(shapeOf(value), sum.tokens * sum.choices);
    if (!n || shapeOf(x) != shapeOf(value) || rankOf(weights) != rankOf(value) ||
        typeOf(weights).getNumElements() != sum.tokens * sum.choices ||
        shapeOf(weights).take_front(*n) != shapeOf(value).take_front(*n))
      return false;
    sum.value = x;
    sum.weights = weights;
    return true;
  });
  return sum;
}

} // namespace

void raiseExperts(ModuleOp module, Counter &counter) {
  llvm::SmallVector<std::pair<Operation *, Sum>> sums;
  module.walk([&](Operation *op) {
    if (std::optional<Sum> sum = matchSum(op))
      sums.push_back({op, *sum});
  });
  for (auto &[op, sum] : sums) {
    OpBuilder b(op);
    Mixture mixture(b, sum.tokens, sum.choices);
    if (!sum.weights || !mixture.findExperts(sum.value))
      continue;
    std::optional<Lifted> lifted = mixture.lift(sum.value);
    if (!lifted || !lifted->byExpert || !lifted->byToken) {
      mixture.undo();
      continue;
    }
    Value combined = mixture.combine(op->getLoc(), *lifted, sum.weights);
    Value result = op->getResult(0);
    result.replaceAllUsesWith(reshape(b, op->getLoc(), combined, shapeOf(result)));
    ++counter;
  }
}

} // namespace tessera::normalize
