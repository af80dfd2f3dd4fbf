// A plan file's entries come before what an operator carries already and before the recipe; the first match wins.
// RUN: split-file %s %t
// RUN: tessera-opt %t/model.mlir --tessera-assign="plan=%t/plan.toml tp=2" | FileCheck %s

// The order of the file is the order of the axes; the recipe's axis is appended.
// CHECK: module attributes {dist.micro = 2 : i64}
// CHECK: dist.mesh @mesh = <["rows"=2, "cols"=3, "tensor"=2]>

// A negative dimension counts from the end; one input may be split over several axes.
// CHECK: tensor<12x8xf32> {dist.split = {{\[\[}}"rows", "cols"], []], {{.*}}nn.name = "x"}
// CHECK-SAME: tensor<12x8xf32> {dist.split = {{\[\[}}], ["cols"]], {{.*}}nn.name = "y"}

// The first of two entries that match, with its place in the file.
// CHECK: nn.contract {{.*}}dist.origin = "{{.*}}plan.toml:16", dist.pattern = #dist.pattern<"row", ["cols"]>
// Given already.
// CHECK: nn.contract {{.*}}dist.pattern = #dist.pattern<"data", ["rows"]>
// Only the recipe speaks of it.
// CHECK: nn.contract {{.*}}dist.origin = "recipe", dist.pattern = #dist.pattern<"vocab", ["tensor"]>

//--- plan.toml
[mesh]
rows = 2
cols = 3

[[input]]
match = "x"
dim = 0
axes = ["rows", "cols"]

[[input]]
match = "*"
dim = -1
axes = ["cols"]

# By the name of the parameter.
[[op]]
match = "up*"
pattern = "row"
axes = ["cols"]

[[op]]
match = "u*"
pattern = "column"
axes = ["rows"]

[pipeline]
microbatches = 2

//--- model.mlir
nn.variable @up.weight : tensor<8x16xf32> {role = "parameter", trained = true}
nn.variable @head.weight : tensor<8x64xf32> {role = "parameter", trained = true}
nn.variable @down.weight : tensor<16x8xf32> {role = "parameter", trained = true}
func.func @infer(%x: tensor<12x8xf32> {nn.name = "x"}, %y: tensor<12x8xf32> {nn.name = "y"}) -> (tensor<12x64xf32> {nn.name = "z"}) {
  %w0 = nn.read @up.weight : tensor<8x16xf32>
  %w1 = nn.read @down.weight : tensor<16x8xf32>
  %a = nn.contract %x, %w0 {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<12x8xf32>, tensor<8x16xf32>) -> tensor<12x16xf32>
  %c = nn.contract %a, %w1 {dist.pattern = #dist.pattern<"data", ["rows"]>, lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<12x16xf32>, tensor<16x8xf32>) -> tensor<12x8xf32>
  %w2 = nn.read @head.weight : tensor<8x64xf32>
  %d = nn.contract %c, %w2 {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<12x8xf32>, tensor<8x64xf32>) -> tensor<12x64xf32>
  return %d : tensor<12x64xf32>
}
