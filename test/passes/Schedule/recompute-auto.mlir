// With a cap, what is made again and what leaves the device are chosen together: the fastest step by the machine's rates.
// RUN: tessera-opt %s --tessera-choose-tiers --tessera-verify-recompute --split-input-file 2>&1 | FileCheck %s
// Where the first that fits will do nothing runs again.
// RUN: tessera-opt %s --tessera-choose-tiers=any=true --split-input-file 2>&1 | FileCheck %s --check-prefix=ANY
// ANY-NOT: dist.recompute =
// ANY: dist.prefetch_start
// ANY-NOT: dist.recompute =

// Copies cost nothing: none of the time goes into operators that run again.
// CHECK: remark: program 'fast' takes {{.*}} instead of {{.*}} of activations (2 values) leave it; a step is estimated to take 1.00 x as long
// CHECK-LABEL: func.func @fast
// CHECK-NOT: dist.recompute =
// CHECK-COUNT-2: dist.prefetch_start
// CHECK-NOT: dist.recompute =
module attributes {dist.device_memory = 1230000 : i64, dist.machine = #dist.machine<host = 1.0e-9 and 1.0e-12>, dist.offload = ["activations"], dist.recomputation = "auto"} {
nn.variable @w : tensor<8x256xf32> {role = "parameter", trained = true}
nn.variable @v : tensor<256x8xf32> {role = "parameter", trained = true}
module @kernels {
}
func.func @fast(%x: tensor<64x8xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %d: tensor<2xf32>) -> tensor<64x8xf32> {
  %w = nn.read @w : tensor<8x256xf32>
  %v = nn.read @v : tensor<256x8xf32>
  %a1 = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x256xf32>) -> tensor<64x256xf32>
  %b1 = nn.exp %a1 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c1 = nn.contract %b1, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32>
  %a2 = nn.contract %c1, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x256xf32>) -> tensor<64x256xf32>
  %b2 = nn.exp %a2 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c2 = nn.contract %b2, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32>
  %a3 = nn.contract %c2, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x256xf32>) -> tensor<64x256xf32>
  %b3 = nn.exp %a3 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c3 = nn.contract %b3, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32>
  %h3 = nn.contract %c3, %v {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"c3", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<256x8xf32>) -> tensor<64x256xf32>
  %m3 = nn.mul %h3, %b3 {nn.grad_of = #nn.grad_of<"b3", [0, 1]>} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %g3 = nn.contract %m3, %w {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a3", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x256xf32>, tensor<8x256xf32>) -> tensor<64x8xf32>
  %h2 = nn.contract %g3, %v {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"c2", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<256x8xf32>) -> tensor<64x256xf32>
  %m2 = nn.mul %h2, %b2 {nn.grad_of = #nn.grad_of<"b2", [0, 1]>} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %g2 = nn.contract %m2, %w {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a2", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x256xf32>, tensor<8x256xf32>) -> tensor<64x8xf32>
  %h1 = nn.contract %g2, %v {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"c1", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<256x8xf32>) -> tensor<64x256xf32>
  %m1 = nn.mul %h1, %b1 {nn.grad_of = #nn.grad_of<"b1", [0, 1]>} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %g1 = nn.contract %m1, %w {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a1", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x256xf32>, tensor<8x256xf32>) -> tensor<64x8xf32>
  return %g1 : tensor<64x8xf32>
}
}

// -----

// A copy takes longer than the operators that make the value again.
// CHECK: remark: program 'slow' takes {{.*}} instead of {{.*}} are made again, +16.7 % operations; a step is estimated to take 1.17 x as long
// CHECK-LABEL: func.func @slow
// CHECK-NOT: dist.offload_start
// CHECK: nn.exp {{.*}} {dist.recompute = "exp_0"}
// CHECK: nn.exp {{.*}} {dist.recompute = "exp_1"}
// CHECK-NOT: dist.offload_start
module attributes {dist.device_memory = 1230000 : i64, dist.machine = #dist.machine<host = 1.0e-3 and 1.0e-6>, dist.offload = ["activations"], dist.recomputation = "auto"} {
nn.variable @w : tensor<8x256xf32> {role = "parameter", trained = true}
nn.variable @v : tensor<256x8xf32> {role = "parameter", trained = true}
module @kernels {
}
func.func @slow(%x: tensor<64x8xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %d: tensor<2xf32>) -> tensor<64x8xf32> {
  %w = nn.read @w : tensor<8x256xf32>
  %v = nn.read @v : tensor<256x8xf32>
  %a1 = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x256xf32>) -> tensor<64x256xf32>
  %b1 = nn.exp %a1 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c1 = nn.contract %b1, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32>
  %a2 = nn.contract %c1, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x256xf32>) -> tensor<64x256xf32>
  %b2 = nn.exp %a2 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c2 = nn.contract %b2, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32>
  %a3 = nn.contract %c2, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x256xf32>) -> tensor<64x256xf32>
  %b3 = nn.exp %a3 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c3 = nn.contract %b3, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32>
  %h3 = nn.contract %c3, %v {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"c3", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<256x8xf32>) -> tensor<64x256xf32>
  %m3 = nn.mul %h3, %b3 {nn.grad_of = #nn.grad_of<"b3", [0, 1]>} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %g3 = nn.contract %m3, %w {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a3", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x256xf32>, tensor<8x256xf32>) -> tensor<64x8xf32>
  %h2 = nn.contract %g3, %v {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"c2", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<256x8xf32>) -> tensor<64x256xf32>
  %m2 = nn.mul %h2, %b2 {nn.grad_of = #nn.grad_of<"b2", [0, 1]>} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %g2 = nn.contract %m2, %w {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a2", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x256xf32>, tensor<8x256xf32>) -> tensor<64x8xf32>
  %h1 = nn.contract %g2, %v {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"c1", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<256x8xf32>) -> tensor<64x256xf32>
  %m1 = nn.mul %h1, %b1 {nn.grad_of = #nn.grad_of<"b1", [0, 1]>} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %g1 = nn.contract %m1, %w {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a1", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x256xf32>, tensor<8x256xf32>) -> tensor<64x8xf32>
  return %g1 : tensor<64x8xf32>
}
}
