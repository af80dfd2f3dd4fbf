// Two stages, two microbatches: steps in the order of the schedule, receives first, sums over microbatches, then what uses them.
// RUN: tessera-opt %s --tessera-emit-pipeline | FileCheck %s --check-prefixes=CHECK,GPIPE
// RUN: sed s/gpipe/1f1b/ %s | tessera-opt --tessera-emit-pipeline | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: sed s/gpipe/pipedream/ %s | not tessera-opt --tessera-emit-pipeline 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: tessera-opt %s --tessera-emit-pipeline=turns=1 | FileCheck %s --check-prefix=TURN

// RUN: sed s/train_stage1/other/ %s | sed 's/"train", dist.stage = 1/"other", dist.stage = 1/' | not tessera-opt --tessera-emit-pipeline 2>&1 | FileCheck %s --check-prefix=MISSING

// One microbatch of the two.
// TURN: dist.micro = 2
// TURN: dist.step forward chunk 0 micro 0
// TURN-NOT: micro 1

// MISSING: error: program "train" has functions for 1 of 2 stages
// UNKNOWN: error: has the unknown pipeline schedule "pipedream"; schedules are gpipe, 1f1b, interleaved, zero-bubble
module attributes {dist.micro = 2 : i64, dist.pipeline = #dist.pipeline<"pipe", "gpipe", [0, 1]>} {
  nn.variable @w : tensor<8xf32> {role = "parameter", trained = true}
  nn.variable @v : tensor<8xf32> {role = "parameter", trained = true}

  // A stage waits for a send once the other has received it, not at the same moment: each could be waiting for the other.
  // CHECK-LABEL: func.func @train_stage0
  // CHECK: %[[ZERO:.*]] = nn.constant
  // CHECK: dist.step forward chunk 0 micro 0
  // CHECK: %[[A:.*]] = dist.send_start {{.*}} to 1 channel 0
  // CHECK-NEXT: dist.step forward chunk 0 micro 1
  // CHECK: %[[B:.*]] = dist.send_start {{.*}} to 1 channel 0
  // CHECK-NEXT: dist.send_wait %[[A]]
  // CHECK-NEXT: dist.step backward chunk 0 micro 0
  // CHECK-NEXT: dist.recv from 1 channel 1
  // GPIPE: dist.send_wait %[[B]]
  // CHECK: dist.step backward chunk 0 micro 1
  // CHECK-NEXT: dist.recv from 1 channel 1
  // CHECK: dist.step update
  // Constants are before all steps, also where folding gave one of a step to what follows all of them (the norm).
  // CHECK: %[[NORM:.*]] = dist.collective all_reduce %[[ZERO]] over <"pipe"=2>
  func.func @train_stage0(%a: tensor<8xf32>) attributes {dist.program = "train", dist.stage = 0 : i64} {
    %zero = nn.constant {dist.chunk = 0 : i64, dist.work = #dist<work forward>} dense<0.0> : tensor<f32> : tensor<f32>
    %v = nn.read @v : tensor<8xf32>
    %x = nn.mul %a, %v {dist.chunk = 0 : i64, dist.work = #dist<work forward>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    dist.send %x to 1 channel 0 {dist.chunk = 0 : i64, dist.work = #dist<work forward>} : tensor<8xf32>
    %c = dist.recv from 1 channel 1 {dist.chunk = 0 : i64, dist.work = #dist<work backward>} : tensor<8xf32>
    %g = nn.mul %c, %a {dist.chunk = 0 : i64, dist.work = #dist<work weight>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %sum = dist.accumulate %g {dist.chunk = 0 : i64, dist.work = #dist<work weight>} : tensor<8xf32>
    nn.assign @v, %sum {dist.chunk = 0 : i64, dist.work = #dist<work update>} : tensor<8xf32>
    %norm = dist.collective all_reduce %zero over <"pipe"=2> shape [] reduce sum {dist.chunk = 0 : i64, dist.stage_sum = 0 : i64, dist.work = #dist<work update>} : tensor<f32> -> tensor<f32>
    return
  }

  // CHECK-LABEL: func.func @train_stage1
  // What no microbatch changes is computed once.
  // CHECK: %[[READ:.*]] = nn.read @w
  // CHECK-NEXT: %[[W:.*]] = nn.neg %[[READ]]
  // CHECK-NEXT: dist.step forward chunk 1 micro 0
  // CHECK-NEXT: %[[X0:.*]] = dist.recv from 0 channel 0
  // CHECK-NEXT: %[[Y0:.*]] = nn.mul %[[X0]], %[[W]]
  // GPIPE-NEXT: dist.step forward chunk 1 micro 1
  // ONE-NEXT: dist.step backward chunk 1 micro 0
  // GPIPE-NEXT: %[[X1:.*]] = dist.recv from 0 channel 0
  // GPIPE-NEXT: %[[Y1:.*]] = nn.mul %[[X1]], %[[W]]
  // GPIPE-NEXT: dist.step backward chunk 1 micro 0
  // CHECK-NEXT: %[[C0:.*]] = nn.mul %[[Y0]], %[[W]]
  // CHECK-NEXT: %[[S0:.*]] = dist.send_start %[[C0]] to 0 channel 1
  // CHECK-NEXT: %[[G0:.*]] = nn.mul %[[Y0]], %[[X0]]
  // ONE-NEXT: dist.step forward chunk 1 micro 1
  // ONE-NEXT: %[[X1:.*]] = dist.recv from 0 channel 0
  // ONE-NEXT: %[[Y1:.*]] = nn.mul %[[X1]], %[[W]]
  // The send has had a step's time to leave.
  // ONE-NEXT: dist.send_wait %[[S0]]
  // CHECK-NEXT: dist.step backward chunk 1 micro 1
  // CHECK-NEXT: %[[C1:.*]] = nn.mul %[[Y1]], %[[W]]
  // CHECK-NEXT: %[[S1:.*]] = dist.send_start %[[C1]] to 0 channel 1
  // CHECK-NEXT: %[[G1:.*]] = nn.mul %[[Y1]], %[[X1]]
  // CHECK-NEXT: %[[SUM:.*]] = nn.add %[[G0]], %[[G1]]
  // GPIPE-NEXT: dist.send_wait %[[S0]]
  // CHECK-NEXT: dist.step update
  // CHECK-NEXT: dist.send_wait %[[S1]]
  // CHECK-NEXT: %[[NEW:.*]] = nn.neg %[[SUM]]
  // CHECK-NEXT: nn.assign @w, %[[NEW]]
  func.func @train_stage1() attributes {dist.program = "train", dist.stage = 1 : i64} {
    %r = nn.read @w : tensor<8xf32>
    %w = nn.neg %r : (tensor<8xf32>) -> tensor<8xf32>
    %x = dist.recv from 0 channel 0 {dist.chunk = 1 : i64, dist.work = #dist<work forward>} : tensor<8xf32>
    %y = nn.mul %x, %w {dist.chunk = 1 : i64, dist.work = #dist<work forward>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %c = nn.mul %y, %w {dist.chunk = 1 : i64, dist.work = #dist<work backward>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    dist.send %c to 0 channel 1 {dist.chunk = 1 : i64, dist.work = #dist<work backward>} : tensor<8xf32>
    %g = nn.mul %y, %x {dist.chunk = 1 : i64, dist.work = #dist<work weight>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %sum = dist.accumulate %g {dist.chunk = 1 : i64, dist.work = #dist<work weight>} : tensor<8xf32>
    %new = nn.neg %sum {dist.chunk = 1 : i64, dist.work = #dist<work update>} : (tensor<8xf32>) -> tensor<8xf32>
    nn.assign @w, %new {dist.chunk = 1 : i64, dist.work = #dist<work update>} : tensor<8xf32>
    return
  }
}
