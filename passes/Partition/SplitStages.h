// From one local program to one a pipeline stage.
#ifndef TESSERA_PASSES_PARTITION_SPLITSTAGES_H
#define TESSERA_PASSES_PARTITION_SPLITSTAGES_H

#include "dialects/dist/Pipeline.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera {

/// Replaces a local function whose operators have their pipeline part by one function a stage, each the
/// program of one microbatch: a value that another stage uses is sent once to it, what has no part is
/// computed wherever it is needed, and a sum over stages becomes an all-reduce over the pipeline's axis. The
/// functions have the signature of the whole: inputs that a stage has no use for stay unused, outputs that it
/// lacks are `dist.absent`.
mlir::LogicalResult splitStages(mlir::func::FuncOp func, const dist::Pipeline &pipeline);

} // namespace tessera
#endif
