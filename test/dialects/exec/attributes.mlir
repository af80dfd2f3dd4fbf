// What text may say in discardable attributes of exec.
// RUN: tessera-opt %s --split-input-file --verify-diagnostics | FileCheck %s

// CHECK: func.func @kernel(%{{.*}}: tensor<4xf32> {exec.result = 0 : i64})
// CHECK-SAME: attributes {exec.extent = 4 : i64, exec.grain = 1 : i64, exec.in_place = [array<i64: 0, 0>], exec.workspace = 64 : i64}
func.func @kernel(%x: tensor<4xf32> {exec.result = 0 : i64}) -> tensor<4xf32>
    attributes {exec.extent = 4 : i64, exec.grain = 1 : i64, exec.in_place = [array<i64: 0, 0>], exec.workspace = 64 : i64} {
  // CHECK: exec.apply @add(%{{.*}}) {adds, kind = "add"}
  %y = exec.apply @add(%x, %x) {adds, kind = "add"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// expected-error@+1 {{has exec.extent = -1 : i64; expected a number that is not negative}}
func.func @negative() attributes {exec.extent = -1 : i64} {
  return
}

// -----

// expected-error@+1 {{has exec.in_place = [array<i64: 0>]; expected pairs of an argument and a result, array<i64: A, R>}}
func.func @no_pair() attributes {exec.in_place = [array<i64: 0>]} {
  return
}

// -----

// expected-error@+1 {{has exec.memory = 64 : i64; expected a dictionary of bytes}}
func.func @figures() attributes {exec.memory = 64 : i64} {
  return
}
