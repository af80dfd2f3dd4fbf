// What all microbatches share and has to be sent for: a stage that begins at once gathers it where its first step needs it, and the rest
// behind that step; a stage that begins by waiting gathers all of it first. What is computed of it lies in front, for a kernel of the first
// step might take it in and round otherwise than the other steps do.
// RUN: tessera-opt %s --tessera-emit-pipeline | FileCheck %s
module attributes {dist.micro = 2 : i64, dist.pipeline = #dist.pipeline<"pipe", "1f1b", [0, 1]>} {
  nn.variable @p : tensor<4xf32> {role = "parameter", trained = true}
  nn.variable @q : tensor<4xf32> {role = "parameter", trained = true}
  nn.variable @r : tensor<4xf32> {role = "parameter", trained = true}

  // CHECK-LABEL: func.func @train_stage0
  // CHECK: %[[R:.*]] = dist.collective all_gather
  // CHECK-NEXT: %[[V:.*]] = nn.reshape %[[R]]
  // CHECK-NEXT: %[[N:.*]] = nn.neg %[[V]]
  // CHECK-NOT: dist.collective
  // CHECK: dist.step forward chunk 0 micro 0
  // CHECK-NEXT: %[[X:.*]] = nn.exp %arg0
  // CHECK-NEXT: %[[P:.*]] = dist.collective all_gather
  // CHECK-NEXT: %[[U:.*]] = nn.reshape %[[P]]
  // CHECK-NEXT: %[[Y:.*]] = nn.mul %[[X]], %[[U]]
  // CHECK-NEXT: nn.mul %[[Y]], %[[N]]
  // CHECK-NEXT: dist.send_start
  // CHECK-NEXT: %[[Q:.*]] = dist.collective all_gather
  // CHECK-NEXT: dist.step forward chunk 0 micro 1
  // CHECK-NOT: dist.collective
  // CHECK: nn.mul {{.*}}, %[[U]]
  // CHECK-NEXT: nn.mul {{.*}}, %[[N]]
  // CHECK: dist.step backward chunk 0 micro 0
  // CHECK-NOT: dist.collective
  // CHECK: nn.mul {{.*}}, %[[Q]]
  func.func @train_stage0(%a: tensor<2x4xf32>) attributes {dist.program = "train", dist.stage = 0 : i64} {
    %p = nn.read @p : tensor<4xf32>
    %gp = dist.collective all_gather %p over <"d"=2> shape [4] concat 0 : tensor<4xf32> -> tensor<8xf32>
    %u = nn.reshape %gp : (tensor<8xf32>) -> tensor<2x4xf32>
    %r = nn.read @r : tensor<4xf32>
    %gr = dist.collective all_gather %r over <"d"=2> shape [4] concat 0 : tensor<4xf32> -> tensor<8xf32>
    %v = nn.reshape %gr : (tensor<8xf32>) -> tensor<2x4xf32>
    %n = nn.neg %v : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %q = nn.read @q : tensor<4xf32>
    %gq = dist.collective all_gather %q over <"d"=2> shape [4] concat 0 : tensor<4xf32> -> tensor<8xf32>
    %e = nn.exp %a {dist.chunk = 0 : i64, dist.work = #dist<work forward>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %y = nn.mul %e, %u {dist.chunk = 0 : i64, dist.work = #dist<work forward>} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %x = nn.mul %y, %n {dist.chunk = 0 : i64, dist.work = #dist<work forward>} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    dist.send %x to 1 channel 0 {dist.chunk = 0 : i64, dist.work = #dist<work forward>} : tensor<2x4xf32>
    %c = dist.recv from 1 channel 1 {dist.chunk = 0 : i64, dist.work = #dist<work backward>} : tensor<8xf32>
    %g = nn.mul %c, %gq {dist.chunk = 0 : i64, dist.work = #dist<work backward>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %sum = dist.accumulate %g {dist.chunk = 0 : i64, dist.work = #dist<work weight>} : tensor<8xf32>
    %s = dist.collective reduce_scatter %sum over <"d"=2> shape [8] split 0 reduce sum {dist.chunk = 0 : i64, dist.work = #dist<work update>} : tensor<8xf32> -> tensor<4xf32>
    nn.assign @p, %s {dist.chunk = 0 : i64, dist.work = #dist<work update>} : tensor<4xf32>
    return
  }

  // What is only returned is gathered, and returned at the end.
  // CHECK-LABEL: func.func @infer_stage0
  // CHECK: dist.step forward chunk 0 micro 0
  // CHECK: %[[P:.*]] = dist.collective all_gather
  // CHECK: dist.step update
  // CHECK: return %[[P]]
  func.func @infer_stage0(%a: tensor<8xf32>) -> tensor<8xf32> attributes {dist.program = "infer", dist.stage = 0 : i64} {
    %p = nn.read @p : tensor<4xf32>
    %gp = dist.collective all_gather %p over <"d"=2> shape [4] concat 0 : tensor<4xf32> -> tensor<8xf32>
    %e = nn.exp %a {dist.chunk = 0 : i64, dist.work = #dist<work forward>} : (tensor<8xf32>) -> tensor<8xf32>
    dist.send %e to 1 channel 0 {dist.chunk = 0 : i64, dist.work = #dist<work forward>} : tensor<8xf32>
    return %gp : tensor<8xf32>
  }
  func.func @infer_stage1() attributes {dist.program = "infer", dist.stage = 1 : i64} {
    %x = dist.recv from 0 channel 0 {dist.chunk = 1 : i64, dist.work = #dist<work forward>} : tensor<8xf32>
    return
  }

  // CHECK-LABEL: func.func @train_stage1
  // CHECK: dist.collective all_gather
  // CHECK: dist.step forward chunk 1 micro 0
  // CHECK-NEXT: dist.recv
  func.func @train_stage1() attributes {dist.program = "train", dist.stage = 1 : i64} {
    %q = nn.read @q : tensor<4xf32>
    %gq = dist.collective all_gather %q over <"d"=2> shape [4] concat 0 : tensor<4xf32> -> tensor<8xf32>
    %x = dist.recv from 0 channel 0 {dist.chunk = 1 : i64, dist.work = #dist<work forward>} : tensor<8xf32>
    %y = nn.mul %x, %gq {dist.chunk = 1 : i64, dist.work = #dist<work forward>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %c = nn.neg %y {dist.chunk = 1 : i64, dist.work = #dist<work backward>} : (tensor<8xf32>) -> tensor<8xf32>
    dist.send %c to 0 channel 1 {dist.chunk = 1 : i64, dist.work = #dist<work backward>} : tensor<8xf32>
    return
  }
}
