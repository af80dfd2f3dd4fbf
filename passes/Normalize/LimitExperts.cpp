// Expert capacity: between dispatch and combine, dimensions of tokens become dimensions of places. An expert
// has places for so many choices of each row of the batch, taken in the tokens' order; choices beyond them
// are dropped. What is dropped depends on the row alone, so that it is the same on every mesh.
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Normalize/Match.h"
#include "passes/Normalize/Patterns.h"
#include "llvm/ADT/StringSet.h"
#include <cmath>

using namespace mlir;

namespace tessera::normalize {
namespace {

class Limiter {
public:
  explicit Limiter(double factor) : factor(factor) {}
  LogicalResult run(func::FuncOp func);
  int64_t dispatches() const { return numDispatches; }

private:
  /// The choices of one router, and where they go.
  struct Routing {
    Value places;                     // [batch.., sequence, choices]
    int64_t capacity = 0, tokens = 0; // tokens: in the dimension that becomes one of places
    Shape batch; // rows of the batch that this dimension holds, beside those in dimensions of their own
  };
  /// A value that has been given places: dimension `dim` of it.
  struct Placed {
    Value value;
    int64_t dim;
    Value ids;
  };
  FailureOr<Routing *> routingOf(nn::DispatchOp op);
  LogicalResult dispatch(nn::DispatchOp op);
  LogicalResult combine(nn::CombineOp op, const Placed &y);
  LogicalResult between(Operation *op);
  /// `value`, [tokens.., last], as [batch.., sequence, last].
  Value inRows(OpBuilder &b, const Routing &routing, Value value, int64_t last) {
    Shape shape(shapeOf(routing.places).drop_back());
    shape.push_back(last);
    return reshape(b, value.getLoc(), value, shape);
  }

  double factor;
  int64_t numDispatches = 0;
  llvm::StringSet<> notes;
  DenseMap<std::pair<Value, int64_t>, Routing> routings; // by ids, without views, and their dimensions
  DenseMap<Value, Placed> placed;                        // by the value without places
  SmallVector<Operation *> replaced;
};

/// What `value` is a view of.
Value viewed(Value value) {
  while (auto view = value.getDefiningOp<nn::ReshapeOp>())
    value = view.getOperand();
  return value;
}

/// Where rows of the batch end among the `tokens` of one dimension: the dimensions that they have apart where
/// `x` is computed, or what it is computed from. Empty where nothing tells.
Shape rowsOf(Value x, int64_t tokens) {
  for (int steps = 0; steps < 64; ++steps) {
    x = viewed(x);
    ArrayRef<int64_t> shape = shapeOf(x);
    if (shape.size() >= 3 && product(shape.drop_back()) == tokens)
      return Shape(shape.drop_back());
    Operation *op = x.getDefiningOp();
    if (!op || op->getNumOperands() == 0 || !isa<RankedTensorType>(op->getOperand(0).getType()))
      break;
    x = op->getOperand(0);
  }
  return {};
}

FailureOr<Limiter::Routing *> Limiter::routingOf(nn::DispatchOp op) {
  Value ids = op.getIds();
  std::pair<Value, int64_t> key = {viewed(ids), rankOf(ids)};
  if (auto it = routings.find(key); it != routings.end())
    return &it->second;
  Routing routing;
  Shape choices(shapeOf(ids)), shape = choices;
  routing.tokens = choices[choices.size() - 2];
  if (choices.size() == 2) {
    Shape rows = rowsOf(op.getX(), routing.tokens);
    if (rows.empty())
      return op.emitError("--capacity-factor: experts have room for so many tokens of each row of the batch, "
                          "and nothing tells where rows end among ")
             << routing.tokens
             << " tokens in one dimension; expected tokens that come from [batch, sequence, width]";
    routing.batch.assign(rows.begin(), rows.end() - 1);
    shape = rows;
    shape.push_back(choices.back());
  }
  int64_t experts = shapeOf(op.getResult())[0], sequence = shape[shape.size() - 2], k = shape.back();
  // Not more than all, and a little less than a whole number above is that number: factors are decimal.
  double room = std::ceil(factor * double(sequence) * double(k) / double(experts) - 1e-9);
  routing.capacity = int64_t(std::clamp(room, 1.0, double(sequence)));
  OpBuilder b(op);
  Location loc = op.getLoc();
  Value rows = reshape(b, loc, ids, shape);
  // In the tokens' order, and of one token's choices in the router's.
  auto type = RankedTensorType::get({sequence, k}, elementOf(ids));
  Value order = nn::AddOp::create(b, loc,
                                  nn::MulOp::create(b, loc, nn::IotaOp::create(b, loc, type, 0),
                                                    splat(b, loc, elementOf(ids), {}, double(k))),
                                  nn::IotaOp::create(b, loc, type, 1));
  routing.places = nn::ExpertPlacesOp::create(b, loc, rows, order, rows, order, routing.capacity);
  std::string note =
      ("an expert takes at most " + Twine(routing.capacity) + " of the " + Twine(sequence * k) +
       " choices of a row of the batch, and has " + Twine(routing.capacity) +
       " rows of memory and work for it instead of " + Twine(sequence))
          .str();
  if (notes.insert(note).second)
    op.emitRemark(note);
  return &(routings[key] = routing);
}

LogicalResult Limiter::dispatch(nn::DispatchOp op) {
  if (op.getCapacity())
    return success();
  if (rankOf(op.getIds()) < 2)
    return op.emitError(
        "--capacity-factor: the router has no dimension of tokens; expected [tokens, choices]");
  FailureOr<Routing *> found = routingOf(op);
  if (failed(found))
    return failure();
  Routing &routing = **found;
  OpBuilder b(op);
  ArrayRef<int64_t> rows = shapeOf(routing.places);
  Shape shape(shapeOf(op.getResult()));
  int64_t width = shape.back(), dim = int64_t(shape.size()) - 2;
  Shape apart = {shape[0]};
  apart.append(rows.begin(), rows.end() - 2);
  apart.append({routing.capacity, width});
  Value all = nn::DispatchOp::create(b, op.getLoc(), RankedTensorType::get(apart, elementOf(op.getResult())),
                                     inRows(b, routing, op.getX(), width), routing.places,
                                     inRows(b, routing, op.getWeights(), rows.back()), op.getStart(),
                                     routing.capacity);
  shape[dim] = product(routing.batch) * routing.capacity;
  placed[op.getResult()] = {reshape(b, op.getLoc(), all, shape), dim, viewed(op.getIds())};
  replaced.push_back(op);
  ++numDispatches;
  return success();
}

LogicalResult Limiter::combine(nn::CombineOp op, const Placed &y) {
  auto found = routings.find({y.ids, rankOf(op.getIds())});
  if (y.ids != viewed(op.getIds()) || found == routings.end() || y.dim != rankOf(y.value) - 2)
    return op.emitError(
        "--capacity-factor: combines the rows of experts by other choices than they were dispatched by");
  Routing &routing = found->second;
  OpBuilder b(op);
  ArrayRef<int64_t> rows = shapeOf(routing.places);
  Shape apart = {shapeOf(y.value)[0]};
  apart.append(rows.begin(), rows.end() - 2);
  apart.append({routing.capacity, shapeOf(y.value).back()});
  Value out = nn::CombineOp::create(b, op.getLoc(), reshape(b, op.getLoc(), y.value, apart), routing.places,
                                    inRows(b, routing, op.getWeights(), rows.back()), op.getStart(),
                                    routing.capacity);
  op.getResult().replaceAllUsesWith(reshape(b, op.getLoc(), out, shapeOf(op.getResult())));
  replaced.push_back(op);
  return success();
}

/// An operator on rows of experts, again on rows of places: the dimension of tokens is only passed through.
LogicalResult Limiter::between(Operation *op) {
  auto fail = [&] {
    return op->emitError("--capacity-factor: does not only pass the dimension of tokens through, between a "
                         "mixture's dispatch and its combination");
  };
  auto factorOp = dyn_cast<nn::FactorOpInterface>(op);
  if (!factorOp || op->getNumResults() != 1)
    return fail();
  nn::FactorRule rule = factorOp.getFactorRule();
  Value result = op->getResult(0), ids;
  Shape shape(shapeOf(result));
  int64_t places = 0, tokens = 0, dim = -1;
  int factor = -1;
  SmallVector<Value> operands;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    auto it = placed.find(operand);
    operands.push_back(it == placed.end() ? operand : it->second.value);
    if (it == placed.end())
      continue;
    const Placed &own = it->second;
    int f = rule.isReshape ? 0 : rule.operands[i][own.dim];
    if ((ids && ids != own.ids) || f < 0 || (factor >= 0 && f != factor))
      return fail();
    factor = f;
    ids = own.ids;
    places = shapeOf(own.value)[own.dim];
    tokens = shapeOf(operand)[own.dim];
    if (!rule.isReshape)
      continue;
    int64_t before = product(shapeOf(operand).take_front(own.dim));
    for (int64_t d = 0; d < int64_t(shape.size()); ++d)
      if (shape[d] == tokens && product(ArrayRef(shape).take_front(d)) == before)
        dim = d;
  }
  if (!rule.isReshape) {
    if (rule.factors[factor].kind != nn::FactorKind::PassThrough)
      return fail();
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      if (!placed.contains(operand) && rule.operandHas(i, factor)) {
        std::optional<double> value = splatValue(operand);
        if (!value)
          return fail();
        Shape own(shapeOf(operand));
        for (auto [d, f] : llvm::enumerate(rule.operands[i]))
          if (f == factor)
            own[d] = places;
        OpBuilder b(op);
        operands[i] = splat(b, op->getLoc(), elementOf(operand), own, *value);
      }
    dim = llvm::find(rule.results[0], factor) - rule.results[0].begin();
  }
  if (dim < 0 || dim >= int64_t(shape.size()))
    return fail();
  shape[dim] = places;
  OpBuilder b(op);
  Value again = cloneWith(b, op, operands, shape);
  if (auto slice = again.getDefiningOp<nn::SliceOp>()) {
    Shape sizes(slice.getSizes());
    sizes[dim] = places;
    slice.setSizes(sizes);
  }
  placed[result] = {again, dim, ids};
  replaced.push_back(op);
  return success();
}

LogicalResult Limiter::run(func::FuncOp func) {
  for (Operation &op : llvm::make_early_inc_range(func.getBody().front())) {
    if (auto dispatched = dyn_cast<nn::DispatchOp>(op)) {
      if (failed(dispatch(dispatched)))
        return failure();
      continue;
    }
    if (llvm::none_of(op.getOperands(), [&](Value v) { return placed.contains(v); }))
      continue;
    auto combined = dyn_cast<nn::CombineOp>(op);
    auto y = combined ? placed.find(combined.getY()) : placed.end();
    if (failed(y != placed.end() ? combine(combined, y->second) : between(&op)))
      return failure();
  }
  for (Operation *op : llvm::reverse(replaced))
    op->erase();
  replaced.clear();
  return success();
}

} // namespace

LogicalResult limitExperts(ModuleOp module, double factor, Counter &counter) {
  Limiter limiter(factor);
  for (auto func : module.getOps<func::FuncOp>())
    if (failed(limiter.run(func)))
      return failure();
  counter += limiter.dispatches();
  if (limiter.dispatches() == 0)
    return module.emitError(
        "--capacity-factor: the model has no mixture of experts that could be given a capacity");
  return success();
}

} // namespace tessera::normalize
