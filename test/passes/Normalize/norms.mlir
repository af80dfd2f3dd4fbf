// RUN: tessera-opt %s -split-input-file -tessera-normalize | FileCheck %s

// CHECK-LABEL: @rms_norm
// CHECK: %[[Y:.*]], %{{.*}} = nn.rms_norm %arg0, %arg1 {eps = 9.99{{[0-9]*}}E-7
// CHECK-NEXT: return %[[Y]]
func.func @rms_norm(%x: tensor<2x8x4xf32>, %w: tensor<4xf32>) -> tensor<2x8x4xf32> {
  %square = nn.mul %x, %x : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  %sum = nn.reduce %square {dims = array<i64: 2>, kind = "sum"} : (tensor<2x8x4xf32>) -> tensor<2x8xf32>
  %kept = nn.reshape %sum : (tensor<2x8xf32>) -> tensor<2x8x1xf32>
  %quarter = nn.constant dense<0.25> : tensor<f32> : tensor<f32>
  %mean = nn.mul %kept, %quarter : (tensor<2x8x1xf32>, tensor<f32>) -> tensor<2x8x1xf32>
  %eps = nn.constant dense<1.0e-6> : tensor<f32> : tensor<f32>
  %sum2 = nn.add %mean, %eps : (tensor<2x8x1xf32>, tensor<f32>) -> tensor<2x8x1xf32>
  %root = nn.sqrt %sum2 : (tensor<2x8x1xf32>) -> tensor<2x8x1xf32>
  %r = nn.reciprocal %root : (tensor<2x8x1xf32>) -> tensor<2x8x1xf32>
  %n = nn.mul %x, %r : (tensor<2x8x4xf32>, tensor<2x8x1xf32>) -> tensor<2x8x4xf32>
  %y = nn.mul %w, %n : (tensor<4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %y : tensor<2x8x4xf32>
}

// -----

// The mean square of something else is no normalisation.
// CHECK-LABEL: @other_mean_square
// CHECK-NOT: nn.rms_norm
func.func @other_mean_square(%x: tensor<2x8x4xf32>, %z: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %square = nn.mul %z, %z : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  %sum = nn.reduce %square {dims = array<i64: 2>, kind = "sum"} : (tensor<2x8x4xf32>) -> tensor<2x8xf32>
  %kept = nn.reshape %sum : (tensor<2x8xf32>) -> tensor<2x8x1xf32>
  %quarter = nn.constant dense<0.25> : tensor<f32> : tensor<f32>
  %mean = nn.mul %kept, %quarter : (tensor<2x8x1xf32>, tensor<f32>) -> tensor<2x8x1xf32>
  %eps = nn.constant dense<1.0e-6> : tensor<f32> : tensor<f32>
  %sum2 = nn.add %mean, %eps : (tensor<2x8x1xf32>, tensor<f32>) -> tensor<2x8x1xf32>
  %r = nn.rsqrt %sum2 : (tensor<2x8x1xf32>) -> tensor<2x8x1xf32>
  %n = nn.mul %x, %r : (tensor<2x8x4xf32>, tensor<2x8x1xf32>) -> tensor<2x8x4xf32>
  return %n : tensor<2x8x4xf32>
}

// -----

// CHECK-LABEL: @layer_norm
// CHECK: %[[Y:.*]], %{{.*}}, %{{.*}} = nn.layer_norm %arg0, %arg1, %arg2 {eps
// CHECK-NEXT: return %[[Y]]
func.func @layer_norm(%x: tensor<2x8x4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<2x8x4xf32> {
  %quarter = nn.constant dense<0.25> : tensor<f32> : tensor<f32>
  %sum = nn.reduce %x {dims = array<i64: 2>, kind = "sum"} : (tensor<2x8x4xf32>) -> tensor<2x8xf32>
  %kept = nn.reshape %sum : (tensor<2x8xf32>) -> tensor<2x8x1xf32>
  %mean = nn.mul %kept, %quarter : (tensor<2x8x1xf32>, tensor<f32>) -> tensor<2x8x1xf32>
  %d = nn.sub %x, %mean : (tensor<2x8x4xf32>, tensor<2x8x1xf32>) -> tensor<2x8x4xf32>
  %two = nn.constant dense<2.0> : tensor<f32> : tensor<f32>
  %square = nn.pow %d, %two : (tensor<2x8x4xf32>, tensor<f32>) -> tensor<2x8x4xf32>
  %sum2 = nn.reduce %square {dims = array<i64: 2>, kind = "sum"} : (tensor<2x8x4xf32>) -> tensor<2x8xf32>
  %kept2 = nn.reshape %sum2 : (tensor<2x8xf32>) -> tensor<2x8x1xf32>
  %var = nn.mul %kept2, %quarter : (tensor<2x8x1xf32>, tensor<f32>) -> tensor<2x8x1xf32>
  %eps = nn.constant dense<1.0e-5> : tensor<f32> : tensor<f32>
  %shifted = nn.add %var, %eps : (tensor<2x8x1xf32>, tensor<f32>) -> tensor<2x8x1xf32>
  %root = nn.sqrt %shifted : (tensor<2x8x1xf32>) -> tensor<2x8x1xf32>
  %n = nn.div %d, %root : (tensor<2x8x4xf32>, tensor<2x8x1xf32>) -> tensor<2x8x4xf32>
  %scaled = nn.mul %n, %g : (tensor<2x8x4xf32>, tensor<4xf32>) -> tensor<2x8x4xf32>
  %y = nn.add %scaled, %b : (tensor<2x8x4xf32>, tensor<4xf32>) -> tensor<2x8x4xf32>
  return %y : tensor<2x8x4xf32>
}
