// A pack is one buffer in which its values are made and read: nothing is copied but what has another place already.
// RUN: tessera-opt %s --split-input-file --tessera-form-kernels --tessera-plan-memory --tessera-verify-memory | FileCheck %s

// CHECK-LABEL: func.func @made_in_place()
// CHECK: %[[P:.*]] = exec.buffer {bytes = 320
// CHECK-NEXT: %[[A:.*]] = exec.part %[[P]] {bytes = 256 : i64, offset = 0 : i64}
// CHECK-NEXT: %[[B:.*]] = exec.part %[[P]] {bytes = 12 : i64, offset = 256 : i64}
// CHECK: exec.launch @{{.*}}(%{{.*}}, %[[A]])
// CHECK: exec.launch @{{.*}}(%{{.*}}, %[[B]])
// CHECK-NOT: copy_box
// CHECK: exec.collective "all_reduce"(%[[P]], %[[P]], %{{.*}})
// CHECK-NEXT: exec.output
// CHECK-NEXT: exec.output
func.func @made_in_place(%x: tensor<64xf32> {nn.name = "x", dist.layout = #dist.layout<[[64]]>, dist.shape = array<i64: 64>},
                         %y: tensor<3xf32> {nn.name = "y", dist.layout = #dist.layout<[[3]]>, dist.shape = array<i64: 3>})
    -> (tensor<64xf32> {nn.name = "a", dist.layout = #dist.layout<[[64]]>, dist.shape = array<i64: 64>},
        tensor<3xf32> {nn.name = "b", dist.layout = #dist.layout<[[3]]>, dist.shape = array<i64: 3>}) {
  %a = nn.exp %x : (tensor<64xf32>) -> tensor<64xf32>
  %b = nn.neg %y : (tensor<3xf32>) -> tensor<3xf32>
  %p = dist.pack %a, %b : tensor<64xf32>, tensor<3xf32> -> tensor<80xf32>
  %r = dist.collective all_reduce %p over <"d"=2> shape [80] reduce sum : tensor<80xf32> -> tensor<80xf32>
  %u:2 = dist.unpack %r : tensor<80xf32> -> tensor<64xf32>, tensor<3xf32>
  return %u#0, %u#1 : tensor<64xf32>, tensor<3xf32>
}

// -----

// An input lies where it is.
// CHECK-LABEL: func.func @copied()
// CHECK: %[[X:.*]] = exec.buffer
// CHECK: exec.input %[[X]]
// CHECK: exec.call "copy_box"(%[[X]], %[[A:.*]])
// CHECK: exec.collective
func.func @copied(%x: tensor<64xf32> {nn.name = "x", dist.layout = #dist.layout<[[64]]>, dist.shape = array<i64: 64>})
    -> (tensor<64xf32> {nn.name = "a", dist.layout = #dist.layout<[[64]]>, dist.shape = array<i64: 64>}) {
  %b = nn.neg %x : (tensor<64xf32>) -> tensor<64xf32>
  %p = dist.pack %b, %x : tensor<64xf32>, tensor<64xf32> -> tensor<128xf32>
  %r = dist.collective all_reduce %p over <"d"=2> shape [128] reduce sum : tensor<128xf32> -> tensor<128xf32>
  %u:2 = dist.unpack %r : tensor<128xf32> -> tensor<64xf32>, tensor<64xf32>
  return %u#1 : tensor<64xf32>
}

// -----

// What a loop sums for a pack is summed in its place there.
// CHECK-LABEL: func.func @summed()
// CHECK: %[[P:.*]] = exec.buffer {bytes = 512
// CHECK-NEXT: %[[ACC:.*]] = exec.part %[[P]] {bytes = 256
// CHECK: exec.call "fill"(%[[ACC]])
// CHECK: exec.loop 2
// CHECK: exec.collective "all_reduce"(%[[P]], %[[P]]
func.func @summed(%x: tensor<64xf32> {nn.name = "x", dist.layout = #dist.layout<[[64]]>, dist.shape = array<i64: 64>})
    -> (tensor<64xf32> {nn.name = "a", dist.layout = #dist.layout<[[64]]>, dist.shape = array<i64: 64>}) {
  %z = nn.constant dense<0.0> : tensor<64xf32> : tensor<64xf32>
  %l = dist.loop times 2 iter_args(%acc = %z : tensor<64xf32>) {
    %n = nn.add %acc, %x : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    dist.yield %n : tensor<64xf32>
  }
  %b = nn.neg %x : (tensor<64xf32>) -> tensor<64xf32>
  %p = dist.pack %l, %b : tensor<64xf32>, tensor<64xf32> -> tensor<128xf32>
  %r = dist.collective all_reduce %p over <"d"=2> shape [128] reduce sum : tensor<128xf32> -> tensor<128xf32>
  %u:2 = dist.unpack %r : tensor<128xf32> -> tensor<64xf32>, tensor<64xf32>
  return %u#0 : tensor<64xf32>
}

// -----

// And what is added to it behind the loop is added there.
// CHECK-LABEL: func.func @last_term()
// CHECK: %[[X:[0-9]+]] = exec.buffer {bytes = 256
// CHECK-NEXT: %[[P:[0-9]+]] = exec.buffer {bytes = 512
// CHECK-NEXT: %[[ACC:[0-9]+]] = exec.part %[[P]] {bytes = 256 : i64, offset = 0
// CHECK: exec.call "fill"(%[[ACC]])
// CHECK: exec.loop 2
// CHECK-NEXT: exec.launch @{{.*}}(%[[ACC]], %[[X]])
// CHECK-NEXT: {{^ *[}]$}}
// CHECK-NEXT: exec.launch @{{.*}}(%[[ACC]], %[[X]])
// CHECK: exec.collective "all_reduce"(%[[P]], %[[P]]
func.func @last_term(%x: tensor<64xf32> {nn.name = "x", dist.layout = #dist.layout<[[64]]>, dist.shape = array<i64: 64>})
    -> (tensor<64xf32> {nn.name = "a", dist.layout = #dist.layout<[[64]]>, dist.shape = array<i64: 64>}) {
  %z = nn.constant dense<0.0> : tensor<64xf32> : tensor<64xf32>
  %l = dist.loop times 2 iter_args(%acc = %z : tensor<64xf32>) {
    %n = exec.apply @add(%acc, %x) {adds} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    dist.yield %n : tensor<64xf32>
  }
  %s = exec.apply @add(%l, %x) {adds} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %p = dist.pack %s, %x : tensor<64xf32>, tensor<64xf32> -> tensor<128xf32>
  %r = dist.collective all_reduce %p over <"d"=2> shape [128] reduce sum : tensor<128xf32> -> tensor<128xf32>
  %u:2 = dist.unpack %r : tensor<128xf32> -> tensor<64xf32>, tensor<64xf32>
  return %u#0 : tensor<64xf32>
}
module @kernels {
  func.func @add(%a: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<64xf32> attributes {exec.in_place = [array<i64: 0, 0>]} {
    %0 = nn.add %a, %b : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}

// -----

// Not where the sum before it is read as well, or once more in each turn of another loop.
// CHECK-LABEL: func.func @read_again()
// CHECK: exec.loop 2
// CHECK-NEXT: exec.launch @{{.*}}(%[[SUM:[0-9]+]], %[[X:[0-9]+]])
// CHECK-NEXT: {{^ *[}]$}}
// CHECK-NEXT: exec.launch @{{.*}}(%[[SUM]], %[[X]], %{{[0-9]+}})
// CHECK: exec.output %[[SUM]] {{.*}}name = "b"
func.func @read_again(%x: tensor<64xf32> {nn.name = "x", dist.layout = #dist.layout<[[64]]>, dist.shape = array<i64: 64>})
    -> (tensor<64xf32> {nn.name = "a", dist.layout = #dist.layout<[[64]]>, dist.shape = array<i64: 64>},
        tensor<64xf32> {nn.name = "b", dist.layout = #dist.layout<[[64]]>, dist.shape = array<i64: 64>}) {
  %z = nn.constant dense<0.0> : tensor<64xf32> : tensor<64xf32>
  %l = dist.loop times 2 iter_args(%acc = %z : tensor<64xf32>) {
    %n = exec.apply @add(%acc, %x) {adds} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    dist.yield %n : tensor<64xf32>
  }
  %s = exec.apply @add(%l, %x) {adds} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %p = dist.pack %s, %x : tensor<64xf32>, tensor<64xf32> -> tensor<128xf32>
  %r = dist.collective all_reduce %p over <"d"=2> shape [128] reduce sum : tensor<128xf32> -> tensor<128xf32>
  %u:2 = dist.unpack %r : tensor<128xf32> -> tensor<64xf32>, tensor<64xf32>
  return %u#0, %l : tensor<64xf32>, tensor<64xf32>
}
// CHECK-LABEL: func.func @in_turns()
// CHECK: exec.call "fill"(%[[SUM:[0-9]+]])
// CHECK: exec.loop 3
// CHECK-NEXT: exec.launch @add(%[[SUM]], %{{[0-9]+}}, %{{[0-9]+}})
func.func @in_turns(%x: tensor<64xf32> {nn.name = "x", dist.layout = #dist.layout<[[64]]>, dist.shape = array<i64: 64>})
    -> (tensor<64xf32> {nn.name = "a", dist.layout = #dist.layout<[[64]]>, dist.shape = array<i64: 64>}) {
  %z = nn.constant dense<0.0> : tensor<64xf32> : tensor<64xf32>
  %l = dist.loop times 2 iter_args(%acc = %z : tensor<64xf32>) {
    %n = exec.apply @add(%acc, %x) {adds} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    dist.yield %n : tensor<64xf32>
  }
  %m = dist.loop times 3 iter_args(%acc = %z : tensor<64xf32>) {
    %s = exec.apply @add(%l, %x) {adds} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %p = dist.pack %s, %x : tensor<64xf32>, tensor<64xf32> -> tensor<128xf32>
    %r = dist.collective all_reduce %p over <"d"=2> shape [128] reduce sum : tensor<128xf32> -> tensor<128xf32>
    %u:2 = dist.unpack %r : tensor<128xf32> -> tensor<64xf32>, tensor<64xf32>
    %n = exec.apply @add(%acc, %u#0) {adds} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    dist.yield %n : tensor<64xf32>
  }
  return %m : tensor<64xf32>
}
module @kernels {
  func.func @add(%a: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<64xf32> attributes {exec.in_place = [array<i64: 0, 0>]} {
    %0 = nn.add %a, %b : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}
