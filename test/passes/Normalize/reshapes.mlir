// RUN: tessera-opt %s -split-input-file -tessera-normalize | FileCheck %s

// A linear layer on flattened rows becomes one on batch and sequence.
// CHECK-LABEL: @linear_on_flattened_rows
// CHECK-NEXT: %[[P:.*]] = nn.contract %arg0, %arg1 {lhs_letters = "bsi", out_letters = "bso", rhs_letters = "io"}
// CHECK-NEXT: %[[Y:.*]] = nn.add %[[P]], %arg2
// CHECK-NEXT: return %[[Y]]
func.func @linear_on_flattened_rows(%x: tensor<2x8x16xf32>, %w: tensor<16x32xf32>, %b: tensor<32xf32>) -> tensor<2x8x32xf32> {
  %flat = nn.reshape %x : (tensor<2x8x16xf32>) -> tensor<16x16xf32>
  %p = nn.contract %flat, %w {lhs_letters = "si", rhs_letters = "io", out_letters = "so"} : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
  %s = nn.add %p, %b : (tensor<16x32xf32>, tensor<32xf32>) -> tensor<16x32xf32>
  %y = nn.reshape %s : (tensor<16x32xf32>) -> tensor<2x8x32xf32>
  return %y : tensor<2x8x32xf32>
}

// -----

// Rows and heads are merged at once: the rows come apart, the summed heads stay merged.
// CHECK-LABEL: @merged_heads
// CHECK-NEXT: %[[X:.*]] = nn.reshape %arg0 : (tensor<2x8x4x16xf32>) -> tensor<2x8x64xf32>
// CHECK-NEXT: %[[Y:.*]] = nn.contract %[[X]], %arg1 {lhs_letters = "bsi", out_letters = "bso", rhs_letters = "io"}
// CHECK-NEXT: return %[[Y]]
func.func @merged_heads(%x: tensor<2x8x4x16xf32>, %w: tensor<64x32xf32>) -> tensor<2x8x32xf32> {
  %flat = nn.reshape %x : (tensor<2x8x4x16xf32>) -> tensor<16x64xf32>
  %p = nn.contract %flat, %w {lhs_letters = "si", rhs_letters = "io", out_letters = "so"} : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  %y = nn.reshape %p : (tensor<16x32xf32>) -> tensor<2x8x32xf32>
  return %y : tensor<2x8x32xf32>
}

// -----

// CHECK-LABEL: @transposed_weight
// CHECK-NEXT: %[[Y:.*]] = nn.contract %arg0, %arg1 {lhs_letters = "bsi", out_letters = "bso", rhs_letters = "oi"}
// CHECK-NEXT: return %[[Y]]
func.func @transposed_weight(%x: tensor<2x8x16xf32>, %w: tensor<32x16xf32>) -> tensor<2x8x32xf32> {
  %t = nn.transpose %w {perm = array<i64: 1, 0>} : (tensor<32x16xf32>) -> tensor<16x32xf32>
  %p = nn.contract %x, %t {lhs_letters = "bsi", rhs_letters = "io", out_letters = "bso"} : (tensor<2x8x16xf32>, tensor<16x32xf32>) -> tensor<2x8x32xf32>
  return %p : tensor<2x8x32xf32>
}

// -----

// A reshape that cuts across dimensions stays where it is.
// CHECK-LABEL: @cutting_across
// CHECK-NEXT: %[[R:.*]] = nn.reshape %arg0
// CHECK-NEXT: nn.relu %[[R]]
func.func @cutting_across(%x: tensor<6x4xf32>) -> tensor<8x3xf32> {
  %r = nn.reshape %x : (tensor<6x4xf32>) -> tensor<8x3xf32>
  %y = nn.relu %r : (tensor<8x3xf32>) -> tensor<8x3xf32>
  return %y : tensor<8x3xf32>
}

// -----

// Cutting comes before transposing, and a transpose that only moves a dimension of size 1 is a reshape.
// CHECK-LABEL: @slice_of_transpose
// CHECK-NEXT: %[[S:.*]] = nn.slice %arg0 {sizes = array<i64: 2, 8, 1, 16>, starts = array<i64: 0, 0, 4, 0>
// CHECK-NEXT: %[[R:.*]] = nn.reshape %[[S]] : (tensor<2x8x1x16xf32>) -> tensor<1x2x8x16xf32>
// CHECK-NEXT: return %[[R]]
func.func @slice_of_transpose(%x: tensor<2x8x6x16xf32>) -> tensor<1x2x8x16xf32> {
  %t = nn.transpose %x {perm = array<i64: 2, 0, 1, 3>} : (tensor<2x8x6x16xf32>) -> tensor<6x2x8x16xf32>
  %s = nn.slice %t {starts = array<i64: 4, 0, 0, 0>, sizes = array<i64: 1, 2, 8, 16>, steps = array<i64: 1, 1, 1, 1>} : (tensor<6x2x8x16xf32>) -> tensor<1x2x8x16xf32>
  return %s : tensor<1x2x8x16xf32>
}

// -----

// CHECK-LABEL: @ones_between_transposes
// CHECK-NEXT: return %arg0
func.func @ones_between_transposes(%x: tensor<2x8x1x16xf32>) -> tensor<2x8x1x16xf32> {
  %t = nn.transpose %x {perm = array<i64: 0, 2, 3, 1>} : (tensor<2x8x1x16xf32>) -> tensor<2x1x16x8xf32>
  %r = nn.reshape %t : (tensor<2x1x16x8xf32>) -> tensor<2x16x8x1xf32>
  %y = nn.transpose %r {perm = array<i64: 0, 2, 3, 1>} : (tensor<2x16x8x1xf32>) -> tensor<2x8x1x16xf32>
  return %y : tensor<2x8x1x16xf32>
}

// -----

// A packed weight for queries, and for keys and values: one and two of three equal parts.
// CHECK-LABEL: @parts
// CHECK: %[[P:.*]] = nn.reshape %arg0 : (tensor<96x32xf32>) -> tensor<3x32x32xf32>
// CHECK: nn.slice %[[P]] {sizes = array<i64: 1, 32, 32>, starts = array<i64: 0, 0, 0>
// CHECK: nn.slice %[[P]] {sizes = array<i64: 2, 32, 32>, starts = array<i64: 1, 0, 0>
// CHECK: nn.slice %arg0 {sizes = array<i64: 95, 32>
func.func @parts(%w: tensor<96x32xf32>) -> (tensor<32x32xf32>, tensor<64x32xf32>, tensor<95x32xf32>) {
  %q = nn.slice %w {sizes = array<i64: 32, 32>, starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} : (tensor<96x32xf32>) -> tensor<32x32xf32>
  %kv = nn.slice %w {sizes = array<i64: 64, 32>, starts = array<i64: 32, 0>, steps = array<i64: 1, 1>} : (tensor<96x32xf32>) -> tensor<64x32xf32>
  %rest = nn.slice %w {sizes = array<i64: 95, 32>, starts = array<i64: 1, 0>, steps = array<i64: 1, 1>} : (tensor<96x32xf32>) -> tensor<95x32xf32>
  return %q, %kv, %rest : tensor<32x32xf32>, tensor<64x32xf32>, tensor<95x32xf32>
}
