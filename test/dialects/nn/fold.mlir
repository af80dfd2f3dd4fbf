// RUN: tessera-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: @reshapes
// CHECK-NEXT: %[[R:.*]] = nn.reshape %arg0 : (tensor<2x6xf32>) -> tensor<4x3xf32>
// CHECK-NEXT: return %[[R]], %arg0
func.func @reshapes(%x: tensor<2x6xf32>) -> (tensor<4x3xf32>, tensor<2x6xf32>) {
  %0 = nn.reshape %x : (tensor<2x6xf32>) -> tensor<12xf32>
  %1 = nn.reshape %0 : (tensor<12xf32>) -> tensor<4x3xf32>
  %2 = nn.reshape %0 : (tensor<12xf32>) -> tensor<2x6xf32>
  return %1, %2 : tensor<4x3xf32>, tensor<2x6xf32>
}

// CHECK-LABEL: @transposes
// CHECK-NEXT: %[[T:.*]] = nn.transpose %arg0 {perm = array<i64: 2, 1, 0>} : (tensor<2x3x4xf32>) -> tensor<4x3x2xf32>
// CHECK-NEXT: return %[[T]], %arg0
func.func @transposes(%x: tensor<2x3x4xf32>) -> (tensor<4x3x2xf32>, tensor<2x3x4xf32>) {
  %0 = nn.transpose %x {perm = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %1 = nn.transpose %0 {perm = array<i64: 0, 2, 1>} : (tensor<4x2x3xf32>) -> tensor<4x3x2xf32>
  %2 = nn.transpose %0 {perm = array<i64: 1, 2, 0>} : (tensor<4x2x3xf32>) -> tensor<2x3x4xf32>
  return %1, %2 : tensor<4x3x2xf32>, tensor<2x3x4xf32>
}

// CHECK-LABEL: @slices
// CHECK-DAG: %[[C:.*]] = nn.constant dense<[2, 4]> : tensor<2xi64> : tensor<2xi64>
// CHECK: return %arg0, %[[C]]
func.func @slices(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2xi64>) {
  %0 = nn.slice %x {starts = array<i64: 0, 0>, sizes = array<i64: 2, 3>, steps = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %c = nn.constant dense<[1, 2, 3, 4]> : tensor<4xi64> : tensor<4xi64>
  %1 = nn.slice %c {starts = array<i64: 1>, sizes = array<i64: 2>, steps = array<i64: 2>} : (tensor<4xi64>) -> tensor<2xi64>
  return %0, %1 : tensor<2x3xf32>, tensor<2xi64>
}
