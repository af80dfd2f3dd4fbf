#include "passes/Differentiate/Loss.h"
#include "dialects/nn/Attributes.h"

using namespace mlir;
using namespace tessera;
using namespace tessera::nn;

static StringRef resultName(func::FuncOp infer, unsigned i) {
  auto name = nn::kName.ofResult(infer, i);
  return name ? name.getValue() : StringRef();
}

FailureOr<LossChoice> tessera::chooseLoss(func::FuncOp infer, StringRef text) {
  auto typeOf = [&](unsigned i) { return cast<RankedTensorType>(infer.getResultTypes()[i]); };
  auto isFloating = [&](unsigned i) { return isa<FloatType>(typeOf(i).getElementType()); };
  LossChoice choice{LossChoice::CrossEntropy, 0};
  StringRef name = text;
  bool isFound = false;
  if (text.empty()) {
    for (unsigned i = 0; i < infer.getNumResults(); ++i)
      if (isFloating(i) && (!isFound || resultName(infer, i) == "logits")) {
        if (isFound && resultName(infer, choice.output) == "logits")
          break;
        choice.output = i;
        isFound = true;
      }
    if (!isFound)
      return infer.emitError("no floating output to take a loss of; name a scalar output as the loss"),
             failure();
  } else {
    choice.kind = LossChoice::Scalar;
    if (name.consume_front("cross_entropy:"))
      choice.kind = LossChoice::CrossEntropy;
    else if (name.consume_front("mse:"))
      choice.kind = LossChoice::MeanSquares;
    std::string names;
    for (unsigned i = 0; i < infer.getNumResults(); ++i) {
      if (resultName(infer, i) == name) {
        choice.output = i;
        isFound = true;
      }
      names += (names.empty() ? "" : ", ") + resultName(infer, i).str();
    }
    if (!isFound)
      return infer.emitError("loss '")
                 << text << "': there is no output called '" << name << "'; the outputs are " << names,
             failure();
  }
  RankedTensorType type = typeOf(choice.output);
  if (!isFloating(choice.output))
    return infer.emitError("loss of output '") << resultName(infer, choice.output) << "': it has type "
                                               << type << ", expected a floating one",
           failure();
  if (choice.kind == LossChoice::Scalar && type.getNumElements() != 1)
    return infer.emitError("loss '") << text << "': the output has type " << type
                                     << ", expected a scalar; cross_entropy:" << name << " or mse:" << name
                                     << " compare it with labels or a target",
           failure();
  if (choice.kind == LossChoice::CrossEntropy && type.getRank() < 1)
    return infer.emitError("cross entropy of '")
               << resultName(infer, choice.output)
               << "': it is a scalar, expected classes in the last dimension",
           failure();
  if (auto kind = lossArgumentKind(choice)) {
    StringRef ours = nn::stringifyInputKind(*kind);
    for (unsigned i = 0; i < infer.getNumArguments(); ++i)
      if (auto theirs = nn::kName.ofArgument(infer, i); theirs && theirs.getValue() == ours)
        return infer.emitError("the model has an input '")
                   << ours
                   << "', as what the loss is computed from would be called too; rename the input, or "
                   << "take a scalar output of the model as the loss",
               failure();
  }
  return choice;
}

std::optional<nn::InputKind> tessera::lossArgumentKind(LossChoice choice) {
  if (choice.kind == LossChoice::Scalar)
    return std::nullopt;
  return choice.kind == LossChoice::CrossEntropy ? nn::InputKind::Labels : nn::InputKind::Target;
}

std::string tessera::lossText(func::FuncOp infer, LossChoice choice) {
  std::string prefix = choice.kind == LossChoice::CrossEntropy  ? "cross_entropy:"
                       : choice.kind == LossChoice::MeanSquares ? "mse:"
                                                                : "";
  return prefix + resultName(infer, choice.output).str();
}

RankedTensorType tessera::lossArgumentType(LossChoice choice, RankedTensorType output) {
  if (choice.kind == LossChoice::Scalar)
    return {};
  if (choice.kind == LossChoice::MeanSquares)
    return output.getElementTypeBitWidth() < 32 ? output.clone(Float32Type::get(output.getContext()))
                                                : output;
  return RankedTensorType::get(output.getShape().drop_back(), IntegerType::get(output.getContext(), 64));
}

/// Has everything that `value` is computed from run once for all microbatches, again where it is not so yet;
/// a null value where it is computed from parameters.
static Value inPrologue(OpBuilder &builder, Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return value;
  if (isa<ReadOp>(op))
    return {};
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    if (operands.push_back(inPrologue(builder, operand)); !operands.back())
      return {};
  Operation *again = builder.clone(*op);
  again->setOperands(operands);
  nn::kPrologue.mark(again);
  return again->getResult(cast<OpResult>(value).getResultNumber());
}

/// A loss of the model's own that is a mean over labels, the sum of their cross entropies over their number:
/// as the compiler's own would be, so that microbatches may add it up. None for others.
static std::optional<LossValues> meanOverLabels(OpBuilder &builder, Value loss) {
  while (auto view = loss.getDefiningOp<ReshapeOp>())
    loss = view.getOperand();
  auto mean = loss.getDefiningOp<DivOp>();
  auto entropy = mean ? mean.getLhs().getDefiningOp<CrossEntropyOp>() : nullptr;
  auto count = mean ? mean.getRhs().getDefiningOp<CountValidOp>() : nullptr;
  if (!entropy || !count || mean.getLhs() != entropy.getLoss() || count.getLabels() != entropy.getLabels())
    return std::nullopt;
  Value whole = inPrologue(builder, count.getResult());
  if (!whole)
    return std::nullopt;
  auto seed = ReciprocalOp::create(builder, loss.getLoc(), whole);
  nn::kPrologue.mark(seed);
  return LossValues{MulOp::create(builder, loss.getLoc(), entropy.getLoss(), seed), entropy.getLoss(), seed};
}

LossValues tessera::emitLoss(OpBuilder &builder, LossChoice choice, Value output, Value argument) {
  // Of no node of the model: what a plan says of the output's node is not meant for the loss.
  Location loc = UnknownLoc::get(builder.getContext());
  auto type = cast<RankedTensorType>(output.getType());
  auto constant = [&](Type element, double value) -> Value {
    auto scalar = RankedTensorType::get({}, element);
    return ConstantOp::create(
        builder, loc, scalar,
        DenseElementsAttr::get(scalar, Attribute(builder.getFloatAttr(element, value))));
  };
  // Sums of many terms are not for half precision; cross entropy sees to that itself.
  Type element = type.getElementType();
  if (element.getIntOrFloatBitWidth() < 32) {
    element = builder.getF32Type();
    if (choice.kind != LossChoice::CrossEntropy)
      output = CastOp::create(builder, loc, output, element);
  }
  auto scalar = RankedTensorType::get({}, element);
  if (choice.kind == LossChoice::Scalar) {
    if (std::optional<LossValues> mean = meanOverLabels(builder, output))
      return *mean;
    Value loss = type.getRank() == 0 ? output : Value(ReshapeOp::create(builder, loc, scalar, output));
    return {loss, loss, constant(element, 1)};
  }
  if (choice.kind == LossChoice::CrossEntropy) {
    auto entropy = CrossEntropyOp::create(builder, loc, output, argument);
    auto count = CountValidOp::create(builder, loc, scalar, argument);
    auto seed = ReciprocalOp::create(builder, loc, count);
    // Counted over the whole batch, before the first microbatch.
    nn::kPrologue.mark(count);
    nn::kPrologue.mark(seed);
    return {MulOp::create(builder, loc, entropy.getLoss(), seed), entropy.getLoss(), seed};
  }
  if (argument.getType() != output.getType())
    argument = CastOp::create(builder, loc, argument, element);
  Value difference = SubOp::create(builder, loc, output, argument);
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  Value sum =
      ReduceOp::create(builder, loc, MulOp::create(builder, loc, difference, difference), dims, "sum");
  Value seed = constant(element, 1.0 / double(type.getNumElements()));
  return {MulOp::create(builder, loc, sum, seed), sum, seed};
}
