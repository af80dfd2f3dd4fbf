// Stages that do not meet are refused, with the two stages and what they stand at.
// RUN: split-file %s %t
// RUN: tessera-opt %t/good.mlir --tessera-verify-pipeline | FileCheck %s --check-prefix=GOOD
// RUN: not tessera-opt %t/deadlock.mlir --tessera-verify-pipeline 2>&1 | FileCheck %s --check-prefix=DEADLOCK
// RUN: not tessera-opt %t/order.mlir --tessera-verify-pipeline 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: not tessera-opt %t/unreceived.mlir --tessera-verify-pipeline 2>&1 | FileCheck %s --check-prefix=UNRECEIVED
// RUN: not tessera-opt %t/sums.mlir --tessera-verify-pipeline 2>&1 | FileCheck %s --check-prefix=SUMS
// RUN: not tessera-opt %t/alone.mlir --tessera-verify-pipeline 2>&1 | FileCheck %s --check-prefix=ALONE
// RUN: not tessera-opt %t/unsent.mlir --tessera-verify-pipeline 2>&1 | FileCheck %s --check-prefix=UNSENT

// GOOD: func.func @train_stage1
//--- good.mlir
module attributes {dist.pipeline = #dist.pipeline<"pipe", "1f1b", [0, 1]>} {
  func.func @train_stage0(%x: tensor<2xf32>) -> tensor<2xf32> attributes {dist.program = "train", dist.stage = 0 : i64} {
    dist.step forward chunk 0 micro 0
    %t = dist.send_start %x to 1 channel 0 : tensor<2xf32> -> !dist.token<tensor<2xf32>>
    %y = dist.recv from 1 channel 1 : tensor<2xf32>
    dist.send_wait %t : !dist.token<tensor<2xf32>>
    return %y : tensor<2xf32>
  }
  func.func @train_stage1(%x: tensor<2xf32>) -> tensor<2xf32> attributes {dist.program = "train", dist.stage = 1 : i64} {
    dist.step forward chunk 1 micro 0
    %t = dist.send_start %x to 0 channel 1 : tensor<2xf32> -> !dist.token<tensor<2xf32>>
    %y = dist.recv from 0 channel 0 : tensor<2xf32>
    dist.send_wait %t : !dist.token<tensor<2xf32>>
    return %y : tensor<2xf32>
  }
}

// Both wait for their send before they receive: with sends that wait for the receiver neither goes on.
// DEADLOCK: error: 'dist.send_wait' op is never met: rank 0 of stage 0 in forward of chunk 0, microbatch 0 waits for rank 2 of stage 1 to receive its message 0, while rank 2 of stage 1 in forward of chunk 1, microbatch 0 waits for rank 0 of stage 0 to receive its message 0
// DEADLOCK: note: stage 1 is here
//--- deadlock.mlir
module attributes {dist.pipeline = #dist.pipeline<"pipe", "1f1b", [0, 1]>} {
  dist.mesh @mesh = <["pipe"=2, "data"=2]>
  func.func @train_stage0(%x: tensor<2xf32>) -> tensor<2xf32> attributes {dist.program = "train", dist.stage = 0 : i64} {
    dist.step forward chunk 0 micro 0
    %t = dist.send_start %x to 1 channel 0 : tensor<2xf32> -> !dist.token<tensor<2xf32>>
    dist.send_wait %t : !dist.token<tensor<2xf32>>
    %y = dist.recv from 1 channel 1 : tensor<2xf32>
    return %y : tensor<2xf32>
  }
  func.func @train_stage1(%x: tensor<2xf32>) -> tensor<2xf32> attributes {dist.program = "train", dist.stage = 1 : i64} {
    dist.step forward chunk 1 micro 0
    %t = dist.send_start %x to 0 channel 1 : tensor<2xf32> -> !dist.token<tensor<2xf32>>
    dist.send_wait %t : !dist.token<tensor<2xf32>>
    %y = dist.recv from 0 channel 0 : tensor<2xf32>
    return %y : tensor<2xf32>
  }
}

// ORDER: error: 'dist.recv' op of rank 1 of stage 1 in the beginning expects channel 1, {{.*}}tensor<4xf32>{{.*}}, from rank 0 of stage 0, which sends channel 0, {{.*}}tensor<2xf32>{{.*}}, in the beginning
// ORDER: note: sent here
//--- order.mlir
module attributes {dist.pipeline = #dist.pipeline<"pipe", "1f1b", [0, 1]>} {
  func.func @train_stage0(%x: tensor<2xf32>, %y: tensor<4xf32>) attributes {dist.program = "train", dist.stage = 0 : i64} {
    %s = dist.send_start %x to 1 channel 0 : tensor<2xf32> -> !dist.token<tensor<2xf32>>
    %t = dist.send_start %y to 1 channel 1 : tensor<4xf32> -> !dist.token<tensor<4xf32>>
    dist.send_wait %s : !dist.token<tensor<2xf32>>
    dist.send_wait %t : !dist.token<tensor<4xf32>>
    return
  }
  func.func @train_stage1() attributes {dist.program = "train", dist.stage = 1 : i64} {
    %y = dist.recv from 0 channel 1 : tensor<4xf32>
    %x = dist.recv from 0 channel 0 : tensor<2xf32>
    return
  }
}

// UNRECEIVED: error: 'dist.send_start' op of rank 0 of stage 0 in backward of chunk 0, microbatch 3 sends channel 7 to rank 1 of stage 1, which never receives it
//--- unreceived.mlir
module attributes {dist.pipeline = #dist.pipeline<"pipe", "1f1b", [0, 1]>} {
  func.func @train_stage0(%x: tensor<2xf32>) attributes {dist.program = "train", dist.stage = 0 : i64} {
    dist.step backward chunk 0 micro 3
    %t = dist.send_start %x to 1 channel 7 : tensor<2xf32> -> !dist.token<tensor<2xf32>>
    return
  }
  func.func @train_stage1() attributes {dist.program = "train", dist.stage = 1 : i64} {
    return
  }
}

// A collective over the stages that one of them does not join.
// ALONE: error: 'dist.collective' op is never met: rank 0 of stage 0 in the beginning waits for the others in a collective over "pipe", while rank 1 of stage 1 has ended
//--- alone.mlir
module attributes {dist.pipeline = #dist.pipeline<"pipe", "1f1b", [0, 1]>} {
  func.func @train_stage0(%x: tensor<2xf32>) -> tensor<2xf32> attributes {dist.program = "train", dist.stage = 0 : i64} {
    %y = dist.collective all_reduce %x over <"pipe"=2> shape [2] reduce sum : tensor<2xf32> -> tensor<2xf32>
    return %y : tensor<2xf32>
  }
  func.func @train_stage1(%x: tensor<2xf32>) -> tensor<2xf32> attributes {dist.program = "train", dist.stage = 1 : i64} {
    return %x : tensor<2xf32>
  }
}

// Two sums of one type in another order on another stage.
// SUMS: error: 'dist.collective' op of rank 1 of stage 1 on 'tensor<f32>' meets stage 0's dist.collective on 'tensor<f32>': sum 1 over the stages meets sum 0
// SUMS: note: stage 0 is here
//--- sums.mlir
module attributes {dist.pipeline = #dist.pipeline<"pipe", "1f1b", [0, 1]>} {
  func.func @train_stage0(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {dist.program = "train", dist.stage = 0 : i64} {
    %y = dist.collective all_reduce %x over <"pipe"=2> shape [] reduce sum {dist.stage_sum = 0 : i64} : tensor<f32> -> tensor<f32>
    %z = dist.collective all_reduce %x over <"pipe"=2> shape [] reduce sum {dist.stage_sum = 1 : i64} : tensor<f32> -> tensor<f32>
    return %y, %z : tensor<f32>, tensor<f32>
  }
  func.func @train_stage1(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {dist.program = "train", dist.stage = 1 : i64} {
    %z = dist.collective all_reduce %x over <"pipe"=2> shape [] reduce sum {dist.stage_sum = 1 : i64} : tensor<f32> -> tensor<f32>
    %y = dist.collective all_reduce %x over <"pipe"=2> shape [] reduce sum {dist.stage_sum = 0 : i64} : tensor<f32> -> tensor<f32>
    return %y, %z : tensor<f32>, tensor<f32>
  }
}

// UNSENT: error: 'dist.recv' op is never met: rank 1 of stage 1 in the beginning waits to receive channel 0 from rank 0 of stage 0, while rank 0 of stage 0 has ended
//--- unsent.mlir
module attributes {dist.pipeline = #dist.pipeline<"pipe", "1f1b", [0, 1]>} {
  func.func @train_stage0() attributes {dist.program = "train", dist.stage = 0 : i64} {
    return
  }
  func.func @train_stage1() attributes {dist.program = "train", dist.stage = 1 : i64} {
    %x = dist.recv from 0 channel 0 : tensor<2xf32>
    return
  }
}
