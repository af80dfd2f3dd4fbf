// Layouts for everything: decides the placements of all programs, then writes them into types.
#include "dialects/dist/Pipeline.h"
#include "dialects/nn/Attributes.h"
#include "passes/Propagate/Passes.h"
#include "passes/Propagate/Propagation.h"
#include "passes/Propagate/Waste.h"

namespace tessera {
#define GEN_PASS_DEF_PROPAGATE
#include "passes/Propagate/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

struct PropagatePass : tessera::impl::PropagateBase<PropagatePass> {
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<dist::DistDialect>();
  }
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto meshes = module.getOps<dist::MeshOp>();
    if (meshes.empty()) {
      module.emitError("has no dist.mesh; run tessera-assign first");
      return signalPassFailure();
    }
    dist::Mesh mesh = (*meshes.begin()).getMesh().getMesh();
    int64_t micro = dist::microbatches(module);
    Zero zero = Zero::of(module);
    if (!zero.gathersOnce())
      for (auto func : module.getOps<func::FuncOp>())
        recomputeFromParameters(func);
    FailureOr<Atoms> atoms = Atoms::analyse(module, micro);
    if (failed(atoms))
      return signalPassFailure();
    Propagation propagation(module, mesh, micro, *atoms, zero);
    // The program with the most to say about a variable's layout first: the one that trains it.
    SmallVector<func::FuncOp> funcs(module.getOps<func::FuncOp>());
    llvm::stable_sort(funcs,
                      [](func::FuncOp a, func::FuncOp b) { return nn::isTraining(a) && !nn::isTraining(b); });
    for (func::FuncOp func : funcs)
      if (failed(propagation.decide(func)))
        return signalPassFailure();
    propagation.fixPadding();
    propagation.fixOrder();
    for (func::FuncOp func : funcs)
      propagation.emit(func);
    propagation.emitVariables();
    if (!funcs.empty())
      warnOfWaste(funcs.front(), mesh, micro);
    numReshards = propagation.numReshards;
  }
};

} // namespace
