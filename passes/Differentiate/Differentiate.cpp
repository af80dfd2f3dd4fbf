#include "dialects/nn/Attributes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/Differentiate/Backward.h"
#include "passes/Differentiate/Loss.h"
#include "passes/Differentiate/Passes.h"

using namespace mlir;
using namespace tessera::nn;

namespace tessera {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "passes/Differentiate/Passes.h.inc"
} // namespace tessera

using namespace tessera;

namespace {
/// An optimizer: the `kind` of its updates and the slots of its state.
struct Optimizer {
  StringRef kind;
  SmallVector<StringRef> slots;
};

/// Builds the training function of one module.
struct TrainBuilder {
  ModuleOp module;
  func::FuncOp infer;
  Optimizer optimizer;
  bool emitGrads;
  SmallVector<VariableOp> trained;
  DenseMap<Operation *, SmallVector<VariableOp, 2>> states; // parameter -> by slot
  llvm::StringMap<Value> reads;                             // variable -> what the program reads of it
  llvm::StringMap<int64_t> decayIndex;                      // variable -> its place in the array of decays
  int64_t numVariables = 0;

  func::FuncOp train;
  SmallVector<Value> outputs;
  SmallVector<std::string> outputNames;
  Value norm, scalars, decay;
  bool scalesLoss = false;
  Value lossScale;
  OpBuilder b;

  TrainBuilder(ModuleOp module, func::FuncOp infer, Optimizer optimizer, bool emitGrads)
      : module(module), infer(infer), optimizer(std::move(optimizer)), emitGrads(emitGrads),
        b(module.getContext()) {}

  LogicalResult build(LossChoice choice);
  void declareState();
  void declare(LossChoice choice);
  /// Leaves parameters out of training that the loss has no gradient in, and says so.
  LogicalResult dropUngraded(Value output);
  /// The seed of the backward, times the scale of the loss.
  Value scaledSeed(Value seed);
  void emitNorm(ArrayRef<Value> gradients, Type element);
  void emitUpdate(VariableOp parameter, Value gradient);
  Value read(VariableOp variable);
  void eraseDead();
};
} // namespace

/// Gives every operator of `func` without an `nn.id` one, by kind and number.
static void assignIds(func::FuncOp func) {
  llvm::StringSet<> used;
  func.walk([&](Operation *op) {
    if (auto id = nn::kId.of(op))
      used.insert(id.getValue());
  });
  llvm::StringMap<int> next;
  func.walk([&](FactorOpInterface op) {
    if (nn::kId.isOn(op))
      return;
    StringRef kind = op->getName().stripDialect();
    std::string id;
    do
      id = (kind + "_" + Twine(next[kind]++)).str();
    while (!used.insert(id).second);
    nn::kId.set(op, StringAttr::get(op->getContext(), id));
  });
}

void TrainBuilder::declareState() {
  b.setInsertionPointAfter(*module.getOps<VariableOp>().begin());
  for (VariableOp variable : module.getOps<VariableOp>())
    b.setInsertionPointAfter(variable);
  for (VariableOp parameter : trained)
    for (StringRef slot : optimizer.slots)
      states[parameter].push_back(
          VariableOp::create(b, parameter.getLoc(), b.getStringAttr(parameter.getSymName() + "." + slot),
                             parameter.getTypeAttr(), b.getStringAttr("optimizer"), b.getBoolAttr(false),
                             b.getStringAttr("zero"), StringAttr(), b.getBoolAttr(false),
                             b.getStringAttr(parameter.getSymName()), b.getStringAttr(slot), ArrayAttr()));
  for (VariableOp variable : module.getOps<VariableOp>())
    decayIndex[variable.getSymName()] = numVariables++;
}

void TrainBuilder::declare(LossChoice choice) {
  SmallVector<Type> types(infer.getArgumentTypes());
  SmallVector<DictionaryAttr> attrs;
  for (unsigned i = 0; i < infer.getNumArguments(); ++i)
    attrs.push_back(infer.getArgAttrDict(i));
  auto addArgument = [&](Type type, InputKind kind) {
    types.push_back(type);
    attrs.push_back(b.getDictionaryAttr({nn::kName.with(b.getStringAttr(stringifyInputKind(kind))),
                                         nn::kKind.with(InputKindAttr::get(b.getContext(), kind))}));
  };
  auto output = cast<RankedTensorType>(infer.getResultTypes()[choice.output]);
  if (RankedTensorType type = lossArgumentType(choice, output)) {
    addArgument(type, *lossArgumentKind(choice));
    if (choice.kind == LossChoice::CrossEntropy) {
      NamedAttrList list(attrs.back());
      list.append(nn::kRange.with(b.getDenseI64ArrayAttr({0, output.getShape().back()})));
      attrs.back() = list.getDictionary(b.getContext());
    }
  }
  // f16 has no gradients below 6e-8: there the loss is scaled, by a number that the host adapts.
  infer.walk([&](Operation *op) {
    scalesLoss |=
        llvm::any_of(op->getResultTypes(), [](Type type) { return getElementTypeOrSelf(type).isF16(); });
  });
  addArgument(RankedTensorType::get({scalesLoss ? 9 : 8}, b.getF32Type()), InputKind::Scalars);
  addArgument(RankedTensorType::get({numVariables}, b.getF32Type()), InputKind::Decay);
  b.setInsertionPointAfter(infer);
  train = func::FuncOp::create(b, infer.getLoc(), stringifyProgramRole(ProgramRole::Train),
                               b.getFunctionType(types, {}));
  train.setAllArgAttrs(attrs);
  nn::kRole.set(train, ProgramRoleAttr::get(b.getContext(), ProgramRole::Train));
  nn::kLoss.set(train, b.getStringAttr(lossText(infer, choice)));
}

Value TrainBuilder::read(VariableOp variable) {
  Value &value = reads[variable.getSymName()];
  if (!value)
    value = ReadOp::create(b, variable.getLoc(), cast<RankedTensorType>(variable.getType()),
                           variable.getSymName());
  return value;
}

LogicalResult TrainBuilder::dropUngraded(Value output) {
  SmallVector<StringRef> names;
  for (VariableOp parameter : trained)
    names.push_back(parameter.getSymName());
  for (auto &[op, left] : withoutGradient(infer.getBody().front(), output, names)) {
    std::string list;
    for (StringRef name : ArrayRef(left).take_front(4))
      list += (list.empty() ? "\"" : ", \"") + name.str() + "\"";
    if (left.size() > 4)
      list += " and " + std::to_string(left.size() - 4) + " more";
    auto warning = emitWarning(op ? op->getLoc() : module.lookupSymbol(left.front())->getLoc());
    warning << "not trained: " << list << "; the loss ";
    if (op)
      warning << "depends on " << (left.size() == 1 ? "it" : "them") << " through "
              << op->getName().getStringRef() << ", which " << whyNoGradient(op);
    else
      warning << "does not depend on " << (left.size() == 1 ? "it" : "them");
    llvm::erase_if(trained,
                   [&](VariableOp parameter) { return llvm::is_contained(left, parameter.getSymName()); });
    for (StringRef name : left)
      module.lookupSymbol<VariableOp>(name).setTrained(false);
  }
  if (trained.empty())
    return infer.emitError("the loss has a gradient in none of the trained parameters; take another "
                           "(--loss), or train none (--frozen '*')");
  return success();
}

Value TrainBuilder::scaledSeed(Value seed) {
  if (!scalesLoss)
    return seed;
  Location loc = train.getLoc();
  Value ninth =
      SliceOp::create(b, loc, scalars, ArrayRef<int64_t>{8}, ArrayRef<int64_t>{1}, ArrayRef<int64_t>{1});
  lossScale = ReshapeOp::create(b, loc, RankedTensorType::get({}, b.getF32Type()), ninth);
  Value scaled = MulOp::create(b, loc, seed, lossScale);
  // As the seed is, before the first microbatch.
  if (Operation *op = seed.getDefiningOp(); op && nn::kPrologue.isOn(op))
    for (Value value : {ninth, lossScale, scaled})
      nn::kPrologue.mark(value.getDefiningOp());
  return scaled;
}

void TrainBuilder::emitNorm(ArrayRef<Value> gradients, Type element) {
  SmallVector<Value> squares;
  for (Value gradient : gradients) {
    Value sum = SumSquaresOp::create(b, gradient.getLoc(), gradient);
    if (cast<ShapedType>(sum.getType()).getElementType() != element)
      sum = CastOp::create(b, gradient.getLoc(), sum, element);
    squares.push_back(sum);
  }
  norm = SqrtOp::create(b, train.getLoc(), AccOp::create(b, train.getLoc(), squares));
  if (scalesLoss)
    norm = DivOp::create(b, train.getLoc(), norm, lossScale);
}

void TrainBuilder::emitUpdate(VariableOp parameter, Value gradient) {
  SmallVector<Value> state;
  for (VariableOp slot : states[parameter])
    state.push_back(read(slot));
  auto update = UpdateOp::create(b, parameter.getLoc(), read(parameter), gradient, state, norm, scalars,
                                 decay, optimizer.kind, decayIndex.lookup(parameter.getSymName()));
  AssignOp::create(b, parameter.getLoc(), parameter.getSymName(), update.getUpdated());
  for (auto [slot, value] : llvm::zip(optimizer.slots, update.getNewState()))
    AssignOp::create(b, parameter.getLoc(), (parameter.getSymName() + "." + slot).str(), value);
}

void TrainBuilder::eraseDead() {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(train.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

LogicalResult TrainBuilder::build(LossChoice choice) {
  if (failed(dropUngraded(infer.getBody().front().getTerminator()->getOperand(choice.output))))
    return failure();
  assignIds(infer);
  declareState();
  declare(choice);
  Block *body = train.addEntryBlock();
  IRMapping map;
  map.map(infer.getArguments(), body->getArguments().take_front(infer.getNumArguments()));
  b.setInsertionPointToEnd(body);
  Operation *end = infer.getBody().front().getTerminator();
  for (Operation &op : infer.getBody().front().without_terminator())
    b.clone(op, map);
  decay = body->getArguments().back();
  scalars = body->getArguments().drop_back().back();
  Value argument = choice.kind == LossChoice::Scalar ? Value() : body->getArgument(infer.getNumArguments());
  LossValues values = emitLoss(b, choice, map.lookup(end->getOperand(choice.output)), argument);
  values.seed = scaledSeed(values.seed);
  assignIds(train);
  llvm::StringSet<> names;
  for (VariableOp parameter : trained)
    names.insert(parameter.getSymName());
  auto found = buildBackward(*body, values.root, values.seed, names);
  if (failed(found))
    return failure();
  b.setInsertionPointToEnd(body);
  for (auto read : body->getOps<ReadOp>())
    reads.try_emplace(read.getVariable(), read);
  SmallVector<Value> all;
  for (VariableOp parameter : trained)
    all.push_back(found->lookup(parameter.getSymName()));
  emitNorm(all, cast<ShapedType>(values.loss.getType()).getElementType());
  for (auto [parameter, gradient] : llvm::zip(trained, all))
    emitUpdate(parameter, gradient);

  outputs = {values.loss, norm};
  outputNames = {"loss", "grad_norm"};
  if (emitGrads)
    for (auto [parameter, gradient] : llvm::zip(trained, all)) {
      outputs.push_back(gradient);
      outputNames.push_back(("grad:" + parameter.getSymName()).str());
    }
  func::ReturnOp::create(b, train.getLoc(), outputs);
  train.setType(b.getFunctionType(train.getArgumentTypes(), ValueRange(outputs).getTypes()));
  for (auto [i, name] : llvm::enumerate(outputNames))
    nn::kName.setResult(train, i, b.getStringAttr(name));
  eraseDead();
  return success();
}

/// Parameters in bf16 or f16 (a model may come so) become f32, in which small updates add up, and are
/// converted where they are read.
static void widenParameters(ModuleOp module, ArrayRef<VariableOp> trained) {
  OpBuilder b(module.getContext());
  llvm::StringMap<SmallVector<ReadOp>> reads;
  module.walk([&](ReadOp read) { reads[read.getVariable()].push_back(read); });
  for (VariableOp parameter : trained) {
    auto type = cast<RankedTensorType>(parameter.getType());
    Type element = type.getElementType();
    if (!element.isBF16() && !element.isF16())
      continue;
    parameter.setTypeAttr(TypeAttr::get(type.clone(b.getF32Type())));
    for (ReadOp read : reads[parameter.getSymName()]) {
      read.getResult().setType(type.clone(b.getF32Type()));
      b.setInsertionPointAfter(read);
      Value narrow = CastOp::create(b, read.getLoc(), read, element);
      read.getResult().replaceAllUsesExcept(narrow, narrow.getDefiningOp());
    }
  }
}

namespace {
struct Differentiate : tessera::impl::DifferentiateBase<Differentiate> {
  using DifferentiateBase::DifferentiateBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto infer = dyn_cast_or_null<func::FuncOp>(nn::inferenceProgram(module).getOperation());
    if (!infer || infer.isExternal() || !infer.getBody().hasOneBlock()) {
      module.emitError("needs an inference program of one block to differentiate");
      return signalPassFailure();
    }
    StringRef name = stringifyProgramRole(ProgramRole::Train);
    if (module.lookupSymbol(name) || llvm::any_of(module.getOps<func::FuncOp>(), isTraining)) {
      module.emitError("has a training program already, or another function @") << name;
      return signalPassFailure();
    }
    Optimizer chosen;
    if (optimizer == "adamw" || optimizer == "adam")
      chosen = {optimizer == "adamw" ? "adamw" : "adam", {"m", "v"}};
    else if (optimizer == "sgd")
      chosen = {"sgd", {}};
    else if (optimizer == "sgd-momentum")
      chosen = {"sgd_momentum", {"momentum"}};
    else {
      module.emitError("optimizer '")
          << optimizer << "' is unknown, expected adamw, adam, sgd or sgd-momentum";
      return signalPassFailure();
    }
    TrainBuilder builder(module, infer, chosen, emitGrads);
    for (VariableOp variable : module.getOps<VariableOp>())
      if (variable.getTrained())
        builder.trained.push_back(variable);
    if (builder.trained.empty()) {
      module.emitError("has no trained parameter");
      return signalPassFailure();
    }
    widenParameters(module, builder.trained);
    FailureOr<LossChoice> choice = chooseLoss(infer, loss);
    if (failed(choice) || failed(builder.build(*choice)))
      return signalPassFailure();
    numGradients += builder.trained.size();
  }
};
} // namespace
