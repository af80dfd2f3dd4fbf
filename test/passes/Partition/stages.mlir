// What crosses to another stage is received once, in the first step there that uses it: weights' gradients may come first in the block, but run last.
// RUN: split-file %s %t
// RUN: tessera-opt %t/received.mlir --tessera-partition | FileCheck %t/received.mlir
// RUN: tessera-opt %t/sums.mlir --tessera-partition --cse | FileCheck %t/sums.mlir
// RUN: tessera-opt %t/order.mlir --tessera-partition | FileCheck %t/order.mlir
// RUN: tessera-opt %t/after.mlir --tessera-partition | FileCheck %t/after.mlir

//--- received.mlir

module attributes {dist.micro = 2 : i64, dist.pipeline = #dist.pipeline<"pipe", "zero-bubble", [0, 1, 1, 0]>} {
  dist.mesh @mesh = <["pipe"=2]>
  // CHECK-LABEL: func.func @train_stage1
  // CHECK: %[[A:.*]] = dist.recv from 0 channel 0 {dist.chunk = 2 : i64, dist.work = #dist<work backward>}
  // CHECK-NOT: dist.recv
  // CHECK: nn.neg %[[A]]
  // CHECK: nn.sin %[[A]]
  // CHECK: nn.exp %[[A]]
  func.func @train(%x: tensor<4xf32, #dist.layout<[[4]]>>) -> (tensor<4xf32, #dist.layout<[[4]]>>, tensor<4xf32, #dist.layout<[[4]]>>, tensor<4xf32, #dist.layout<[[4]]>>) {
    %a = nn.cos %x {dist.chunk = 0 : i64, dist.work = #dist<work forward>} : (tensor<4xf32, #dist.layout<[[4]]>>) -> tensor<4xf32, #dist.layout<[[4]]>>
    %w = nn.neg %a {dist.chunk = 1 : i64, dist.work = #dist<work weight>} : (tensor<4xf32, #dist.layout<[[4]]>>) -> tensor<4xf32, #dist.layout<[[4]]>>
    %b = nn.sin %a {dist.chunk = 1 : i64, dist.work = #dist<work backward>} : (tensor<4xf32, #dist.layout<[[4]]>>) -> tensor<4xf32, #dist.layout<[[4]]>>
    %c = nn.exp %a {dist.chunk = 2 : i64, dist.work = #dist<work backward>} : (tensor<4xf32, #dist.layout<[[4]]>>) -> tensor<4xf32, #dist.layout<[[4]]>>
    return %w, %b, %c : tensor<4xf32, #dist.layout<[[4]]>>, tensor<4xf32, #dist.layout<[[4]]>>, tensor<4xf32, #dist.layout<[[4]]>>
  }
}

// Stage 1 has no term of either sum: it takes part in both all the same.
//--- sums.mlir
module attributes {dist.micro = 1 : i64, dist.pipeline = #dist.pipeline<"pipe", "1f1b", [0, 1]>} {
  dist.mesh @mesh = <["pipe"=2]>
  // CHECK-LABEL: func.func @train_stage1
  // CHECK: dist.collective all_reduce {{.*}}dist.stage_sum = 0 : i64
  // CHECK: dist.collective all_reduce {{.*}}dist.stage_sum = 1 : i64
  func.func @train(%x: tensor<f32, #dist.layout<[]>>) -> (tensor<f32, #dist.layout<[]>>, tensor<f32, #dist.layout<[]>>) {
    %a = nn.cos %x {dist.chunk = 0 : i64, dist.work = #dist<work forward>} : (tensor<f32, #dist.layout<[]>>) -> tensor<f32, #dist.layout<[]>>
    %b = nn.sin %x {dist.chunk = 0 : i64, dist.work = #dist<work forward>} : (tensor<f32, #dist.layout<[]>>) -> tensor<f32, #dist.layout<[]>>
    %loss = nn.acc %a {dist.over_stages} : (tensor<f32, #dist.layout<[]>>) -> tensor<f32, #dist.layout<[]>>
    %norm = nn.acc %b {dist.over_stages} : (tensor<f32, #dist.layout<[]>>) -> tensor<f32, #dist.layout<[]>>
    return %loss, %norm : tensor<f32, #dist.layout<[]>>, tensor<f32, #dist.layout<[]>>
  }
}

// What two stages exchange behind the last step is received in the order sent, whichever is used first.
//--- order.mlir
module attributes {dist.micro = 1 : i64, dist.pipeline = #dist.pipeline<"pipe", "1f1b", [0, 1]>} {
  dist.mesh @mesh = <["pipe"=2]>
  // CHECK-LABEL: func.func @train_stage0
  // CHECK: dist.send {{.*}} channel 0
  // CHECK: dist.send {{.*}} channel 1
  // CHECK-LABEL: func.func @train_stage1
  // CHECK: %[[A:.*]] = dist.recv from 0 channel 0
  // CHECK: %[[B:.*]] = dist.recv from 0 channel 1
  // CHECK: nn.neg %[[B]]
  // CHECK: nn.exp %[[A]]
  func.func @train(%x: tensor<4xf32, #dist.layout<[[4]]>>) -> (tensor<4xf32, #dist.layout<[[4]]>>, tensor<4xf32, #dist.layout<[[4]]>>) {
    %a = nn.cos %x {dist.chunk = 0 : i64, dist.work = #dist<work weight>} : (tensor<4xf32, #dist.layout<[[4]]>>) -> tensor<4xf32, #dist.layout<[[4]]>>
    %b = nn.sin %x {dist.chunk = 0 : i64, dist.work = #dist<work weight>} : (tensor<4xf32, #dist.layout<[[4]]>>) -> tensor<4xf32, #dist.layout<[[4]]>>
    %c = nn.neg %b {dist.chunk = 1 : i64, dist.work = #dist<work update>} : (tensor<4xf32, #dist.layout<[[4]]>>) -> tensor<4xf32, #dist.layout<[[4]]>>
    %d = nn.exp %a {dist.chunk = 1 : i64, dist.work = #dist<work update>} : (tensor<4xf32, #dist.layout<[[4]]>>) -> tensor<4xf32, #dist.layout<[[4]]>>
    return %c, %d : tensor<4xf32, #dist.layout<[[4]]>>, tensor<4xf32, #dist.layout<[[4]]>>
  }
}

// What follows a sum over the microbatches runs after the last, on the stage that it is sent to as well.
//--- after.mlir
module attributes {dist.micro = 2 : i64, dist.pipeline = #dist.pipeline<"pipe", "1f1b", [0, 1]>} {
  dist.mesh @mesh = <["pipe"=2]>
  // CHECK-LABEL: func.func @train_stage0
  // CHECK: dist.recv from 1 channel 0 {dist.chunk = 0 : i64, dist.work = #dist<work update>}
  // CHECK: nn.exp {{.*}} {dist.chunk = 0 : i64, dist.work = #dist<work update>}
  // CHECK-LABEL: func.func @train_stage1
  // CHECK: dist.accumulate {{.*}} {dist.chunk = 1 : i64, dist.work = #dist<work backward>}
  // CHECK: nn.neg {{.*}} {dist.chunk = 1 : i64, dist.work = #dist<work update>}
  func.func @train(%x: tensor<4x2xf32, #dist.layout<[[2 : "micro"=2, 2], [2]]>>) -> tensor<2xf32, #dist.layout<[[2]]>> {
    %a = nn.reduce %x {dims = array<i64: 0>, dist.chunk = 1 : i64, dist.work = #dist<work backward>, kind = "sum"} : (tensor<4x2xf32, #dist.layout<[[2 : "micro"=2, 2], [2]]>>) -> tensor<2xf32, #dist.layout<[[2]], partial = ["micro"=2]>>
    %b = dist.reshard %a {dist.chunk = 1 : i64, dist.work = #dist<work backward>} : tensor<2xf32, #dist.layout<[[2]], partial = ["micro"=2]>> -> tensor<2xf32, #dist.layout<[[2]]>>
    %c = nn.neg %b {dist.chunk = 1 : i64, dist.work = #dist<work backward>} : (tensor<2xf32, #dist.layout<[[2]]>>) -> tensor<2xf32, #dist.layout<[[2]]>>
    %d = nn.exp %c {dist.chunk = 0 : i64, dist.work = #dist<work backward>} : (tensor<2xf32, #dist.layout<[[2]]>>) -> tensor<2xf32, #dist.layout<[[2]]>>
    return %d : tensor<2xf32, #dist.layout<[[2]]>>
  }
}
