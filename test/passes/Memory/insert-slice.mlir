// A variable is updated in part where it lies; its old value is kept only for who reads it afterwards.
// RUN: tessera-opt %s --tessera-plan-memory --split-input-file | FileCheck %s
// RUN: tessera-opt %s --tessera-plan-memory --tessera-verify-memory --split-input-file -o /dev/null

// CHECK-LABEL: func.func @in_place
// CHECK: %[[KEYS:.*]] = exec.buffer {bytes = 192 : i64, {{.*}}variable = @keys}
// CHECK: exec.input %[[KEY:.*]] {{{.*}}name = "key"
// From byte 0 of the slice to 4 elements, a row, times the position.
// CHECK: %[[ZERO:.*]] = arith.constant 0 : i64
// CHECK: %[[AT:.*]] = exec.scalar "position" {times = 4 : i64} : i64
// CHECK: exec.call "copy_box"(%[[KEY]], %[[KEYS]]) scalars(%[[ZERO]], %[[AT]])
// CHECK-SAME: reads = array<i64: 0, 1>
// CHECK-SAME: shape = [2, 1, 4], source_strides = [4, 4, 1], target_strides = [24, 4, 1]
// CHECK-SAME: writes = array<i64: 1>
// CHECK-NOT: exec.call
// CHECK: exec.output %[[KEYS]]
module {
  dist.mesh @mesh = <[]>
  nn.variable @keys : tensor<2x6x4xf32, #dist.layout<[[2], [6], [4]]>> {role = "buffer", init = "zero"}
  module @kernels {
  }
  func.func @in_place(%key: tensor<2x1x4xf32> {dist.layout = #dist.layout<[[2], [1], [4]]>, dist.shape = array<i64: 2, 1, 4>, nn.name = "key"},
                      %p: tensor<i64> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.kind = #nn<kind scalar>, nn.name = "position"})
      -> (tensor<2x6x4xf32> {dist.layout = #dist.layout<[[2], [6], [4]]>, dist.shape = array<i64: 2, 6, 4>, nn.name = "cache"}) {
    %old = nn.read @keys : tensor<2x6x4xf32>
    %at = exec.scalar "position" : i64
    %new = nn.insert_slice %old, %key, %at {dim = 1 : i64} : (tensor<2x6x4xf32>, tensor<2x1x4xf32>, i64) -> tensor<2x6x4xf32>
    nn.assign @keys, %new : tensor<2x6x4xf32>
    return %new : tensor<2x6x4xf32>
  }
}

// -----

// CHECK-LABEL: func.func @kept
// CHECK: %[[KEYS:.*]] = exec.buffer {bytes = 192 : i64, {{.*}}variable = @keys}
// CHECK: exec.call "copy_box"(%[[KEYS]], %[[NEW:.*]]) scalars()
// CHECK: exec.call "copy_box"(%{{.*}}, %[[NEW]]) scalars(%{{.*}}, %{{.*}})
// CHECK: exec.call "copy_box"(%[[KEYS]], %[[FIRST:.*]]) scalars()
// CHECK: exec.call "copy_box"(%[[NEW]], %[[KEYS]]) scalars()
module {
  dist.mesh @mesh = <[]>
  nn.variable @keys : tensor<2x6x4xf32, #dist.layout<[[2], [6], [4]]>> {role = "buffer", init = "zero"}
  module @kernels {
  }
  func.func @kept(%key: tensor<2x1x4xf32> {dist.layout = #dist.layout<[[2], [1], [4]]>, dist.shape = array<i64: 2, 1, 4>, nn.name = "key"},
                  %p: tensor<i64> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.kind = #nn<kind scalar>, nn.name = "position"})
      -> (tensor<2x1x4xf32> {dist.layout = #dist.layout<[[2], [1], [4]]>, dist.shape = array<i64: 2, 1, 4>, nn.name = "first"}) {
    %old = nn.read @keys : tensor<2x6x4xf32>
    %at = exec.scalar "position" : i64
    %new = nn.insert_slice %old, %key, %at {dim = 1 : i64} : (tensor<2x6x4xf32>, tensor<2x1x4xf32>, i64) -> tensor<2x6x4xf32>
    %first = nn.slice %old {starts = array<i64: 0, 0, 0>, sizes = array<i64: 2, 1, 4>, steps = array<i64: 1, 1, 1>} : (tensor<2x6x4xf32>) -> tensor<2x1x4xf32>
    nn.assign @keys, %new : tensor<2x6x4xf32>
    return %first : tensor<2x1x4xf32>
  }
}
