// RUN: tessera-opt %s -split-input-file -tessera-normalize | FileCheck %s

// Causal and padding in one condition: the padding alone remains, one row a sample.
// CHECK-LABEL: @causal_and_padding
// CHECK: %[[M:.*]] = nn.reshape %arg3 : (tensor<2x8xi1>) -> tensor<2x1x1x1x8xi1>
// CHECK: %[[B:.*]] = nn.select %[[M]], {{.*}} -> tensor<2x1x1x1x8xf32>
// CHECK: nn.attention %arg0, %arg1, %arg2, %[[B]] {causal = true
func.func @causal_and_padding(%q: tensor<2x8x4x1x16xf32>, %k: tensor<2x8x4x16xf32>, %v: tensor<2x8x4x16xf32>, %m: tensor<2x8xi1>) -> tensor<2x8x4x1x16xf32> {
  %pad = nn.reshape %m : (tensor<2x8xi1>) -> tensor<2x1x1x8xi1>
  %i = nn.iota {dim = 2 : i64} : () -> tensor<1x1x8x1xi64>
  %j = nn.iota {dim = 3 : i64} : () -> tensor<1x1x1x8xi64>
  %causal = nn.compare %i, %j {predicate = "ge"} : (tensor<1x1x8x1xi64>, tensor<1x1x1x8xi64>) -> tensor<1x1x8x8xi1>
  %both = nn.and %causal, %pad : (tensor<1x1x8x8xi1>, tensor<2x1x1x8xi1>) -> tensor<2x1x8x8xi1>
  %zero = nn.constant dense<0.0> : tensor<f32> : tensor<f32>
  %low = nn.constant dense<0xFF800000> : tensor<f32> : tensor<f32>
  %mask = nn.select %both, %zero, %low : (tensor<2x1x8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x8x8xf32>
  %bias = nn.reshape %mask : (tensor<2x1x8x8xf32>) -> tensor<2x1x1x8x8xf32>
  %o, %lse = nn.attention %q, %k, %v, %bias {scale = 0.25 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : (tensor<2x8x4x1x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x1x1x8x8xf32>) -> (tensor<2x8x4x1x16xf32>, tensor<2x8x4x1xf32>)
  return %o : tensor<2x8x4x1x16xf32>
}

// -----

// CHECK-LABEL: @all_zero
// CHECK: nn.attention %arg0, %arg1, %arg2 {
func.func @all_zero(%q: tensor<2x8x4x1x16xf32>, %k: tensor<2x8x4x16xf32>, %v: tensor<2x8x4x16xf32>) -> tensor<2x8x4x1x16xf32> {
  %bias = nn.constant dense<0.0> : tensor<2x1x1x8x8xf32> : tensor<2x1x1x8x8xf32>
  %o, %lse = nn.attention %q, %k, %v, %bias {scale = 0.25 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : (tensor<2x8x4x1x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x1x1x8x8xf32>) -> (tensor<2x8x4x1x16xf32>, tensor<2x8x4x1xf32>)
  return %o : tensor<2x8x4x1x16xf32>
}

// -----

// Fewer queries than keys: causal is counted from the end. One off is another mask.
// CHECK-LABEL: @offset
// CHECK: nn.attention %arg0, %arg1, %arg2 {causal = true
// CHECK: nn.attention %arg0, %arg1, %arg2, %{{.*}} {operandSegmentSizes
func.func @offset(%q: tensor<2x4x4x1x16xf32>, %k: tensor<2x8x4x16xf32>, %v: tensor<2x8x4x16xf32>) -> (tensor<2x4x4x1x16xf32>, tensor<2x4x4x1x16xf32>) {
  %i = nn.iota {dim = 3 : i64} : () -> tensor<1x1x1x4x1xi64>
  %j = nn.iota {dim = 4 : i64} : () -> tensor<1x1x1x1x8xi64>
  %four = nn.constant dense<4> : tensor<i64> : tensor<i64>
  %five = nn.constant dense<5> : tensor<i64> : tensor<i64>
  %zero = nn.constant dense<0.0> : tensor<f32> : tensor<f32>
  %low = nn.constant dense<-1.0e30> : tensor<f32> : tensor<f32>
  %i4 = nn.add %i, %four : (tensor<1x1x1x4x1xi64>, tensor<i64>) -> tensor<1x1x1x4x1xi64>
  %i5 = nn.add %i, %five : (tensor<1x1x1x4x1xi64>, tensor<i64>) -> tensor<1x1x1x4x1xi64>
  %c4 = nn.compare %j, %i4 {predicate = "le"} : (tensor<1x1x1x1x8xi64>, tensor<1x1x1x4x1xi64>) -> tensor<1x1x1x4x8xi1>
  %c5 = nn.compare %j, %i5 {predicate = "le"} : (tensor<1x1x1x1x8xi64>, tensor<1x1x1x4x1xi64>) -> tensor<1x1x1x4x8xi1>
  %b4 = nn.select %c4, %zero, %low : (tensor<1x1x1x4x8xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x1x4x8xf32>
  %b5 = nn.select %c5, %zero, %low : (tensor<1x1x1x4x8xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x1x4x8xf32>
  %o4, %lse4 = nn.attention %q, %k, %v, %b4 {scale = 0.25 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : (tensor<2x4x4x1x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<1x1x1x4x8xf32>) -> (tensor<2x4x4x1x16xf32>, tensor<2x4x4x1xf32>)
  %o5, %lse5 = nn.attention %q, %k, %v, %b5 {scale = 0.25 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : (tensor<2x4x4x1x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<1x1x1x4x8xf32>) -> (tensor<2x4x4x1x16xf32>, tensor<2x4x4x1xf32>)
  return %o4, %o5 : tensor<2x4x4x1x16xf32>, tensor<2x4x4x1x16xf32>
}

// -----

// A bias that is no mask (ALiBi) stays what it is.
// CHECK-LABEL: @other_bias
// CHECK: nn.attention %arg0, %arg1, %arg2, %arg3 {operandSegmentSizes
func.func @other_bias(%q: tensor<2x8x4x1x16xf32>, %k: tensor<2x8x4x16xf32>, %v: tensor<2x8x4x16xf32>, %b: tensor<1x4x1x1x8xf32>) -> tensor<2x8x4x1x16xf32> {
  %o, %lse = nn.attention %q, %k, %v, %b {scale = 0.25 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : (tensor<2x8x4x1x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<1x4x1x1x8xf32>) -> (tensor<2x8x4x1x16xf32>, tensor<2x8x4x1xf32>)
  return %o : tensor<2x8x4x1x16xf32>
}

// -----

// A buffer that held a mask disappears with its last use; parameters stay.
// CHECK-NOT: @unused
// CHECK: nn.variable @kept
nn.variable @unused : tensor<512xf32> {role = "buffer"}
nn.variable @kept : tensor<512xf32> {role = "parameter"}
func.func @buffers(%x: tensor<512xf32>) -> tensor<512xf32> {
  %dead = nn.read @unused : tensor<512xf32>
  return %x : tensor<512xf32>
}
