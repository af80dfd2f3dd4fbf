// What a plan says of where values are, with a cap and without one.
// RUN: tessera-opt %s --tessera-choose-tiers --split-input-file --mlir-print-local-scope --mlir-print-debuginfo 2>/dev/null | FileCheck %s
// RUN: tessera-opt %s --tessera-choose-tiers --split-input-file 2>&1 >/dev/null | FileCheck %s --check-prefix=IDLE

// IDLE: remark: program 'chain' takes 2.1 MiB (2163712 bytes) of the device instead of 2.3 MiB (2425856 bytes): 256.0 KiB (262144 bytes) of parameters
// IDLE: remark: program 'exact' takes 2.1 MiB (2163712 bytes) of the device, and would take 2.1 MiB (2163712 bytes) if nothing left it: 256.0 KiB
// Nobody gives a cap. The parameter rests on the host, %x leaves in the gap that lasts longest and not in the other one, and %a, which could leave too,
// stays because nothing is said of it.
// CHECK: nn.variable @w : {{.*}} {dist.rests = #dist.tier<host>
// CHECK-LABEL: func.func @chain
// CHECK: dist.read_copy @w
// CHECK: %[[X:.*]] = nn.contract {{.*}} loc("x_node")
// CHECK-NOT: dist.offload_start
// CHECK: nn.contract %[[X]], {{.*}} loc("a_node")
// CHECK: %[[DOWN:.*]] = dist.offload_start %[[X]]
// CHECK-NOT: dist.offload_start
// CHECK: dist.prefetch_wait
// CHECK: loc("y_node")
module attributes {dist.place = [{match = ["w"], tier = #dist.tier<host>, what = "parameter"}, {match = ["x_*"], tier = #dist.tier<host>}]} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<256x256xf32, #dist.layout<[[256], [256]]>> {role = "parameter"}
  module @kernels {
  }
  func.func @chain(%r: tensor<256x1xf32> {dist.layout = #dist.layout<[[256], [1]]>, dist.shape = array<i64: 256, 1>, nn.name = "r"})
      -> (tensor<256x1xf32> {dist.layout = #dist.layout<[[256], [1]]>, dist.shape = array<i64: 256, 1>, nn.name = "y"}) {
    %w = nn.read @w : tensor<256x256xf32>
    %x = nn.contract %w, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("x_node")
    %a = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("a_node")
    %b = nn.contract %a, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("b_node")
    %c = nn.contract %b, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("c_node")
    %d = nn.contract %c, %a {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("d_node")
    %e = nn.contract %d, %r {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x1xf32>) -> tensor<256x1xf32> loc("e_node")
    %y = nn.contract %x, %e {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x1xf32>) -> tensor<256x1xf32> loc("y_node")
    return %y : tensor<256x1xf32>
  }
}

// -----

// The moves themselves: %x goes behind its first reader, at once, and comes back where they say.
// CHECK-LABEL: func.func @exact
// CHECK: loc("a_node")
// CHECK-NEXT: dist.offload_start
// CHECK-NEXT: dist.offload_wait
// CHECK: loc("b_node")
// CHECK: loc("c_node")
// CHECK-NEXT: dist.prefetch_start
// CHECK-NEXT: nn.contract {{.*}} loc("d_node")
// CHECK: dist.prefetch_wait
// CHECK: loc("y_node")
module attributes {dist.place = [{match = ["x_node"], moves = [array<i64: 1, 3, 3, 5>], program = "exact", tier = #dist.tier<host>},
                                 {match = ["*"], tier = #dist.tier<device>}]} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<256x256xf32, #dist.layout<[[256], [256]]>> {role = "parameter"}
  module @kernels {
  }
  func.func @exact(%r: tensor<256x1xf32> {dist.layout = #dist.layout<[[256], [1]]>, dist.shape = array<i64: 256, 1>, nn.name = "r"})
      -> (tensor<256x1xf32> {dist.layout = #dist.layout<[[256], [1]]>, dist.shape = array<i64: 256, 1>, nn.name = "y"}) {
    %w = nn.read @w : tensor<256x256xf32>
    %x = nn.contract %w, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("x_node")
    %a = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("a_node")
    %b = nn.contract %a, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("b_node")
    %c = nn.contract %b, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("c_node")
    %d = nn.contract %c, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("d_node")
    %e = nn.contract %d, %r {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x1xf32>) -> tensor<256x1xf32> loc("e_node")
    %y = nn.contract %x, %e {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x1xf32>) -> tensor<256x1xf32> loc("y_node")
    return %y : tensor<256x1xf32>
  }
}

// -----

// The cap could be kept by @w alone, the smaller move; the plan has it stay, and so %x leaves.
// CHECK-NOT: dist.rests
// CHECK-LABEL: func.func @stays
// CHECK: dist.offload_start
module attributes {dist.device_memory = 1901568 : i64, dist.offload = ["activations", "parameters"],
                   dist.place = [{match = ["*"], tier = #dist.tier<device>, what = "parameter"}]} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<256x256xf32, #dist.layout<[[256], [256]]>> {role = "parameter"}
  module @kernels {
  }
  func.func @stays(%r: tensor<256x1xf32> {dist.layout = #dist.layout<[[256], [1]]>, dist.shape = array<i64: 256, 1>, nn.name = "r"})
      -> (tensor<256x1xf32> {dist.layout = #dist.layout<[[256], [1]]>, dist.shape = array<i64: 256, 1>, nn.name = "y"}) {
    %w = nn.read @w : tensor<256x256xf32>
    %x = nn.contract %w, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %a = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %b = nn.contract %a, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %c = nn.contract %b, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %d = nn.contract %c, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %e = nn.contract %d, %r {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x1xf32>) -> tensor<256x1xf32>
    %y = nn.contract %x, %e {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x1xf32>) -> tensor<256x1xf32>
    return %y : tensor<256x1xf32>
  }
}

// -----

// One product reads it and nothing else does: nothing of %x can leave.
// IDLE: plan.toml:3:1: warning: nothing that "x" names leaves the device by this entry: what it names is used without a pause
module attributes {dist.place = [{at = loc("plan.toml":3:1), match = ["x"], tier = #dist.tier<host>}]} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<256x256xf32, #dist.layout<[[256], [256]]>> {role = "parameter"}
  module @kernels {
  }
  func.func @idle() -> (tensor<256x256xf32> {dist.layout = #dist.layout<[[256], [256]]>, dist.shape = array<i64: 256, 256>, nn.name = "y"}) {
    %w = nn.read @w : tensor<256x256xf32>
    %x = nn.contract %w, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32> loc("x")
    %y = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    return %y : tensor<256x256xf32>
  }
}

// -----

// An update on the host: only the gradient and the numbers of the step go down, the parameter comes up for its reader, and what the host makes is what the variable becomes.
// CHECK: nn.variable @w : {{.*}} {dist.rests = #dist.tier<host>
// CHECK: nn.variable @w.momentum : {{.*}} {dist.rests = #dist.tier<host>
// CHECK-LABEL: func.func @train_on_the_host
// CHECK-DAG: %[[W:.*]] = dist.read_copy @w :
// CHECK-DAG: %[[M:.*]] = dist.read_copy @w.momentum
// CHECK-DAG: dist.offload_start %arg1
// CHECK-DAG: dist.offload_start %arg2
// CHECK-DAG: dist.offload_start %arg3
// CHECK: dist.prefetch_start %[[W]]
// CHECK: %[[G:.*]] = nn.contract
// CHECK: dist.offload_start %[[G]]
// CHECK: %[[GC:.*]] = dist.offload_wait
// CHECK: %[[CALL:.*]] = dist.host_start "sgd_momentum"(%{{.*}}, %{{.*}}, %{{.*}}, %[[W]], %[[GC]], %[[M]]) changes [3, 5]
// CHECK-NOT: nn.update
// CHECK: %[[NEW:.*]]:2 = dist.host_wait %[[CALL]]
// CHECK: dist.assign_copy @w, %[[NEW]]#0
// CHECK: dist.assign_copy @w.momentum, %[[NEW]]#1
module attributes {dist.place = [{match = ["w"], update = "host"}]} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<16x16xf32, #dist.layout<[[16], [16]]>> {role = "parameter", trained = true}
  nn.variable @w.momentum : tensor<16x16xf32, #dist.layout<[[16], [16]]>> {of = "w", role = "optimizer", slot = "momentum"}
  module @kernels {
  }
  func.func @train_on_the_host(%x: tensor<16x16xf32> {dist.layout = #dist.layout<[[16], [16]]>, dist.shape = array<i64: 16, 16>, nn.name = "x"},
                               %n: tensor<f32> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.name = "n"},
                               %s: tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.name = "s"},
                               %d: tensor<1xf32> {dist.layout = #dist.layout<[[1]]>, dist.shape = array<i64: 1>, nn.name = "d"})
      attributes {nn.role = #nn<role train>} {
    %w = nn.read @w : tensor<16x16xf32>
    %m = nn.read @w.momentum : tensor<16x16xf32>
    %g = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    %u:2 = nn.update %w, %g, %m, %n, %s, %d {index = 0 : i64, kind = "sgd_momentum"} : (tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<f32>, tensor<8xf32>, tensor<1xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>)
    nn.assign @w, %u#0 : tensor<16x16xf32>
    nn.assign @w.momentum, %u#1 : tensor<16x16xf32>
    return
  }
}

// -----

// Where the device does nothing with the parameter but convert it, the host does that: what comes up is half as large.
// CHECK-LABEL: func.func @train_converted
// CHECK-DAG: %[[W:.*]] = dist.read_copy @w :
// CHECK-DAG: %[[CALL:.*]] = dist.host_start "convert"(%[[W]]) changes [] with {count = 256 : i64, dtype = "bf16"}
// CHECK: %[[HALF:.*]] = dist.host_wait %[[CALL]] : !dist.host_call<!dist.copy<tensor<16x16xbf16>, host>> -> !dist.copy<tensor<16x16xbf16>, host>
// CHECK: dist.prefetch_start %[[HALF]]
// CHECK: %[[UP:.*]] = dist.prefetch_wait {{.*}} !dist.transfer<tensor<16x16xbf16>>
// CHECK-NOT: exec.apply
// CHECK: nn.contract %arg0, %[[UP]]
// CHECK: dist.host_start "sgd"
module attributes {dist.place = [{match = ["w"], update = "host"}]} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<16x16xf32, #dist.layout<[[16], [16]]>> {role = "parameter", trained = true}
  module @kernels {
    func.func @half(%arg0: tensor<16x16xf32>) -> tensor<16x16xbf16> {
      %0 = arith.truncf %arg0 : tensor<16x16xf32> to tensor<16x16xbf16>
      return %0 : tensor<16x16xbf16>
    }
  }
  func.func @train_converted(%x: tensor<16x16xbf16> {dist.layout = #dist.layout<[[16], [16]]>, dist.shape = array<i64: 16, 16>, nn.name = "x"},
                             %n: tensor<f32> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.name = "n"},
                             %s: tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.name = "s"},
                             %d: tensor<1xf32> {dist.layout = #dist.layout<[[1]]>, dist.shape = array<i64: 1>, nn.name = "d"})
      attributes {nn.role = #nn<role train>} {
    %w = nn.read @w : tensor<16x16xf32>
    %h = exec.apply @half(%w) {converts, kind = "cast"} : (tensor<16x16xf32>) -> tensor<16x16xbf16>
    %g = nn.contract %x, %h {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xf32>
    %u = nn.update %w, %g, %n, %s, %d {index = 0 : i64, kind = "sgd"} : (tensor<16x16xf32>, tensor<16x16xf32>, tensor<f32>, tensor<8xf32>, tensor<1xf32>) -> tensor<16x16xf32>
    nn.assign @w, %u : tensor<16x16xf32>
    return
  }
}
