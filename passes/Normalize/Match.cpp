// Matchers and builders of the patterns.
#include "passes/Normalize/Match.h"
#include <cmath>

using namespace mlir;

namespace tessera::normalize {

int64_t product(llvm::ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t d : shape)
    n *= d;
  return n;
}

std::optional<double> splatValue(Value value) {
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<nn::BroadcastOp, nn::ReshapeOp>(op))
    return splatValue(op->getOperand(0));
  auto constant = dyn_cast_if_present<nn::ConstantOp>(op);
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
  if (!dense || !dense.isSplat())
    return std::nullopt;
  if (isa<FloatType>(dense.getElementType()))
    return dense.getSplatValue<llvm::APFloat>().convertToDouble();
  llvm::APInt bits = dense.getSplatValue<llvm::APInt>();
  return bits.getBitWidth() == 1 ? double(bits.getZExtValue()) : double(bits.getSExtValue());
}

bool isClose(double x, double y) { return std::abs(x - y) <= 1e-5 * std::abs(y); }

/// The other operand must not be stretched by the scalar's shape.
static bool keepsShape(Value result, Value x) { return shapeOf(result) == shapeOf(x); }

bool matchPlusScalar(Value value, Value &x, double &c) {
  return matchEither<nn::AddOp>(value, [&](Value a, Value b) {
    std::optional<double> scalar = splatValue(b);
    if (!scalar || !keepsShape(value, a))
      return false;
    x = a;
    c = *scalar;
    return true;
  });
}

bool matchTimesScalar(Value value, Value &x, double &c) {
  if (auto div = value.getDefiningOp<nn::DivOp>(); div && isa<FloatType>(elementOf(value)))
    if (std::optional<double> scalar = splatValue(div.getRhs()); scalar && keepsShape(value, div.getLhs())) {
      x = div.getLhs();
      c = 1 / *scalar;
      return true;
    }
  return matchEither<nn::MulOp>(value, [&](Value a, Value b) {
    std::optional<double> scalar = splatValue(b);
    if (!scalar || !keepsShape(value, a))
      return false;
    x = a;
    c = *scalar;
    return true;
  });
}

bool matchSquare(Value value, Value &x) {
  if (auto mul = value.getDefiningOp<nn::MulOp>(); mul && mul.getLhs() == mul.getRhs()) {
    x = mul.getLhs();
    return true;
  }
  auto pow = value.getDefiningOp<nn::PowOp>();
  if (!pow || !isSplat(pow.getRhs(), 2))
    return false;
  x = pow.getLhs();
  return true;
}

bool matchLastMean(Value value, Value &x) {
  Value sum;
  double factor;
  value = skipUnitReshapes(value);
  if (!matchTimesScalar(value, sum, factor))
    return false;
  auto reduce = skipUnitReshapes(sum).getDefiningOp<nn::ReduceOp>();
  if (!reduce || reduce.getKind() != "sum")
    return false;
  Value operand = reduce.getOperand();
  int64_t last = rankOf(operand) - 1;
  if (reduce.getDims() != llvm::ArrayRef<int64_t>(last) || !isClose(factor * shapeOf(operand)[last], 1))
    return false;
  x = operand;
  return true;
}

static Shape withoutOnes(llvm::ArrayRef<int64_t> shape) {
  Shape kept;
  llvm::copy_if(shape, std::back_inserter(kept), [](int64_t d) { return d != 1; });
  return kept;
}

Value skipUnitReshapes(Value value) {
  while (auto op = value.getDefiningOp<nn::ReshapeOp>()) {
    if (withoutOnes(shapeOf(value)) != withoutOnes(shapeOf(op.getOperand())))
      break;
    value = op.getOperand();
  }
  return value;
}

bool isElementwise(Operation *op) {
  auto lowerable = dyn_cast_if_present<nn::LowerableOpInterface>(op);
  return lowerable && lowerable.getFusionKind() == nn::FusionKind::Elementwise && op->getNumResults() == 1 &&
         op->getNumOperands() > 0 && !isa<nn::BroadcastOp, nn::ReshapeOp, nn::AccOp, nn::RandomOp>(op);
}

void takeDropout(nn::AttentionOp attention, nn::AttentionOp like) {
  attention.getRandomMutable().assign(like.getRandom());
  attention.setRatioAttr(like.getRatioAttr());
  attention.setIdAttr(like.getIdAttr());
}

std::optional<llvm::SmallVector<llvm::SmallVector<int64_t>>> collapseGroups(llvm::ArrayRef<int64_t> from,
                                                                            llvm::ArrayRef<int64_t> to) {
  if (to.empty() || from.size() <= to.size() || llvm::is_contained(from, 0))
    return std::nullopt;
  llvm::SmallVector<llvm::SmallVector<int64_t>> groups(to.size());
  size_t next = 0;
  for (size_t d = 0; d < to.size(); ++d) {
    int64_t size = 1;
    // As many dimensions as it takes, at least one unless they run out; then dimensions of size 1.
    while (next < from.size() && (size < to[d] || (groups[d].empty() && from[next] == 1))) {
      size *= from[next];
      groups[d].push_back(next++);
    }
    if (size != to[d])
      return std::nullopt;
    while (next < from.size() && from[next] == 1 && from.size() - next > to.size() - d - 1)
      groups[d].push_back(next++);
  }
  if (next != from.size() || llvm::any_of(groups, [](const auto &group) { return group.empty(); }))
    return std::nullopt;
  return groups;
}

Value reshape(OpBuilder &b, Location loc, Value value, llvm::ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  return nn::ReshapeOp::create(b, loc, RankedTensorType::get(shape, elementOf(value)), value);
}

Value transpose(OpBuilder &b, Location loc, Value value, llvm::ArrayRef<int64_t> perm) {
  if (llvm::equal(perm, llvm::seq<int64_t>(0, perm.size())))
    return value;
  return nn::TransposeOp::create(b, loc, value, perm);
}

Value splat(OpBuilder &b, Location loc, Type element, llvm::ArrayRef<int64_t> shape, double value) {
  auto type = RankedTensorType::get(shape, element);
  Attribute scalar = isa<FloatType>(element) ? Attribute(b.getFloatAttr(element, value))
                                             : b.getIntegerAttr(element, static_cast<int64_t>(value));
  return nn::ConstantOp::create(b, loc, type, DenseElementsAttr::get(type, scalar));
}

Value cloneWith(OpBuilder &b, Operation *op, ValueRange operands, llvm::ArrayRef<int64_t> shape) {
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(RankedTensorType::get(shape, elementOf(op->getResult(0))));
  state.addAttributes(op->getAttrs());
  return b.create(state)->getResult(0);
}

} // namespace tessera::normalize
