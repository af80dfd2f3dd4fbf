// Microbatches: the batch is cut in a loop, gradients are added up in it and reduced over the ranks once, behind it.
// RUN: tessera-opt %s --tessera-differentiate="loss=mse:y optimizer=sgd" --tessera-assign="dp=2 microbatches=3" --tessera-propagate --tessera-verify-layouts --tessera-partition --canonicalize --cse | FileCheck %s

// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<6x8xf32>
// CHECK: %[[LOOP:.*]]:2 = dist.loop times 3 iter_args({{.*}} : tensor<f32>, {{.*}} : tensor<8x4xf32>) {
// CHECK-DAG: dist.slice %[[X]] over <"micro"=3> shape [3, 2, 8] split 0 : tensor<6x8xf32> -> tensor<2x8xf32>
// CHECK-NOT: dist.collective
// CHECK: dist.yield
// CHECK: }
// CHECK-DAG: dist.collective all_reduce %[[LOOP]]#0 over <"data"=2>
// CHECK-DAG: dist.collective all_reduce %[[LOOP]]#1 over <"data"=2> shape [8, 4]
// CHECK: nn.update
nn.variable @w : tensor<8x4xf32> {role = "parameter", trained = true}
func.func @infer(%x: tensor<12x8xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<12x4xf32> {nn.name = "y"}) {
  %w = nn.read @w : tensor<8x4xf32>
  %y = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<12x8xf32>, tensor<8x4xf32>) -> tensor<12x4xf32>
  return %y : tensor<12x4xf32>
}
