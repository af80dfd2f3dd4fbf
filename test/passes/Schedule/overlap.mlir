// Collectives start where their input exists and are waited for before the first use.
// RUN: tessera-opt %s --tessera-overlap-collectives | FileCheck %s

// CHECK-LABEL: func.func @overlaps
// CHECK: %[[T:.*]] = dist.collective_start all_reduce %arg0 over <"t"=2> shape [4, 8] reduce sum
// CHECK-NEXT: %[[E:.*]] = nn.exp %arg1
// CHECK-NEXT: %[[R:.*]] = dist.collective_wait %[[T]]
// CHECK-NEXT: nn.add %[[R]], %[[E]]
func.func @overlaps(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = dist.collective all_reduce %x over <"t"=2> shape [4, 8] reduce sum : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = nn.exp %y : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = nn.add %0, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// Nothing to overlap with.
// CHECK-LABEL: func.func @used_at_once
// CHECK-NEXT: dist.collective all_reduce
func.func @used_at_once(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = dist.collective all_reduce %x over <"t"=2> shape [4, 8] reduce sum : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = nn.exp %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// Two start in the order of the program, on every rank; a use inside a loop waits before the loop.
// CHECK-LABEL: func.func @keeps_order
// CHECK: %[[T0:.*]] = dist.collective_start all_reduce %arg0
// CHECK-NEXT: %[[T1:.*]] = dist.collective_start all_gather %arg1
// CHECK-NEXT: nn.exp
// CHECK-NEXT: nn.constant
// CHECK-NEXT: %[[R1:.*]] = dist.collective_wait %[[T1]]
// CHECK-NEXT: dist.loop
// CHECK-NEXT: nn.add {{.*}}, %[[R1]]
// CHECK: dist.collective_wait %[[T0]]
func.func @keeps_order(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<8x8xf32> {
  %0 = dist.collective all_reduce %x over <"t"=2> shape [4, 8] reduce sum : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = dist.collective all_gather %y over <"t"=2> shape [4, 8] concat 0 : tensor<4x8xf32> -> tensor<8x8xf32>
  %2 = nn.exp %y : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %z = nn.constant dense<0.0> : tensor<8x8xf32> : tensor<8x8xf32>
  %3 = dist.loop times 2 iter_args(%a = %z : tensor<8x8xf32>) {
    %n = nn.add %a, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    dist.yield %n : tensor<8x8xf32>
  }
  %4 = nn.sub %0, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = nn.concat %4, %4 {dim = 0 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %6 = nn.add %3, %5 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %6 : tensor<8x8xf32>
}
