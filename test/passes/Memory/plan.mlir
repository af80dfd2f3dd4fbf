// Buffers and offsets. A tensor<64x64xf32> has 16384 bytes; a product's scratch is 1 MiB.
// RUN: tessera-opt %s --split-input-file --tessera-form-kernels --tessera-plan-memory --tessera-verify-memory | FileCheck %s

// Variables lie at the bottom; the all-reduce and the update work in place. The categories add up to the peak: 16896 + 16384 + 16384 + 1048576.
// CHECK-LABEL: func.func @train()
// CHECK-SAME: activations = 16896 : i64, bound = 1098240 : i64, communication = 0 : i64, gradients = 16384 : i64, optimizer = 0 : i64, parameters = 16384 : i64, peak = 1098240 : i64, workspace = 1048576 : i64
// CHECK: %[[X:.*]] = exec.buffer {bytes = 16384 : i64, category = "activations"
// CHECK: %[[W:.*]] = exec.buffer {bytes = 16384 : i64, category = "parameters", offset = 0 : i64, variable = @w}
// CHECK: %[[G:.*]] = exec.buffer {bytes = 16384 : i64, category = "gradients"
// CHECK: %[[S:.*]] = exec.buffer {{.*}} category = "workspace"
// CHECK: %[[C:.*]] = exec.buffer {bytes = 8192 : i64, category = "communication"
// CHECK: exec.call "gemm"(%[[X]], %[[W]], %[[G]], %[[S]])
// CHECK-NEXT: exec.collective "all_reduce"(%[[G]], %[[G]], %[[C]])
// CHECK: exec.call "sgd"({{.*}}, %[[W]], %[[G]])
// CHECK-NOT: copy_box
nn.variable @w : tensor<64x64xf32> {role = "parameter", trained = true}
func.func @train(%x: tensor<64x64xf32> {nn.name = "x", dist.layout = #dist.layout<[[64], [64]]>, dist.shape = array<i64: 64, 64>},
                 %s: tensor<8xf32> {nn.name = "scalars", nn.kind = #nn<kind scalars>, dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>},
                 %decay: tensor<1xf32> {nn.name = "decay", nn.kind = #nn<kind decay>, dist.layout = #dist.layout<[[1]]>, dist.shape = array<i64: 1>})
    -> (tensor<f32> {nn.name = "loss", dist.layout = #dist.layout<[]>, dist.shape = array<i64>}) {
  %w = nn.read @w : tensor<64x64xf32>
  %g = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %r = dist.collective all_reduce %g over <"t"=2> shape [64, 64] reduce sum : tensor<64x64xf32> -> tensor<64x64xf32>
  %n = nn.sum_squares %r : (tensor<64x64xf32>) -> tensor<f32>
  %u = nn.update %w, %r, %n, %s, %decay {index = 0 : i64, kind = "sgd"} : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<f32>, tensor<8xf32>, tensor<1xf32>) -> tensor<64x64xf32>
  nn.assign @w, %u : tensor<64x64xf32>
  return %n : tensor<f32>
}

// -----

// The third result lies where the first was.
// CHECK-LABEL: func.func @chain()
// CHECK: exec.buffer {bytes = 16384
// CHECK-NEXT: exec.buffer {bytes = 16384 : i64, category = "activations", offset = [[FIRST:[0-9]+]] : i64}
// CHECK: exec.buffer {bytes = 16384 : i64, category = "activations", offset
// CHECK: exec.buffer {bytes = 16384 : i64, category = "activations", offset = [[FIRST]] : i64}
func.func @chain(%x: tensor<64x64xf32> {nn.name = "x", dist.layout = #dist.layout<[[64], [64]]>, dist.shape = array<i64: 64, 64>})
    -> (tensor<64x64xf32> {nn.name = "y", dist.layout = #dist.layout<[[64], [64]]>, dist.shape = array<i64: 64, 64>}) {
  %a = nn.contract %x, %x {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = nn.contract %a, %x {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %c = nn.contract %b, %x {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %c : tensor<64x64xf32>
}

// -----

// A carried value keeps one buffer through all turns of the loop; what the loop reads from outside outlives it, and so is not the place of a term.
// CHECK-LABEL: func.func @loop()
// CHECK: %[[X:.*]] = exec.buffer {{.*}} offset = [[AT:[0-9]+]]
// CHECK: exec.input %[[X]]
// CHECK: exec.call "fill"(%[[ACC:[0-9]+]])
// CHECK-NEXT: exec.loop 4 {
// CHECK-NEXT: exec.call "gemm"(%[[X]], %[[X]], %[[TERM:.*]], %{{.*}})
// CHECK-NEXT: exec.launch @{{.*}}(%[[ACC]], %[[TERM]], %[[NEXT:[0-9]+]])
// CHECK-NEXT: exec.call "copy_box"(%[[NEXT]], %[[ACC]])
// CHECK: exec.output %[[ACC]]
func.func @loop(%x: tensor<64x64xf32> {nn.name = "x", dist.layout = #dist.layout<[[64], [64]]>, dist.shape = array<i64: 64, 64>})
    -> (tensor<64x64xf32> {nn.name = "y", dist.layout = #dist.layout<[[64], [64]]>, dist.shape = array<i64: 64, 64>}) {
  %z = nn.constant dense<0.0> : tensor<64x64xf32> : tensor<64x64xf32>
  %l = dist.loop times 4 iter_args(%acc = %z : tensor<64x64xf32>) {
    %p = nn.contract %x, %x {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %n = nn.add %acc, %p : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    dist.yield %n : tensor<64x64xf32>
  }
  return %l : tensor<64x64xf32>
}

// -----

// A term is added to what is carried in its place, rather than in that of the term, and nothing is copied.
// CHECK-LABEL: func.func @loop_in_place()
// CHECK: exec.call "fill"(%[[ACC:[0-9]+]])
// CHECK-NEXT: exec.loop 4 {
// CHECK-NEXT: exec.call "gemm"(%{{.*}}, %{{.*}}, %[[TERM:[0-9]+]], %{{.*}})
// CHECK-NEXT: exec.launch @add{{.*}}(%[[TERM]], %[[ACC]])
// CHECK-NOT: copy_box
// CHECK: exec.output %[[ACC]]
func.func @loop_in_place(%x: tensor<64x64xf32> {nn.name = "x", dist.layout = #dist.layout<[[64], [64]]>, dist.shape = array<i64: 64, 64>})
    -> (tensor<64x64xf32> {nn.name = "y", dist.layout = #dist.layout<[[64], [64]]>, dist.shape = array<i64: 64, 64>}) {
  %z = nn.constant dense<0.0> : tensor<64x64xf32> : tensor<64x64xf32>
  %l = dist.loop times 4 iter_args(%acc = %z : tensor<64x64xf32>) {
    %p = nn.contract %x, %x {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %n = exec.apply @add(%p, %acc) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    dist.yield %n : tensor<64x64xf32>
  }
  return %l : tensor<64x64xf32>
}
// What a turn reads behind that keeps its bytes until then.
// CHECK-LABEL: func.func @loop_read_behind()
// CHECK: exec.call "fill"(%[[ACC:[0-9]+]])
// CHECK: exec.launch @add{{.*}}(%[[TERM:[0-9]+]], %[[ACC]])
// CHECK-NEXT: exec.call "gemm"(%[[ACC]], %[[ACC]],
// CHECK-NEXT: exec.call "copy_box"(%[[TERM]], %[[ACC]])
func.func @loop_read_behind(%x: tensor<64x64xf32> {nn.name = "x", dist.layout = #dist.layout<[[64], [64]]>, dist.shape = array<i64: 64, 64>})
    -> (tensor<64x64xf32> {nn.name = "y", dist.layout = #dist.layout<[[64], [64]]>, dist.shape = array<i64: 64, 64>}) {
  %z = nn.constant dense<0.0> : tensor<64x64xf32> : tensor<64x64xf32>
  %l = dist.loop times 4 iter_args(%acc = %z : tensor<64x64xf32>) {
    %p = nn.contract %x, %x {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %n = exec.apply @add(%p, %acc) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %q = nn.contract %acc, %acc {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    dist.yield %n : tensor<64x64xf32>
  }
  return %l : tensor<64x64xf32>
}
module @kernels {
  func.func @add(%t: tensor<64x64xf32>, %a: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {exec.in_place = [array<i64: 0, 0>, array<i64: 1, 0>]} {
    %y = nn.add %t, %a : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %y : tensor<64x64xf32>
  }
}

// -----

// A kernel that may write over an operand does, where the operand dies; not where it is read again, and not over an input.
// CHECK-LABEL: func.func @in_place()
// CHECK: exec.call "gemm"(%{{.*}}, %{{.*}}, %[[P:[0-9]+]], %{{.*}})
// CHECK-NEXT: exec.launch @twice_0in0(%[[P]])
// CHECK-NEXT: exec.launch @twice(%[[P]], %[[Q:[0-9]+]])
// CHECK-NEXT: exec.call "gemm"(%[[P]], %[[Q]]
// CHECK: func.func @twice_0in0(%{{.*}}: tensor<64x64xf32> {exec.result = 0 : i64})
func.func @in_place(%x: tensor<64x64xf32> {nn.name = "x", dist.layout = #dist.layout<[[64], [64]]>, dist.shape = array<i64: 64, 64>})
    -> (tensor<64x64xf32> {nn.name = "y", dist.layout = #dist.layout<[[64], [64]]>, dist.shape = array<i64: 64, 64>}) {
  %a = nn.contract %x, %x {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = exec.apply @twice(%a) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %c = exec.apply @twice(%b) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %d = nn.contract %b, %c {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %d : tensor<64x64xf32>
}
module @kernels {
  func.func @twice(%x: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {exec.in_place = [array<i64: 0, 0>]} {
    %y = nn.add %x, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %y : tensor<64x64xf32>
  }
}
