// Where other numbers of ranks may share the batch, microbatches are added in their common tree: a value is carried for each level, and where a
// subtree has ended it is added to the level above.
// RUN: tessera-opt %s --tessera-differentiate="loss=mse:y optimizer=sgd" --tessera-assign="dp=4 sizes=1,2,4 size=1" --tessera-propagate --tessera-partition --canonicalize --cse | FileCheck %s
// RUN: tessera-opt %s --tessera-differentiate="loss=mse:y optimizer=sgd" --tessera-assign="dp=4 sizes=1,2,4 size=2" --tessera-propagate --tessera-partition --canonicalize --cse | FileCheck %s --check-prefix=TWO

// Microbatches come in the order 0 2 1 3: the second and the fourth end a subtree.
// CHECK-LABEL: func.func @train
// CHECK: %[[ENDS:.*]] = nn.constant dense<[false, false, true, true]> : tensor<4xi1>
// CHECK: dist.loop times 4 iter_args({{.*}}, {{.*}}, %[[HIGH:.*]] = {{.*}} : tensor<8x4xf32>, %[[LOW:.*]] = {{.*}} : tensor<8x4xf32>) {
// CHECK: %[[END:.*]] = dist.slice %[[ENDS]] over <"micro"=4> shape [4] split 0 : tensor<4xi1> -> tensor<1xi1>
// CHECK: %[[LAST:.*]] = nn.reshape %[[END]]
// CHECK: %[[SUM:.*]] = nn.add %[[LOW]], %{{.*}} : (tensor<8x4xf32>, tensor<8x4xf32>)
// CHECK: %[[NEXT:.*]] = nn.select %[[LAST]], %{{.*}}, %[[SUM]]
// CHECK: %[[TERM:.*]] = nn.select %[[LAST]], %[[SUM]], %{{.*}}
// CHECK: %[[ALL:.*]] = nn.add %[[HIGH]], %[[TERM]]
// CHECK: dist.yield {{.*}}, %[[ALL]], %[[NEXT]]

// One level is a plain sum.
// TWO-LABEL: func.func @train
// TWO: dist.loop times 2
// TWO-NOT: nn.select
// TWO: dist.yield
nn.variable @w : tensor<8x4xf32> {role = "parameter", trained = true}
func.func @infer(%x: tensor<12x8xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<12x4xf32> {nn.name = "y"}) {
  %w = nn.read @w : tensor<8x4xf32>
  %y = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<12x8xf32>, tensor<8x4xf32>) -> tensor<12x4xf32>
  return %y : tensor<12x4xf32>
}
