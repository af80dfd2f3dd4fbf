// Each of three products takes as long as the others, so both cuts are as fast. The last has most of the parameters, and reads them through a
// transpose: a stage has it alone.
// RUN: tessera-opt %s --tessera-differentiate="optimizer=sgd loss=mse:y" --tessera-assign="pp=2 pp-schedule=gpipe microbatches=2" | FileCheck %s

// CHECK-LABEL: func.func @infer
// CHECK: nn.contract {{.*}}dist.chunk = 0 : i64
// CHECK: nn.contract {{.*}}dist.chunk = 0 : i64
// CHECK: nn.contract {{.*}}dist.chunk = 1 : i64
nn.variable @w1 : tensor<64x64xf32> {role = "parameter", trained = true}
nn.variable @w2 : tensor<64x64xf32> {role = "parameter", trained = true}
nn.variable @w3 : tensor<64x64x64xf32> {role = "parameter", trained = true}
func.func @infer(%x: tensor<64x64x64xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<64x64xf32> {nn.name = "y"}) {
  %w1 = nn.read @w1 : tensor<64x64xf32>
  %w2 = nn.read @w2 : tensor<64x64xf32>
  %w3 = nn.read @w3 : tensor<64x64x64xf32>
  %t = nn.transpose %w3 {perm = array<i64: 1, 2, 0>} : (tensor<64x64x64xf32>) -> tensor<64x64x64xf32>
  %a = nn.contract %x, %w1 {lhs_letters = "bsh", rhs_letters = "ho", out_letters = "bso"} : (tensor<64x64x64xf32>, tensor<64x64xf32>) -> tensor<64x64x64xf32>
  %b = nn.contract %a, %w2 {lhs_letters = "bsh", rhs_letters = "ho", out_letters = "bso"} : (tensor<64x64x64xf32>, tensor<64x64xf32>) -> tensor<64x64x64xf32>
  %c = nn.contract %b, %t {lhs_letters = "bsh", rhs_letters = "sho", out_letters = "bo"} : (tensor<64x64x64xf32>, tensor<64x64x64xf32>) -> tensor<64x64xf32>
  return %c : tensor<64x64xf32>
}
