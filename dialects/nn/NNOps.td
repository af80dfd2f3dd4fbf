//===- NNOps.td - only includes -------------------------------------------===//
#ifndef TESSERA_NN_OPS
#define TESSERA_NN_OPS
include "dialects/nn/NNDialect.td"
include "dialects/nn/ops/Variable.td"
include "dialects/nn/ops/Constant.td"
include "dialects/nn/ops/Elementwise.td"
include "dialects/nn/ops/Random.td"
include "dialects/nn/ops/Shape.td"
include "dialects/nn/ops/Reduce.td"
include "dialects/nn/ops/Contract.td"
include "dialects/nn/ops/Normalize.td"
include "dialects/nn/ops/Attention.td"
include "dialects/nn/ops/Gather.td"
include "dialects/nn/ops/Experts.td"
include "dialects/nn/ops/Loss.td"
include "dialects/nn/ops/Conv.td"
include "dialects/nn/ops/Pool.td"
include "dialects/nn/ops/Optimizer.td"
#endif
