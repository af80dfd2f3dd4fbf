// A table that is looked up in as it is and converted for a product: in each microbatch both gradients are added, and one sum over microbatches
// is reduced.
// RUN: tessera-opt %s --tessera-compute-type="type=bf16" --tessera-differentiate="loss=cross_entropy:logits optimizer=sgd" --tessera-assign="dp=2 microbatches=2" --tessera-propagate --tessera-verify-layouts | FileCheck %s
nn.variable @table : tensor<16x8xf32> {role = "parameter", trained = true}

// CHECK-LABEL: func.func @train
// CHECK: %[[C:.*]] = nn.contract {{.*}} -> tensor<16x8xf32, {{.*}} partial = ["data"=2 "micro"=2]>>
// CHECK: %[[S:.*]] = nn.scatter_add {{.*}} -> tensor<16x8xf32, {{.*}} partial = ["data"=2 "micro"=2]>>
// CHECK: %[[A:.*]] = nn.acc {{.*}} : (tensor<16x8xf32, {{.*}} -> tensor<16x8xf32, {{.*}} partial = ["data"=2 "micro"=2]>>
// CHECK-NEXT: %[[SUM:.*]] = dist.reshard %[[A]] {{.*}} -> tensor<16x8xf32, #dist.layout<{{[^p]*}}>>
// CHECK-NOT: dist.reshard {{.*}} tensor<16x8xf32, {{.*}} partial
// CHECK: nn.update %{{.*}}, %[[SUM]]
func.func @infer(%ids: tensor<8xi64> {nn.name = "ids", nn.kind = #nn<kind data>}) -> (tensor<8x16xf32> {nn.name = "logits"}) {
  %w = nn.read @table : tensor<16x8xf32>
  %x = nn.gather %w, %ids : (tensor<16x8xf32>, tensor<8xi64>) -> tensor<8x8xf32>
  %y = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "oi"} : (tensor<8x8xf32>, tensor<16x8xf32>) -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}
