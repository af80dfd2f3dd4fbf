// Unless told, products go by panels where that takes less time by the cost model.
// RUN: tessera-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(tessera-stream-contractions))" | FileCheck %s

// Large, over four ranks: most of the gather hides behind the products.
// CHECK-LABEL: func.func @large
// CHECK-NOT: all_gather
// CHECK-COUNT-4: nn.contract_panel
// CHECK: return
func.func @large(%x: tensor<1024x4096xf32>, %w: tensor<16384x512xf32>) -> tensor<1024x512xf32> {
  %0 = dist.collective all_gather %x over <"t"=4> shape [1024, 4096] concat 1 : tensor<1024x4096xf32> -> tensor<1024x16384xf32>
  %1 = nn.contract %0, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<1024x16384xf32>, tensor<16384x512xf32>) -> tensor<1024x512xf32>
  return %1 : tensor<1024x512xf32>
}

// A large sum is read and written again with every panel, which takes longer than what is hidden.
// CHECK-LABEL: func.func @large_sum
// CHECK: all_gather
// CHECK-NEXT: nn.contract %
func.func @large_sum(%x: tensor<4096x1024xf32>, %w: tensor<4096x4096xf32>) -> tensor<4096x4096xf32> {
  %0 = dist.collective all_gather %x over <"t"=4> shape [4096, 1024] concat 1 : tensor<4096x1024xf32> -> tensor<4096x4096xf32>
  %1 = nn.contract %0, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  return %1 : tensor<4096x4096xf32>
}

// Places of a result are written once; the parameter is read with every panel.
// CHECK-LABEL: func.func @large_places
// CHECK-NOT: all_gather
// CHECK-COUNT-4: nn.contract_panel
// CHECK: return
func.func @large_places(%x: tensor<1024x4096xf32>, %w: tensor<4096x1024xf32>) -> tensor<4096x1024xf32> {
  %0 = dist.collective all_gather %x over <"t"=4> shape [1024, 4096] concat 0 : tensor<1024x4096xf32> -> tensor<4096x4096xf32>
  %1 = nn.contract %0, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<4096x4096xf32>, tensor<4096x1024xf32>) -> tensor<4096x1024xf32>
  return %1 : tensor<4096x1024xf32>
}

// A large one takes longer than what is hidden.
// CHECK-LABEL: func.func @large_parameter
// CHECK: all_gather
// CHECK-NEXT: nn.contract %
func.func @large_parameter(%x: tensor<1024x4096xf32>, %w: tensor<4096x4096xf32>) -> tensor<4096x4096xf32> {
  %0 = dist.collective all_gather %x over <"t"=4> shape [1024, 4096] concat 0 : tensor<1024x4096xf32> -> tensor<4096x4096xf32>
  %1 = nn.contract %0, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  return %1 : tensor<4096x4096xf32>
}

// Small: starting four broadcasts takes longer than the gather.
// CHECK-LABEL: func.func @small
// CHECK: all_gather
// CHECK-NEXT: nn.contract %
func.func @small(%x: tensor<8x16xf32>, %w: tensor<64x32xf32>) -> tensor<8x32xf32> {
  %0 = dist.collective all_gather %x over <"t"=4> shape [8, 16] concat 1 : tensor<8x16xf32> -> tensor<8x64xf32>
  %1 = nn.contract %0, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  return %1 : tensor<8x32xf32>
}

// Over two ranks a gather sends both blocks at once, two broadcasts one after the other.
// CHECK-LABEL: func.func @two_ranks
// CHECK: all_gather
// CHECK-NEXT: nn.contract %
func.func @two_ranks(%x: tensor<4096x2048xf32>, %w: tensor<4096x4096xf32>) -> tensor<4096x4096xf32> {
  %0 = dist.collective all_gather %x over <"t"=2> shape [4096, 2048] concat 1 : tensor<4096x2048xf32> -> tensor<4096x4096xf32>
  %1 = nn.contract %0, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  return %1 : tensor<4096x4096xf32>
}

// -----

module attributes {dist.stream = #dist<when never>} {
// CHECK-LABEL: func.func @told_not_to
// CHECK: all_gather
// CHECK-NEXT: nn.contract %
func.func @told_not_to(%x: tensor<4096x1024xf32>, %w: tensor<4096x4096xf32>) -> tensor<4096x4096xf32> {
  %0 = dist.collective all_gather %x over <"t"=4> shape [4096, 1024] concat 1 : tensor<4096x1024xf32> -> tensor<4096x4096xf32>
  %1 = nn.contract %0, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  return %1 : tensor<4096x4096xf32>
}
}
