// In a causal ring positions are held in zig-zag order, wherever they occur: inputs, variables, what is computed. Not where they do not
// divide into chunks, where an operator needs neighbours, or where nothing is causal.
// RUN: tessera-opt %s --split-input-file --tessera-propagate --tessera-verify-layouts | FileCheck %s
// RUN: tessera-opt %s --split-input-file --tessera-propagate -o /dev/null 2>&1 | FileCheck %s --check-prefix=WARN
// WARN: warning: tokens of a causal ring of 4 ranks stay in order, because another operator needs them so; the last rank has 1.8 times the mean rank's attention to compute
// WARN: warning: tokens of a causal ring of 4 ranks stay in order, because 8 does not divide the 12 of them, which a zig-zag order would take; the last rank has 1.8 times
// WARN-NOT: stay in order

// CHECK-LABEL: module @causal
// CHECK: nn.variable @position : tensor<16x2x4xf32, #dist.layout<{{\[\[}}16 zigzag 4 : "seq"=4], [2], [4]]>>
// CHECK: func.func @infer(%{{.*}}: tensor<2x16x2x4xf32, #dist.layout<{{\[\[}}2], [16 zigzag 4 : "seq"=4], [2], [4]]>>
// CHECK: nn.attention
module @causal {
  dist.mesh @mesh = <["seq"=4]>
  nn.variable @position : tensor<16x2x4xf32> {role = "parameter", trained = true}
  func.func @infer(%x: tensor<2x16x2x4xf32> {nn.name = "x", dist.split = [[], ["seq"], [], []]}) -> tensor<2x16x2x1x4xf32> {
    %p = nn.read @position : tensor<16x2x4xf32>
    %k = nn.add %x, %p : (tensor<2x16x2x4xf32>, tensor<16x2x4xf32>) -> tensor<2x16x2x4xf32>
    %q = nn.reshape %k : (tensor<2x16x2x4xf32>) -> tensor<2x16x2x1x4xf32>
    %o, %lse = nn.attention %q, %k, %k {causal = true, dist.pattern = #dist.pattern<"ring", ["seq"]>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.5 : f64} : (tensor<2x16x2x1x4xf32>, tensor<2x16x2x4xf32>, tensor<2x16x2x4xf32>) -> (tensor<2x16x2x1x4xf32>, tensor<2x16x2x1xf32>)
    return %o : tensor<2x16x2x1x4xf32>
  }
}

// -----

// CHECK-LABEL: module @neighbours
// CHECK-NOT: zigzag
module @neighbours {
  dist.mesh @mesh = <["seq"=4]>
  func.func @infer(%x: tensor<2x16x2x4xf32> {nn.name = "x", dist.split = [[], ["seq"], [], []]}) -> tensor<2x1x2x1x4xf32> {
    %q = nn.reshape %x : (tensor<2x16x2x4xf32>) -> tensor<2x16x2x1x4xf32>
    %o, %lse = nn.attention %q, %x, %x {causal = true, dist.pattern = #dist.pattern<"ring", ["seq"]>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.5 : f64} : (tensor<2x16x2x1x4xf32>, tensor<2x16x2x4xf32>, tensor<2x16x2x4xf32>) -> (tensor<2x16x2x1x4xf32>, tensor<2x16x2x1xf32>)
    %last = nn.slice %o {sizes = array<i64: 2, 1, 2, 1, 4>, starts = array<i64: 0, 15, 0, 0, 0>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x16x2x1x4xf32>) -> tensor<2x1x2x1x4xf32>
    return %last : tensor<2x1x2x1x4xf32>
  }
}

// -----

// CHECK-LABEL: module @odd
// CHECK-NOT: zigzag
module @odd {
  dist.mesh @mesh = <["seq"=4]>
  func.func @infer(%x: tensor<2x12x2x4xf32> {nn.name = "x", dist.split = [[], ["seq"], [], []]}) -> tensor<2x12x2x1x4xf32> {
    %q = nn.reshape %x : (tensor<2x12x2x4xf32>) -> tensor<2x12x2x1x4xf32>
    %o, %lse = nn.attention %q, %x, %x {causal = true, dist.pattern = #dist.pattern<"ring", ["seq"]>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.5 : f64} : (tensor<2x12x2x1x4xf32>, tensor<2x12x2x4xf32>, tensor<2x12x2x4xf32>) -> (tensor<2x12x2x1x4xf32>, tensor<2x12x2x1xf32>)
    return %o : tensor<2x12x2x1x4xf32>
  }
}

// -----

// CHECK-LABEL: module @bidirectional
// CHECK-NOT: zigzag
module @bidirectional {
  dist.mesh @mesh = <["seq"=4]>
  func.func @infer(%x: tensor<2x16x2x4xf32> {nn.name = "x", dist.split = [[], ["seq"], [], []]}) -> tensor<2x16x2x1x4xf32> {
    %q = nn.reshape %x : (tensor<2x16x2x4xf32>) -> tensor<2x16x2x1x4xf32>
    %o, %lse = nn.attention %q, %x, %x {dist.pattern = #dist.pattern<"ring", ["seq"]>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.5 : f64} : (tensor<2x16x2x1x4xf32>, tensor<2x16x2x4xf32>, tensor<2x16x2x4xf32>) -> (tensor<2x16x2x1x4xf32>, tensor<2x16x2x1xf32>)
    return %o : tensor<2x16x2x1x4xf32>
  }
}

// -----

// Numbers that tell positions are held in the same order.
// CHECK-LABEL: module @positions
// CHECK: nn.iota {{.*}} -> tensor<8xf32, #dist.layout<{{\[\[}}8 zigzag 2 : "seq"=2]]>>
module @positions {
  dist.mesh @mesh = <["seq"=2]>
  func.func @infer(%x: tensor<8x2xf32> {nn.name = "x", dist.split = [["seq"], []]}) -> tensor<1x8x2x1x1xf32> {
    %i = nn.iota {dim = 0 : i64} : () -> tensor<8xf32>
    %c = nn.reshape %i : (tensor<8xf32>) -> tensor<8x1xf32>
    %y = nn.add %x, %c : (tensor<8x2xf32>, tensor<8x1xf32>) -> tensor<8x2xf32>
    %k = nn.reshape %y : (tensor<8x2xf32>) -> tensor<1x8x2x1xf32>
    %q = nn.reshape %y : (tensor<8x2xf32>) -> tensor<1x8x2x1x1xf32>
    %o, %lse = nn.attention %q, %k, %k {causal = true, dist.pattern = #dist.pattern<"ring", ["seq"]>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.5 : f64} : (tensor<1x8x2x1x1xf32>, tensor<1x8x2x1xf32>, tensor<1x8x2x1xf32>) -> (tensor<1x8x2x1x1xf32>, tensor<1x8x2x1xf32>)
    return %o : tensor<1x8x2x1x1xf32>
  }
}
