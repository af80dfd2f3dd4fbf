// Copies in the tier below, and what moves values there and back.
// RUN: tessera-opt %s | tessera-opt | FileCheck %s

nn.variable @w : tensor<8x4xf32> {dist.rests = #dist.tier<host>, role = "parameter"}

// CHECK-LABEL: func.func @there_and_back
// CHECK: %[[W:.*]] = dist.read_copy @w : !dist.copy<tensor<8x4xf32>, host>
// CHECK: %[[UP:.*]] = dist.prefetch_start %[[W]] : !dist.copy<tensor<8x4xf32>, host> -> !dist.transfer<tensor<8x4xf32>>
// CHECK: %[[NOW:.*]] = dist.prefetch_wait %[[UP]] : !dist.transfer<tensor<8x4xf32>>
// CHECK: %[[DOWN:.*]] = dist.offload_start %{{.*}} : tensor<8x4xf32> -> !dist.transfer<!dist.copy<tensor<8x4xf32>, host>>
// CHECK: %[[NEW:.*]] = dist.offload_wait %[[DOWN]] : !dist.transfer<!dist.copy<tensor<8x4xf32>, host>>
// CHECK: dist.assign_copy @w, %[[NEW]] : !dist.copy<tensor<8x4xf32>, host>
func.func @there_and_back() {
  %w = dist.read_copy @w : !dist.copy<tensor<8x4xf32>, host>
  %up = dist.prefetch_start %w : !dist.copy<tensor<8x4xf32>, host> -> !dist.transfer<tensor<8x4xf32>>
  %now = dist.prefetch_wait %up : !dist.transfer<tensor<8x4xf32>>
  %new = nn.relu %now : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %down = dist.offload_start %new : tensor<8x4xf32> -> !dist.transfer<!dist.copy<tensor<8x4xf32>, host>>
  %copy = dist.offload_wait %down : !dist.transfer<!dist.copy<tensor<8x4xf32>, host>>
  dist.assign_copy @w, %copy : !dist.copy<tensor<8x4xf32>, host>
  return
}

nn.variable @v : tensor<8x4xf32> {dist.rests = #dist.tier<nvme>, role = "parameter"}

// One tier further down, by way of the host.
// CHECK-LABEL: func.func @further_down
// CHECK: dist.prefetch_start %{{.*}} : !dist.copy<tensor<8x4xf32>, nvme> -> !dist.transfer<!dist.copy<tensor<8x4xf32>, host>>
// CHECK: %[[HOST:.*]] = dist.prefetch_wait %{{.*}} : !dist.transfer<!dist.copy<tensor<8x4xf32>, host>>
// CHECK: dist.offload_start %[[HOST]] : !dist.copy<tensor<8x4xf32>, host> -> !dist.transfer<!dist.copy<tensor<8x4xf32>, nvme>>
func.func @further_down() {
  %v = dist.read_copy @v : !dist.copy<tensor<8x4xf32>, nvme>
  %up = dist.prefetch_start %v : !dist.copy<tensor<8x4xf32>, nvme> -> !dist.transfer<!dist.copy<tensor<8x4xf32>, host>>
  %host = dist.prefetch_wait %up : !dist.transfer<!dist.copy<tensor<8x4xf32>, host>>
  %down = dist.offload_start %host : !dist.copy<tensor<8x4xf32>, host> -> !dist.transfer<!dist.copy<tensor<8x4xf32>, nvme>>
  %copy = dist.offload_wait %down : !dist.transfer<!dist.copy<tensor<8x4xf32>, nvme>>
  dist.assign_copy @v, %copy : !dist.copy<tensor<8x4xf32>, nvme>
  return
}

// A function of the host on copies, of which it changes one.
// CHECK-LABEL: func.func @on_the_host
// CHECK: %[[CALL:.*]] = dist.host_start "sgd"(%{{.*}}, %{{.*}}, %[[P:.*]], %[[G:.*]]) changes [2] with {count = 4 : i64}
// CHECK-SAME: -> !dist.host_call<!dist.copy<tensor<4xf32>, host>>
// CHECK: %{{.*}} = dist.host_wait %[[CALL]] : !dist.host_call<!dist.copy<tensor<4xf32>, host>> -> !dist.copy<tensor<4xf32>, host>
func.func @on_the_host(%s: !dist.copy<tensor<8xf32>, host>, %d: !dist.copy<tensor<1xf32>, host>, %p: !dist.copy<tensor<4xf32>, host>,
                       %g: !dist.copy<tensor<4xf32>, host>) -> !dist.copy<tensor<4xf32>, host> {
  %call = dist.host_start "sgd"(%s, %d, %p, %g) changes [2] with {count = 4 : i64}
      : !dist.copy<tensor<8xf32>, host>, !dist.copy<tensor<1xf32>, host>, !dist.copy<tensor<4xf32>, host>, !dist.copy<tensor<4xf32>, host>
      -> !dist.host_call<!dist.copy<tensor<4xf32>, host>>
  %new = dist.host_wait %call : !dist.host_call<!dist.copy<tensor<4xf32>, host>> -> !dist.copy<tensor<4xf32>, host>
  return %new : !dist.copy<tensor<4xf32>, host>
}

// What it makes anew stands behind what it changes.
// CHECK-LABEL: func.func @made_on_the_host
// CHECK: %[[CALL:.*]] = dist.host_start "convert"(%{{.*}}) changes [] with {count = 4 : i64, dtype = "bf16"}
// CHECK-SAME: -> !dist.host_call<!dist.copy<tensor<4xbf16>, host>>
// CHECK: dist.host_wait %[[CALL]] : !dist.host_call<!dist.copy<tensor<4xbf16>, host>> -> !dist.copy<tensor<4xbf16>, host>
func.func @made_on_the_host(%p: !dist.copy<tensor<4xf32>, host>) -> !dist.copy<tensor<4xbf16>, host> {
  %call = dist.host_start "convert"(%p) changes [] with {count = 4 : i64, dtype = "bf16"}
      : !dist.copy<tensor<4xf32>, host> -> !dist.host_call<!dist.copy<tensor<4xbf16>, host>>
  %half = dist.host_wait %call : !dist.host_call<!dist.copy<tensor<4xbf16>, host>> -> !dist.copy<tensor<4xbf16>, host>
  return %half : !dist.copy<tensor<4xbf16>, host>
}

// A sum that a loop carries below: made of nothing, up and down in each turn.
// CHECK-LABEL: func.func @carried
// CHECK: %[[CALL:.*]] = dist.host_start "fill"() changes [] with {count = 4 : i64, dtype = "f32", value = 0.000000e+00 : f64} -> !dist.host_call<!dist.copy<tensor<4xf32>, host>>
// CHECK: %[[ZEROS:.*]] = dist.host_wait %[[CALL]]
// CHECK: dist.loop times 2 iter_args(%[[BEFORE:.*]] = %[[ZEROS]] : !dist.copy<tensor<4xf32>, host>) {
// CHECK: dist.prefetch_start %[[BEFORE]]
// CHECK: %[[NEXT:.*]] = dist.offload_wait
// CHECK: dist.yield %[[NEXT]] : !dist.copy<tensor<4xf32>, host>
func.func @carried() -> !dist.copy<tensor<4xf32>, host> {
  %call = dist.host_start "fill"() changes [] with {count = 4 : i64, dtype = "f32", value = 0.0 : f64} -> !dist.host_call<!dist.copy<tensor<4xf32>, host>>
  %zeros = dist.host_wait %call : !dist.host_call<!dist.copy<tensor<4xf32>, host>> -> !dist.copy<tensor<4xf32>, host>
  %sum = dist.loop times 2 iter_args(%before = %zeros : !dist.copy<tensor<4xf32>, host>) {
    %up = dist.prefetch_start %before : !dist.copy<tensor<4xf32>, host> -> !dist.transfer<tensor<4xf32>>
    %here = dist.prefetch_wait %up : !dist.transfer<tensor<4xf32>>
    %new = nn.relu %here : (tensor<4xf32>) -> tensor<4xf32>
    %down = dist.offload_start %new : tensor<4xf32> -> !dist.transfer<!dist.copy<tensor<4xf32>, host>>
    %next = dist.offload_wait %down : !dist.transfer<!dist.copy<tensor<4xf32>, host>>
    dist.yield %next : !dist.copy<tensor<4xf32>, host>
  }
  return %sum : !dist.copy<tensor<4xf32>, host>
}
