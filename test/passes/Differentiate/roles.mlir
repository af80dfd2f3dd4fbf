// What programs are for is said by their attribute, whatever they are called and wherever they stand.
// RUN: tessera-opt %s --tessera-differentiate="optimizer=sgd loss=mse:y" --tessera-stop-training | FileCheck %s

nn.variable @w : tensor<8xf32> {role = "parameter", trained = true}
// The first function is not what is differentiated.
// CHECK-LABEL: func.func @helper(
func.func @helper(%x: tensor<2x8xf32> {nn.name = "x"}) -> (tensor<2x8xf32> {nn.name = "h"}) {
  return %x : tensor<2x8xf32>
}
// CHECK-LABEL: func.func @score(
// CHECK-SAME: nn.role = #nn<role infer>
// CHECK-NOT: nn.dropout
// CHECK: return
func.func @score(%x: tensor<2x8xf32> {nn.name = "x"}, %key: tensor<i64> {nn.name = "random", nn.kind = #nn<kind random>})
    -> (tensor<2x8xf32> {nn.name = "y"}) attributes {nn.role = #nn<role infer>} {
  %w = nn.read @w : tensor<8xf32>
  %m = nn.mul %x, %w : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  %y = nn.dropout %m, %key {ratio = 0.1, id = 0 : i64} : (tensor<2x8xf32>, tensor<i64>) -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}
// CHECK-LABEL: func.func @train(
// CHECK-SAME: attributes {nn.loss = "mse:y", nn.role = #nn<role train>}
// CHECK: nn.dropout
// CHECK: nn.acc {{.*}} {nn.cotangent_of = @w}
