// What leaves the host below a cap of it, and what does not.
// RUN: tessera-opt %s --tessera-choose-tiers --tessera-choose-nvme --split-input-file | FileCheck %s
// RUN: tessera-opt %s --tessera-choose-tiers --tessera-choose-nvme --split-input-file 2>&1 >/dev/null | FileCheck %s --check-prefix=NOTE
// RUN: tessera-opt %s --tessera-choose-tiers --tessera-choose-nvme --tessera-plan-memory --tessera-verify-memory --split-input-file | FileCheck %s --check-prefix=PEAK

// Both parameters leave the device, one after the other, and the host has room for one copy: they rest on NVMe and come by way of the host.
// NOTE: takes 256.0 KiB (262144 bytes) of the host instead of 512.0 KiB (524288 bytes): 512.0 KiB (524288 bytes) of parameters (2 values) go to NVMe, which has 512.0 KiB (524288 bytes)
// CHECK: nn.variable @w1 : {{.*}}dist.rests = #dist.tier<nvme>
// CHECK: nn.variable @w2 : {{.*}}dist.rests = #dist.tier<nvme>
// CHECK-LABEL: func.func @full
// CHECK-DAG: %[[W1:.*]] = dist.read_copy @w1 : !dist.copy<tensor<256x256xf32>, nvme>
// CHECK-DAG: %[[W2:.*]] = dist.read_copy @w2 : !dist.copy<tensor<256x256xf32>, nvme>
// CHECK: dist.prefetch_start %[[W1]] : !dist.copy<tensor<256x256xf32>, nvme> -> !dist.transfer<!dist.copy<tensor<256x256xf32>, host>>
// CHECK: %[[HERE:.*]] = dist.prefetch_wait
// CHECK: dist.prefetch_start %[[HERE]] : !dist.copy<tensor<256x256xf32>, host> -> !dist.transfer<tensor<256x256xf32>>
// CHECK: dist.prefetch_start %[[W2]]
// CHECK-NOT: dist.offload_start
// PEAK-LABEL: func.func @full
// PEAK-SAME: host = {{{.*}}peak = 262144 : i64
// PEAK-SAME: nvme = {{{.*}}peak = 524288 : i64
module attributes {dist.device_memory = 1900544 : i64, dist.host_memory = 262144 : i64, dist.nvme_memory = 1048576 : i64, dist.offload = ["parameters"]} {
  dist.mesh @mesh = <[]>
  nn.variable @w1 : tensor<256x256xf32, #dist.layout<[[256], [256]]>> {role = "parameter"}
  nn.variable @w2 : tensor<256x256xf32, #dist.layout<[[256], [256]]>> {role = "parameter"}
  module @kernels {
  }
  func.func @full(%x: tensor<256x256xf32> {dist.layout = #dist.layout<[[256], [256]]>, dist.shape = array<i64: 256, 256>, nn.name = "x"})
      -> (tensor<256x256xf32> {dist.layout = #dist.layout<[[256], [256]]>, dist.shape = array<i64: 256, 256>, nn.name = "y"}) {
    %w1 = nn.read @w1 : tensor<256x256xf32>
    %w2 = nn.read @w2 : tensor<256x256xf32>
    %a = nn.contract %x, %w1 {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %y = nn.contract %a, %w2 {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    return %y : tensor<256x256xf32>
  }
}

// -----

// The host has room: as without NVMe.
// CHECK: nn.variable @w1 : {{.*}}dist.rests = #dist.tier<host>
// CHECK-LABEL: func.func @full
// CHECK-NOT: nvme>
// PEAK-LABEL: func.func @full
module attributes {dist.device_memory = 1900544 : i64, dist.host_memory = 1048576 : i64, dist.nvme_memory = 1048576 : i64, dist.offload = ["parameters"]} {
  dist.mesh @mesh = <[]>
  nn.variable @w1 : tensor<256x256xf32, #dist.layout<[[256], [256]]>> {role = "parameter"}
  nn.variable @w2 : tensor<256x256xf32, #dist.layout<[[256], [256]]>> {role = "parameter"}
  module @kernels {
  }
  func.func @full(%x: tensor<256x256xf32> {dist.layout = #dist.layout<[[256], [256]]>, dist.shape = array<i64: 256, 256>, nn.name = "x"})
      -> (tensor<256x256xf32> {dist.layout = #dist.layout<[[256], [256]]>, dist.shape = array<i64: 256, 256>, nn.name = "y"}) {
    %w1 = nn.read @w1 : tensor<256x256xf32>
    %w2 = nn.read @w2 : tensor<256x256xf32>
    %a = nn.contract %x, %w1 {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %y = nn.contract %a, %w2 {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    return %y : tensor<256x256xf32>
  }
}

// -----

// The device has no room for the parameter beside its gradient, which NVMe does not change: it is updated on the host, as without NVMe.
// NOTE: program 'train' takes {{.*}} 1 update runs on the host
// CHECK-LABEL: func.func @train
// CHECK: dist.host_start "sgd"
// CHECK-NOT: nvme>
// PEAK-LABEL: func.func @train
// PEAK-SAME: host = {{{.*}}peak = 536576 : i64
module attributes {dist.device_memory = 400000 : i64, dist.host_memory = 1048576 : i64, dist.nvme_memory = 1048576 : i64, dist.offload = ["parameters"]} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<256x256xf32, #dist.layout<[[256], [256]]>> {role = "parameter", trained = true}
  module @kernels {
    func.func @spread(%arg0: tensor<256xf32>) -> tensor<256x256xf32> {
      %0 = tensor.empty() : tensor<256x256xf32>
      %1 = linalg.broadcast ins(%arg0 : tensor<256xf32>) outs(%0 : tensor<256x256xf32>) dimensions = [1]
      return %1 : tensor<256x256xf32>
    }
  }
  func.func @train(%x: tensor<256xf32> {dist.layout = #dist.layout<[[256]]>, dist.shape = array<i64: 256>, nn.name = "x"},
                   %n: tensor<f32> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.name = "n"},
                   %s: tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.name = "s"},
                   %d: tensor<1xf32> {dist.layout = #dist.layout<[[1]]>, dist.shape = array<i64: 1>, nn.name = "d"})
      attributes {nn.role = #nn<role train>} {
    %w = nn.read @w : tensor<256x256xf32>
    %g = exec.apply @spread(%x) {kind = "broadcast"} : (tensor<256xf32>) -> tensor<256x256xf32>
    %u = nn.update %w, %g, %n, %s, %d {index = 0 : i64, kind = "sgd"} : (tensor<256x256xf32>, tensor<256x256xf32>, tensor<f32>, tensor<8xf32>, tensor<1xf32>) -> tensor<256x256xf32>
    nn.assign @w, %u : tensor<256x256xf32>
    return
  }
}
