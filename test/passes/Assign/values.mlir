// A value that a plan lays down; of an operator with several results, a norm with its statistics, it is the first.
// RUN: split-file %s %t
// RUN: tessera-opt %t/model.mlir --tessera-assign="plan=%t/plan.toml" --tessera-propagate --tessera-verify-layouts | FileCheck %s

// What is laid down of the output's node is not laid down of the loss that reads it.
// RUN: tessera-opt %t/model.mlir --tessera-differentiate="loss=mse:z optimizer=sgd" --tessera-assign="plan=%t/last.toml" | FileCheck %s --check-prefix=LOSS
// LOSS-LABEL: func.func @train
// LOSS: nn.relu {{.*}}dist.split = {{\[\[}}"t"], [], []]
// LOSS-NOT: dist.split

// CHECK: %y, %mean, %rstd = nn.layer_norm
// CHECK-SAME: dist.split = {{\[\[}}], ["t"], []]
// CHECK: nn.relu {{.*}} -> tensor<2x4x8xf32, #dist.layout<{{\[\[}}2], [4 : "t"=2], [8]]>>

//--- plan.toml
[mesh]
t = 2
[[value]]
match = "norm"
split = { "1" = ["t"] }

//--- last.toml
[mesh]
t = 2
[[value]]
match = "last"
split = { "0" = ["t"] }

//--- model.mlir
nn.variable @g : tensor<8xf32> {role = "parameter", trained = true}
nn.variable @b : tensor<8xf32> {role = "parameter", trained = true}
func.func @infer(%x: tensor<2x4x8xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<2x4x8xf32> {nn.name = "z"}) {
  %g = nn.read @g : tensor<8xf32>
  %b = nn.read @b : tensor<8xf32>
  %y, %mean, %rstd = nn.layer_norm %x, %g, %b {eps = 1.0e-5 : f64} : (tensor<2x4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>) loc("norm")
  %z = nn.relu %y : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32> loc("last")
  return %z : tensor<2x4x8xf32>
}
