// The rules that a pipeline is cut by. Six activations take as long as some three products, by rule 2 nothing: kernels may keep them in
// registers. Rule 1 has the last activation, which nothing but the next product reads, on the other stage: that one holds less. By rule
// 3 a product takes as long as some three activations: the second is on the first stage, as the loss is on the last.
// RUN: tessera-opt %s --tessera-differentiate="optimizer=sgd loss=mse:y" \
// RUN:   --tessera-assign="pp=2 pp-schedule=gpipe microbatches=2" | FileCheck %s --check-prefix=TIME
// RUN: tessera-opt %s --tessera-differentiate="optimizer=sgd loss=mse:y" \
// RUN:   --tessera-assign="pp=2 pp-schedule=gpipe microbatches=2 cut=0" | FileCheck %s --check-prefix=TIME
// RUN: tessera-opt %s --tessera-differentiate="optimizer=sgd loss=mse:y" \
// RUN:   --tessera-assign="pp=2 pp-schedule=gpipe microbatches=2 cut=1" | FileCheck %s --check-prefix=MEMORY
// RUN: tessera-opt %s --tessera-differentiate="optimizer=sgd loss=mse:y" \
// RUN:   --tessera-assign="pp=2 pp-schedule=gpipe microbatches=2 cut=2" | FileCheck %s --check-prefix=ARITHMETIC
// RUN: tessera-opt %s --tessera-differentiate="optimizer=sgd loss=mse:y" \
// RUN:   --tessera-assign="pp=2 pp-schedule=gpipe microbatches=2 cut=3" | FileCheck %s --check-prefix=ARITHMETIC
// RUN: not tessera-opt %s --tessera-differentiate="optimizer=sgd loss=mse:y" \
// RUN:   --tessera-assign="pp=2 pp-schedule=gpipe microbatches=2 cut=4" 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: there is no rule 4 to cut a pipeline by; the last is 3

// TIME-LABEL: func.func @infer
// TIME: nn.contract {{.*}}dist.chunk = 0
// TIME: nn.tanh {{.*}}dist.chunk = 0
// TIME: nn.tanh {{.*}}dist.chunk = 0
// TIME: nn.tanh {{.*}}dist.chunk = 0
// TIME: nn.tanh {{.*}}dist.chunk = 0
// TIME: nn.tanh {{.*}}dist.chunk = 0
// TIME: nn.tanh {{.*}}dist.chunk = 0
// TIME: nn.contract {{.*}}dist.chunk = 1
// TIME: nn.contract {{.*}}dist.chunk = 1
// TIME: nn.contract {{.*}}dist.chunk = 1

// MEMORY-LABEL: func.func @infer
// MEMORY: nn.contract {{.*}}dist.chunk = 0
// MEMORY: nn.tanh {{.*}}dist.chunk = 0
// MEMORY: nn.tanh {{.*}}dist.chunk = 0
// MEMORY: nn.tanh {{.*}}dist.chunk = 0
// MEMORY: nn.tanh {{.*}}dist.chunk = 0
// MEMORY: nn.tanh {{.*}}dist.chunk = 0
// MEMORY: nn.tanh {{.*}}dist.chunk = 1
// MEMORY: nn.contract {{.*}}dist.chunk = 1
// MEMORY: nn.contract {{.*}}dist.chunk = 1
// MEMORY: nn.contract {{.*}}dist.chunk = 1

// ARITHMETIC-LABEL: func.func @infer
// ARITHMETIC: nn.contract {{.*}}dist.chunk = 0
// ARITHMETIC: nn.tanh {{.*}}dist.chunk = 0
// ARITHMETIC: nn.tanh {{.*}}dist.chunk = 0
// ARITHMETIC: nn.tanh {{.*}}dist.chunk = 0
// ARITHMETIC: nn.tanh {{.*}}dist.chunk = 0
// ARITHMETIC: nn.tanh {{.*}}dist.chunk = 0
// ARITHMETIC: nn.tanh {{.*}}dist.chunk = 0
// ARITHMETIC: nn.contract {{.*}}dist.chunk = 0
// ARITHMETIC: nn.contract {{.*}}dist.chunk = 1
// ARITHMETIC: nn.contract {{.*}}dist.chunk = 1

nn.variable @w1 : tensor<64x64xf32> {role = "parameter", trained = true}
nn.variable @w2 : tensor<64x64xf32> {role = "parameter", trained = true}
nn.variable @w3 : tensor<64x64xf32> {role = "parameter", trained = true}
nn.variable @w4 : tensor<64x64xf32> {role = "parameter", trained = true}
func.func @infer(%x: tensor<64x64x64xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<64x64x64xf32> {nn.name = "y"}) {
  %w1 = nn.read @w1 : tensor<64x64xf32>
  %w2 = nn.read @w2 : tensor<64x64xf32>
  %w3 = nn.read @w3 : tensor<64x64xf32>
  %w4 = nn.read @w4 : tensor<64x64xf32>
  %c1 = nn.contract %x, %w1 {lhs_letters = "bsh", rhs_letters = "ho", out_letters = "bso"} : (tensor<64x64x64xf32>, tensor<64x64xf32>) -> tensor<64x64x64xf32>
  %g1 = nn.tanh %c1 : (tensor<64x64x64xf32>) -> tensor<64x64x64xf32>
  %g2 = nn.tanh %g1 : (tensor<64x64x64xf32>) -> tensor<64x64x64xf32>
  %g3 = nn.tanh %g2 : (tensor<64x64x64xf32>) -> tensor<64x64x64xf32>
  %g4 = nn.tanh %g3 : (tensor<64x64x64xf32>) -> tensor<64x64x64xf32>
  %g5 = nn.tanh %g4 : (tensor<64x64x64xf32>) -> tensor<64x64x64xf32>
  %g6 = nn.tanh %g5 : (tensor<64x64x64xf32>) -> tensor<64x64x64xf32>
  %c2 = nn.contract %g6, %w2 {lhs_letters = "bsh", rhs_letters = "ho", out_letters = "bso"} : (tensor<64x64x64xf32>, tensor<64x64xf32>) -> tensor<64x64x64xf32>
  %c3 = nn.contract %c2, %w3 {lhs_letters = "bsh", rhs_letters = "ho", out_letters = "bso"} : (tensor<64x64x64xf32>, tensor<64x64xf32>) -> tensor<64x64x64xf32>
  %c4 = nn.contract %c3, %w4 {lhs_letters = "bsh", rhs_letters = "ho", out_letters = "bso"} : (tensor<64x64x64xf32>, tensor<64x64xf32>) -> tensor<64x64x64xf32>
  return %c4 : tensor<64x64x64xf32>
}
