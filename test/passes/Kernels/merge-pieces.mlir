// Gradients of slices are put side by side instead of being padded and added.
// RUN: tessera-opt %s --tessera-merge-pieces | FileCheck %s

// CHECK-LABEL: func.func @whole(
// CHECK-NEXT: %[[C:.*]] = nn.concat %arg1, %arg0, %arg2 {dim = 1 : i64}
// CHECK-NEXT: return %[[C]]
func.func @whole(%b: tensor<2x1x4xf32>, %a: tensor<2x2x4xf32>, %c: tensor<2x1x4xf32>) -> tensor<2x4x4xf32> {
  %p = nn.pad %b {low = array<i64: 0, 2, 0>, high = array<i64: 0, 1, 0>, interior = array<i64: 0, 0, 0>} : (tensor<2x1x4xf32>) -> tensor<2x4x4xf32>
  %q = nn.pad %a {low = array<i64: 0, 0, 0>, high = array<i64: 0, 2, 0>, interior = array<i64: 0, 0, 0>} : (tensor<2x2x4xf32>) -> tensor<2x4x4xf32>
  %r = nn.pad %c {low = array<i64: 0, 3, 0>, high = array<i64: 0, 0, 0>, interior = array<i64: 0, 0, 0>} : (tensor<2x1x4xf32>) -> tensor<2x4x4xf32>
  %s = nn.acc %p, %q, %r : (tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  return %s : tensor<2x4x4xf32>
}

// Another term stays a term.
// CHECK-LABEL: func.func @more(
// CHECK-NEXT: %[[C:.*]] = nn.concat %arg0, %arg1 {dim = 0 : i64}
// CHECK-NEXT: nn.acc %[[C]], %arg2
func.func @more(%a: tensor<1x4xf32>, %b: tensor<1x4xf32>, %x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %p = nn.pad %a {low = array<i64: 0, 0>, high = array<i64: 1, 0>, interior = array<i64: 0, 0>} : (tensor<1x4xf32>) -> tensor<2x4xf32>
  %q = nn.pad %b {low = array<i64: 1, 0>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>} : (tensor<1x4xf32>) -> tensor<2x4xf32>
  %s = nn.acc %p, %x, %q : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %s : tensor<2x4xf32>
}

// A gap, an overlap and padding with something else are sums.
// CHECK-LABEL: func.func @gap(
// CHECK-NOT: nn.concat
// CHECK: return
func.func @gap(%a: tensor<1x4xf32>, %b: tensor<2x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) {
  %p = nn.pad %a {low = array<i64: 0, 0>, high = array<i64: 2, 0>, interior = array<i64: 0, 0>} : (tensor<1x4xf32>) -> tensor<3x4xf32>
  %q = nn.pad %a {low = array<i64: 2, 0>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>} : (tensor<1x4xf32>) -> tensor<3x4xf32>
  %s = nn.acc %p, %q : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %r = nn.pad %b {low = array<i64: 0, 0>, high = array<i64: 1, 0>, interior = array<i64: 0, 0>} : (tensor<2x4xf32>) -> tensor<3x4xf32>
  %t = nn.pad %b {low = array<i64: 1, 0>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>} : (tensor<2x4xf32>) -> tensor<3x4xf32>
  %u = nn.acc %r, %t : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %v = nn.pad %b {low = array<i64: 0, 0>, high = array<i64: 1, 0>, interior = array<i64: 0, 0>} : (tensor<2x4xf32>) -> tensor<3x4xf32>
  %w = nn.pad %a {low = array<i64: 2, 0>, high = array<i64: 0, 0>, interior = array<i64: 0, 0>, value = 1.0 : f64} : (tensor<1x4xf32>) -> tensor<3x4xf32>
  %x = nn.acc %v, %w : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %s, %u, %x : tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
}
