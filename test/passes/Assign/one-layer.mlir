// A model without a place to cut it.
// RUN: not tessera-opt %s --tessera-differentiate="optimizer=sgd loss=mse:y" --tessera-assign="pp=2" 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: not tessera-opt %s --tessera-differentiate="optimizer=sgd loss=mse:y" --tessera-assign="pp=2 pp-schedule=interleaved microbatches=2" 2>&1 | FileCheck %s --check-prefix=ONE

// ONE: error: the model has 1 layer (products and lookups with a parameter), fewer than the {{2 stages of the pipeline|4 chunks of schedule interleaved \(2 a stage\)}}; it cannot be cut
nn.variable @w : tensor<3x4xf64> {role = "parameter", trained = true}
func.func @infer(%x: tensor<2x3xf64> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<2x4xf64> {nn.name = "y"}) {
  %w = nn.read @w : tensor<3x4xf64>
  %y = nn.contract %x, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x3xf64>, tensor<3x4xf64>) -> tensor<2x4xf64>
  return %y : tensor<2x4xf64>
}
