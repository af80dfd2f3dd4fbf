// Clipping by norm is a program of its own; without it an update reads no norm.
// RUN: tessera-opt %s --split-input-file --verify-diagnostics --tessera-split-clipping | FileCheck %s

// CHECK-LABEL: func.func @train(
// CHECK: %[[G:.*]] = nn.neg
// CHECK: %[[N:.*]] = nn.sum_squares %[[G]]
// CHECK: %[[NONE:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK: nn.update %{{.*}}, %[[G]], %[[NONE]], %arg1, %arg2
// CHECK: return %[[N]]
// CHECK-LABEL: func.func @train_clipped(
// CHECK: %[[G:.*]] = nn.neg
// CHECK: %[[N:.*]] = nn.sum_squares %[[G]]
// CHECK: nn.update %{{.*}}, %[[G]], %[[N]], %arg1, %arg2
// CHECK: return %[[N]]
nn.variable @w : tensor<64xf32> {role = "parameter", trained = true}
func.func @train(%x: tensor<64xf32>, %s: tensor<8xf32>, %d: tensor<1xf32>) -> tensor<f32> attributes {nn.role = #nn<role train>} {
  %w = nn.read @w : tensor<64xf32>
  %g = nn.neg %x : (tensor<64xf32>) -> tensor<64xf32>
  %n = nn.sum_squares %g : (tensor<64xf32>) -> tensor<f32>
  %u = nn.update %w, %g, %n, %s, %d {index = 0 : i64, kind = "sgd"} : (tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<8xf32>, tensor<1xf32>) -> tensor<64xf32>
  nn.assign @w, %u : tensor<64xf32>
  return %n : tensor<f32>
}

// -----

// Each stage of a pipeline has its own; one without a parameter too.
// CHECK-LABEL: func.func @train_stage0() attributes {dist.program = "train", dist.stage = 0 : i64, nn.role = #nn<role train>}
// CHECK-LABEL: func.func @train_clipped_stage0() attributes {dist.program = "train_clipped", dist.stage = 0 : i64, nn.role = #nn<role train_clipped>}
// CHECK-LABEL: func.func @infer_stage0()
// CHECK-NOT: func.func
func.func @train_stage0() attributes {dist.program = "train", dist.stage = 0 : i64, nn.role = #nn<role train>} {
  return
}
func.func @infer_stage0() attributes {dist.program = "infer", dist.stage = 0 : i64, nn.role = #nn<role infer>} {
  return
}

// -----

// What only infers stays alone.
// CHECK-LABEL: func.func @infer(
// CHECK-NOT: func.func
func.func @infer(%x: tensor<64xf32>) -> tensor<64xf32> {
  return %x : tensor<64xf32>
}

// -----

// expected-error@+1 {{has a function @train_clipped already}}
module {
  nn.variable @w : tensor<64xf32> {role = "parameter", trained = true}
  func.func @train(%g: tensor<64xf32>, %n: tensor<f32>, %s: tensor<8xf32>, %d: tensor<1xf32>) attributes {nn.role = #nn<role train>} {
    %w = nn.read @w : tensor<64xf32>
    %u = nn.update %w, %g, %n, %s, %d {index = 0 : i64, kind = "sgd"} : (tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<8xf32>, tensor<1xf32>) -> tensor<64xf32>
    nn.assign @w, %u : tensor<64xf32>
    return
  }
  func.func @train_clipped() { return }
}
