// Mixture of experts: dispatch, combine, and the cotangent of the router's weights.
#include "dialects/nn/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace tessera::nn;

namespace {
/// Letters: those of the tokens' dimensions, then h, k, e, and c of places in an expert.
struct Words {
  std::string tokens, row, choices, all;
  Words(Value ids, int64_t capacity) : tokens(freshLetters(shapeOf(ids).size() - 1, "hkec")) {
    row = tokens + "h";
    choices = tokens + "k";
    all = "e" + (capacity ? tokens.substr(0, tokens.size() - 1) + "c" : tokens) + "h";
  }
};
} // namespace

static RankedTensorType withShape(ArrayRef<int64_t> shape, Value like) {
  return RankedTensorType::get(shape, elementOf(like));
}

/// `row` is [tokens.., h], `all` [experts, tokens.., h], or with a capacity [experts, batch.., capacity, h];
/// `ids` are [tokens.., k], and so are `weights`, where an operator has them.
static LogicalResult checkRouting(std::optional<Location> location, Value ids, Value weights,
                                  int64_t capacity, ArrayRef<int64_t> row, ArrayRef<int64_t> all,
                                  Type element) {
  ArrayRef<int64_t> choices = shapeOf(ids);
  if (choices.empty() || (capacity && choices.size() < 2))
    return inferError(location, "ids must have a last dimension of choices" +
                                    Twine(capacity ? ", and one of tokens before it" : ""));
  if (capacity < 0)
    return inferError(location, "capacity must not be negative, but is " + Twine(capacity));
  if (row.empty() || row.drop_back() != choices.drop_back())
    return inferError(location, "tokens " + shapeText(row) + " must have the dimensions of ids " +
                                    shapeText(choices) + " but the last, and one more");
  SmallVector<int64_t> rows(row);
  if (capacity)
    rows[rows.size() - 2] = capacity;
  if (all.empty() || all.drop_front() != ArrayRef(rows))
    return inferError(location, "experts' rows " + shapeText(all) +
                                    (capacity ? " must be a dimension of experts before " + shapeText(rows)
                                              : " must be a dimension of experts before those of tokens " +
                                                    shapeText(rows)));
  if (weights && (shapeOf(weights) != choices || elementOf(weights) != element))
    return inferError(location, "weights " + shapeText(shapeOf(weights)) + " must have the shape of ids " +
                                    shapeText(choices) + " and the element type of what they multiply");
  unsigned bits = elementOf(ids).getIntOrFloatBitWidth();
  if (bits != 32 && bits != 64)
    return inferError(location, "ids must be i32 or i64");
  return success();
}

/// The rule of an operator with words for its operands, without `start`, and its result.
static FactorRule routingRule(Operation *op, SmallVector<std::string> words, std::string result) {
  if (op->getNumOperands() > words.size())
    words.push_back("");
  return lettersRule(op, words, {result}, "", "c", "e");
}
/// Padded choices are of no expert; padded experts have rows of zeros, as an id that is of no expert has.
static std::optional<double> neutralOf(FactorOpInterface op, unsigned operand, unsigned factor) {
  FactorRule rule = op.getFactorRule();
  if (rule.resultHas(0, factor))
    return std::nullopt;
  return isFloat(op->getOperand(operand)) ? 0 : -1;
}
static LogicalResult expandWithStart(FactorOpInterface op, LocalBuilder &builder, ValueRange operands,
                                     SmallVectorImpl<Value> &results) {
  OperationState state(builder.loc(), op->getName());
  state.addOperands(operands);
  if (int experts = op.getFactorRule().find("e"); builder.isSplit(experts))
    state.addOperands(builder.blockStart(experts));
  state.addTypes(builder.resultType(0));
  if (Attribute capacity = op->getAttr("capacity"))
    state.addAttribute("capacity", capacity);
  results.push_back(builder.create(state)->getResult(0));
  return success();
}

namespace {
struct RoutingEmitter : LinalgEmitter {
  Words w;
  int64_t capacity;
  Value start;
  RoutingEmitter(OpBuilder &builder, Location loc, Value ids, int64_t capacity, Value start)
      : LinalgEmitter(builder, loc), w(ids, capacity), capacity(capacity), start(start) {}

  Value wide(Value id) {
    Type i64 = b.getI64Type();
    return id.getType() == i64 ? id : arith::ExtSIOp::create(b, loc, i64, id);
  }
  /// Inside a body: the number of a choice's expert in the block, maybe outside it.
  Value expert(Value id) {
    id = wide(id);
    // Unsigned, so that a negative place is far outside.
    if (capacity)
      id = arith::DivUIOp::create(b, loc, id, constant(b.getI64Type(), double(capacity)));
    return start ? sub(id, start) : id;
  }
  /// Inside a body: which of its expert's rows a choice has.
  Value rank(Value id) {
    return arith::RemUIOp::create(b, loc, wide(id), constant(b.getI64Type(), double(capacity)));
  }
  Value toIndex(Value i) { return arith::IndexCastOp::create(b, loc, b.getIndexType(), i); }
  Value fromIndex(Value i) { return arith::IndexCastOp::create(b, loc, b.getI64Type(), i); }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, loc, c, x, y); }
  Value both(Value x, Value y) { return arith::AndIOp::create(b, loc, x, y); }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, predicate, x, y);
  }
  /// Inside a body: the element of `y` for the choice `id` at the loops' token and h; zero where its expert
  /// is not here.
  Value rowOf(Value y, Value id) {
    Type i64 = b.getI64Type();
    Value e = expert(id);
    // Unsigned, so that experts before the block are outside as well.
    Value isHere = compare(arith::CmpIPredicate::ult, e, constant(i64, double(shapeOf(y)[0])));
    SmallVector<Value> where = {toIndex(select(isHere, e, constant(i64, 0)))};
    for (char c : StringRef(w.all).drop_front())
      where.push_back(c == 'c' ? toIndex(rank(id)) : position(c));
    Value element = tensor::ExtractOp::create(b, loc, y, where);
    return select(isHere, element, constant(elementOf(y), 0));
  }
  /// The choice that has each place, [e, batch.., c]: one more than token * choices + choice, 0 where there
  /// is none.
  Value sources(Value ids, ArrayRef<int64_t> shape) {
    Type i64 = b.getI64Type();
    Lettered init = {filled(shape, i64, 0), StringRef(w.all).drop_back().str()};
    return generic({{ids, w.choices}}, {init}, [&](ArrayRef<Value> a) {
      Value isOwn = both(compare(arith::CmpIPredicate::eq, expert(a[0]), fromIndex(position('e'))),
                         compare(arith::CmpIPredicate::eq, rank(a[0]), fromIndex(position('c'))));
      Value choice =
          add(mul(fromIndex(position(w.tokens.back())), constant(i64, double(shapeOf(ids).back()))),
              fromIndex(position('k')));
      // The last one, should there be several.
      Value own = select(isOwn, add(choice, constant(i64, 1)), constant(i64, 0));
      return SmallVector<Value>{arith::MaxSIOp::create(b, loc, a[1], own)};
    })[0];
  }
};
} // namespace

//===- expert_places

TESSERA_INFER(ExpertPlacesOp) {
  types.push_back(withShape(shapeOf(adaptor.getIds()), adaptor.getIds()));
  return success();
}
LogicalResult ExpertPlacesOp::verify() {
  ArrayRef<int64_t> ids = shapeOf(getIds()), others = shapeOf(getOthers());
  if (ids.size() < 2 || others.size() != ids.size() || others.drop_back(2) != ids.drop_back(2))
    return emitOpError("ids ") << shapeText(ids) << " and others " << shapeText(others)
                               << " must be tokens and choices, behind the same rows of a batch";
  if (shapeOf(getOrder()) != ids.take_back(2) || shapeOf(getOthersOrder()) != others.take_back(2))
    return emitOpError("an order must have the last two dimensions of its ids");
  for (Value operand : getOperands())
    if (elementOf(operand) != elementOf(getResult()) || elementOf(operand).getIntOrFloatBitWidth() < 32)
      return emitOpError("operands must be all i32 or all i64");
  int64_t all = others[others.size() - 2] * others.back(), capacity = getCapacity();
  if (capacity < 1 || capacity > all)
    return emitOpError("capacity must be from 1 to the ") << all << " choices of a row, but is " << capacity;
  return success();
}
FactorRule ExpertPlacesOp::getFactorRule() {
  std::string batch = freshLetters(shapeOf(getIds()).size() - 2, "skul");
  return lettersRule(*this, {batch + "sk", "sk", batch + "ul", "ul"}, {batch + "sk"}, "", "ul", "");
}
std::optional<double> ExpertPlacesOp::getNeutral(unsigned operand, unsigned factor) {
  return neutralOf(*this, operand, factor);
}
FailureOr<SmallVector<Value>> ExpertPlacesOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  LinalgEmitter e(builder, getLoc());
  RankedTensorType type = plainType(getResult());
  Type element = type.getElementType();
  std::string batch = freshLetters(type.getRank() - 2, "skul"), own = batch + "sk", all = batch + "ul";
  using arith::CmpIPredicate;
  auto is = [&](CmpIPredicate predicate, Value x, Value y) -> Value {
    return arith::CmpIOp::create(builder, getLoc(), predicate, x, y);
  };
  auto select = [&](Value c, Value x, Value y) -> Value {
    return arith::SelectOp::create(builder, getLoc(), c, x, y);
  };
  Value rank = e.sum({{operands[0], own}, {operands[1], "sk"}, {operands[2], all}, {operands[3], "ul"}}, own,
                     type.getShape(), element, [&](ArrayRef<Value> a) {
                       Value isBefore =
                           arith::AndIOp::create(builder, getLoc(), is(CmpIPredicate::eq, a[0], a[2]),
                                                 is(CmpIPredicate::slt, a[3], a[1]));
                       return select(isBefore, e.constant(element, 1), e.constant(element, 0));
                     });
  return SmallVector<Value>{
      e.map({{operands[0], own}, {rank, own}}, own, type.getShape(), element, [&](ArrayRef<Value> a) {
        Value capacity = e.constant(element, double(getCapacity()));
        Value isTaken = arith::AndIOp::create(builder, getLoc(), is(CmpIPredicate::slt, a[1], capacity),
                                              is(CmpIPredicate::sge, a[0], e.constant(element, 0)));
        return select(isTaken, e.add(e.mul(a[0], capacity), a[1]), e.constant(element, -1));
      })};
}

//===- dispatch

LogicalResult DispatchOp::verify() {
  if (elementOf(getX()) != elementOf(getResult()))
    return emitOpError("tokens and result have different element types");
  return checkRouting(getLoc(), getIds(), getWeights(), getCapacity(), shapeOf(getX()), shapeOf(getResult()),
                      elementOf(getX()));
}
FactorRule DispatchOp::getFactorRule() {
  Words w(getIds(), getCapacity());
  return routingRule(*this, {w.row, w.choices, w.choices}, w.all);
}
int DispatchOp::getExpertFactor() { return getFactorRule().results[0][0]; }
std::optional<double> DispatchOp::getNeutral(unsigned operand, unsigned factor) {
  return neutralOf(*this, operand, factor);
}
LogicalResult DispatchOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                      SmallVectorImpl<Value> &results) {
  return expandWithStart(*this, builder, operands, results);
}
LogicalResult DispatchOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  Location loc = grad.loc();
  if (grad.wants(0))
    grad.add(0,
             CombineOp::create(grad, loc, cotangents[0], getIds(), getWeights(), getStart(), getCapacity()));
  if (grad.wants(2))
    grad.add(2, ExpertDotOp::create(grad, loc, getX(), cotangents[0], getIds(), getStart(), getCapacity()));
  return success();
}
FailureOr<SmallVector<Value>> DispatchOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  RoutingEmitter e(builder, getLoc(), operands[1], getCapacity(), getStart() ? operands[3] : Value());
  RankedTensorType type = plainType(getResult());
  if (getCapacity()) {
    // A place has one choice at most: finding them first, without h, saves a sum over choices for each
    // element.
    Value sources = e.sources(operands[1], type.getShape().drop_back());
    return SmallVector<Value>{
        e.map({{sources, StringRef(e.w.all).drop_back().str()}}, e.w.all, type.getShape(),
              type.getElementType(), [&](ArrayRef<Value> a) {
                Type i64 = builder.getI64Type();
                Value isTaken = e.compare(arith::CmpIPredicate::sgt, a[0], e.constant(i64, 0));
                Value choice = e.select(isTaken, e.sub(a[0], e.constant(i64, 1)), e.constant(i64, 0));
                Value choices = e.constant(i64, double(shapeOf(operands[1]).back()));
                Value token = e.toIndex(arith::DivUIOp::create(builder, getLoc(), choice, choices));
                SmallVector<Value> where;
                for (char c : StringRef(e.w.tokens).drop_back())
                  where.push_back(e.position(c));
                where.push_back(token);
                where.push_back(e.position('h'));
                Value x = tensor::ExtractOp::create(builder, getLoc(), operands[0], where);
                where.back() = e.toIndex(arith::RemUIOp::create(builder, getLoc(), choice, choices));
                Value weight = tensor::ExtractOp::create(builder, getLoc(), operands[2], where);
                return e.select(isTaken, e.mul(x, weight), e.constant(type.getElementType(), 0));
              })};
  }
  return SmallVector<Value>{
      e.sum({{operands[0], e.w.row}, {operands[1], e.w.choices}, {operands[2], e.w.choices}}, e.w.all,
            type.getShape(), type.getElementType(), [&](ArrayRef<Value> a) {
              Value isOwn = e.compare(arith::CmpIPredicate::eq, e.expert(a[1]), e.fromIndex(e.position('e')));
              return e.select(isOwn, e.mul(a[0], a[2]), e.constant(type.getElementType(), 0));
            })};
}

//===- combine

TESSERA_INFER(CombineOp) {
  Value y = adaptor.getY(), ids = adaptor.getIds();
  if (shapeOf(y).empty() || shapeOf(ids).empty())
    return inferError(location, "a dimension of experts and one of choices are expected");
  SmallVector<int64_t> row(shapeOf(ids).drop_back());
  row.push_back(shapeOf(y).back());
  types.push_back(withShape(row, y));
  return checkRouting(location, ids, adaptor.getWeights(), adaptor.getCapacity(), row, shapeOf(y),
                      elementOf(y));
}
FactorRule CombineOp::getFactorRule() {
  Words w(getIds(), getCapacity());
  return routingRule(*this, {w.all, w.choices, w.choices}, w.row);
}
int CombineOp::getExpertFactor() { return getFactorRule().operands[0][0]; }
std::optional<double> CombineOp::getNeutral(unsigned operand, unsigned factor) {
  return neutralOf(*this, operand, factor);
}
LogicalResult CombineOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                     SmallVectorImpl<Value> &results) {
  return expandWithStart(*this, builder, operands, results);
}
LogicalResult CombineOp::buildVjp(GradBuilder &grad, ValueRange cotangents) {
  Location loc = grad.loc();
  if (grad.wants(0))
    grad.add(0, DispatchOp::create(grad, loc, plainType(getY()), cotangents[0], getIds(), getWeights(),
                                   getStart(), getCapacity()));
  if (grad.wants(2))
    grad.add(2, ExpertDotOp::create(grad, loc, cotangents[0], getY(), getIds(), getStart(), getCapacity()));
  return success();
}
FailureOr<SmallVector<Value>> CombineOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  RoutingEmitter e(builder, getLoc(), operands[1], getCapacity(), getStart() ? operands[3] : Value());
  RankedTensorType type = plainType(getResult());
  return SmallVector<Value>{e.sum(
      {{operands[1], e.w.choices}, {operands[2], e.w.choices}}, e.w.row, type.getShape(),
      type.getElementType(), [&](ArrayRef<Value> a) { return e.mul(a[1], e.rowOf(operands[0], a[0])); })};
}

//===- expert_dot

TESSERA_INFER(ExpertDotOp) {
  types.push_back(withShape(shapeOf(adaptor.getIds()), adaptor.getX()));
  if (elementOf(adaptor.getX()) != elementOf(adaptor.getY()))
    return inferError(location, "tokens and experts' rows have different element types");
  return checkRouting(location, adaptor.getIds(), Value(), adaptor.getCapacity(), shapeOf(adaptor.getX()),
                      shapeOf(adaptor.getY()), elementOf(adaptor.getX()));
}
FactorRule ExpertDotOp::getFactorRule() {
  Words w(getIds(), getCapacity());
  return routingRule(*this, {w.row, w.all, w.choices}, w.choices);
}
std::optional<double> ExpertDotOp::getNeutral(unsigned operand, unsigned factor) {
  return neutralOf(*this, operand, factor);
}
LogicalResult ExpertDotOp::expandLocal(LocalBuilder &builder, ValueRange operands,
                                       SmallVectorImpl<Value> &results) {
  return expandWithStart(*this, builder, operands, results);
}
FailureOr<SmallVector<Value>> ExpertDotOp::lowerToLinalg(OpBuilder &builder, ValueRange operands) {
  RoutingEmitter e(builder, getLoc(), operands[2], getCapacity(), getStart() ? operands[3] : Value());
  RankedTensorType type = plainType(getResult());
  return SmallVector<Value>{e.sum(
      {{operands[0], e.w.row}, {operands[2], e.w.choices}}, e.w.choices, type.getShape(),
      type.getElementType(), [&](ArrayRef<Value> a) { return e.mul(a[0], e.rowOf(operands[1], a[1])); })};
}
