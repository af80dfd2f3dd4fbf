// --ep finds what has a dimension of experts, and splits the batch over the experts' axis too; --tp splits experts where there are enough.
// RUN: tessera-opt %s --tessera-assign="dp=2 ep=2" | FileCheck %s --check-prefix=EP
// RUN: tessera-opt %s --tessera-assign="ep=2 tp=2" | FileCheck %s --check-prefix=BOTH
// RUN: tessera-opt %s --tessera-assign="ep=4 tp=2" | FileCheck %s --check-prefix=FEW
// RUN: tessera-opt %s --tessera-assign="tp=2" | FileCheck %s --check-prefix=TP
// RUN: tessera-opt %s --tessera-assign="ep=2 zero=1" | FileCheck %s --check-prefix=ZERO
// RUN: not tessera-opt %s --tessera-assign="ep=5" 2>&1 | FileCheck %s --check-prefix=MANY

// EP: dist.mesh @mesh = <["data"=2, "expert"=2]>
// EP: tensor<8x6xf32> {dist.split = {{\[\[}}"data", "expert"], []]
// EP: nn.dispatch {{.*}}dist.pattern = #dist.pattern<"expert", ["expert"]>
// EP: nn.contract {{.*}}dist.pattern = #dist.pattern<"expert", ["expert"]>
// EP: nn.contract {{.*}}dist.pattern = #dist.pattern<"expert", ["expert"]>
// EP: nn.combine {{.*}}dist.pattern = #dist.pattern<"expert", ["expert"]>
// BOTH-COUNT-4: dist.pattern = #dist.pattern<"expert", ["tensor", "expert"]>
// FEW-COUNT-4: dist.pattern = #dist.pattern<"expert", ["expert"]>
// TP: nn.contract {{.*}}dist.pattern = #dist.pattern<"column", ["tensor"]>
// TP: nn.contract {{.*}}dist.pattern = #dist.pattern<"row", ["tensor"]>
// ZERO: dist.zero_axes = {{.*}}"expert"
// MANY: error: {{.*}}--ep: 'expert' has no expert for each of 5 ranks here, where there are 4; an axis of at most 4 would do
nn.variable @up : tensor<4x12x6xf32> {role = "parameter", trained = true}
nn.variable @down : tensor<4x6x12xf32> {role = "parameter", trained = true}
func.func @infer(%x: tensor<8x6xf32> {nn.name = "x", nn.kind = #nn<kind data>}, %ids: tensor<8x2xi64> {nn.name = "ids", nn.kind = #nn<kind data>},
                 %w: tensor<8x2xf32> {nn.name = "w", nn.kind = #nn<kind data>}) -> (tensor<8x6xf32> {nn.name = "y"}) {
  %up = nn.read @up : tensor<4x12x6xf32>
  %down = nn.read @down : tensor<4x6x12xf32>
  %one = nn.constant dense<1.0> : tensor<8x2xf32> : tensor<8x2xf32>
  %rows = nn.dispatch %x, %ids, %one : (tensor<8x6xf32>, tensor<8x2xi64>, tensor<8x2xf32>) -> tensor<4x8x6xf32> loc("rows")
  %a = nn.contract %up, %rows {lhs_letters = "eoi", rhs_letters = "eti", out_letters = "eto"} : (tensor<4x12x6xf32>, tensor<4x8x6xf32>) -> tensor<4x8x12xf32>
  %r = nn.relu %a : (tensor<4x8x12xf32>) -> tensor<4x8x12xf32>
  %b = nn.contract %down, %r {lhs_letters = "eoi", rhs_letters = "eti", out_letters = "eto"} : (tensor<4x6x12xf32>, tensor<4x8x12xf32>) -> tensor<4x8x6xf32>
  %y = nn.combine %b, %ids, %w : (tensor<4x8x6xf32>, tensor<8x2xi64>, tensor<8x2xf32>) -> tensor<8x6xf32> loc("sum")
  return %y : tensor<8x6xf32>
}
