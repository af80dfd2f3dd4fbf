// RUN: tessera-opt %s -split-input-file -tessera-normalize | FileCheck %s

// CHECK-LABEL: @gelu_tanh
// CHECK: %[[Y:.*]] = nn.gelu %arg0 {tanh = true}
// CHECK-NEXT: return %[[Y]]
func.func @gelu_tanh(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %half = nn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %three = nn.constant dense<3.0> : tensor<f32> : tensor<f32>
  %cubic = nn.constant dense<4.471500e-02> : tensor<f32> : tensor<f32>
  %root = nn.constant dense<0.797884583> : tensor<f32> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %a = nn.mul %x, %half : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %p = nn.pow %x, %three : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %m = nn.mul %p, %cubic : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %s = nn.add %x, %m : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %u = nn.mul %s, %root : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %t = nn.tanh %u : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %t1 = nn.add %t, %one : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %y = nn.mul %a, %t1 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// -----

// CHECK-LABEL: @gelu_erf
// CHECK: nn.gelu %arg0 {{.*}}: (tensor<2x8xf32>)
// CHECK-NOT: nn.erf
func.func @gelu_erf(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %half = nn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %root = nn.constant dense<1.41421354> : tensor<f32> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %d = nn.div %x, %root : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %e = nn.erf %d : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %e1 = nn.add %e, %one : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %p = nn.mul %x, %e1 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %y = nn.mul %p, %half : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// -----

// Another constant is another function.
// CHECK-LABEL: @not_gelu
// CHECK-NOT: nn.gelu
func.func @not_gelu(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %half = nn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %root = nn.constant dense<1.4> : tensor<f32> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %d = nn.div %x, %root : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %e = nn.erf %d : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %e1 = nn.add %e, %one : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  %p = nn.mul %x, %e1 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %y = nn.mul %p, %half : (tensor<2x8xf32>, tensor<f32>) -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// -----

// CHECK-LABEL: @silu
// CHECK: nn.silu %arg0
func.func @silu(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %s = nn.sigmoid %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %y = nn.mul %s, %x : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// -----

// The rotary embedding moves in front of the transpose, with its tables.
// CHECK-LABEL: @rotary
// CHECK: %[[C:.*]] = nn.reshape %arg1 : (tensor<1x1x8x16xf32>) -> tensor<1x8x1x16xf32>
// CHECK: %[[S:.*]] = nn.reshape %arg2 : (tensor<1x1x8x16xf32>) -> tensor<1x8x1x16xf32>
// CHECK: %[[R:.*]] = nn.rotary %arg0, %[[C]], %[[S]]
// CHECK: nn.transpose %[[R]]
func.func @rotary(%x: tensor<2x8x4x16xf32>, %cos: tensor<1x1x8x16xf32>, %sin: tensor<1x1x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %t = nn.transpose %x {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x8x4x16xf32>) -> tensor<2x4x8x16xf32>
  %low = nn.slice %t {starts = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 4, 8, 8>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x4x8x16xf32>) -> tensor<2x4x8x8xf32>
  %high = nn.slice %t {starts = array<i64: 0, 0, 0, 8>, sizes = array<i64: 2, 4, 8, 8>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x4x8x16xf32>) -> tensor<2x4x8x8xf32>
  %neg = nn.neg %high : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %turned = nn.concat %neg, %low {dim = 3 : i64} : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<2x4x8x16xf32>
  %a = nn.mul %t, %cos : (tensor<2x4x8x16xf32>, tensor<1x1x8x16xf32>) -> tensor<2x4x8x16xf32>
  %b = nn.mul %turned, %sin : (tensor<2x4x8x16xf32>, tensor<1x1x8x16xf32>) -> tensor<2x4x8x16xf32>
  %y = nn.add %a, %b : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %y : tensor<2x4x8x16xf32>
}
