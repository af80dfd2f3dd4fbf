// What a plan wants made again and cannot be.
// RUN: not tessera-opt %s --tessera-recompute --split-input-file 2>&1 | FileCheck %s

// The backward alone computes it.
// CHECK: error: nothing that "late" names can be made again
module attributes {dist.place = [{match = ["early", "late"], recompute}]} {
nn.variable @w : tensor<8x8xf32> {role = "parameter", trained = true}
func.func @program(%x: tensor<64x8xf32>) -> tensor<64x8xf32> attributes {nn.role = #nn<role train>} {
  %w = nn.read @w : tensor<8x8xf32>
  %a = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32> loc("early")
  %b = nn.exp %a : (tensor<64x8xf32>) -> tensor<64x8xf32> loc("between")
  %g = nn.contract %b, %w {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32> loc("late")
  %m = nn.mul %g, %a {nn.grad_of = #nn.grad_of<"b", [0, 1]>} : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32> loc("later")
  return %m : tensor<64x8xf32>
}
}

// -----

// What ranks exchange is kept.
// CHECK: error: nothing that "sum" names can be made again
module attributes {dist.place = [{match = ["sum"], recompute}]} {
nn.variable @w : tensor<8x8xf32> {role = "parameter", trained = true}
func.func @program(%x: tensor<64x8xf32>) -> tensor<64x8xf32> attributes {nn.role = #nn<role train>} {
  %w = nn.read @w : tensor<8x8xf32>
  %a = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32> loc("early")
  %b = dist.collective all_reduce %a over <"d"=2> shape [64, 8] reduce sum : tensor<64x8xf32> -> tensor<64x8xf32> loc("sum")
  %g = nn.contract %b, %w {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32> loc("late")
  %m = nn.mul %g, %b {nn.grad_of = #nn.grad_of<"b", [0, 1]>} : (tensor<64x8xf32>, tensor<64x8xf32>) -> tensor<64x8xf32> loc("later")
  return %m : tensor<64x8xf32>
}
}

// -----

// Nothing has the name.
// CHECK: error: no activation is named "earli"; the nearest is "early"
module attributes {dist.place = [{match = ["earli"], recompute}]} {
func.func @program(%x: tensor<64x8xf32>) -> tensor<64x8xf32> attributes {nn.role = #nn<role train>} {
  %b = nn.exp %x : (tensor<64x8xf32>) -> tensor<64x8xf32> loc("early")
  return %b : tensor<64x8xf32>
}
}

// -----

// An entry is of one kind.
// CHECK: error: {{.*}}a list of places, each with match and tier
module attributes {dist.place = [{match = ["*"], recompute, tier = #dist.tier<host>}]} {
}
