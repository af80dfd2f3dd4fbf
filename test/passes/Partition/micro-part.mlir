// A batch that grows with the ranks: the program of fewer runs the first microbatches only, and what they sum up to is multiplied as if the
// others were copies of them.
// RUN: tessera-opt %s --tessera-differentiate="loss=mse:y optimizer=sgd" --tessera-assign="dp=4 sizes=1,2,4 on-resize=scale size=1" --tessera-propagate --tessera-partition --canonicalize --cse | FileCheck %s
// RUN: tessera-opt %s --tessera-differentiate="loss=mse:y optimizer=sgd" --tessera-assign="dp=4 sizes=1,2,4 on-resize=scale size=4" --tessera-propagate --tessera-partition --canonicalize --cse | FileCheck %s --check-prefix=ALL

// CHECK-LABEL: func.func @train
// CHECK: %[[FOUR:.*]] = nn.constant dense<4.000000e+00> : tensor<f32>
// CHECK: %[[SUMS:.*]]:2 = dist.loop times 1
// CHECK: nn.mul %[[SUMS]]#{{.*}}, %[[FOUR]]
// CHECK: nn.mul %[[SUMS]]#{{.*}}, %[[FOUR]]

// ALL-LABEL: func.func @train
// ALL-NOT: dist.loop
// ALL-NOT: 4.000000e+00
nn.variable @w : tensor<8x4xf32> {role = "parameter", trained = true}
func.func @infer(%x: tensor<12x8xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<12x4xf32> {nn.name = "y"}) {
  %w = nn.read @w : tensor<8x4xf32>
  %y = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<12x8xf32>, tensor<8x4xf32>) -> tensor<12x4xf32>
  return %y : tensor<12x4xf32>
}
