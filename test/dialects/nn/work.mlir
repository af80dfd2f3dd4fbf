// What operators do, for estimates of time: nn::workOf.
// RUN: tessera-opt %s --tessera-print-work -o /dev/null | FileCheck %s

func.func @classes(%x: tensor<4x8xf32>, %w: tensor<8x6xbf16>, %h: tensor<4x8xbf16>, %ids: tensor<4xi64>, %p: tensor<f32>, %t: tensor<100x16xf32>) {
  // Every element by itself; rows as a whole.
  // CHECK: nn.add: stream, 0 flops, 384 bytes
  %0 = nn.add %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: nn.softmax: row, 0 flops, 256 bytes
  %1 = nn.softmax %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // A multiplication and an addition for every position of every letter.
  // CHECK-NEXT: nn.contract: product, 384 half flops, 208 bytes, 1 of 4 x 6 x 8
  %2 = nn.contract %h, %w {lhs_letters = "ab", rhs_letters = "bc", out_letters = "ac"} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xbf16>
  // CHECK-NEXT: nn.gather: gather, 0 flops, 288 bytes
  %3 = nn.gather %x, %ids : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  // CHECK-NEXT: nn.scatter_add: gather, 32 flops, 288 bytes
  %4 = nn.scatter_add %ids, %x : (tensor<4xi64>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // Of the table and of what is sliced only as much is read as comes out.
  // CHECK-NEXT: nn.gather: gather, 0 flops, 544 bytes
  %6 = nn.gather %t, %ids : (tensor<100x16xf32>, tensor<4xi64>) -> tensor<4x16xf32>
  // CHECK-NEXT: nn.slice: stream, 0 flops, 64 bytes
  %7 = nn.slice %x {starts = array<i64: 1, 2>, sizes = array<i64: 2, 4>, steps = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: nn.sum_squares: row, 64 flops, 132 bytes
  %5 = nn.sum_squares %x : (tensor<4x8xf32>) -> tensor<f32>
  return
}

func.func @attention(%q: tensor<2x16x2x1x8xf32>, %k: tensor<2x16x2x8xf32>) {
  // Two products of 2 x 2 x 16 x 16 x 8 multiply-adds; a causal one does half of them, its gradient five.
  // CHECK: nn.attention: attention, 32768 flops, 8448 bytes, 4 of 16 x 16 x 8
  %o, %lse = nn.attention %q, %k, %k {scale = 1.0, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>} : (tensor<2x16x2x1x8xf32>, tensor<2x16x2x8xf32>, tensor<2x16x2x8xf32>) -> (tensor<2x16x2x1x8xf32>, tensor<2x16x2x1xf32>)
  // CHECK-NEXT: nn.attention: attention, 16384 flops, 8448 bytes, 4 of 16 x 8 x 8
  %c, %clse = nn.attention %q, %k, %k {scale = 1.0, causal = true, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>} : (tensor<2x16x2x1x8xf32>, tensor<2x16x2x8xf32>, tensor<2x16x2x8xf32>) -> (tensor<2x16x2x1x8xf32>, tensor<2x16x2x1xf32>)
  return
}

func.func @convolution(%x: tensor<2x2x6xf32>, %w: tensor<4x2x3xf32>) {
  // CHECK: nn.conv: convolution, 384 flops, 320 bytes, 2 of 4 x 4 x 6
  %y = nn.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1 : i64} : (tensor<2x2x6xf32>, tensor<4x2x3xf32>) -> tensor<2x4x4xf32>
  return
}

// A part of a product does its part of the work.
func.func @panel(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) {
  // CHECK: nn.contract_panel: product, 96 flops, 416 bytes, 1 of 4 x 6 x 2
  %0 = nn.contract_panel %x, %w over "b" size 2 at [4, 4, 0] {lhs_letters = "ab", rhs_letters = "bc", out_letters = "ac"} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  // CHECK-NEXT: nn.fused_contract: product, 384 flops, 416 bytes, 1 of 4 x 6 x 8
  %1 = nn.fused_contract %x, %w {activation = "relu", lhs_letters = "ab", rhs_letters = "bc", out_letters = "ac", operandSegmentSizes = array<i32: 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0>} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return
}
