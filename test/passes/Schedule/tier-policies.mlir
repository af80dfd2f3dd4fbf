// Published rules instead of the search.
// RUN: tessera-opt %s --tessera-choose-tiers=policy=belady | FileCheck %s
// RUN: tessera-opt %s --tessera-choose-tiers=policy=lru --tessera-plan-memory --tessera-verify-memory | FileCheck %s --check-prefix=PEAK
// RUN: not tessera-opt %s --tessera-choose-tiers=policy=zero-offload 2>&1 | FileCheck %s --check-prefix=STATE
// RUN: not tessera-opt %s --tessera-choose-tiers=policy=fifo 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: error: unknown policy of tiers 'fifo', expected one of planned patrickstar elixir zero-offload lru belady

// Nothing here is state of an optimizer.
// STATE: error: program 'chain' needs {{.*}} of device memory a rank
// STATE: note: by the rule of 'zero-offload' nothing was found that fits

// A cache looks ahead for nothing: %x comes back where it is used.
// CHECK-LABEL: func.func @chain
// CHECK: %[[X:.*]] = nn.contract
// CHECK: %[[DOWN:.*]] = dist.offload_start %[[X]]
// CHECK-NEXT: %[[COPY:.*]] = dist.offload_wait %[[DOWN]]
// CHECK-COUNT-3: nn.contract
// CHECK: %[[UP:.*]] = dist.prefetch_start %[[COPY]]
// CHECK-NEXT: %[[AGAIN:.*]] = dist.prefetch_wait %[[UP]]
// CHECK-NEXT: nn.contract %[[AGAIN]]
// PEAK-LABEL: func.func @chain
// PEAK-SAME: peak = 1901568 : i64
module attributes {dist.device_memory = 1901568 : i64, dist.offload = ["activations"]} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<256x256xf32, #dist.layout<[[256], [256]]>> {role = "parameter"}
  module @kernels {
  }
  func.func @chain(%r: tensor<256x1xf32> {dist.layout = #dist.layout<[[256], [1]]>, dist.shape = array<i64: 256, 1>, nn.name = "r"})
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
