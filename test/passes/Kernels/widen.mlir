// What the library has in f32 only is converted around; a kernel computes in f32 what is bf16 outside of it.
// RUN: tessera-opt %s --tessera-widen-calls | FileCheck %s
// RUN: tessera-opt %s --tessera-widen-calls --tessera-form-kernels --tessera-lower-kernels | FileCheck %s --check-prefix=KERNEL

// CHECK-LABEL: func.func @conv
// CHECK: %[[X:.*]] = nn.cast %arg0 {to = f32}
// CHECK: %[[W:.*]] = nn.cast %arg1 {to = f32}
// CHECK: %[[Y:.*]] = nn.conv %[[X]], %[[W]] {{.*}} -> tensor<2x16x8x8xf32>
// CHECK: %[[R:.*]] = nn.cast %[[Y]] {to = bf16}
// CHECK: return %[[R]]
func.func @conv(%x: tensor<2x16x8x8xbf16>, %w: tensor<16x16x3x3xbf16>) -> tensor<2x16x8x8xbf16> {
  %y = nn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1} : (tensor<2x16x8x8xbf16>, tensor<16x16x3x3xbf16>) -> tensor<2x16x8x8xbf16>
  return %y : tensor<2x16x8x8xbf16>
}

// Products and attention the library has in these types.
// CHECK-LABEL: func.func @native
// CHECK-NOT: nn.cast
// CHECK: return
func.func @native(%q: tensor<1x64x2x1x64xbf16>, %k: tensor<1x64x2x64xbf16>, %a: tensor<64x64xf16>) -> (tensor<1x64x2x1x64xbf16>, tensor<64x64xf32>) {
  %o, %l = nn.attention %q, %k, %k {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.125 : f64} : (tensor<1x64x2x1x64xbf16>, tensor<1x64x2x64xbf16>, tensor<1x64x2x64xbf16>) -> (tensor<1x64x2x1x64xbf16>, tensor<1x64x2x1xf32>)
  %p = nn.contract %a, %a {lhs_letters = "ij", rhs_letters = "jk", out_letters = "ik"} : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf32>
  return %o, %p : tensor<1x64x2x1x64xbf16>, tensor<64x64xf32>
}

// Little work on each element: a kernel reads and writes bf16 and computes in f32, its constants and sums too.
// CHECK-LABEL: func.func @loss
// CHECK: nn.cross_entropy_grad {{.*}} -> tensor<8x160xbf16>
func.func @loss(%x: tensor<8x160xbf16>, %l: tensor<8xi64>, %lse: tensor<8xf32>, %s: tensor<f32>) -> tensor<8x160xbf16> {
  %d = nn.cross_entropy_grad %x, %l, %lse, %s : (tensor<8x160xbf16>, tensor<8xi64>, tensor<8xf32>, tensor<f32>) -> tensor<8x160xbf16>
  return %d : tensor<8x160xbf16>
}

// KERNEL: func.func @{{.*}}(%[[X:.*]]: tensor<4x8xbf16>, %[[B:.*]]: tensor<8xbf16>) -> tensor<4x8xbf16>
// KERNEL-DAG: arith.extf %[[X]] : tensor<4x8xbf16> to tensor<4x8xf32>
// KERNEL-DAG: arith.extf %[[B]] : tensor<8xbf16> to tensor<8xf32>
// KERNEL-NOT: bf16
// KERNEL: arith.truncf %{{.*}} : tensor<4x8xf32> to tensor<4x8xbf16>
func.func @chain(%x: tensor<4x8xbf16>, %b: tensor<8xbf16>) -> tensor<4x8xbf16> {
  %third = nn.constant dense<0.333> : tensor<bf16> : tensor<bf16>
  %a = nn.add %x, %b : (tensor<4x8xbf16>, tensor<8xbf16>) -> tensor<4x8xbf16>
  %m = nn.mul %a, %third : (tensor<4x8xbf16>, tensor<bf16>) -> tensor<4x8xbf16>
  %s = nn.softmax %m : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
  return %s : tensor<4x8xbf16>
}
