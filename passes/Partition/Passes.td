#ifndef TESSERA_PASSES_PARTITION
#define TESSERA_PASSES_PARTITION
include "mlir/Pass/PassBase.td"

def Partition : Pass<"tessera-partition", "::mlir::ModuleOp"> {
  let summary = "Turns the global program into the program that every rank runs";
  let description = [{
    Requires: `tessera-propagate`. Ensures: tensor types are local and carry no layout (functions keep it as
    the argument and result attribute `dist.layout`, variables in their type); every `dist.reshard` is the
    collectives and slices of its plan; padding that an operator would mix in is masked; what runs per
    microbatch is in one `dist.loop`.

    The rank's coordinates appear only in `dist` operators (`dist.block_start`, `dist.slice`, ...), so one
    program serves all ranks.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::tessera::dist::DistDialect",
                           "::tessera::nn::NNDialect"];
  let statistics = [Statistic<"numCollectives", "collectives", "collectives emitted">,
                    Statistic<"numMasks", "masks", "masks of padding emitted">];
}
#endif
