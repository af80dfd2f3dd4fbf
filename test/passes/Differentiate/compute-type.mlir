// The gradient of a parameter that is used in bf16 is f32 from the product that computes it: rounded nowhere, and so summed over ranks and
// microbatches in f32, and that of a bias from the sum over rows. Cotangents of other values are bf16.
// RUN: tessera-opt %s --tessera-compute-type=type=bf16 --tessera-differentiate="loss=cross_entropy:y optimizer=sgd" | FileCheck %s

// CHECK-LABEL: func.func @train(
// CHECK: %[[X:.*]] = nn.cast %arg0 {{.*}} -> tensor<2x3xbf16>
// CHECK: %[[H:.*]] = nn.contract %[[X]], %{{.*}} -> tensor<2x4xbf16>
// CHECK: %[[LOSS:.*]], %{{.*}} = nn.cross_entropy {{.*}} : (tensor<2x5xbf16>, tensor<2xi64>) -> (tensor<f32>, tensor<2xf32>)
// CHECK: nn.cross_entropy_grad {{.*}} -> tensor<2x5xbf16>
// CHECK-NOT: nn.cast
// CHECK: nn.reduce {{.*}} : (tensor<2x5xbf16>) -> tensor<5xf32>
// CHECK: nn.contract {{.*}} : (tensor<2x5xbf16>, tensor<4x5xbf16>) -> tensor<2x4xbf16>
// CHECK: %[[DV:.*]] = nn.contract {{.*}} : (tensor<2x4xbf16>, tensor<2x5xbf16>) -> tensor<4x5xf32>
// CHECK: %[[DW:.*]] = nn.contract {{.*}} : (tensor<2x3xbf16>, tensor<2x4xbf16>) -> tensor<3x4xf32>
// CHECK-NOT: nn.cast
// CHECK: %[[A:.*]] = nn.acc %[[DW]] {{.*}} : (tensor<3x4xf32>) -> tensor<3x4xf32>
// CHECK: nn.acc %[[A]] {nn.cotangent_of = @w} : (tensor<3x4xf32>) -> tensor<3x4xf32>
nn.variable @w : tensor<3x4xf32> {role = "parameter", trained = true}
nn.variable @b : tensor<5xf32> {role = "parameter", trained = true}
nn.variable @v : tensor<4x5xf32> {role = "parameter", trained = true}
func.func @infer(%x: tensor<2x3xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<2x5xf32> {nn.name = "y"}) {
  %w = nn.read @w : tensor<3x4xf32>
  %v = nn.read @v : tensor<4x5xf32>
  %h = nn.contract %x, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %b = nn.read @b : tensor<5xf32>
  %p = nn.contract %h, %v {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x4xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  %y = nn.add %p, %b : (tensor<2x5xf32>, tensor<5xf32>) -> tensor<2x5xf32>
  return %y : tensor<2x5xf32>
}
