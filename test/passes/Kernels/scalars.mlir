// A kernel takes an input of kind `scalar` by value; in it the number is a tensor again.
// RUN: tessera-opt %s --tessera-form-kernels --split-input-file | FileCheck %s
// RUN: tessera-opt %s --tessera-form-kernels --tessera-lower-kernels --split-input-file | FileCheck %s --check-prefix=LOWERED

// CHECK-LABEL: func.func @reach
// CHECK: %[[P:.*]] = exec.scalar "position" : i64
// CHECK: exec.apply @kernel_0(%{{.*}}, %[[P]])
// CHECK: %[[S:.*]] = exec.scalar "scale" : i64
// CHECK: exec.apply @kernel_1(%{{.*}}, %[[S]], %{{.*}})
// Another number is the same kernel's.
// CHECK: %[[Q:.*]] = exec.scalar "other" : i64
// CHECK: exec.apply @kernel_0(%{{.*}}, %[[Q]])
// CHECK: func.func @kernel_0(%[[I:.*]]: tensor<4x8xi64>, %[[A:.*]]: i64) -> tensor<4x8xi1>
// CHECK: %[[T:.*]] = nn.from_scalar %[[A]] : (i64) -> tensor<i64>
// CHECK: nn.compare %[[I]], %[[T]]
// CHECK: func.func @kernel_1(%{{.*}}: tensor<4x8xf32>, %[[B:.*]]: i64, %{{.*}}: tensor<4x8xi1>) -> tensor<4x8xf32>
// CHECK: nn.from_scalar %[[B]] : (i64) -> tensor<f32>
// LOWERED: func.func @kernel_0(%{{.*}}: tensor<4x8xi64>, %[[A:.*]]: i64)
// LOWERED: tensor.splat %[[A]] : tensor<i64>
// An f32 is the lower half of its number.
// LOWERED: func.func @kernel_1(%{{.*}}: tensor<4x8xf32>, %[[B:.*]]: i64, %{{.*}}: tensor<4x8xi1>)
// LOWERED: %[[LOW:.*]] = arith.trunci %[[B]] : i64 to i32
// LOWERED: %[[F:.*]] = arith.bitcast %[[LOW]] : i32 to f32
// LOWERED: tensor.splat %[[F]] : tensor<f32>
func.func @reach(%i: tensor<4x8xi64>, %x: tensor<4x8xf32>,
                 %p: tensor<i64> {nn.kind = #nn<kind scalar>, nn.name = "position"},
                 %q: tensor<i64> {nn.kind = #nn<kind scalar>, nn.name = "other"},
                 %s: tensor<f32> {nn.kind = #nn<kind scalar>, nn.name = "scale"}) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %near = nn.compare %i, %p {predicate = "le"} : (tensor<4x8xi64>, tensor<i64>) -> tensor<4x8xi1>
  %scaled = nn.mul %x, %s : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %y = nn.select %near, %scaled, %x : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %w = nn.contract %y, %x {lhs_letters = "ab", rhs_letters = "cb", out_letters = "ac"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  %far = nn.compare %i, %q {predicate = "le"} : (tensor<4x8xi64>, tensor<i64>) -> tensor<4x8xi1>
  %again = nn.mul %x, %s : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %z = nn.select %far, %again, %x : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y, %z : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// So does a call that writes a slice of a variable.
// CHECK-LABEL: func.func @insert
// CHECK: %[[P:.*]] = exec.scalar "position" : i64
// CHECK: nn.insert_slice %{{.*}}, %{{.*}}, %[[P]] {dim = 1 : i64} : (tensor<2x6x4xf32>, tensor<2x1x4xf32>, i64)
func.func @insert(%k: tensor<2x1x4xf32>,
                  %p: tensor<i64> {nn.kind = #nn<kind scalar>, nn.name = "position", nn.range = array<i64: 0, 6>}) -> tensor<2x6x4xf32> {
  %cache = nn.read @keys : tensor<2x6x4xf32>
  %new = nn.insert_slice %cache, %k, %p {dim = 1 : i64} : (tensor<2x6x4xf32>, tensor<2x1x4xf32>, tensor<i64>) -> tensor<2x6x4xf32>
  nn.assign @keys, %new : tensor<2x6x4xf32>
  return %new : tensor<2x6x4xf32>
}
nn.variable @keys : tensor<2x6x4xf32> {role = "buffer", init = "zero"}
