// The type that a model computes in: bf16 or f16 between parameters that stay f32.
#include "dialects/nn/Attributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Normalize/Match.h"
#include "passes/Normalize/Passes.h"

using namespace mlir;

namespace tessera {
#define GEN_PASS_DEF_COMPUTETYPE
#include "passes/Normalize/Passes.h.inc"

namespace {

Type elementOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getElementType() : Type();
}
bool isFloat(Value value) { return isa_and_nonnull<FloatType>(elementOf(value)); }

/// `values` in the floating type `to`. What is finite stays so: the lowest f32 stands for minus infinity in
/// masks, and rows of nothing but infinities have no softmax.
DenseElementsAttr converted(DenseFPElementsAttr values, FloatType to) {
  return values.mapValues(to, [&](APFloat value) {
    bool lost, wasFinite = value.isFinite(), isNegative = value.isNegative();
    value.convert(to.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
    if (wasFinite && !value.isFinite())
      value = APFloat::getLargest(to.getFloatSemantics(), isNegative);
    return value.bitcastToAPInt();
  });
}

/// Changes the types of one function.
struct Narrowing {
  FloatType compute;
  OpBuilder b;
  DenseSet<Value> active;        // depends on parameters or on floating inputs
  DenseMap<Value, Value> narrow; // value -> itself in the compute type
  DenseMap<Value, Type> before;  // result whose element type was changed -> the one it had
  int64_t numNarrowed = 0;

  explicit Narrowing(FloatType compute) : compute(compute), b(compute.getContext()) {}

  bool isCandidate(Value value) {
    auto type = dyn_cast_or_null<FloatType>(elementOf(value));
    return type && type != compute && type.getWidth() <= 32;
  }

  Value convert(Value value, Type to) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointAfterValue(value);
    return nn::CastOp::create(b, value.getLoc(), value, to);
  }

  Value narrowed(Value value) {
    if (!isCandidate(value))
      return value;
    Value &result = narrow[value];
    if (result)
      return result;
    auto constant = value.getDefiningOp<nn::ConstantOp>();
    if (auto values = constant ? dyn_cast<DenseFPElementsAttr>(constant.getValue()) : DenseFPElementsAttr()) {
      b.setInsertionPoint(constant);
      return result = nn::ConstantOp::create(b, constant.getLoc(), constant.getType().clone(compute),
                                             converted(values, compute));
    }
    return result = convert(value, compute);
  }

  LogicalResult run(func::FuncOp func) {
    for (BlockArgument argument : func.getArguments())
      if (isFloat(argument))
        active.insert(argument);
    for (Operation &op : llvm::make_early_inc_range(func.getBody().front()))
      if (failed(visit(op)))
        return failure();
    func.setType(b.getFunctionType(func.getArgumentTypes(),
                                   func.getBody().front().getTerminator()->getOperandTypes()));
    return success();
  }

  LogicalResult visit(Operation &op) {
    if (auto read = dyn_cast<nn::ReadOp>(op)) {
      auto variable = SymbolTable::lookupNearestSymbolFrom<nn::VariableOp>(read, read.getVariableAttr());
      if (isFloat(read) && variable && variable.getRole() == "parameter")
        active.insert(read);
      return success();
    }
    // Positions, masks and tables are computed from integers and constants alone: exact, and rounded where
    // they are used.
    if (!isa<nn::FactorOpInterface>(op) ||
        llvm::none_of(op.getOperands(), [&](Value v) { return active.contains(v); }))
      return success();
    active.insert(op.result_begin(), op.result_end());
    // Numbers, such as losses, sum up much.
    auto isNumber = [](Value value) { return cast<RankedTensorType>(value.getType()).getRank() == 0; };
    if (llvm::all_of(op.getResults(), isNumber)) {
      for (OpOperand &operand : op.getOpOperands())
        if (Type type = before.lookup(operand.get()))
          operand.set(convert(operand.get(), type));
      return success();
    }
    if (comparesWide(op)) {
      for (OpOperand &operand : op.getOpOperands())
        if (Type type = before.lookup(operand.get()))
          operand.set(convert(operand.get(), type));
      return success();
    }
    auto precision = dyn_cast<nn::PrecisionOpInterface>(op);
    for (OpOperand &operand : op.getOpOperands())
      if (!precision || !precision.keepsWide(operand.getOperandNumber()))
        operand.set(narrowed(operand.get()));
    return retype(op);
  }

  /// Whether `op` decides between data and what is exact, positions or random numbers for instance: rounding
  /// that would decide otherwise.
  bool comparesWide(Operation &op) {
    return llvm::none_of(op.getResults(), isFloat) && llvm::any_of(op.getOperands(), [&](Value operand) {
             return isCandidate(operand) && !active.contains(operand) && !normalize::splatValue(operand);
           });
  }

  /// Gives the results of `op` the types that follow from its operands.
  LogicalResult retype(Operation &op) {
    for (NamedAttribute attr : op.getAttrs())
      if (auto type = dyn_cast<TypeAttr>(attr.getValue()); type && type.getValue().isF32())
        op.setAttr(attr.getName(), TypeAttr::get(compute));
    SmallVector<Type> types;
    if (auto infer = dyn_cast<InferTypeOpInterface>(op)) {
      if (failed(infer.inferReturnTypes(op.getContext(), op.getLoc(), op.getOperands(),
                                        op.getAttrDictionary(), op.getPropertiesStorage(), op.getRegions(),
                                        types)))
        return failure();
    } else {
      for (Value result : op.getResults())
        types.push_back(isCandidate(result) ? cast<RankedTensorType>(result.getType()).clone(compute)
                                            : result.getType());
    }
    for (auto [result, type] : llvm::zip(op.getResults(), types)) {
      if (elementOf(result) == cast<RankedTensorType>(type).getElementType())
        continue;
      before[result] = elementOf(result);
      result.setType(type);
      ++numNarrowed;
    }
    return success();
  }
};

struct ComputeType : impl::ComputeTypeBase<ComputeType> {
  using ComputeTypeBase::ComputeTypeBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    Builder b(module.getContext());
    FloatType compute;
    if (type == "bf16")
      compute = b.getBF16Type();
    else if (type == "f16")
      compute = b.getF16Type();
    if (!compute) {
      module.emitError("compute type '") << type << "' is unknown, expected bf16 or f16";
      return signalPassFailure();
    }
    for (auto func : module.getOps<func::FuncOp>()) {
      if (nn::isTraining(func)) {
        func.emitError("is a training program already: the compute type is chosen before differentiation");
        return signalPassFailure();
      }
      Narrowing narrowing(compute);
      if (failed(narrowing.run(func)))
        return signalPassFailure();
      numValues += narrowing.numNarrowed;
    }
    nn::kComputeType.set(module, TypeAttr::get(compute));
  }
};

} // namespace
} // namespace tessera
