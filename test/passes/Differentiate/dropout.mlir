// The backward drops what the forward drops, by the same id; @infer drops nothing, and only @train has the key.
// RUN: tessera-opt %s --tessera-differentiate="optimizer=sgd loss=mse:y" --tessera-stop-training | FileCheck %s

nn.variable @w : tensor<8x8xf32> {role = "parameter", trained = true}
// CHECK-LABEL: func.func @infer
// CHECK-SAME: (%[[X:.*]]: tensor<2x8xf32> {nn.kind = #nn<kind data>, nn.name = "x"}) ->
// CHECK-NOT: nn.dropout
// CHECK: %[[W:.*]] = nn.read @w
// CHECK: nn.contract %[[X]], %[[W]]
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[KEY:[a-z0-9]+]]: tensor<i64> {nn.kind = #nn<kind random>, nn.name = "random"}
// CHECK: nn.dropout %{{.*}}, %[[KEY]] {id = 0 : i64, {{.*}}ratio = 1.000000e-01
// CHECK: nn.dropout %{{.*}}, %[[KEY]] {id = 1 : i64, {{.*}}ratio = 1.000000e-01
// CHECK: nn.dropout %{{.*}}, %[[KEY]] {id = 1 : i64, nn.grad_of = #nn.grad_of<"dropout_1", [0, 1]>, ratio = 1.000000e-01
// CHECK-NOT: nn.dropout
func.func @infer(%x: tensor<2x8xf32> {nn.name = "x", nn.kind = #nn<kind data>}, %key: tensor<i64> {nn.name = "random", nn.kind = #nn<kind random>})
    -> (tensor<2x8xf32> {nn.name = "y"}) {
  %w = nn.read @w : tensor<8x8xf32>
  %d = nn.dropout %x, %key {ratio = 0.1, id = 0 : i64} : (tensor<2x8xf32>, tensor<i64>) -> tensor<2x8xf32>
  %c = nn.contract %d, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %y = nn.dropout %c, %key {ratio = 0.1, id = 1 : i64} : (tensor<2x8xf32>, tensor<i64>) -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}
