// Zeros that something in front of a loop adds to are filled in where they are used.
// RUN: tessera-opt %s --split-input-file --tessera-plan-memory --tessera-verify-memory | FileCheck %s

// What is added up in front of a loop is where the loop goes on with it; zeros are filled in where they are used.
// CHECK-LABEL: func.func @loop_after_a_turn()
// CHECK: exec.call "gemm"(%{{.*}}, %{{.*}}, %[[TERM:[0-9]+]], %{{.*}})
// CHECK-NEXT: exec.call "fill"(%[[ZERO:[0-9]+]])
// CHECK-NEXT: exec.launch @add{{.*}}(%[[ACC:[0-9]+]], %[[ZERO]])
// CHECK-NEXT: exec.loop from 1 3 {
// CHECK-NEXT: exec.call "gemm"
// CHECK-NEXT: exec.launch @add{{.*}}(%{{.*}}, %[[ACC]])
// CHECK-NOT: copy_box
// CHECK: exec.output %[[ACC]]
func.func @loop_after_a_turn(%x: tensor<64x64xf32> {nn.name = "x", dist.layout = #dist.layout<[[64], [64]]>, dist.shape = array<i64: 64, 64>})
    -> (tensor<64x64xf32> {nn.name = "y", dist.layout = #dist.layout<[[64], [64]]>, dist.shape = array<i64: 64, 64>}) {
  %p = nn.contract %x, %x {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %z = nn.constant dense<0.0> : tensor<64x64xf32> : tensor<64x64xf32>
  %f = exec.apply @add(%p, %z) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %l = dist.loop from 1 times 3 iter_args(%acc = %f : tensor<64x64xf32>) {
    %q = nn.contract %x, %x {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %n = exec.apply @add(%q, %acc) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    dist.yield %n : tensor<64x64xf32>
  }
  return %l : tensor<64x64xf32>
}
module @kernels {
  func.func @add(%t: tensor<64x64xf32>, %a: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {exec.in_place = [array<i64: 0, 0>, array<i64: 1, 0>]} {
    %y = nn.add %t, %a : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %y : tensor<64x64xf32>
  }
}

// -----

// Where the sum goes into a pack, all of it is there from the zeros on, and nothing is copied.
// CHECK-LABEL: func.func @sum_in_a_pack()
// CHECK: exec.call "gemm"(%{{.*}}, %{{.*}}, %[[TERM:[0-9]+]], %{{.*}})
// CHECK-NEXT: exec.call "fill"(%[[PART:[0-9]+]])
// CHECK-NEXT: exec.launch @add{{.*}}(%[[TERM]], %[[PART]])
// CHECK-NEXT: exec.loop from 1 2 {
// CHECK-NEXT: exec.call "gemm"
// CHECK-NEXT: exec.launch @add{{.*}}(%{{.*}}, %[[PART]])
// CHECK-NEXT: {{^ *[}]$}}
// CHECK-NEXT: exec.call "gemm"
// CHECK-NEXT: exec.launch @add{{.*}}(%{{.*}}, %[[PART]])
// CHECK-NOT: copy_box
// CHECK: exec.collective "all_reduce"
dist.mesh @mesh = <["data"=2]>
func.func @sum_in_a_pack(%x: tensor<64x64xf32> {nn.name = "x", dist.layout = #dist.layout<[[64], [64]]>, dist.shape = array<i64: 64, 64>})
    -> (tensor<64x64xf32> {nn.name = "y", dist.layout = #dist.layout<[[64], [64]]>, dist.shape = array<i64: 64, 64>}) {
  %p = nn.contract %x, %x {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %z = nn.constant dense<0.0> : tensor<64x64xf32> : tensor<64x64xf32>
  %f = exec.apply @add(%p, %z) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %l = dist.loop from 1 times 2 iter_args(%acc = %f : tensor<64x64xf32>) {
    %q = nn.contract %x, %x {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %n = exec.apply @add(%q, %acc) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    dist.yield %n : tensor<64x64xf32>
  }
  %t = nn.contract %x, %x {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %s = exec.apply @add(%t, %l) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %o = nn.contract %x, %x {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %k = dist.pack %s, %o : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<8192xf32>
  %r = dist.collective all_reduce %k over <"data"=2> shape [8192] reduce sum : tensor<8192xf32> -> tensor<8192xf32>
  %u:2 = dist.unpack %r : tensor<8192xf32> -> tensor<64x64xf32>, tensor<64x64xf32>
  return %u#0 : tensor<64x64xf32>
}
module @kernels {
  func.func @add(%t: tensor<64x64xf32>, %a: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {exec.in_place = [array<i64: 0, 0>, array<i64: 1, 0>]} {
    %y = nn.add %t, %a : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %y : tensor<64x64xf32>
  }
}
