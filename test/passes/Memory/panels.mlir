// Panels are computed where the result lies: products add up in one buffer, read and write their part of operands and results, and reductions to one rank
// each are made in one buffer.
// RUN: tessera-opt %s --split-input-file --verify-diagnostics --tessera-plan-memory --tessera-verify-memory | FileCheck %s

// CHECK-LABEL: func.func @sum()
// CHECK: exec.input %[[X:[0-9]+]]
// CHECK: exec.input %[[W:[0-9]+]]
// CHECK: exec.call "gemm"(%[[X]], %[[W]], %[[Y:[0-9]+]]
// CHECK-NOT: accumulate
// CHECK-NOT: copy_box
// CHECK: exec.call "gemm"(%[[X]], %[[W]], %[[Y]]{{.*}}a_offset = 4 : i64, accumulate = true,{{.*}}b_offset = 20 : i64
// CHECK-NEXT: exec.output %[[Y]]
func.func @sum(%x: tensor<2x8xf32> {nn.name = "x", dist.layout = #dist.layout<[[2], [8]]>, dist.shape = array<i64: 2, 8>},
               %w: tensor<8x5xf32> {nn.name = "w", dist.layout = #dist.layout<[[8], [5]]>, dist.shape = array<i64: 8, 5>})
    -> (tensor<2x5xf32> {nn.name = "y", dist.layout = #dist.layout<[[2], [5]]>, dist.shape = array<i64: 2, 5>}) {
  %0 = nn.contract_panel %x, %w over "i" size 4 at [0, 0, 0] {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x8xf32>, tensor<8x5xf32>) -> tensor<2x5xf32>
  %1 = nn.contract_panel %x, %w, %0 over "i" size 4 at [4, 4, 0] {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x8xf32>, tensor<8x5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
  return %1 : tensor<2x5xf32>
}

// -----

// Two places of one result.
// CHECK-LABEL: func.func @places()
// CHECK: exec.input %[[X:[0-9]+]]
// CHECK: exec.input %[[W:[0-9]+]]
// CHECK: exec.call "gemm"(%[[X]], %[[W]], %[[Y:[0-9]+]]
// CHECK: exec.call "gemm"(%[[X]], %[[W]], %[[Y]]{{.*}}a_offset = 8 : i64,{{.*}}c_offset = 10 : i64
// CHECK-NEXT: exec.output %[[Y]]
func.func @places(%x: tensor<4x4xf32> {nn.name = "x", dist.layout = #dist.layout<[[4], [4]]>, dist.shape = array<i64: 4, 4>},
                  %w: tensor<4x5xf32> {nn.name = "w", dist.layout = #dist.layout<[[4], [5]]>, dist.shape = array<i64: 4, 5>})
    -> (tensor<4x5xf32> {nn.name = "y", dist.layout = #dist.layout<[[4], [5]]>, dist.shape = array<i64: 4, 5>}) {
  %0 = nn.contract_panel %x, %w over "b" size 2 at [0, 0, 0] {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<4x4xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  %1 = nn.contract_panel %x, %w, %0 over "b" size 2 at [2, 0, 2] {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<4x4xf32>, tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  return %1 : tensor<4x5xf32>
}

// -----

// A broadcast is told its root and how to travel.
// CHECK-LABEL: func.func @own()
// CHECK: exec.collective "broadcast"({{.*}}algorithm = "direct"{{.*}}root = 1
// CHECK: exec.collective "reduce"(%{{.*}}, %[[A:[0-9]+]], {{.*}}root = 0
// CHECK: exec.collective "reduce"(%{{.*}}, %[[B:[0-9]+]], {{.*}}root = 1
// CHECK-NOT: copy_box
// CHECK: exec.output
func.func @own(%x: tensor<64xf32> {nn.name = "x", dist.layout = #dist.layout<[[64]]>, dist.shape = array<i64: 64>},
               %y: tensor<64xf32> {nn.name = "y", dist.layout = #dist.layout<[[64]]>, dist.shape = array<i64: 64>})
    -> (tensor<64xf32> {nn.name = "z", dist.layout = #dist.layout<[[64]]>, dist.shape = array<i64: 64>}) {
  %b = dist.collective broadcast %y over <"t"=2> shape [64] root 1 : tensor<64xf32> -> tensor<64xf32>
  %t = dist.collective_start reduce %x over <"t"=2> shape [64] root 0 reduce sum : tensor<64xf32> -> !dist.token<tensor<64xf32>>
  %0 = dist.collective_wait %t : !dist.token<tensor<64xf32>>
  %1 = dist.collective reduce %b over <"t"=2> shape [64] root 1 reduce sum : tensor<64xf32> -> tensor<64xf32>
  %2 = exec.own %0, %1 : tensor<64xf32>, tensor<64xf32> -> tensor<64xf32>
  return %2 : tensor<64xf32>
}

// -----

func.func @not_reduced(%x: tensor<64xf32> {nn.name = "x", dist.layout = #dist.layout<[[64]]>, dist.shape = array<i64: 64>})
    -> (tensor<64xf32> {nn.name = "z", dist.layout = #dist.layout<[[64]]>, dist.shape = array<i64: 64>}) {
  // expected-error @+1 {{needs values that reductions to one rank each have made}}
  %0 = exec.own %x : tensor<64xf32> -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// -----

func.func @other_type(%x: tensor<64xf32>) {
  // expected-error @+1 {{gives 'tensor<32xf32>' of a value of type 'tensor<64xf32>'}}
  %0 = exec.own %x : tensor<64xf32> -> tensor<32xf32>
  return
}
