// A parameter that the loss has no gradient in is left out of training, with a warning; a gradient that nobody computes is an error.
// RUN: tessera-opt %s --split-input-file --tessera-differentiate="optimizer=sgd loss=s" --verify-diagnostics | FileCheck %s

// expected-warning@below {{not trained: "a", "b", "c", "d" and 1 more; the loss does not depend on them}}
nn.variable @a : tensor<4xf32> {role = "parameter", trained = true}
nn.variable @b : tensor<4xf32> {role = "parameter", trained = true}
nn.variable @c : tensor<4xf32> {role = "parameter", trained = true}
nn.variable @d : tensor<4xf32> {role = "parameter", trained = true}
nn.variable @e : tensor<4xf32> {role = "parameter", trained = true}
nn.variable @w : tensor<4xf32> {role = "parameter", trained = true}
// What is read for another output is not reached by the loss.
// CHECK: nn.variable @a : tensor<4xf32> {role = "parameter"}
// CHECK: nn.variable @w : tensor<4xf32> {role = "parameter", trained = true}
// CHECK-LABEL: func.func @train
// CHECK: nn.assign @w
// CHECK-NOT: nn.assign
func.func @infer(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "s"}, tensor<4xf32> {nn.name = "other"}) {
  %a = nn.read @a : tensor<4xf32>
  %w = nn.read @w : tensor<4xf32>
  %other = nn.mul %x, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %y = nn.mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = nn.reduce %y {dims = array<i64: 0>, kind = "sum"} : (tensor<4xf32>) -> tensor<f32>
  return %s, %other : tensor<f32>, tensor<4xf32>
}

// -----

nn.variable @rounded : tensor<4xf32> {role = "parameter", trained = true}
nn.variable @counted : tensor<4xf32> {role = "parameter", trained = true}
nn.variable @compared : tensor<4xf32> {role = "parameter", trained = true}
nn.variable @both : tensor<4xf32> {role = "parameter", trained = true}
// CHECK-LABEL: func.func @train
// CHECK: nn.assign @both
// CHECK-NOT: nn.assign
func.func @infer(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "s"}) {
  %rounded = nn.read @rounded : tensor<4xf32>
  %counted = nn.read @counted : tensor<4xf32>
  %compared = nn.read @compared : tensor<4xf32>
  %both = nn.read @both : tensor<4xf32>
  %double = nn.add %rounded, %rounded : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // expected-warning@below {{not trained: "rounded"; the loss depends on it through nn.floor, which is constant between integers}}
  %floor = nn.floor %double : (tensor<4xf32>) -> tensor<4xf32>
  // expected-warning@below {{not trained: "counted"; the loss depends on it through nn.cast, which gives integers or truth values, which change in steps}}
  %whole = nn.cast %counted {to = i64} : (tensor<4xf32>) -> tensor<4xi64>
  %again = nn.cast %whole {to = f32} : (tensor<4xi64>) -> tensor<4xf32>
  // expected-warning@below {{not trained: "compared"; the loss depends on it through nn.compare, which gives integers or truth values, which change in steps}}
  %less = nn.compare %compared, %x {predicate = "lt"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  // One of two ways is enough.
  %low = nn.floor %both : (tensor<4xf32>) -> tensor<4xf32>
  %rest = nn.sub %both, %low : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %chosen = nn.select %less, %rest, %floor : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %y = nn.mul %chosen, %again : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = nn.reduce %y {dims = array<i64: 0>, kind = "sum"} : (tensor<4xf32>) -> tensor<f32>
  return %s : tensor<f32>
}

// -----

// Remainders and sums by index have gradients.
nn.variable @divisor : tensor<4xf32> {role = "parameter", trained = true}
nn.variable @updates : tensor<2x4xf32> {role = "parameter", trained = true}
// CHECK-LABEL: func.func @train
// CHECK: nn.gather {{.*}}nn.grad_of = #nn.grad_of<"scatter_add_0"
// CHECK-DAG: nn.assign @divisor
// CHECK-DAG: nn.assign @updates
func.func @infer(%x: tensor<4xf32> {nn.name = "x"}, %ids: tensor<2xi64> {nn.name = "ids"}) -> (tensor<f32> {nn.name = "s"}) {
  %d = nn.read @divisor : tensor<4xf32>
  %u = nn.read @updates : tensor<2x4xf32>
  %m = nn.mod %x, %d : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %t = nn.scatter_add %ids, %u : (tensor<2xi64>, tensor<2x4xf32>) -> tensor<3x4xf32>
  %y = nn.mul %t, %m : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  %s = nn.reduce %y {dims = array<i64: 0, 1>, kind = "sum"} : (tensor<3x4xf32>) -> tensor<f32>
  return %s : tensor<f32>
}

// -----

nn.variable @w : tensor<4xf32> {role = "parameter", trained = true}
func.func @infer(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "s"}) {
  %w = nn.read @w : tensor<4xf32>
  %v = nn.exp %w : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@below {{has no gradient, because it belongs to a gradient, and gradients of gradients are not built, and the loss depends through it on the trained parameter "w"; leave that out of training (--frozen w) or take another loss}}
  %g = nn.gelu_grad %x, %v : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = nn.reduce %g {dims = array<i64: 0>, kind = "sum"} : (tensor<4xf32>) -> tensor<f32>
  return %s : tensor<f32>
}

// -----

// expected-warning@below {{not trained: "w"; the loss does not depend on it}}
nn.variable @w : tensor<4xf32> {role = "parameter", trained = true}
// expected-error@below {{the loss has a gradient in none of the trained parameters; take another (--loss), or train none (--frozen '*')}}
func.func @infer(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "s"}) {
  %s = nn.reduce %x {dims = array<i64: 0>, kind = "sum"} : (tensor<4xf32>) -> tensor<f32>
  return %s : tensor<f32>
}

// -----

nn.variable @w : tensor<f32> {role = "parameter", trained = true}
func.func @infer(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "s"}) {
  // expected-error@below {{the loss is a parameter itself, which no data can train}}
  %w = nn.read @w : tensor<f32>
  return %w : tensor<f32>
}
