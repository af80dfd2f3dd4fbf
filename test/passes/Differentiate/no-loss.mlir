// The loss that is taken where none is named, or a cross entropy, has outputs that it cannot be of.
// RUN: tessera-opt %s --split-input-file --tessera-differentiate="optimizer=sgd" --verify-diagnostics

nn.variable @w : tensor<4xf32> {role = "parameter", trained = true}
// expected-error@below {{no floating output to take a loss of; name a scalar output as the loss}}
func.func @infer(%x: tensor<4xi64> {nn.name = "x"}) -> (tensor<4xi64> {nn.name = "y"}) {
  return %x : tensor<4xi64>
}

// -----

nn.variable @w : tensor<f32> {role = "parameter", trained = true}
// expected-error@below {{cross entropy of 'y': it is a scalar, expected classes in the last dimension}}
func.func @infer(%x: tensor<4xi64> {nn.name = "x"}) -> (tensor<f32> {nn.name = "y"}) {
  %w = nn.read @w : tensor<f32>
  %y = nn.exp %w : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}
