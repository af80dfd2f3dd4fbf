// RUN: tessera-opt %s --tessera-differentiate="loss=s optimizer=sgd" | FileCheck %s

// The updates of the frozen row go to no row.
// CHECK: func.func @train(%[[IDS:[a-z0-9]+]]:
// CHECK-DAG: %[[THREE:.*]] = nn.constant {{.*}}dense<3> : tensor<i64>
// CHECK-DAG: %[[NONE:.*]] = nn.constant {{.*}}dense<-1> : tensor<i64>
// CHECK-DAG: %[[IS:.*]] = nn.compare %[[IDS]], %[[THREE]] {{.*}}predicate = "eq"
// CHECK: %[[KEPT:.*]] = nn.select %[[IS]], %[[NONE]], %[[IDS]]
// CHECK: nn.scatter_add %[[KEPT]],
nn.variable @table : tensor<5x2xf32> {role = "parameter", trained = true}
func.func @infer(%ids: tensor<4xi64> {nn.name = "ids", nn.kind = #nn<kind data>}) -> (tensor<f32> {nn.name = "s"}) {
  %t = nn.read @table : tensor<5x2xf32>
  %x = nn.gather %t, %ids {frozen_row = 3 : i64} : (tensor<5x2xf32>, tensor<4xi64>) -> tensor<4x2xf32>
  %s = nn.reduce %x {dims = array<i64: 0, 1>, kind = "sum"} : (tensor<4x2xf32>) -> tensor<f32>
  return %s : tensor<f32>
}
