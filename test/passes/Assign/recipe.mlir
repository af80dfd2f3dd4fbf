// The recipe finds the products of a transformer block by structure, and writes nothing that a plan could not say.
// RUN: tessera-opt %s --tessera-assign="dp=2 tp=2" | FileCheck %s
// RUN: not tessera-opt %s --tessera-assign="tp=2 sp-mode=megatron" 2>&1 | FileCheck %s --check-prefix=UNNAMED

// UNNAMED: recipe.mlir:[[#@LINE+32]]:8: error: --sp-mode megatron: the start of the residual stream has no name; lay it down by dist.split

// CHECK: module attributes {dist.micro = 1 : i64}
// CHECK: dist.mesh @mesh = <["data"=2, "tensor"=2]>
nn.variable @table : tensor<160x64xf32> {role = "parameter", trained = true}
nn.variable @positions : tensor<8x64xf32> {role = "parameter", trained = true}
nn.variable @qkv : tensor<64x192xf32> {role = "parameter", trained = true}
nn.variable @proj : tensor<64x64xf32> {role = "parameter", trained = true}
nn.variable @fc : tensor<64x128xf32> {role = "parameter", trained = true}
nn.variable @fc_proj : tensor<128x64xf32> {role = "parameter", trained = true}
nn.variable @head : tensor<64x160xf32> {role = "parameter", trained = true}

// The batch is what most inputs share; "mask" has another first dimension.
// CHECK: %[[IDS:[a-z0-9]+]]: tensor<4x8xi64> {dist.split = {{\[\[}}"data"], []]
// CHECK-SAME: tensor<4x8xi64> {dist.split = {{\[\[}}"data"], []]
// CHECK-SAME: tensor<1x8xi64> {nn.kind
func.func @infer(%ids: tensor<4x8xi64> {nn.name = "ids", nn.kind = #nn<kind data>}, %kinds: tensor<4x8xi64> {nn.name = "kinds", nn.kind = #nn<kind data>},
                 %mask: tensor<1x8xi64> {nn.name = "mask", nn.kind = #nn<kind data>}) -> (tensor<4x8x160xf32> {nn.name = "logits"}) {
  %table = nn.read @table : tensor<160x64xf32>
  %positions = nn.read @positions : tensor<8x64xf32>
  %w0 = nn.read @qkv : tensor<64x192xf32>
  %w1 = nn.read @proj : tensor<64x64xf32>
  %w2 = nn.read @fc : tensor<64x128xf32>
  %w3 = nn.read @fc_proj : tensor<128x64xf32>
  %w4 = nn.read @head : tensor<64x160xf32>
  // A table that is looked up by an input is split by its rows; one that is looked up by constants is not worth it.
  // CHECK: nn.gather {{.*}}, %[[IDS]] {dist.origin = "recipe", dist.pattern = #dist.pattern<"vocab", ["tensor"]>}
  %e = nn.gather %table, %ids : (tensor<160x64xf32>, tensor<4x8xi64>) -> tensor<4x8x64xf32>
  %i = nn.iota {dim = 1 : i64} : () -> tensor<1x8xi64>
  // CHECK: nn.gather {{.*}} : (tensor<8x64xf32>
  %p = nn.gather %positions, %i : (tensor<8x64xf32>, tensor<1x8xi64>) -> tensor<1x8x64xf32>
  // CHECK: nn.add {{.*}} : (tensor<4x8x64xf32>
  %x = nn.add %e, %p : (tensor<4x8x64xf32>, tensor<1x8x64xf32>) -> tensor<4x8x64xf32>
  // CHECK: nn.contract {{.*}}dist.pattern = #dist.pattern<"column", ["tensor"]>{{.*}}tensor<64x192xf32>
  %a = nn.contract %x, %w0 {lhs_letters = "bsi", out_letters = "bso", rhs_letters = "io"} : (tensor<4x8x64xf32>, tensor<64x192xf32>) -> tensor<4x8x192xf32>
  %split = nn.reshape %a : (tensor<4x8x192xf32>) -> tensor<4x8x3x4x16xf32>
  %q0 = nn.slice %split {sizes = array<i64: 4, 8, 1, 4, 16>, starts = array<i64: 0, 0, 0, 0, 0>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<4x8x3x4x16xf32>) -> tensor<4x8x1x4x16xf32>
  %k0 = nn.slice %split {sizes = array<i64: 4, 8, 1, 4, 16>, starts = array<i64: 0, 0, 1, 0, 0>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<4x8x3x4x16xf32>) -> tensor<4x8x1x4x16xf32>
  %v0 = nn.slice %split {sizes = array<i64: 4, 8, 1, 4, 16>, starts = array<i64: 0, 0, 2, 0, 0>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<4x8x3x4x16xf32>) -> tensor<4x8x1x4x16xf32>
  %q = nn.reshape %q0 : (tensor<4x8x1x4x16xf32>) -> tensor<4x8x4x1x16xf32>
  %k = nn.reshape %k0 : (tensor<4x8x1x4x16xf32>) -> tensor<4x8x4x16xf32>
  %v = nn.reshape %v0 : (tensor<4x8x1x4x16xf32>) -> tensor<4x8x4x16xf32>
  // CHECK: nn.attention {{.*}}dist.pattern = #dist.pattern<"heads", ["tensor"]>
  %o, %lse = nn.attention %q, %k, %v {causal = true, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.25 : f64} : (tensor<4x8x4x1x16xf32>, tensor<4x8x4x16xf32>, tensor<4x8x4x16xf32>) -> (tensor<4x8x4x1x16xf32>, tensor<4x8x4x1xf32>) loc("attention")
  %oo = nn.reshape %o : (tensor<4x8x4x1x16xf32>) -> tensor<4x8x64xf32>
  // CHECK: nn.contract {{.*}}dist.pattern = #dist.pattern<"row", ["tensor"]>{{.*}}tensor<64x64xf32>
  %b = nn.contract %oo, %w1 {lhs_letters = "bsi", out_letters = "bso", rhs_letters = "io"} : (tensor<4x8x64xf32>, tensor<64x64xf32>) -> tensor<4x8x64xf32>
  %r = nn.add %b, %x : (tensor<4x8x64xf32>, tensor<4x8x64xf32>) -> tensor<4x8x64xf32>
  // CHECK: nn.contract {{.*}}dist.pattern = #dist.pattern<"column", ["tensor"]>{{.*}}tensor<64x128xf32>
  %c = nn.contract %r, %w2 {lhs_letters = "bsi", out_letters = "bso", rhs_letters = "io"} : (tensor<4x8x64xf32>, tensor<64x128xf32>) -> tensor<4x8x128xf32>
  %g = nn.gelu %c {tanh = true} : (tensor<4x8x128xf32>) -> tensor<4x8x128xf32>
  // CHECK: nn.contract {{.*}}dist.pattern = #dist.pattern<"row", ["tensor"]>{{.*}}tensor<128x64xf32>
  %d = nn.contract %g, %w3 {lhs_letters = "bsi", out_letters = "bso", rhs_letters = "io"} : (tensor<4x8x128xf32>, tensor<128x64xf32>) -> tensor<4x8x64xf32>
  // What ends as an output without a sum over it is a vocabulary.
  // CHECK: nn.contract {{.*}}dist.pattern = #dist.pattern<"vocab", ["tensor"]>{{.*}}tensor<64x160xf32>
  %l = nn.contract %d, %w4 {lhs_letters = "bsi", out_letters = "bso", rhs_letters = "io"} : (tensor<4x8x64xf32>, tensor<64x160xf32>) -> tensor<4x8x160xf32>
  return %l : tensor<4x8x160xf32>
}
