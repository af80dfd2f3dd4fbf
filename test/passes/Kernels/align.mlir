// Rows that the library is slow at are filled up: operands with zeros, results cut again. What maps a result's
// elements is made wide with it, and kernels read what they need of a wide value.
// RUN: tessera-opt %s --tessera-align-calls=target=cuda | FileCheck %s
// RUN: tessera-opt %s --tessera-align-calls=target=cuda --tessera-form-kernels=target=cuda | FileCheck %s --check-prefix=KERNEL
// RUN: tessera-opt %s --tessera-align-calls | FileCheck %s --check-prefix=CPU

// The head of a language model and its gradients: no copy of what is as large as the logits.
// CHECK-LABEL: func.func @head
// CHECK-SAME: %[[X:.*]]: tensor<512x512xbf16>, %[[W:.*]]: tensor<1001x512xbf16>
// CHECK: %[[ZEROS:.*]] = nn.constant dense<0.000000e+00> : tensor<1008x512xbf16>
// CHECK: %[[WIDE:.*]] = nn.insert_slice %[[ZEROS]], %[[W]], %{{.*}} {dim = 0 : i64}
// CHECK: %[[LOGITS:.*]] = nn.contract %[[X]], %[[WIDE]] {{.*}} -> tensor<512x1008xbf16>
// CHECK: nn.slice %[[LOGITS]] {{.*}} -> tensor<512x1001xbf16>
// CHECK: nn.reduce
// CHECK: %[[GRAD:.*]] = nn.cross_entropy_grad %[[LOGITS]], {{.*}} -> tensor<512x1008xbf16>
// CHECK: %[[CLEAN:.*]] = dist.mask_padding %[[GRAD]] over <> shape [512, 1008, 1] size 1001 value 0.0
// CHECK: nn.contract %[[CLEAN]], %[[WIDE]] {{.*}} -> tensor<512x512xbf16>
// CHECK: %[[DW:.*]] = nn.contract %[[X]], %[[CLEAN]] {{.*}} -> tensor<1008x512xf32>
// CHECK: nn.slice %[[DW]] {{.*}} -> tensor<1001x512xf32>
// KERNEL-LABEL: func.func @head
// KERNEL: %[[LOGITS:.*]] = nn.contract {{.*}} -> tensor<512x1008xbf16>
// KERNEL-NOT: nn.slice %[[LOGITS]]
// KERNEL: exec.apply {{.*}}(%[[LOGITS]]) {kind = "reduce"
// KERNEL: exec.apply {{.*}}(%[[LOGITS]], {{.*}}) {kind = "cross_entropy_grad"
// CPU-LABEL: func.func @head
// CPU-NOT: tensor<512x1008
// CPU: return
func.func @head(%x: tensor<512x512xbf16>, %w: tensor<1001x512xbf16>, %l: tensor<512xi64>, %lse: tensor<512xf32>, %s: tensor<f32>) -> (tensor<512xbf16>, tensor<512x512xbf16>, tensor<1001x512xf32>) {
  %logits = nn.contract %x, %w {lhs_letters = "bi", rhs_letters = "oi", out_letters = "bo"} : (tensor<512x512xbf16>, tensor<1001x512xbf16>) -> tensor<512x1001xbf16>
  %max = nn.reduce %logits {dims = array<i64: 1>, kind = "max"} : (tensor<512x1001xbf16>) -> tensor<512xbf16>
  %d = nn.cross_entropy_grad %logits, %l, %lse, %s : (tensor<512x1001xbf16>, tensor<512xi64>, tensor<512xf32>, tensor<f32>) -> tensor<512x1001xbf16>
  %dx = nn.contract %d, %w {lhs_letters = "bo", rhs_letters = "oi", out_letters = "bi"} : (tensor<512x1001xbf16>, tensor<1001x512xbf16>) -> tensor<512x512xbf16>
  %dw = nn.contract %x, %d {lhs_letters = "bi", rhs_letters = "bo", out_letters = "oi"} : (tensor<512x512xbf16>, tensor<512x1001xbf16>) -> tensor<1001x512xf32>
  return %max, %dx, %dw : tensor<512xbf16>, tensor<512x512xbf16>, tensor<1001x512xf32>
}

// A sum over the odd dimension: both operands end with zeros, and the result is whole.
// CHECK-LABEL: func.func @sum
// CHECK: %[[A:.*]] = nn.insert_slice {{.*}} {dim = 1 : i64} {{.*}} -> tensor<1024x1008xf16>
// CHECK: %[[B:.*]] = nn.insert_slice {{.*}} {dim = 0 : i64} {{.*}} -> tensor<1008x1024xf16>
// CHECK: %[[Y:.*]] = nn.contract %[[A]], %[[B]] {{.*}} -> tensor<1024x1024xf16>
// CHECK: return %[[Y]]
func.func @sum(%a: tensor<1024x1001xf16>, %b: tensor<1001x1024xf16>) -> tensor<1024x1024xf16> {
  %y = nn.contract %a, %b {lhs_letters = "ik", rhs_letters = "kj", out_letters = "ij"} : (tensor<1024x1001xf16>, tensor<1001x1024xf16>) -> tensor<1024x1024xf16>
  return %y : tensor<1024x1024xf16>
}

// f32, even rows, and products that compute little on each element stay.
// CHECK-LABEL: func.func @stay
// CHECK-NOT: nn.insert_slice
// CHECK: return
func.func @stay(%x: tensor<512x512xf32>, %w: tensor<1001x512xf32>, %h: tensor<512x512xbf16>, %e: tensor<1000x512xbf16>, %q: tensor<1024x64xbf16>, %k: tensor<1001x64xbf16>) -> (tensor<512x1001xf32>, tensor<512x1000xbf16>, tensor<1024x1001xbf16>) {
  %0 = nn.contract %x, %w {lhs_letters = "bi", rhs_letters = "oi", out_letters = "bo"} : (tensor<512x512xf32>, tensor<1001x512xf32>) -> tensor<512x1001xf32>
  %1 = nn.contract %h, %e {lhs_letters = "bi", rhs_letters = "oi", out_letters = "bo"} : (tensor<512x512xbf16>, tensor<1000x512xbf16>) -> tensor<512x1000xbf16>
  %2 = nn.contract %q, %k {lhs_letters = "bi", rhs_letters = "oi", out_letters = "bo"} : (tensor<1024x64xbf16>, tensor<1001x64xbf16>) -> tensor<1024x1001xbf16>
  return %0, %1, %2 : tensor<512x1001xf32>, tensor<512x1000xbf16>, tensor<1024x1001xbf16>
}
