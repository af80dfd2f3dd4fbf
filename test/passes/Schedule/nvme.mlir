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
