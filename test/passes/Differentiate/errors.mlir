// What cannot be differentiated, because of the program or of the output that the loss is of.
// RUN: tessera-opt %s --split-input-file --tessera-differentiate="optimizer=sgd loss=s" --verify-diagnostics

// expected-error@below {{needs an inference program of one block to differentiate}}
module {
}

// -----

// expected-error@below {{has a training program already, or another function @train}}
module {
  func.func @infer() {
    return
  }
  func.func @train() {
    return
  }
}

// -----

// expected-error@below {{has a training program already, or another function @train}}
module {
  func.func @infer() {
    return
  }
  func.func @fit() attributes {nn.role = #nn<role train>} {
    return
  }
}

// -----

nn.variable @w : tensor<4xf32> {role = "parameter", trained = true}
// expected-error@below {{loss of output 's': it has type 'tensor<4xi64>', expected a floating one}}
func.func @infer(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xi64> {nn.name = "s"}) {
  %w = nn.read @w : tensor<4xf32>
  %s = nn.cast %w {to = i64} : (tensor<4xf32>) -> tensor<4xi64>
  return %s : tensor<4xi64>
}

// -----

nn.variable @w : tensor<2x4xf32> {role = "parameter", trained = true}
func.func @infer(%labels: tensor<2xi64> {nn.name = "x"}) -> (tensor<f32> {nn.name = "s"}) {
  %w = nn.read @w : tensor<2x4xf32>
  // expected-error@below {{lse is not differentiated}}
  %loss, %lse = nn.cross_entropy %w, %labels : (tensor<2x4xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<2xf32>)
  %s = nn.reduce %lse {dims = array<i64: 0>, kind = "sum"} : (tensor<2xf32>) -> tensor<f32>
  return %s : tensor<f32>
}

// -----

nn.variable @w : tensor<1x2x1x1x4xf32> {role = "parameter", trained = true}
func.func @infer(%k: tensor<1x2x1x4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "s"}) {
  %w = nn.read @w : tensor<1x2x1x1x4xf32>
  // expected-error@below {{lse is not differentiated}}
  %o, %lse = nn.attention %w, %k, %k {scale = 0.5, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>} : (tensor<1x2x1x1x4xf32>, tensor<1x2x1x4xf32>, tensor<1x2x1x4xf32>) -> (tensor<1x2x1x1x4xf32>, tensor<1x2x1x1xf32>)
  %s = nn.reduce %lse {dims = array<i64: 0, 1, 2, 3>, kind = "sum"} : (tensor<1x2x1x1xf32>) -> tensor<f32>
  return %s : tensor<f32>
}

// -----

nn.variable @w : tensor<2x4xf32> {role = "parameter", trained = true}
func.func @infer(%g: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "s"}) {
  %w = nn.read @w : tensor<2x4xf32>
  // expected-error@below {{mean and rstd are not differentiated}}
  %y, %mean, %rstd = nn.layer_norm %w, %g, %g {eps = 1.0e-5} : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
  %s = nn.reduce %mean {dims = array<i64: 0>, kind = "sum"} : (tensor<2xf32>) -> tensor<f32>
  return %s : tensor<f32>
}

// -----

nn.variable @w : tensor<2x4xf32> {role = "parameter", trained = true}
func.func @infer(%g: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "s"}) {
  %w = nn.read @w : tensor<2x4xf32>
  // expected-error@below {{'nn.rms_norm' op rstd is not differentiated}}
  %y, %rstd = nn.rms_norm %w, %g {eps = 1.0e-5} : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
  %s = nn.reduce %rstd {dims = array<i64: 0>, kind = "sum"} : (tensor<2xf32>) -> tensor<f32>
  return %s : tensor<f32>
}

// -----

nn.variable @w : tensor<2x4xf32> {role = "parameter", trained = true}
func.func @infer(%x: tensor<2x4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "s"}) {
  %w = nn.read @w : tensor<2x4xf32>
  // expected-error@below {{cos and sin are not differentiated}}
  %y = nn.rotary %x, %w, %x : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %s = nn.reduce %y {dims = array<i64: 0, 1>, kind = "sum"} : (tensor<2x4xf32>) -> tensor<f32>
  return %s : tensor<f32>
}
