// Trained parameters of a model in f16 are f32, converted where they are read; so are their gradients and state. Others stay as they are.
// RUN: tessera-opt %s --tessera-differentiate="loss=mse:y optimizer=sgd-momentum" | FileCheck %s

// CHECK-DAG: nn.variable @w : tensor<3x4xf32>
// CHECK-DAG: nn.variable @frozen : tensor<4xf16>
// CHECK-DAG: nn.variable @w.momentum : tensor<3x4xf32>
// CHECK-LABEL: func.func @infer(
// CHECK: %[[W:.*]] = nn.read @w : tensor<3x4xf32>
// CHECK: nn.cast %[[W]] {{.*}} -> tensor<3x4xf16>
// CHECK-LABEL: func.func @train(
// CHECK-SAME: tensor<9xf32> {nn.kind = #nn<kind scalars>
// CHECK: nn.contract {{.*}} -> tensor<2x4xf16>
// CHECK: nn.contract {{.*}} -> tensor<3x4xf32>
// CHECK: nn.update {{.*}} -> (tensor<3x4xf32>, tensor<3x4xf32>)
nn.variable @w : tensor<3x4xf16> {role = "parameter", trained = true}
nn.variable @frozen : tensor<4xf16> {role = "parameter", trained = false}
func.func @infer(%x: tensor<2x3xf16> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<2x4xf16> {nn.name = "y"}) {
  %w = nn.read @w : tensor<3x4xf16>
  %b = nn.read @frozen : tensor<4xf16>
  %h = nn.contract %x, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x3xf16>, tensor<3x4xf16>) -> tensor<2x4xf16>
  %y = nn.add %h, %b : (tensor<2x4xf16>, tensor<4xf16>) -> tensor<2x4xf16>
  return %y : tensor<2x4xf16>
}
