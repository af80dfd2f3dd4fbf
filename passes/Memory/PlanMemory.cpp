// The pass that turns functions into exec programs.
#include "dialects/dist/Attributes.h"
#include "dialects/exec/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "passes/Kernels/Passes.h"
#include "passes/Memory/Emitter.h"
#include "passes/Memory/Passes.h"
#include "llvm/ADT/StringSet.h"

namespace tessera {
#define GEN_PASS_DEF_PLANMEMORY
#include "passes/Memory/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

// What the runtime is told about an argument or a result of the function.
struct Described {
  DictionaryAttr attrs;
  StringRef name(StringRef otherwise) const {
    StringAttr name = nn::kName.in(attrs);
    return name ? name.getValue() : otherwise;
  }
  DenseI64ArrayAttr shape() const { return dist::kShape.in(attrs); }
  Attribute layout() const { return dist::kLayout.in(attrs); }
};

struct PlanMemoryPass : tessera::impl::PlanMemoryBase<PlanMemoryPass> {
  using PlanMemoryBase::PlanMemoryBase;
  PlanMemoryPass(PlanMemoryOptions options, TideObserver observer)
      : PlanMemoryBase(std::move(options)), observer(std::move(observer)) {}

  LogicalResult initialize(MLIRContext *context) override {
    library = nn::findLibrary(target, UnknownLoc::get(context));
    return success(library);
  }

  LogicalResult plan(func::FuncOp func, const Storage &storage, ModuleOp kernels,
                     const VariablePlaces &variables) {
    Block &old = func.getBody().front();
    auto program = std::make_unique<Block>();
    Offsets offsets(storage, variables, searches);
    if (observer)
      observer(tideOf(func, storage, offsets));
    ExecEmitter emitter(func, storage, offsets, kernels, program.get());
    OpBuilder b(func.getContext());
    b.setInsertionPointToEnd(program.get());
    for (BlockArgument arg : old.getArguments()) {
      Value held = storage.has(arg) ? emitter.handleOf(arg) : Value();
      Described d{func.getArgAttrDict(arg.getArgNumber())};
      std::string name = "input" + std::to_string(arg.getArgNumber());
      exec::InputOp::create(b, func.getLoc(), held, d.name(name),
                            nn::stringifyInputKind(nn::inputKind(func, arg.getArgNumber())),
                            cast<RankedTensorType>(arg.getType()).getElementType(), d.shape(), d.layout(),
                            nn::kRange.in(d.attrs));
    }
    for (Operation &op : old.without_terminator())
      if (failed(emitter.emit(op)))
        return failure();
    b.setInsertionPointToEnd(program.get());
    for (auto [i, value] : llvm::enumerate(old.getTerminator()->getOperands())) {
      Described d{func.getResultAttrDict(i)};
      std::string name = "output" + std::to_string(i);
      Value held = value.getDefiningOp<dist::AbsentOp>() ? Value() : emitter.handleOf(value);
      exec::OutputOp::create(b, func.getLoc(), held, d.name(name),
                             cast<RankedTensorType>(value.getType()).getElementType(), d.shape(), d.layout());
    }
    func::ReturnOp::create(b, func.getLoc());
    exec::kMemory.set(func, offsets.figures(func.getContext()));
    numInPlace += storage.numInPlace;
    numCopies += emitter.numCopies;

    for (BlockArgument arg : old.getArguments())
      func.setArgAttrs(arg.getArgNumber(), DictionaryAttr::get(func.getContext()));
    for (unsigned i = 0; i < func.getNumResults(); ++i)
      func.setResultAttrs(i, DictionaryAttr::get(func.getContext()));
    old.dropAllReferences();
    old.erase();
    func.getBody().push_back(program.release());
    func.removeArgAttrsAttr();
    func.removeResAttrsAttr();
    func.setType(FunctionType::get(func.getContext(), {}, {}));
    return success();
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto kernels = module.lookupSymbol<ModuleOp>(kKernelsModule);
    VariablePlaces variables(module);
    SmallVector<func::FuncOp> programs(module.getOps<func::FuncOp>());
    auto storageOf = [&](func::FuncOp func) { return Storage(func, kernels, *library, threads); };
    std::vector<Storage> storages = Offsets::prepare(programs, storageOf, searches);
    for (auto [func, storage] : llvm::zip(programs, storages))
      if (failed(plan(func, storage, kernels, variables)))
        return signalPassFailure();
    // Kernels of which only in-place variants are called are gone.
    llvm::StringSet<> used;
    module.walk([&](exec::LaunchOp launch) { used.insert(launch.getKernel()); });
    if (kernels)
      for (auto func : llvm::make_early_inc_range(kernels.getOps<func::FuncOp>()))
        if (!used.contains(func.getName()))
          func.erase();
  }

  const nn::Library *library = nullptr;
  TideObserver observer;
};

} // namespace

std::unique_ptr<Pass> tessera::createPlanMemory(PlanMemoryOptions options, TideObserver observer) {
  return std::make_unique<PlanMemoryPass>(std::move(options), std::move(observer));
}
