// Products around an attention are paired before what feeds them: one that widens the embeddings, whose columns the queries', keys' and values'
// products sum over, leaves these to the attention. Keys and values may be a part of one weight with the queries.
// RUN: tessera-opt %s --tessera-assign="tp=2" --mlir-print-local-scope | FileCheck %s

nn.variable @widen : tensor<32x64xf32> {role = "parameter", trained = true}
nn.variable @packed : tensor<3x64x64xf32> {role = "parameter", trained = true}
nn.variable @out : tensor<64x64xf32> {role = "parameter", trained = true}

func.func @infer(%x: tensor<4x8x32xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<4x8x64xf32> {nn.name = "y"}) {
  %w0 = nn.read @widen : tensor<32x64xf32>
  %w1 = nn.read @packed : tensor<3x64x64xf32>
  %w2 = nn.read @out : tensor<64x64xf32>
  // CHECK: nn.contract %arg0, %{{[0-9]+}} {lhs_letters
  %e = nn.contract %x, %w0 {lhs_letters = "bsi", out_letters = "bso", rhs_letters = "io"} : (tensor<4x8x32xf32>, tensor<32x64xf32>) -> tensor<4x8x64xf32>
  %wq0 = nn.slice %w1 {sizes = array<i64: 1, 64, 64>, starts = array<i64: 0, 0, 0>, steps = array<i64: 1, 1, 1>} : (tensor<3x64x64xf32>) -> tensor<1x64x64xf32>
  %wq = nn.reshape %wq0 : (tensor<1x64x64xf32>) -> tensor<64x64xf32>
  %wkv = nn.slice %w1 {sizes = array<i64: 2, 64, 64>, starts = array<i64: 1, 0, 0>, steps = array<i64: 1, 1, 1>} : (tensor<3x64x64xf32>) -> tensor<2x64x64xf32>
  // CHECK: nn.contract {{.*}}dist.pattern = #dist.pattern<"column", ["tensor"]>{{.*}}-> tensor<4x8x64xf32>
  %q0 = nn.contract %e, %wq {lhs_letters = "bsi", out_letters = "bso", rhs_letters = "io"} : (tensor<4x8x64xf32>, tensor<64x64xf32>) -> tensor<4x8x64xf32>
  // CHECK: nn.contract {{.*}}dist.pattern = #dist.pattern<"column", ["tensor"]>{{.*}}-> tensor<2x4x8x64xf32>
  %kv = nn.contract %e, %wkv {lhs_letters = "bsi", out_letters = "pbso", rhs_letters = "pio"} : (tensor<4x8x64xf32>, tensor<2x64x64xf32>) -> tensor<2x4x8x64xf32>
  %k0 = nn.slice %kv {sizes = array<i64: 1, 4, 8, 64>, starts = array<i64: 0, 0, 0, 0>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x4x8x64xf32>) -> tensor<1x4x8x64xf32>
  %v0 = nn.slice %kv {sizes = array<i64: 1, 4, 8, 64>, starts = array<i64: 1, 0, 0, 0>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x4x8x64xf32>) -> tensor<1x4x8x64xf32>
  %q = nn.reshape %q0 : (tensor<4x8x64xf32>) -> tensor<4x8x4x1x16xf32>
  %k = nn.reshape %k0 : (tensor<1x4x8x64xf32>) -> tensor<4x8x4x16xf32>
  %v = nn.reshape %v0 : (tensor<1x4x8x64xf32>) -> tensor<4x8x4x16xf32>
  // CHECK: nn.attention {{.*}}dist.pattern = #dist.pattern<"heads", ["tensor"]>
  %o, %lse = nn.attention %q, %k, %v {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.25 : f64} : (tensor<4x8x4x1x16xf32>, tensor<4x8x4x16xf32>, tensor<4x8x4x16xf32>) -> (tensor<4x8x4x1x16xf32>, tensor<4x8x4x1xf32>) loc("attention")
  %oo = nn.reshape %o : (tensor<4x8x4x1x16xf32>) -> tensor<4x8x64xf32>
  // CHECK: nn.contract {{.*}}dist.pattern = #dist.pattern<"row", ["tensor"]>
  %y = nn.contract %oo, %w2 {lhs_letters = "bsi", out_letters = "bso", rhs_letters = "io"} : (tensor<4x8x64xf32>, tensor<64x64xf32>) -> tensor<4x8x64xf32>
  %r = nn.add %y, %e : (tensor<4x8x64xf32>, tensor<4x8x64xf32>) -> tensor<4x8x64xf32>
  return %r : tensor<4x8x64xf32>
}
