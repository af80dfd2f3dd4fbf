#include "test/unit/nn/Evaluator.h"
#include "dialects/nn/NN.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/ExecutionEngine/CRunnerUtils.h"
#include "mlir/InitAllDialects.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "llvm/Support/TargetSelect.h"
#if __has_feature(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#endif

using namespace mlir;
using namespace tessera::test;

Array::Array(RankedTensorType type) : type(type) {
  int64_t width = type.getElementType().isInteger(1) ? 1 : 8;
  bytes.resize(std::max<int64_t>(type.getNumElements(), 1) * width);
}

std::unique_ptr<MLIRContext> tessera::test::makeContext() {
  DialectRegistry registry;
  registerAllDialects(registry);
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registry.insert<tessera::nn::NNDialect>();
  auto context = std::make_unique<MLIRContext>(registry);
  context->loadAllAvailableDialects();
  return context;
}

/// Replaces every nn operator by its plain lowering.
static LogicalResult lowerOperators(ModuleOp module) {
  SmallVector<tessera::nn::LowerableOpInterface> ops;
  module.walk([&](tessera::nn::LowerableOpInterface op) { ops.push_back(op); });
  for (tessera::nn::LowerableOpInterface op : ops) {
    OpBuilder builder(op);
    auto results = op.lowerToLinalg(builder, op->getOperands());
    if (failed(results))
      return op.emitError("cannot be lowered");
    for (auto [result, lowered] : llvm::zip(op->getResults(), *results)) {
      if (result.getType() != lowered.getType())
        return op.emitError("lowering yields ") << lowered.getType() << " for " << result.getType();
      result.replaceAllUsesWith(lowered);
    }
    op.erase();
  }
  return success();
}

llvm::Expected<std::unique_ptr<Evaluator>> Evaluator::create(ModuleOp module) {
  auto fail = [](const char *what) { return llvm::createStringError(what); };
  if (failed(lowerOperators(module)))
    return fail("lowering failed");
  for (auto func : module.getOps<func::FuncOp>())
    func->setAttr("llvm.emit_c_interface", UnitAttr::get(module.getContext()));
  PassManager pm(module.getContext());
  bufferization::OneShotBufferizePassOptions options;
  options.bufferizeFunctionBoundaries = true;
  options.functionBoundaryTypeConversion = bufferization::LayoutMapOption::IdentityLayoutMap;
  pm.addPass(bufferization::createOneShotBufferizePass(options));
  bufferization::BufferResultsToOutParamsPassOptions outParams;
  outParams.modifyPublicFunctions = true;
  pm.addPass(bufferization::createBufferResultsToOutParamsPass(outParams));
  pm.addNestedPass<func::FuncOp>(createConvertLinalgToLoopsPass());
  pm.addPass(memref::createExpandStridedMetadataPass());
  pm.addPass(createLowerAffinePass());
  pm.addPass(createConvertMathToFuncs()); // integer powers
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createConvertMathToLibmPass());
  pm.addPass(createConvertIndexToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  pm.addPass(createConvertFuncToLLVMPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  if (failed(pm.run(module)))
    return fail("conversion failed");
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto engine = ExecutionEngine::create(module);
  if (!engine)
    return engine.takeError();
  (*engine)->registerSymbols([](llvm::orc::MangleAndInterner interner) {
    llvm::orc::SymbolMap symbols;
    symbols[interner("memrefCopy")] = {llvm::orc::ExecutorAddr::fromPtr(&memrefCopy),
                                       llvm::JITSymbolFlags::Exported};
    return symbols;
  });
  auto evaluator = std::make_unique<Evaluator>();
  evaluator->engine = std::move(*engine);
  return evaluator;
}

llvm::Error Evaluator::run(StringRef function, ArrayRef<Array *> arguments, ArrayRef<Array *> results) {
  // A memref descriptor: two pointers, the offset, sizes and strides.
  std::vector<std::vector<int64_t>> descriptors;
  for (ArrayRef<Array *> arrays : {arguments, results})
    for (Array *array : arrays) {
      auto address = reinterpret_cast<int64_t>(array->bytes.data());
      std::vector<int64_t> descriptor = {address, address, 0};
      ArrayRef<int64_t> shape = array->type.getShape();
      descriptor.insert(descriptor.end(), shape.begin(), shape.end());
      for (size_t d = 0; d < shape.size(); ++d) {
        int64_t stride = 1;
        for (int64_t size : shape.drop_front(d + 1))
          stride *= size;
        descriptor.push_back(stride);
      }
      descriptors.push_back(std::move(descriptor));
    }
  std::vector<int64_t *> pointers;
  for (auto &descriptor : descriptors)
    pointers.push_back(descriptor.data());
  SmallVector<void *> packed;
  for (int64_t *&pointer : pointers)
    packed.push_back(&pointer);
#if __has_feature(address_sanitizer)
  __lsan::ScopedDisabler nobodyFrees; // what is lowered here for comparison allocates and frees nothing
#endif
  return engine->invokePacked(("_mlir_ciface_" + function).str(), packed);
}
