// A dropout of the weights becomes the attention's; one between a collapse and its inverse goes behind both.
// RUN: tessera-opt %s --tessera-normalize | FileCheck %s

// CHECK-LABEL: func.func @attention
// CHECK-SAME: %[[KEY:[a-z0-9]+]]: tensor<i64>
// CHECK-NOT: nn.softmax
// CHECK-NOT: nn.dropout
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[KEY]] {id = 3 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1>, ratio = 1.000000e-01 : f64
func.func @attention(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x8x16xf32>, %v: tensor<2x4x8x16xf32>, %key: tensor<i64>) -> tensor<2x4x8x16xf32> {
  %s = nn.contract %q, %k {lhs_letters = "bhsd", rhs_letters = "bhtd", out_letters = "bhst"} : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x8xf32>
  %p = nn.softmax %s : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %d = nn.dropout %p, %key {ratio = 0.1, id = 3 : i64} : (tensor<2x4x8x8xf32>, tensor<i64>) -> tensor<2x4x8x8xf32>
  %o = nn.contract %d, %v {lhs_letters = "bhst", rhs_letters = "bhtd", out_letters = "bhsd"} : (tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %o : tensor<2x4x8x16xf32>
}

// CHECK-LABEL: func.func @reshapes
// CHECK-NOT: nn.reshape
// CHECK: nn.dropout %arg0, %arg1 {{.*}} : (tensor<2x4x8xf32>, tensor<i64>) -> tensor<2x4x8xf32>
func.func @reshapes(%x: tensor<2x4x8xf32>, %key: tensor<i64>) -> tensor<2x4x8xf32> {
  %r = nn.reshape %x : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
  %d = nn.dropout %r, %key {ratio = 0.1, id = 3 : i64} : (tensor<8x8xf32>, tensor<i64>) -> tensor<8x8xf32>
  %y = nn.reshape %d : (tensor<8x8xf32>) -> tensor<2x4x8xf32>
  return %y : tensor<2x4x8xf32>
}

// Behind a transpose elements would have other numbers.
// CHECK-LABEL: func.func @transpose
// CHECK: %[[T:.*]] = nn.transpose
// CHECK: nn.dropout %[[T]]
func.func @transpose(%x: tensor<2x4xf32>, %key: tensor<i64>) -> tensor<2x4xf32> {
  %t = nn.transpose %x {perm = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %d = nn.dropout %t, %key {ratio = 0.1, id = 3 : i64} : (tensor<4x2xf32>, tensor<i64>) -> tensor<4x2xf32>
  %y = nn.transpose %d {perm = array<i64: 1, 0>} : (tensor<4x2xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
