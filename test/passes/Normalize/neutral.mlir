// Operators that change no number go; one that changes the sign of a zero stays.
// RUN: tessera-opt %s -split-input-file -tessera-normalize | FileCheck %s

// CHECK-LABEL: @dropped
// CHECK-NEXT: return %arg0, %arg1 :
func.func @dropped(%x: tensor<4xf32>, %i: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xi64>) {
  %zero = nn.constant dense<0.0> : tensor<f32> : tensor<f32>
  %minusZero = nn.constant dense<-0.0> : tensor<f32> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %nothing = nn.constant dense<0> : tensor<i64> : tensor<i64>
  %0 = nn.add %x, %minusZero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = nn.add %minusZero, %0 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.sub %1, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = nn.mul %one, %2 : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = nn.div %3, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %5 = nn.add %i, %nothing : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
  %6 = nn.sub %5, %nothing : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
  return %4, %6 : tensor<4xf32>, tensor<4xi64>
}

// -----

// -0 + 0 and -0 - (-0) are 0, and 0 x is NaN where x is infinite.
// CHECK-LABEL: @kept
// CHECK: nn.add %arg0
// CHECK: nn.add {{.*}}, %arg0
// CHECK: nn.sub %arg0
// CHECK: nn.mul %arg0
func.func @kept(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = nn.constant dense<0.0> : tensor<f32> : tensor<f32>
  %minusZero = nn.constant dense<-0.0> : tensor<f32> : tensor<f32>
  %0 = nn.add %x, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = nn.add %zero, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.sub %x, %minusZero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = nn.mul %x, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Which zero a sum of products is nobody says.
// CHECK-LABEL: @bias_of_zeros
// CHECK-NEXT: %[[Y:.*]] = nn.contract
// CHECK-NEXT: return %[[Y]]
func.func @bias_of_zeros(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %y = nn.contract %x, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %bias = nn.constant dense<0.0> : tensor<6xf32> : tensor<6xf32>
  %b = nn.add %y, %bias : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  return %b : tensor<4x6xf32>
}
