// Grouping into kernels, and their lowering.
// RUN: tessera-opt %s --tessera-form-kernels | FileCheck %s
// RUN: tessera-opt %s --tessera-form-kernels --tessera-lower-kernels | FileCheck %s --check-prefix=LOWERED

nn.variable @w : tensor<8x8xf32> {role = "parameter", trained = true}

// A chain along the same rows is one kernel; the product is the library's. What only the kernel uses is not a result of it.
// CHECK-LABEL: func.func @chain
// CHECK: %[[P:.*]] = nn.contract
// CHECK-NEXT: %[[K:.*]] = exec.apply @[[CHAIN:kernel_[0-9]+]](%[[P]], %arg1)
// CHECK-NEXT: return %[[K]]
func.func @chain(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %w = nn.read @w : tensor<8x8xf32>
  %p = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %half = nn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %a = nn.add %p, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %m = nn.mul %a, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %s = nn.softmax %m : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %s : tensor<4x8xf32>
}

// The same work is the same kernel.
// CHECK-LABEL: func.func @again
// CHECK: exec.apply @[[CHAIN]](
func.func @again(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %half = nn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %a = nn.add %x, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %m = nn.mul %a, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %s = nn.softmax %m : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %s : tensor<4x8xf32>
}

// Other rows, another kernel; a collective between two ends the first.
// CHECK-LABEL: func.func @apart
// CHECK: exec.apply
// CHECK: dist.collective
// CHECK: exec.apply
// CHECK: exec.apply
func.func @apart(%x: tensor<4x8xf32>, %y: tensor<16x8xf32>) -> (tensor<4x8xf32>, tensor<16x8xf32>) {
  %a = nn.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = dist.collective all_reduce %a over <"t"=2> shape [4, 8] reduce sum : tensor<4x8xf32> -> tensor<4x8xf32>
  %b = nn.exp %r : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = nn.exp %y : (tensor<16x8xf32>) -> tensor<16x8xf32>
  return %b, %c : tensor<4x8xf32>, tensor<16x8xf32>
}

// A group waits for another one that its later members read, and what its own results are read by waits for it.
// CHECK-LABEL: func.func @waits
// CHECK-NEXT: %[[SMALL:.*]] = exec.apply {{.*}}(%arg1) {{.*}} -> tensor<8xf32>
// CHECK-NEXT: %[[LARGE:.*]]:2 = exec.apply {{.*}}(%arg0, %[[SMALL]])
// CHECK-NEXT: return %[[LARGE]]#0, %[[LARGE]]#1
func.func @waits(%x: tensor<4x8xf32>, %y: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %a = nn.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %small = nn.exp %y : (tensor<8xf32>) -> tensor<8xf32>
  %c = nn.add %a, %small : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %d = nn.tanh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %c, %d : tensor<4x8xf32>, tensor<4x8xf32>
}

// What a remainder is taken of is rounded as if it were stored: a kernel computes in f32, and the remainder jumps.
func.func @decided(%x: tensor<4x8xbf16>, %y: tensor<4x8xbf16>) -> (tensor<4x8xbf16>, tensor<4x8xbf16>) {
  %m = nn.mul %x, %y : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %r = nn.mod %m, %y : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %s = nn.sub %x, %y : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %d = nn.div %s, %y : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  return %r, %d : tensor<4x8xbf16>, tensor<4x8xbf16>
}

// CHECK: module @kernels
// CHECK: func.func @[[CHAIN]](%{{.*}}: tensor<4x8xf32>, %{{.*}}: tensor<8xf32>) -> tensor<4x8xf32>
// CHECK: nn.constant
// CHECK: nn.add
// CHECK: nn.mul
// CHECK: nn.softmax
// CHECK: return
// CHECK: nn.mul {{.*}} {nn.rounded}
// CHECK-NEXT: nn.mod
// CHECK-NEXT: nn.sub
// CHECK-NOT: nn.rounded
// CHECK: nn.div

// A kernel's body says its class, and what it evaluates: an exponential for each of 32 elements.
// LOWERED: exec.apply @kernel_0{{.*}}nn.functions = 3.200000e+01 : f64, nn.work_class = "row"
// LOWERED: module @kernels
// LOWERED-NOT: nn.
// LOWERED: linalg.generic
// LOWERED: math.exp
// LOWERED-NOT: nn.
