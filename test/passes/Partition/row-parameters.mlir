// A parameter with a row for each row of the batch: each microbatch takes its rows, and gives their gradient.
// RUN: tessera-opt %s --tessera-differentiate="loss=mse:y optimizer=sgd" --tessera-assign="microbatches=3" --tessera-propagate --tessera-verify-layouts --tessera-partition | FileCheck %s
// RUN: tessera verify %s --loss mse:y --microbatches 3
// RUN: tessera verify %s --loss mse:y --microbatches 4
// RUN: tessera verify %s --loss mse:y --microbatches 3 --dp 2 --zero 1
// RUN: tessera verify %s --loss mse:y --microbatches 2 --dp 3 --zero 3

// CHECK-LABEL: func.func @train
// CHECK: dist.loop times 3
// CHECK: dist.slice {{.*}} over <"micro"=3> shape [3, 2, 8] split 0 : tensor<6x8xf32> -> tensor<2x8xf32>
// CHECK: %[[PLACE:.*]] = dist.logical_index over <"micro"=3> {{.*}} : tensor<1xi64>
// CHECK: %[[ROWS:.*]] = nn.reshape {{.*}} : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
// CHECK: nn.scatter_add %[[PLACE]], %[[ROWS]] : (tensor<1xi64>, tensor<1x2x8xf32>) -> tensor<3x2x8xf32>
// CHECK: dist.yield
nn.variable @p : tensor<6x8xf32> {role = "parameter", trained = true, init = "zero"}
nn.variable @w : tensor<8x4xf32> {role = "parameter", trained = true, init = "zero"}
func.func @infer(%x: tensor<6x8xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<6x4xf32> {nn.name = "y"}) {
  %w = nn.read @w : tensor<8x4xf32>
  %p = nn.read @p : tensor<6x8xf32>
  %one = nn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %w1 = nn.add %w, %one : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  %z = nn.mul %x, %p : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %z1 = nn.add %z, %x : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %y = nn.contract %z1, %w1 {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<6x8xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  return %y : tensor<6x4xf32>
}
