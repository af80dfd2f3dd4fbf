// What follows a product becomes part of it.
// RUN: tessera-opt %s --tessera-fold-epilogues | FileCheck %s

// A bias on either side of the addition, and the name of the product stays.
// CHECK-LABEL: func.func @bias
// CHECK-NEXT: %[[A:.*]] = nn.fused_contract %arg0, %arg1, %arg2 {lhs_letters = "bi", nn.id = "product"
// CHECK-NEXT: %[[B:.*]] = nn.fused_contract %arg0, %arg1, %arg2
// CHECK-NEXT: return %[[A]], %[[B]]
func.func @bias(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>, %b: tensor<5xf32>) -> (tensor<3x5xf32>, tensor<3x5xf32>) {
  %0 = nn.contract %x, %w {nn.id = "product", lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %1 = nn.add %0, %b : (tensor<3x5xf32>, tensor<5xf32>) -> tensor<3x5xf32>
  %2 = nn.contract %x, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %3 = nn.add %b, %2 : (tensor<5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  return %1, %3 : tensor<3x5xf32>, tensor<3x5xf32>
}

// In an inference nothing of the operand of an activation is left.
// CHECK-LABEL: func.func @activation
// CHECK-NEXT: %[[Y:.*]] = nn.fused_contract %arg0, %arg1, %arg2 {activation = "relu"{{.*}} -> tensor<3x4xf32>
// CHECK-NEXT: nn.contract %[[Y]]
// CHECK-NEXT: return
func.func @activation(%x: tensor<3x4xf32>, %w: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<3x4xf32> {
  %0 = nn.contract %x, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
  %1 = nn.add %0, %b : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  %2 = nn.relu %1 : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %3 = nn.contract %2, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
  return %3 : tensor<3x4xf32>
}

// A step of training: the activation's operand is kept, its derivative multiplies the cotangent that comes from a product, and the bias' gradient is a
// sum of an operand of the weights' gradient.
// CHECK-LABEL: func.func @mlp
// CHECK-NEXT: %[[Y:.*]], %[[KEPT:.*]] = nn.fused_contract %arg0, %arg1, %arg2 {activation = "gelu_tanh"
// CHECK-NEXT: %[[Z:.*]] = nn.contract %[[Y]], %arg3
// CHECK-NEXT: %[[DX:.*]] = nn.fused_contract %[[Z]], %arg3, %[[KEPT]] {activation = "gelu_tanh"
// CHECK-NEXT: %[[DW:.*]], %[[DB:.*]] = nn.fused_contract %arg0, %[[DX]] {{.*}} sums_of = "rhs"
// CHECK-NEXT: return %[[DW]], %[[DB]]
func.func @mlp(%x: tensor<2x3x4xf32>, %w: tensor<4x6xf32>, %b: tensor<6xf32>, %v: tensor<6x4xf32>) -> (tensor<4x6xf32>, tensor<6xf32>) {
  %0 = nn.contract %x, %w {lhs_letters = "bsi", rhs_letters = "io", out_letters = "bso"} : (tensor<2x3x4xf32>, tensor<4x6xf32>) -> tensor<2x3x6xf32>
  %1 = nn.add %0, %b : (tensor<2x3x6xf32>, tensor<6xf32>) -> tensor<2x3x6xf32>
  %2 = nn.gelu %1 {tanh = true} : (tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %3 = nn.contract %2, %v {lhs_letters = "bso", rhs_letters = "oi", out_letters = "bsi"} : (tensor<2x3x6xf32>, tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %4 = nn.contract %3, %v {lhs_letters = "bsi", rhs_letters = "oi", out_letters = "bso"} : (tensor<2x3x4xf32>, tensor<6x4xf32>) -> tensor<2x3x6xf32>
  %5 = nn.gelu_grad %1, %4 {tanh = true} : (tensor<2x3x6xf32>, tensor<2x3x6xf32>) -> tensor<2x3x6xf32>
  %6 = nn.reduce %5 {dims = array<i64: 0, 1>, kind = "sum"} : (tensor<2x3x6xf32>) -> tensor<6xf32>
  %7 = nn.contract %x, %5 {lhs_letters = "bsi", rhs_letters = "bso", out_letters = "io"} : (tensor<2x3x4xf32>, tensor<2x3x6xf32>) -> tensor<4x6xf32>
  return %7, %6 : tensor<4x6xf32>, tensor<6xf32>
}

// The operator moves behind what it reads; a sum of the first operand; bf16 whose gradients are f32.
// CHECK-LABEL: func.func @places
// CHECK-NEXT: %[[B:.*]] = nn.cast
// CHECK-NEXT: %[[Y:.*]] = nn.fused_contract %arg0, %arg1, %[[B]]
// CHECK-NEXT: %{{.*}}, %{{.*}} = nn.fused_contract %[[Y]], %arg0 {{.*}}sums_of = "lhs"{{.*}} -> (tensor<5x4xf32>, tensor<5xf32>)
// CHECK-NEXT: return
func.func @places(%x: tensor<3x4xbf16>, %w: tensor<4x5xbf16>, %b: tensor<5xf32>) -> (tensor<5x4xf32>, tensor<5xf32>) {
  %0 = nn.contract %x, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<3x4xbf16>, tensor<4x5xbf16>) -> tensor<3x5xbf16>
  %1 = nn.cast %b {to = bf16} : (tensor<5xf32>) -> tensor<5xbf16>
  %2 = nn.add %0, %1 : (tensor<3x5xbf16>, tensor<5xbf16>) -> tensor<3x5xbf16>
  %3 = nn.contract %2, %x {lhs_letters = "bo", rhs_letters = "bi", out_letters = "oi"} : (tensor<3x5xbf16>, tensor<3x4xbf16>) -> tensor<5x4xf32>
  %4 = nn.reduce %2 {dims = array<i64: 0>, kind = "sum"} : (tensor<3x5xbf16>) -> tensor<5xf32>
  return %3, %4 : tensor<5x4xf32>, tensor<5xf32>
}

// Left alone: a vector along another dimension, a sum over less than the product's, sums that would count the other operand's letters, integers.
// CHECK-LABEL: func.func @alone
// CHECK-NOT: fused_contract
// CHECK: return
func.func @alone(%x: tensor<5x4xf32>, %w: tensor<4x5xf32>, %b: tensor<5x1xf32>, %dy: tensor<2x5x5xf32>, %n: tensor<5x4xi64>, %m: tensor<4x5xi64>, %c: tensor<5xi64>)
    -> (tensor<5x5xf32>, tensor<5x5xf32>, tensor<4x5xf32>, tensor<5x5xi64>) {
  %0 = nn.contract %x, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<5x4xf32>, tensor<4x5xf32>) -> tensor<5x5xf32>
  %1 = nn.add %0, %b : (tensor<5x5xf32>, tensor<5x1xf32>) -> tensor<5x5xf32>
  %2 = nn.reduce %dy {dims = array<i64: 0>, kind = "sum"} : (tensor<2x5x5xf32>) -> tensor<5x5xf32>
  %3 = nn.contract %x, %dy {lhs_letters = "si", rhs_letters = "bso", out_letters = "io"} : (tensor<5x4xf32>, tensor<2x5x5xf32>) -> tensor<4x5xf32>
  %4 = nn.contract %n, %m {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<5x4xi64>, tensor<4x5xi64>) -> tensor<5x5xi64>
  %5 = nn.add %4, %c : (tensor<5x5xi64>, tensor<5xi64>) -> tensor<5x5xi64>
  return %1, %2, %3, %5 : tensor<5x5xf32>, tensor<5x5xf32>, tensor<4x5xf32>, tensor<5x5xi64>
}

// What kernels alone read is theirs, a bias is not.
// CHECK-LABEL: func.func @in_a_kernel
// CHECK-NEXT: %[[GATE:.*]] = nn.fused_contract %arg0, %arg1, %arg2 {lhs_letters
// CHECK-NEXT: nn.silu %[[GATE]]
func.func @in_a_kernel(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>, %b: tensor<5xf32>, %up: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %0 = nn.contract %x, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %1 = nn.add %0, %b : (tensor<3x5xf32>, tensor<5xf32>) -> tensor<3x5xf32>
  %2 = nn.silu %1 : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %3 = nn.mul %2, %up : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  return %3 : tensor<3x5xf32>
}

// Two operators of different steps of a pipeline stay apart.
// CHECK-LABEL: func.func @steps
// CHECK: nn.contract
// CHECK: dist.step
// CHECK: nn.add
func.func @steps(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>, %c: tensor<5xf32>) -> tensor<3x5xf32> {
  dist.step forward chunk 0 micro 0
  %0 = nn.contract %x, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  dist.step forward chunk 0 micro 1
  %1 = nn.neg %c : (tensor<5xf32>) -> tensor<5xf32>
  %2 = nn.add %0, %1 : (tensor<3x5xf32>, tensor<5xf32>) -> tensor<3x5xf32>
  return %2 : tensor<3x5xf32>
}

// A sum that is read before the product.
// CHECK-LABEL: func.func @early_sum
// CHECK-NEXT: %{{.*}}, %[[SUM:.*]] = nn.fused_contract %arg0, %arg1
// CHECK-NEXT: nn.neg %[[SUM]]
func.func @early_sum(%x: tensor<3x4xf32>, %dy: tensor<3x5xf32>) -> (tensor<4x5xf32>, tensor<5xf32>) {
  %0 = nn.reduce %dy {dims = array<i64: 0>, kind = "sum"} : (tensor<3x5xf32>) -> tensor<5xf32>
  %1 = nn.neg %0 : (tensor<5xf32>) -> tensor<5xf32>
  %2 = nn.contract %x, %dy {lhs_letters = "bi", rhs_letters = "bo", out_letters = "io"} : (tensor<3x4xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  return %2, %1 : tensor<4x5xf32>, tensor<5xf32>
}
