// What text may say in discardable attributes of nn.
// RUN: tessera-opt %s --split-input-file --verify-diagnostics | FileCheck %s

// CHECK: module attributes {nn.absent = ["bias"], nn.compute_type = bf16, nn.phase = "differentiate"}
module attributes {nn.compute_type = bf16, nn.phase = "differentiate", nn.absent = ["bias"]} {
  nn.variable @w : tensor<4xf32> {role = "parameter", trained = true}
  // CHECK: func.func @step(%{{.*}}: tensor<4xf32> {nn.kind = #nn<kind data>, nn.name = "x", nn.range = array<i64: 0, 3>})
  // CHECK-SAME: -> (tensor<4xf32> {nn.name = "y"}) attributes {nn.loss = "y", nn.role = #nn<role train>}
  func.func @step(%x: tensor<4xf32> {nn.kind = #nn<kind data>, nn.name = "x", nn.range = array<i64: 0, 3>})
      -> (tensor<4xf32> {nn.name = "y"}) attributes {nn.role = #nn<role train>, nn.loss = "y"} {
    %y = nn.neg %x {nn.id = "neg_0"} : (tensor<4xf32>) -> tensor<4xf32>
    // CHECK: nn.acc %{{.*}} {nn.cotangent_of = #nn.value<"neg_0", 0>, nn.prologue}
    %dy = nn.acc %y {nn.cotangent_of = #nn.value<"neg_0", 0>, nn.prologue} : (tensor<4xf32>) -> tensor<4xf32>
    // CHECK: nn.neg %{{.*}} {nn.grad_of = #nn.grad_of<"neg_0", [0]>}
    %dx = nn.neg %dy {nn.grad_of = #nn.grad_of<"neg_0", [0]>} : (tensor<4xf32>) -> tensor<4xf32>
    // CHECK: nn.acc %{{.*}} {nn.cotangent_of = @w}
    %dw = nn.acc %dx {nn.cotangent_of = @w} : (tensor<4xf32>) -> tensor<4xf32>
    return %dw : tensor<4xf32>
  }
}

// -----

func.func @misspelled(%x: tensor<4xf32>) {
  // expected-error@+1 {{has nn.prolog, and there is no such attribute}}
  %y = nn.neg %x {nn.prolog} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error@+1 {{has nn.role = "train"; expected #nn<role infer>, #nn<role train> or #nn<role train_clipped>}}
func.func @role_as_a_string() attributes {nn.role = "train"} {
  return
}

// -----

func.func @role_of_an_operator(%x: tensor<4xf32>) {
  // expected-error@+1 {{has nn.role, which belongs on a function}}
  %y = nn.neg %x {nn.role = #nn<role train>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error@+1 {{argument 1 has nn.kind = "data"; expected a kind of input}}
func.func @kind_as_a_string(%x: tensor<4xf32>, %y: tensor<4xf32> {nn.kind = "data"}) {
  return
}

// -----

// expected-error@+1 {{result 0 has nn.kind, which belongs on an argument}}
func.func @kind_of_a_result(%x: tensor<4xf32>) -> (tensor<4xf32> {nn.kind = #nn<kind data>}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{argument 0 has nn.range = array<i64: 3>; expected two numbers, array<i64: FIRST, END>}}
func.func @range_of_one(%x: tensor<4xi64> {nn.range = array<i64: 3>}) {
  return
}

// -----

func.func @cotangent_as_a_string(%x: tensor<4xf32>) {
  // expected-error@+1 {{has nn.cotangent_of = "@w"; expected a variable, @NAME, or #nn.value<"ID", RESULT>}}
  %y = nn.acc %x {nn.cotangent_of = "@w"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @cotangent_of_no_sum(%x: tensor<4xf32>) {
  // expected-error@+1 {{has nn.cotangent_of, which belongs on an nn.acc}}
  %y = nn.neg %x {nn.cotangent_of = @w} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error@+1 {{has nn.compute_type = f64; expected f32, bf16 or f16}}
module attributes {nn.compute_type = f64} {
}

// -----

// expected-error@+1 {{has nn.absent = ["a", 1]; expected a list of strings}}
module attributes {nn.absent = ["a", 1]} {
}
