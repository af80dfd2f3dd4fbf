// The kernels' bodies, operator by operator, to linalg, in f32 where they are of bf16 or f16.
#include "dialects/nn/Attributes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Kernels/Generated.h"
#include "passes/Kernels/Passes.h"

namespace tessera {
#define GEN_PASS_DEF_LOWERKERNELS
#include "passes/Kernels/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

Type tessera::kernelType(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.getElementType().isUnsignedInteger())
    return type;
  return tensor.clone(IntegerType::get(type.getContext(), tensor.getElementType().getIntOrFloatBitWidth()));
}

namespace {

// A kernel computes in f32 what is bf16 or f16 outside of it: an argument is widened where it is read, a
// result rounded where it is written, and nothing in between but what decisions depend on. So sums are f32's,
// and the operators' lowerings need to know of no other type.
/// Lets what uses `value`, of f32, use it rounded to `half`.
void round(OpResult value, Type half) {
  OpBuilder b(value.getContext());
  b.setInsertionPointAfterValue(value);
  auto narrow = nn::CastOp::create(b, value.getLoc(), value, half);
  auto wide = nn::CastOp::create(b, value.getLoc(), narrow, b.getF32Type());
  value.replaceAllUsesExcept(wide, narrow);
}

void widen(func::FuncOp func) {
  Block &block = func.getBody().front();
  OpBuilder b(&block, block.begin());
  Type f32 = b.getF32Type();
  auto isHalf = [](Type type) { return type.isBF16() || type.isF16(); };
  auto halfTensor = [&](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && isHalf(type.getElementType()) ? type : RankedTensorType();
  };
  for (BlockArgument argument : block.getArguments())
    if (RankedTensorType type = halfTensor(argument)) {
      auto wide = arith::ExtFOp::create(b, func.getLoc(), type.clone(f32), argument);
      argument.replaceAllUsesExcept(wide, wide);
    }
  Operation *end = block.getTerminator();
  b.setInsertionPoint(end);
  for (OpOperand &returned : end->getOpOperands())
    if (auto type = func.getResultTypes()[returned.getOperandNumber()];
        isHalf(cast<RankedTensorType>(type).getElementType()))
      returned.set(arith::TruncFOp::create(b, func.getLoc(), type, returned.get()));
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    if (isa<arith::ArithDialect>(op.getDialect()))
      continue;
    for (OpResult result : op.getResults())
      if (RankedTensorType type = halfTensor(result)) {
        result.setType(type.clone(f32));
        if (nn::kRounded.isOn(&op))
          round(result, type.getElementType());
      }
    // What the operator converts to, and the numbers of a constant.
    for (NamedAttribute attr : op.getAttrs()) {
      if (auto type = dyn_cast<TypeAttr>(attr.getValue()); type && isHalf(type.getValue()))
        op.setAttr(attr.getName(), TypeAttr::get(f32));
      if (auto values = dyn_cast<DenseFPElementsAttr>(attr.getValue());
          values && isHalf(values.getElementType()))
        op.setAttr(attr.getName(), values.mapValues(f32, [](APFloat value) {
          bool lost;
          value.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &lost);
          return value.bitcastToAPInt();
        }));
    }
  }
}

// Which of its operands are unsigned, an operator tells by its own types: until it is lowered they are casts
// of what they have become.
Value withSign(OpBuilder &b, Value value, Type type) {
  if (kernelType(type) == type)
    return value;
  return UnrealizedConversionCastOp::create(b, value.getLoc(), type, value).getResult(0);
}
Value withoutSign(Value value) {
  if (auto cast = value.getDefiningOp<UnrealizedConversionCastOp>())
    return cast.getOperand(0);
  return value;
}

void dropSignsOfArguments(func::FuncOp func) {
  Block &block = func.getBody().front();
  OpBuilder b(&block, block.begin());
  for (BlockArgument argument : block.getArguments()) {
    Type type = argument.getType();
    if (kernelType(type) == type)
      continue;
    argument.setType(kernelType(type));
    auto cast = UnrealizedConversionCastOp::create(b, func.getLoc(), type, argument);
    argument.replaceAllUsesExcept(cast.getResult(0), cast);
  }
}

/// Of the results, and of the casts that nothing needs any more.
void dropSigns(func::FuncOp func) {
  Block &block = func.getBody().front();
  OpBuilder b(block.getTerminator());
  for (OpOperand &returned : block.getTerminator()->getOpOperands())
    returned.set(withoutSign(returned.get()));
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isa<UnrealizedConversionCastOp>(op) && op.use_empty())
      op.erase();
  func.setType(b.getFunctionType(block.getArgumentTypes(), block.getTerminator()->getOperandTypes()));
}

/// What a lowered kernel does: rows where it reduces, gathers where indices that it reads say what it reads,
/// else a stream; the functions that it evaluates; and the bytes that it reads.
struct KernelWork {
  nn::WorkClass kind = nn::WorkClass::Stream;
  double functions = 0, bytesRead = 0;
};

// Square roots, absolute values and roundings are one instruction, as arithmetic is.
bool isFunction(Operation &op) {
  return isa<math::MathDialect>(op.getDialect()) &&
         !isa<math::AbsFOp, math::AbsIOp, math::CeilOp, math::CopySignOp, math::FloorOp, math::FmaOp,
              math::RoundEvenOp, math::RoundOp, math::RsqrtOp, math::SqrtOp, math::TruncOp>(op);
}

double positionsOf(linalg::GenericOp loops) {
  double positions = 1;
  for (int64_t extent : loops.getStaticLoopRanges())
    positions *= double(extent);
  return positions;
}

/// How many elements of a kernel's argument are read: a slice's, or as many as are looked up one by one.
double countReads(Value value) {
  auto all = double(cast<RankedTensorType>(value.getType()).getNumElements());
  double count = 0;
  for (Operation *user : value.getUsers()) {
    if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, UnrealizedConversionCastOp, arith::ExtFOp>(user))
      count += countReads(user->getResult(0));
    else if (auto slice = dyn_cast<tensor::ExtractSliceOp>(user);
             slice && isa<func::FuncOp>(slice->getParentOp()))
      count += double(slice.getType().getNumElements());
    else if (auto loops = user->getParentOfType<linalg::GenericOp>(); loops && isa<tensor::ExtractOp>(user))
      count += positionsOf(loops);
    else
      return all;
  }
  return std::min(count, all);
}

KernelWork workOf(func::FuncOp kernel) {
  KernelWork work;
  for (Value argument : kernel.getArguments())
    if (auto type = dyn_cast<RankedTensorType>(argument.getType()); type && type.getNumElements() > 0)
      work.bytesRead += nn::bytesOf(type) / double(type.getNumElements()) * countReads(argument);
  kernel.walk([&](linalg::GenericOp loops) {
    const double positions = positionsOf(loops);
    if (loops.getNumReductionLoops() > 0 && work.kind == nn::WorkClass::Stream)
      work.kind = nn::WorkClass::Row;
    for (Operation &op : *loops.getBody()) {
      if (isa<tensor::ExtractOp>(op))
        work.kind = nn::WorkClass::Gather;
      if (isFunction(op))
        work.functions += positions;
    }
  });
  return work;
}

void noteWork(ModuleOp module, ModuleOp kernels) {
  llvm::StringMap<KernelWork> known;
  for (auto kernel : kernels.getOps<func::FuncOp>())
    known[kernel.getName()] = workOf(kernel);
  Builder b(module.getContext());
  module.walk([&](exec::ApplyOp apply) {
    auto work = known.find(apply.getKernel());
    if (work == known.end())
      return;
    if (work->second.kind != nn::WorkClass::Stream)
      nn::kWorkClass.set(apply, b.getStringAttr(rt::workClassName(work->second.kind)));
    if (work->second.functions > 0)
      nn::kFunctions.set(apply, b.getF64FloatAttr(work->second.functions));
    double operands = 0;
    for (Type type : apply->getOperandTypes())
      operands += nn::bytesOf(type);
    if (work->second.bytesRead != operands)
      nn::kBytesRead.set(apply, b.getF64FloatAttr(work->second.bytesRead));
  });
}

struct LowerKernelsPass : tessera::impl::LowerKernelsBase<LowerKernelsPass> {
  void runOnOperation() override {
    auto kernels = getOperation().lookupSymbol<ModuleOp>(kKernelsModule);
    if (!kernels)
      return;
    for (auto func : kernels.getOps<func::FuncOp>()) {
      if (isDescribed(func))
        continue;
      widen(func);
      dropSignsOfArguments(func);
      for (Operation &op : llvm::make_early_inc_range(func.getBody().front())) {
        auto lowerable = dyn_cast<nn::LowerableOpInterface>(op);
        if (!lowerable)
          continue;
        OpBuilder b(&op);
        auto operands = llvm::map_to_vector(op.getOperands(), [&](Value v) { return withoutSign(v); });
        FailureOr<SmallVector<Value>> results = lowerable.lowerToLinalg(b, operands);
        if (failed(results)) {
          op.emitOpError("cannot be lowered to a kernel");
          return signalPassFailure();
        }
        for (auto [result, lowered] : llvm::zip(op.getResults(), *results))
          result.replaceAllUsesWith(withSign(b, lowered, result.getType()));
        op.erase();
      }
      dropSigns(func);
    }
    noteWork(getOperation(), kernels);
  }
};

} // namespace
