// What a loss is computed from has a name, which no input of the model may have too.
// RUN: not tessera-opt %s --tessera-differentiate="loss=mse:y" 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not tessera-opt %s --tessera-differentiate="loss=cross_entropy:y" 2>&1 | FileCheck %s --check-prefix=LABELS
// RUN: tessera-opt %s --tessera-differentiate="loss=s" | FileCheck %s --check-prefix=SCALAR

// TARGET: error: the model has an input 'target', as what the loss is computed from would be called too; rename the input, or take a scalar output of the model as the loss
// LABELS: error: the model has an input 'labels', as
// SCALAR: func.func @train
nn.variable @w : tensor<3x4xf64> {role = "parameter", trained = true}
func.func @infer(%target: tensor<2x3xf64> {nn.name = "target", nn.kind = #nn<kind data>}, %labels: tensor<4xf64> {nn.name = "labels", nn.kind = #nn<kind data>})
    -> (tensor<2x4xf64> {nn.name = "y"}, tensor<f64> {nn.name = "s"}) {
  %w = nn.read @w : tensor<3x4xf64>
  %h = nn.contract %target, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x3xf64>, tensor<3x4xf64>) -> tensor<2x4xf64>
  %y = nn.add %h, %labels : (tensor<2x4xf64>, tensor<4xf64>) -> tensor<2x4xf64>
  %s = nn.reduce %y {dims = array<i64: 0, 1>, kind = "sum"} : (tensor<2x4xf64>) -> tensor<f64>
  return %y, %s : tensor<2x4xf64>, tensor<f64>
}
