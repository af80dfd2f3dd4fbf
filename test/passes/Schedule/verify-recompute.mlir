// Operators that say they run another again, and do not.
// RUN: tessera-opt %s --tessera-verify-recompute --split-input-file --verify-diagnostics

nn.variable @w : tensor<8x8xf32> {role = "parameter", trained = true}
// What came back from the host, what was made again, a view made again of it, and the same variable read once more are what was there before.
func.func @same(%x: tensor<8x8xf32>) -> tensor<4x16xf32> {
  %w = nn.read @w : tensor<8x8xf32>
  %a = nn.mul %x, %w {dist.repeated = "mul_0"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %v = nn.reshape %a : (tensor<8x8xf32>) -> tensor<4x16xf32>
  %e = nn.exp %v {dist.repeated = "exp_0"} : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %down = dist.offload_start %x : tensor<8x8xf32> -> !dist.transfer<!dist.copy<tensor<8x8xf32>, host>>
  %copy = dist.offload_wait %down : !dist.transfer<!dist.copy<tensor<8x8xf32>, host>>
  %up = dist.prefetch_start %copy : !dist.copy<tensor<8x8xf32>, host> -> !dist.transfer<tensor<8x8xf32>>
  %y = dist.prefetch_wait %up : !dist.transfer<tensor<8x8xf32>>
  %z = nn.read @w : tensor<8x8xf32>
  %b = nn.mul %y, %z {dist.recompute = "mul_0"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %u = nn.reshape %b : (tensor<8x8xf32>) -> tensor<4x16xf32>
  %f = nn.exp %u {dist.recompute = "exp_0"} : (tensor<4x16xf32>) -> tensor<4x16xf32>
  return %f : tensor<4x16xf32>
}

// -----

nn.variable @w : tensor<8x8xf32> {role = "parameter", trained = true}
func.func @f(%x: tensor<8x8xf32>, %other: tensor<8x8xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %d: tensor<2xf32>) -> tensor<8x8xf32> {
  // expected-error @+1 {{runs 'exp_0' again, which no operator before it is called}}
  %a = nn.exp %x {dist.recompute = "exp_0"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = nn.exp %x {dist.repeated = "exp_0"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %x : tensor<8x8xf32>
}

// -----

nn.variable @w : tensor<8x8xf32> {role = "parameter", trained = true}
func.func @f(%x: tensor<8x8xf32>, %other: tensor<8x8xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %d: tensor<2xf32>) -> tensor<8x8xf32> {
  %a = nn.exp %x {dist.repeated = "a"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // expected-error @+1 {{is repeated by the name of another operator, 'a'}}
  %b = nn.exp %other {dist.repeated = "a"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %x : tensor<8x8xf32>
}

// -----

nn.variable @w : tensor<8x8xf32> {role = "parameter", trained = true}
func.func @f(%x: tensor<8x8xf32>, %other: tensor<8x8xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %d: tensor<2xf32>) -> tensor<8x8xf32> {
  // expected-note @+1 {{which is this operator}}
  %a = nn.exp %x {dist.repeated = "a"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // expected-error @+1 {{runs 'a' again, but is another operator}}
  %b = nn.neg %x {dist.recompute = "a"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %x : tensor<8x8xf32>
}

// -----

nn.variable @w : tensor<8x8xf32> {role = "parameter", trained = true}
func.func @f(%x: tensor<8x8xf32>, %other: tensor<8x8xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %d: tensor<2xf32>) -> tensor<8x8xf32> {
  // expected-note @+1 {{which is this operator}}
  %a = nn.contract %x, %other {dist.repeated = "a", lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // expected-error @+1 {{runs 'a' again, but has other attributes}}
  %b = nn.contract %x, %other {dist.recompute = "a", lhs_letters = "bi", out_letters = "bo", rhs_letters = "oi"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %x : tensor<8x8xf32>
}

// -----

nn.variable @w : tensor<8x8xf32> {role = "parameter", trained = true}
func.func @f(%x: tensor<8x8xf32>, %other: tensor<8x8xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %d: tensor<2xf32>) -> tensor<8x8xf32> {
  // expected-note @+1 {{which is this operator}}
  %a = nn.reshape %x {dist.repeated = "a"} : (tensor<8x8xf32>) -> tensor<4x16xf32>
  // expected-error @+1 {{runs 'a' again, but makes other types}}
  %b = nn.reshape %x {dist.recompute = "a"} : (tensor<8x8xf32>) -> tensor<16x4xf32>
  return %x : tensor<8x8xf32>
}

// -----

nn.variable @w : tensor<8x8xf32> {role = "parameter", trained = true}
func.func @f(%x: tensor<8x8xf32>, %other: tensor<8x8xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %d: tensor<2xf32>) -> tensor<8x8xf32> {
  // expected-note @+1 {{which is this operator}}
  %a = nn.mul %x, %other {dist.repeated = "a"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // expected-error @+1 {{runs 'a' again, but reads another value as operand 1}}
  %b = nn.mul %x, %x {dist.recompute = "a"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %x : tensor<8x8xf32>
}

// -----

// An update stands between.
nn.variable @w : tensor<8x8xf32> {role = "parameter", trained = true}
func.func @f(%x: tensor<8x8xf32>, %other: tensor<8x8xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %d: tensor<2xf32>) -> tensor<8x8xf32> {
  %w = nn.read @w : tensor<8x8xf32>
  // expected-note @+1 {{which is this operator}}
  %a = nn.mul %x, %w {dist.repeated = "a"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // expected-note @+1 {{it is written here}}
  %u = nn.update %w, %other, %none, %s, %d {index = 0 : i64, kind = "sgd"} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<8x8xf32>
  // expected-error @+1 {{runs 'a' again, but operand 1 is a variable that has been written}}
  %b = nn.mul %x, %w {dist.recompute = "a"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  nn.assign @w, %u : tensor<8x8xf32>
  return %x : tensor<8x8xf32>
}
