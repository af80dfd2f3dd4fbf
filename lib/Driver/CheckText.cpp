#include "lib/Driver/CheckText.h"
#include "dialects/dist/Attributes.h"
#include "dialects/exec/Exec.h"
#include "dialects/nn/NN.h"
#include "dialects/nn/Size.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Kernels/Generated.h"
#include "passes/Kernels/Passes.h"

using namespace mlir;
using namespace tessera;

static bool hasLayout(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getEncoding();
}

// Arguments and results are tensors; from partition to memory they say what part of which array they are.
static LogicalResult checkInterface(func::FuncOp func, Phase next) {
  bool partitioned = next > Phase::Partition && next <= Phase::Memory;
  auto check = [&](StringRef what, unsigned i, Type type, DictionaryAttr attrs) -> LogicalResult {
    if (!isa<RankedTensorType>(type) || !nn::hasReasonableSize(type))
      return func.emitError() << what << " " << i << " of @" << func.getSymName() << " has type " << type
                              << "; expected a tensor with fixed sizes, of at most 2^48 elements";
    if (next <= Phase::Propagate && hasLayout(type))
      return func.emitError() << what << " " << i << " of @" << func.getSymName()
                              << " is laid out over a mesh, and the text is said to be before "
                              << phaseName(Phase::Propagate);
    if (partitioned && !(dist::kShape.in(attrs) && dist::kLayout.in(attrs)))
      return func.emitError() << what << " " << i << " of @" << func.getSymName() << " lacks the attributes "
                              << dist::kShape.name << " and " << dist::kLayout.name << " that "
                              << phaseName(Phase::Partition) << " gives it";
    return success();
  };
  for (auto [i, type] : llvm::enumerate(func.getArgumentTypes()))
    if (failed(check("argument", i, type, func.getArgAttrDict(i))))
      return failure();
  for (auto [i, type] : llvm::enumerate(func.getResultTypes()))
    if (failed(check("result", i, type, func.getResultAttrDict(i))))
      return failure();
  return success();
}

// The sizes of blocks that operators have as operands from partition on.
static bool isNumber(Operation *op) {
  auto constant = dyn_cast<arith::ConstantOp>(op);
  return constant && constant.getType().isInteger(64);
}

static LogicalResult checkFunction(func::FuncOp func, Phase next) {
  if (!func.getBody().hasOneBlock())
    return func.emitError() << "function @" << func.getSymName() << " must have one block";
  if (failed(checkInterface(func, next)))
    return failure();
  WalkResult result = func.getBody().walk([&](Operation *op) {
    if (!isa_and_present<nn::NNDialect, dist::DistDialect, exec::ExecDialect>(op->getDialect()) &&
        !isa<func::ReturnOp>(op) && !isNumber(op)) {
      op->emitError() << "a program has no operator '" << op->getName()
                      << "'; expected those of nn, dist and exec";
      return WalkResult::interrupt();
    }
    if (next <= Phase::Propagate &&
        (isa<dist::DistDialect>(op->getDialect()) || llvm::any_of(op->getResultTypes(), hasLayout))) {
      op->emitError() << "is laid out over a mesh, and the text is said to be before "
                      << phaseName(Phase::Propagate);
      return WalkResult::interrupt();
    }
    auto wrong = llvm::find_if_not(op->getResultTypes(), nn::hasReasonableSize);
    if (wrong == op->result_type_end())
      return WalkResult::advance();
    op->emitError() << "a result has type " << *wrong << "; expected fixed sizes, of at most 2^48 elements";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

// A kernel has one block, and results that are tensors of one shape.
static LogicalResult checkKernel(Operation &op) {
  auto func = dyn_cast<func::FuncOp>(op);
  if (!func)
    return op.emitError() << "@" << kKernelsModule << " holds functions, not '" << op.getName() << "'";
  if (!func.getBody().hasOneBlock())
    return func.emitError() << "kernel @" << func.getSymName() << " must have one block";
  for (Type type : func.getArgumentTypes())
    if (!isa<RankedTensorType>(type) && !type.isInteger(64) && !type.isIndex())
      return func.emitError() << "an argument of kernel @" << func.getSymName() << " has type " << type
                              << "; expected a tensor, i64 or index";
  for (Type type : func.getResultTypes())
    if (!isa<RankedTensorType>(type))
      return func.emitError() << "a result of kernel @" << func.getSymName() << " has type " << type
                              << "; expected a tensor";
  WalkResult result = func.walk([&](Operation *inner) {
    auto sized = [](TypeRange types) { return llvm::all_of(types, nn::hasReasonableSize); };
    if (sized(inner->getResultTypes()) &&
        llvm::all_of(inner->getRegions(), [&](Region &region) { return sized(region.getArgumentTypes()); }))
      return WalkResult::advance();
    inner->emitError() << "kernel @" << func.getSymName()
                       << " has a value without fixed sizes, or of more than 2^48 elements";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

// Programs call kernels that exist, with what they take.
static LogicalResult checkCalls(ModuleOp module, ModuleOp kernels) {
  auto find = [&](Operation *op, StringRef name) {
    auto kernel = kernels ? kernels.lookupSymbol<func::FuncOp>(name) : func::FuncOp();
    if (!kernel)
      op->emitError() << "there is no kernel @" << name << " in module @" << kKernelsModule;
    return kernel;
  };
  WalkResult result = module.walk([&](Operation *op) {
    if (auto launch = dyn_cast<exec::LaunchOp>(op))
      return find(op, launch.getKernel()) ? WalkResult::advance() : WalkResult::interrupt();
    auto apply = dyn_cast<exec::ApplyOp>(op);
    if (!apply)
      return WalkResult::advance();
    auto kernel = find(op, apply.getKernel());
    if (!kernel)
      return WalkResult::interrupt();
    auto types = [](TypeRange given) { return llvm::map_to_vector(given, kernelType); };
    auto type =
        FunctionType::get(op->getContext(), types(op->getOperandTypes()), types(op->getResultTypes()));
    if (kernel.getFunctionType() == type)
      return WalkResult::advance();
    op->emitError() << "kernel @" << apply.getKernel() << " has type " << kernel.getFunctionType()
                    << " and is called as " << type;
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult tessera::checkText(ModuleOp module, Phase next) {
  if (module.getOps<func::FuncOp>().empty())
    return module.emitError() << "the text has no func.func: it is no program";
  for (Operation &op : *module.getBody()) {
    if (auto func = dyn_cast<func::FuncOp>(op)) {
      if (failed(checkFunction(func, next)))
        return failure();
    } else if (auto kernels = dyn_cast<ModuleOp>(op); kernels && kernels.getSymName() != kKernelsModule) {
      return op.emitError() << "the only module inside of a program is @" << kKernelsModule;
    } else if (kernels) {
      for (Operation &kernel : *kernels.getBody())
        if (failed(checkKernel(kernel)))
          return failure();
    } else if (auto variable = dyn_cast<nn::VariableOp>(op);
               variable && next <= Phase::Propagate && hasLayout(variable.getType())) {
      return variable.emitError() << "variable @" << variable.getSymName()
                                  << " is laid out over a mesh, and the text is said to be before "
                                  << phaseName(Phase::Propagate);
    } else if (!isa<nn::VariableOp, dist::MeshOp>(op)) {
      return op.emitError() << "a program holds variables, a mesh, functions and kernels, not '"
                            << op.getName() << "'";
    }
  }
  auto meshes = module.getOps<dist::MeshOp>();
  if (!meshes.empty() && ++meshes.begin() != meshes.end())
    return (*++meshes.begin()).emitError() << "a program has one mesh";
  if (meshes.empty() && next > Phase::Assign)
    return module.emitError() << "the text is said to be past " << phaseName(Phase::Assign)
                              << " and has no dist.mesh";
  if (next > Phase::Schedule && !module.lookupSymbol<ModuleOp>(kKernelsModule))
    return module.emitError() << "the text is said to be past " << phaseName(Phase::Schedule)
                              << " and has no module @" << kKernelsModule;
  return checkCalls(module, module.lookupSymbol<ModuleOp>(kKernelsModule));
}
