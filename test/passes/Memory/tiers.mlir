// Values that leave the device and come back have places in both tiers.
// RUN: tessera-opt %s --tessera-plan-memory --tessera-verify-memory --split-input-file | FileCheck %s

// A variable that rests on the host has no place on the device between its uses: it arrives, is updated where it arrived, and goes back.
// CHECK-LABEL: func.func @updated
// CHECK-SAME: host = {activations = 0 : i64, bound = 256 : i64, communication = 0 : i64, gradients = 0 : i64, optimizer = 0 : i64, parameters = 256 : i64, peak = 256 : i64, workspace = 0 : i64}
// CHECK-DAG: %[[RESTS:.*]] = exec.buffer in host {bytes = 192 : i64, {{.*}}variable = @keys}
// CHECK-DAG: %[[NOW:.*]] = exec.buffer {bytes = 192 : i64, category = "parameters", {{.*}}}
// CHECK: exec.copy %[[RESTS]] to %[[NOW]] {token = 0 : i64} : !exec.buffer<host> -> !exec.buffer
// CHECK: exec.wait 0
// CHECK: exec.call "copy_box"(%{{.*}}, %[[NOW]])
// CHECK-SAME: writes = array<i64: 1>
// CHECK: exec.copy %[[NOW]] to %[[RESTS]] {token = 1 : i64} : !exec.buffer -> !exec.buffer<host>
// CHECK: exec.wait 1
module {
  dist.mesh @mesh = <[]>
  nn.variable @keys : tensor<2x6x4xf32, #dist.layout<[[2], [6], [4]]>> {dist.rests = #dist.tier<host>, role = "buffer", init = "zero"}
  module @kernels {
  }
  func.func @updated(%key: tensor<2x1x4xf32> {dist.layout = #dist.layout<[[2], [1], [4]]>, dist.shape = array<i64: 2, 1, 4>, nn.name = "key"},
                     %p: tensor<i64> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.kind = #nn<kind scalar>, nn.name = "position"}) {
    %below = dist.read_copy @keys : !dist.copy<tensor<2x6x4xf32>, host>
    %up = dist.prefetch_start %below : !dist.copy<tensor<2x6x4xf32>, host> -> !dist.transfer<tensor<2x6x4xf32>>
    %old = dist.prefetch_wait %up : !dist.transfer<tensor<2x6x4xf32>>
    %at = exec.scalar "position" : i64
    %new = nn.insert_slice %old, %key, %at {dim = 1 : i64} : (tensor<2x6x4xf32>, tensor<2x1x4xf32>, i64) -> tensor<2x6x4xf32>
    %down = dist.offload_start %new : tensor<2x6x4xf32> -> !dist.transfer<!dist.copy<tensor<2x6x4xf32>, host>>
    %copy = dist.offload_wait %down : !dist.transfer<!dist.copy<tensor<2x6x4xf32>, host>>
    dist.assign_copy @keys, %copy : !dist.copy<tensor<2x6x4xf32>, host>
    return
  }
}

// -----

// While %x is below, other values have its place. At any moment %row and two values are live, not three.
// CHECK-LABEL: func.func @leaves
// CHECK-SAME: {activations = 768 : i64
// CHECK: exec.call "gemm"(%{{[0-9]+}}, %{{[0-9]+}}, %[[X:[0-9]+]], %{{[0-9]+}})
// CHECK: exec.copy %[[X]] to %[[COPY:.*]] {token = 0 : i64} : !exec.buffer -> !exec.buffer<host>
// CHECK: exec.wait 0
// CHECK: exec.call "gemm"
// CHECK: exec.call "gemm"
// CHECK: exec.copy %[[COPY]] to %[[AGAIN:.*]] {token = 1 : i64} : !exec.buffer<host> -> !exec.buffer
// CHECK: exec.wait 1
// CHECK: exec.call "copy_box"(%{{.*}}, %[[AGAIN]])
module {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<8x8xf32, #dist.layout<[[8], [8]]>> {role = "parameter"}
  module @kernels {
  }
  func.func @leaves(%row: tensor<1x8xf32> {dist.layout = #dist.layout<[[1], [8]]>, dist.shape = array<i64: 1, 8>, nn.name = "row"},
                    %p: tensor<i64> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.kind = #nn<kind scalar>, nn.name = "position"})
      -> (tensor<8x8xf32> {dist.layout = #dist.layout<[[8], [8]]>, dist.shape = array<i64: 8, 8>, nn.name = "b"},
          tensor<8x8xf32> {dist.layout = #dist.layout<[[8], [8]]>, dist.shape = array<i64: 8, 8>, nn.name = "y"}) {
    %w = nn.read @w : tensor<8x8xf32>
    %at = exec.scalar "position" : i64
    %x = nn.contract %w, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %down = dist.offload_start %x : tensor<8x8xf32> -> !dist.transfer<!dist.copy<tensor<8x8xf32>, host>>
    %copy = dist.offload_wait %down : !dist.transfer<!dist.copy<tensor<8x8xf32>, host>>
    %a = nn.contract %w, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %b = nn.contract %a, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %up = dist.prefetch_start %copy : !dist.copy<tensor<8x8xf32>, host> -> !dist.transfer<tensor<8x8xf32>>
    %again = dist.prefetch_wait %up : !dist.transfer<tensor<8x8xf32>>
    %y = nn.insert_slice %again, %row, %at {dim = 0 : i64} : (tensor<8x8xf32>, tensor<1x8xf32>, i64) -> tensor<8x8xf32>
    return %b, %y : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

// A variable that the host updates where it rests: only the gradient goes down, and it counts as one.
// CHECK-LABEL: func.func @on_the_host
// CHECK-SAME: host = {activations = 0 : i64, bound = 512 : i64, communication = 0 : i64, gradients = 256 : i64, optimizer = 0 : i64, parameters = 256 : i64, peak = 512 : i64
// CHECK-DAG: %[[W:.*]] = exec.buffer in host {bytes = 32 : i64, {{.*}}variable = @w}
// CHECK-DAG: %[[G:.*]] = exec.buffer in host {bytes = 32 : i64, category = "gradients"
// CHECK: exec.copy %{{.*}} to %[[G]] {token = 0 : i64}
// CHECK: exec.wait 0
// CHECK: exec.host_call "sgd"(%[[W]], %[[G]]) {reads = array<i64: 0, 1>, settings = {count = 8 : i64}, token = 1 : i64, writes = array<i64: 0>}
// CHECK: exec.wait 1
// CHECK-NOT: exec.copy
module {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<8xf32, #dist.layout<[[8]]>> {dist.rests = #dist.tier<host>, role = "parameter"}
  module @kernels {
  }
  func.func @on_the_host(%g: tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.name = "g"}) {
    %w = dist.read_copy @w : !dist.copy<tensor<8xf32>, host>
    %down = dist.offload_start %g : tensor<8xf32> -> !dist.transfer<!dist.copy<tensor<8xf32>, host>>
    %below = dist.offload_wait %down : !dist.transfer<!dist.copy<tensor<8xf32>, host>>
    %call = dist.host_start "sgd"(%w, %below) changes [0] with {count = 8 : i64}
        : !dist.copy<tensor<8xf32>, host>, !dist.copy<tensor<8xf32>, host> -> !dist.host_call<!dist.copy<tensor<8xf32>, host>>
    %new = dist.host_wait %call : !dist.host_call<!dist.copy<tensor<8xf32>, host>> -> !dist.copy<tensor<8xf32>, host>
    dist.assign_copy @w, %new : !dist.copy<tensor<8xf32>, host>
    return
  }
}

// -----

// What the host makes has a place there from the start of its making to the end of its way up, and is a parameter as what it is made of.
// CHECK-LABEL: func.func @made_on_the_host
// CHECK-SAME: host = {activations = 0 : i64, bound = 512 : i64, communication = 0 : i64, gradients = 0 : i64, optimizer = 0 : i64, parameters = 512 : i64, peak = 512 : i64
// CHECK-SAME: parameters = 256 : i64, peak
// CHECK-DAG: %[[W:.*]] = exec.buffer in host {bytes = 32 : i64, {{.*}}variable = @w}
// CHECK-DAG: %[[H:.*]] = exec.buffer in host {bytes = 16 : i64, category = "parameters"
// CHECK: exec.host_call "convert"(%[[W]], %[[H]]) {reads = array<i64: 0>, settings = {count = 8 : i64, dtype = "bf16"}, token = 0 : i64, writes = array<i64: 1>}
// CHECK: exec.wait 0
// CHECK: exec.copy %[[H]] to
module {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<8xf32, #dist.layout<[[8]]>> {dist.rests = #dist.tier<host>, role = "parameter"}
  module @kernels {
  }
  func.func @made_on_the_host() -> (tensor<8xbf16> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.name = "y"}) {
    %w = dist.read_copy @w : !dist.copy<tensor<8xf32>, host>
    %call = dist.host_start "convert"(%w) changes [] with {count = 8 : i64, dtype = "bf16"}
        : !dist.copy<tensor<8xf32>, host> -> !dist.host_call<!dist.copy<tensor<8xbf16>, host>>
    %half = dist.host_wait %call : !dist.host_call<!dist.copy<tensor<8xbf16>, host>> -> !dist.copy<tensor<8xbf16>, host>
    %up = dist.prefetch_start %half : !dist.copy<tensor<8xbf16>, host> -> !dist.transfer<tensor<8xbf16>>
    %y = dist.prefetch_wait %up : !dist.transfer<tensor<8xbf16>>
    return %y : tensor<8xbf16>
  }
}
