// What leaves the device below a cap, and what does not.
// RUN: tessera-opt %s --tessera-choose-tiers --split-input-file | FileCheck %s
// RUN: tessera-opt %s --tessera-choose-tiers --tessera-plan-memory --tessera-verify-memory --split-input-file | FileCheck %s --check-prefix=PEAK

// While a chain of products runs, each with an operand, a result and the variable, %x waits for the end of it: it leaves behind its first reader and comes
// back, in what time the chain leaves. The variable stays, since nothing of it may leave.
// CHECK-LABEL: func.func @chain
// CHECK-NOT: dist.read_copy
// CHECK: %[[X:.*]] = nn.contract
// CHECK: %[[A:.*]] = nn.contract %[[X]]
// CHECK: %[[DOWN:.*]] = dist.offload_start %[[X]]
// CHECK: %[[COPY:.*]] = dist.offload_wait %[[DOWN]]
// CHECK: nn.contract %[[A]]
// CHECK: %[[UP:.*]] = dist.prefetch_start %[[COPY]]
// CHECK: %[[AGAIN:.*]] = dist.prefetch_wait %[[UP]]
// CHECK: nn.contract %[[AGAIN]]
// CHECK-NOT: dist.prefetch
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

// -----

// Enough for all of it: nothing moves.
// CHECK-LABEL: func.func @fits
// CHECK-NOT: dist.offload_start
// PEAK-LABEL: func.func @fits
module attributes {dist.device_memory = 4194304 : i64, dist.offload = ["activations", "parameters"]} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<256x256xf32, #dist.layout<[[256], [256]]>> {role = "parameter"}
  module @kernels {
  }
  func.func @fits() -> (tensor<256x256xf32> {dist.layout = #dist.layout<[[256], [256]]>, dist.shape = array<i64: 256, 256>, nn.name = "y"}) {
    %w = nn.read @w : tensor<256x256xf32>
    %x = nn.contract %w, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    return %x : tensor<256x256xf32>
  }
}

// -----

// Parameters that one operator each reads rest on the host, in both programs; each comes up for its reader. The first program, the fuller one, decides.
// CHECK: nn.variable @w1 : {{.*}} {dist.rests = #dist.tier<host>
// CHECK: nn.variable @w2 : {{.*}} {dist.rests = #dist.tier<host>
// CHECK-LABEL: func.func @full
// CHECK-DAG: dist.read_copy @w1
// CHECK-DAG: dist.read_copy @w2
// CHECK-COUNT-2: dist.prefetch_start
// CHECK-NOT: nn.read
// CHECK-LABEL: func.func @small
// CHECK: dist.read_copy @w1
// CHECK: dist.prefetch_start
// CHECK-NOT: nn.read
// PEAK-LABEL: func.func @full
// PEAK-SAME: host = {{{.*}}peak = 524288 : i64
module attributes {dist.device_memory = 1900544 : i64, dist.offload = ["parameters"]} {
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
  func.func @small(%x: tensor<1x256xf32> {dist.layout = #dist.layout<[[1], [256]]>, dist.shape = array<i64: 1, 256>, nn.name = "x"})
      -> (tensor<1x256xf32> {dist.layout = #dist.layout<[[1], [256]]>, dist.shape = array<i64: 1, 256>, nn.name = "y"}) {
    %w1 = nn.read @w1 : tensor<256x256xf32>
    %y = nn.contract %x, %w1 {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<1x256xf32>, tensor<256x256xf32>) -> tensor<1x256xf32>
    return %y : tensor<1x256xf32>
  }
}

// -----

// @w1 is an output of a program, so it stays where it is, and @w2 leaves.
// CHECK: nn.variable @w1 : tensor<256x256xf32, #dist.layout<{{.*}}>> {role
// CHECK: nn.variable @w2 : {{.*}} {dist.rests = #dist.tier<host>
// CHECK-LABEL: func.func @returned
module attributes {dist.device_memory = 1900544 : i64, dist.offload = ["parameters"]} {
  dist.mesh @mesh = <[]>
  nn.variable @w1 : tensor<256x256xf32, #dist.layout<[[256], [256]]>> {role = "parameter"}
  nn.variable @w2 : tensor<256x256xf32, #dist.layout<[[256], [256]]>> {role = "parameter"}
  module @kernels {
  }
  func.func @full(%x: tensor<256x1xf32> {dist.layout = #dist.layout<[[256], [1]]>, dist.shape = array<i64: 256, 1>, nn.name = "x"})
      -> (tensor<256x1xf32> {dist.layout = #dist.layout<[[256], [1]]>, dist.shape = array<i64: 256, 1>, nn.name = "y"}) {
    %w1 = nn.read @w1 : tensor<256x256xf32>
    %w2 = nn.read @w2 : tensor<256x256xf32>
    %a = nn.contract %w1, %w1 {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %b = nn.contract %a, %x {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x1xf32>) -> tensor<256x1xf32>
    %y = nn.contract %w2, %b {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x1xf32>) -> tensor<256x1xf32>
    return %y : tensor<256x1xf32>
  }
  func.func @returned() -> (tensor<256x256xf32> {dist.layout = #dist.layout<[[256], [256]]>, dist.shape = array<i64: 256, 256>, nn.name = "y"}) {
    %w1 = nn.read @w1 : tensor<256x256xf32>
    return %w1 : tensor<256x256xf32>
  }
}

// -----

// A loop reads %x, made before it, at its beginning and its end, and makes %a, which a chain of products leaves no room for: %a goes down and comes back in
// each turn, wholly inside of it. %x goes down once, before the loop, and comes up in each turn, for each of its uses.
// CHECK-LABEL: func.func @looped
// CHECK: %[[X:.*]] = nn.contract
// CHECK: dist.offload_start %[[X]]
// CHECK: %[[COPY:.*]] = dist.offload_wait
// CHECK: dist.loop times 4
// CHECK: dist.prefetch_start %[[COPY]]
// CHECK: %[[UP:.*]] = dist.prefetch_wait
// CHECK: %[[A:.*]] = nn.contract %[[UP]]
// CHECK: dist.offload_start %[[A]]
// CHECK: dist.offload_wait
// CHECK: dist.prefetch_start
// CHECK: dist.prefetch_start
// CHECK: dist.yield
// CHECK-NOT: dist.offload_start
// CHECK-NOT: dist.prefetch_start
// PEAK-LABEL: func.func @looped
module attributes {dist.device_memory = 1904128 : i64, dist.offload = ["activations"]} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<256x256xf32, #dist.layout<[[256], [256]]>> {role = "parameter"}
  module @kernels {
  }
  func.func @looped(%r: tensor<256x1xf32> {dist.layout = #dist.layout<[[256], [1]]>, dist.shape = array<i64: 256, 1>, nn.name = "r"})
      -> (tensor<256x1xf32> {dist.layout = #dist.layout<[[256], [1]]>, dist.shape = array<i64: 256, 1>, nn.name = "y"}) {
    %w = nn.read @w : tensor<256x256xf32>
    %x = nn.contract %w, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %zero = nn.constant dense<0.0> : tensor<256x1xf32> : tensor<256x1xf32>
    %sum = dist.loop times 4 iter_args(%acc = %zero : tensor<256x1xf32>) {
      %a = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
      %b = nn.contract %a, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
      %c = nn.contract %b, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
      %d = nn.contract %c, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
      %e = nn.contract %d, %r {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x1xf32>) -> tensor<256x1xf32>
      %f = nn.contract %a, %e {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x1xf32>) -> tensor<256x1xf32>
      %g = nn.contract %x, %f {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x1xf32>) -> tensor<256x1xf32>
      dist.yield %g : tensor<256x1xf32>
    }
    return %sum : tensor<256x1xf32>
  }
}

// -----

// A sum over turns, which a chain of products leaves no room for, is on the host while these run: it begins there with zeros, and each turn brings it up,
// adds to it in place, and takes it down again. Behind the loop it comes up once more.
// CHECK-LABEL: func.func @summed
// CHECK: %[[FILL:.*]] = dist.host_start "fill"() changes [] with {count = 65536 : i64, dtype = "f32", value = 0.000000e+00 : f64}
// CHECK: %[[ZEROS:.*]] = dist.host_wait %[[FILL]]
// CHECK-NEXT: %[[SUM:.*]] = dist.loop times 4 iter_args(%[[ACC:.*]] = %[[ZEROS]] : !dist.copy<tensor<256x256xf32>, host>)
// CHECK: %[[UP:.*]] = dist.prefetch_start %[[ACC]]
// CHECK: %[[HERE:.*]] = dist.prefetch_wait %[[UP]]
// CHECK: %[[NEW:.*]] = exec.apply @add(%{{.*}}, %[[HERE]])
// CHECK: dist.offload_start %[[NEW]]
// CHECK: %[[NEXT:.*]] = dist.offload_wait
// CHECK-NEXT: dist.yield %[[NEXT]]
// CHECK: dist.prefetch_start %[[SUM]]
// CHECK: nn.contract
// CHECK-NOT: dist.offload_start
// PEAK-LABEL: func.func @summed
// PEAK: exec.host_call "fill"(%[[BELOW:[0-9]+]])
// PEAK: exec.loop 4 {
// PEAK: exec.copy %[[BELOW]] to
// PEAK: exec.launch @add
// PEAK: exec.copy %{{.*}} to %[[BELOW]]
// PEAK: }
// PEAK: exec.copy %[[BELOW]] to
module attributes {dist.device_memory = 1904128 : i64, dist.offload = ["activations"]} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<256x256xf32, #dist.layout<[[256], [256]]>> {role = "parameter"}
  module @kernels {
    func.func @add(%t: tensor<256x256xf32>, %a: tensor<256x256xf32>) -> tensor<256x256xf32> attributes {exec.in_place = [array<i64: 0, 0>, array<i64: 1, 0>]} {
      %y = nn.add %t, %a : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
      return %y : tensor<256x256xf32>
    }
  }
  func.func @summed(%r: tensor<256x1xf32> {dist.layout = #dist.layout<[[256], [1]]>, dist.shape = array<i64: 256, 1>, nn.name = "r"})
      -> (tensor<256x1xf32> {dist.layout = #dist.layout<[[256], [1]]>, dist.shape = array<i64: 256, 1>, nn.name = "y"}) {
    %w = nn.read @w : tensor<256x256xf32>
    %zero = nn.constant dense<0.0> : tensor<256x256xf32> : tensor<256x256xf32>
    %sum = dist.loop times 4 iter_args(%acc = %zero : tensor<256x256xf32>) {
      %a = nn.contract %w, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
      %b = nn.contract %a, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
      %c = nn.contract %b, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
      %n = exec.apply @add(%c, %acc) : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
      dist.yield %n : tensor<256x256xf32>
    }
    %y = nn.contract %sum, %r {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x1xf32>) -> tensor<256x1xf32>
    return %y : tensor<256x1xf32>
  }
}

// -----

// What is copied out of a pack that was gathered leaves as what an operator makes does.
// CHECK-LABEL: func.func @unpacked
// CHECK: %[[U:.*]]:2 = dist.unpack
// CHECK: %[[DOWN:.*]] = dist.offload_start %[[U]]#0
// CHECK: dist.offload_wait %[[DOWN]]
// CHECK: dist.prefetch_start
// PEAK-LABEL: func.func @unpacked
// PEAK-SAME: peak = 1901568 : i64
module attributes {dist.device_memory = 1901568 : i64, dist.offload = ["activations"]} {
  dist.mesh @mesh = <["d"=2]>
  nn.variable @w : tensor<256x256xf32, #dist.layout<[[256], [256]]>> {role = "parameter"}
  module @kernels {
  }
  func.func @unpacked(%s: tensor<32784xf32> {dist.layout = #dist.layout<[[32784]]>, dist.shape = array<i64: 32784>, nn.name = "s"},
                      %r: tensor<256x1xf32> {dist.layout = #dist.layout<[[256], [1]]>, dist.shape = array<i64: 256, 1>, nn.name = "r"})
      -> (tensor<256x1xf32> {dist.layout = #dist.layout<[[256], [1]]>, dist.shape = array<i64: 256, 1>, nn.name = "y"}) {
    %w = nn.read @w : tensor<256x256xf32>
    %g = dist.collective all_gather %s over <"d"=2> shape [32784] concat 0 : tensor<32784xf32> -> tensor<65568xf32>
    %u:2 = dist.unpack %g {blocks = 2 : i64} : tensor<65568xf32> -> tensor<65536xf32>, tensor<32xf32>
    %x = nn.reshape %u#0 : (tensor<65536xf32>) -> tensor<256x256xf32>
    %a = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %b = nn.contract %a, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %c = nn.contract %b, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %d = nn.contract %c, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %e = nn.contract %d, %r {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x1xf32>) -> tensor<256x1xf32>
    %y = nn.contract %x, %e {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x1xf32>) -> tensor<256x1xf32>
    return %y : tensor<256x1xf32>
  }
}
