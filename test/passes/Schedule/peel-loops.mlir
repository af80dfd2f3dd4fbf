// The last turn of a loop over microbatches stands behind it where collectives that need its sums take long: it has the last microbatch and
// adds to what the loop has added up, and the collective follows at once.
// RUN: tessera-opt %s --split-input-file --tessera-peel-loops | FileCheck %s

// CHECK-LABEL: func.func @reduced
// CHECK: %[[SUM:.*]] = dist.loop times 3 iter_args(%[[CARRIED:.*]] = %{{.*}} : tensor<256x256xf32>) {
// CHECK: dist.slice %arg0 over <"micro"=4> shape [4, 256, 256] split 0 :
// CHECK: nn.add %[[CARRIED]],
// CHECK-NEXT: dist.yield
// CHECK-NEXT: }
// CHECK-NEXT: %[[X:.*]] = dist.slice %arg0 over <"micro"=4> shape [4, 256, 256] split 0 {shift = array<i64: 3>}
// CHECK-NEXT: %[[ROWS:.*]] = nn.reshape %[[X]]
// CHECK-NEXT: %[[TERM:.*]] = nn.contract %[[ROWS]], %arg1
// CHECK-NEXT: %[[ALL:.*]] = nn.add %[[SUM]], %[[TERM]]
// CHECK-NEXT: %[[R:.*]] = dist.collective all_reduce %[[ALL]]
// CHECK-NEXT: return %[[R]]
module attributes {dist.micro = 4 : i64} {
dist.mesh @mesh = <["data"=2]>
func.func @reduced(%x: tensor<4x256x256xf32>, %w: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %zero = nn.constant dense<0.0> : tensor<256x256xf32> : tensor<256x256xf32>
  %sum = dist.loop times 4 iter_args(%a = %zero : tensor<256x256xf32>) {
    %s = dist.slice %x over <"micro"=4> shape [4, 256, 256] split 0 : tensor<4x256x256xf32> -> tensor<1x256x256xf32>
    %r = nn.reshape %s : (tensor<1x256x256xf32>) -> tensor<256x256xf32>
    %t = nn.contract %r, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %n = nn.add %a, %t : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    dist.yield %n : tensor<256x256xf32>
  }
  %all = dist.collective all_reduce %sum over <"data"=2> shape [256, 256] reduce sum : tensor<256x256xf32> -> tensor<256x256xf32>
  return %all : tensor<256x256xf32>
}

// Nothing of this loop is sent.
// CHECK-LABEL: func.func @alone
// CHECK: dist.loop times 4
// CHECK: dist.yield
// CHECK-NEXT: }
// CHECK-NEXT: dist.collective all_reduce %arg1
func.func @alone(%x: tensor<4x256x256xf32>, %w: tensor<256x256xf32>) -> (tensor<256x256xf32>, tensor<256x256xf32>) {
  %zero = nn.constant dense<0.0> : tensor<256x256xf32> : tensor<256x256xf32>
  %sum = dist.loop times 4 iter_args(%a = %zero : tensor<256x256xf32>) {
    %s = dist.slice %x over <"micro"=4> shape [4, 256, 256] split 0 : tensor<4x256x256xf32> -> tensor<1x256x256xf32>
    %r = nn.reshape %s : (tensor<1x256x256xf32>) -> tensor<256x256xf32>
    %t = nn.contract %r, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %n = nn.add %a, %t : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    dist.yield %n : tensor<256x256xf32>
  }
  %all = dist.collective all_reduce %w over <"data"=2> shape [256, 256] reduce sum : tensor<256x256xf32> -> tensor<256x256xf32>
  return %all, %sum : tensor<256x256xf32>, tensor<256x256xf32>
}
// How much of a microbatch is padding depends on which it is, and outside of the loop nothing says which.
// CHECK-LABEL: func.func @masked
// CHECK: dist.loop times 4
func.func @masked(%x: tensor<4x256x256xf32>, %w: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %zero = nn.constant dense<0.0> : tensor<256x256xf32> : tensor<256x256xf32>
  %sum = dist.loop times 4 iter_args(%a = %zero : tensor<256x256xf32>) {
    %s = dist.slice %x over <"micro"=4> shape [4, 256, 256] split 0 : tensor<4x256x256xf32> -> tensor<1x256x256xf32>
    %r = nn.reshape %s : (tensor<1x256x256xf32>) -> tensor<256x256xf32>
    %m = dist.mask_padding %r over <"micro"=4> shape [1, 256, 256] size 1000 value 0.0 : f32 : tensor<256x256xf32>
    %t = nn.contract %m, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %n = nn.add %a, %t : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    dist.yield %n : tensor<256x256xf32>
  }
  %all = dist.collective all_reduce %sum over <"data"=2> shape [256, 256] reduce sum : tensor<256x256xf32> -> tensor<256x256xf32>
  return %all : tensor<256x256xf32>
}

// A loop of one turn stays.
// CHECK-LABEL: func.func @once
// CHECK: dist.loop times 1
func.func @once(%x: tensor<4x256x256xf32>, %w: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %zero = nn.constant dense<0.0> : tensor<256x256xf32> : tensor<256x256xf32>
  %sum = dist.loop times 1 iter_args(%a = %zero : tensor<256x256xf32>) {
    %s = dist.slice %x over <"micro"=4> shape [4, 256, 256] split 0 : tensor<4x256x256xf32> -> tensor<1x256x256xf32>
    %r = nn.reshape %s : (tensor<1x256x256xf32>) -> tensor<256x256xf32>
    %t = nn.contract %r, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %n = nn.add %a, %t : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    dist.yield %n : tensor<256x256xf32>
  }
  %all = dist.collective all_reduce %sum over <"data"=2> shape [256, 256] reduce sum : tensor<256x256xf32> -> tensor<256x256xf32>
  return %all : tensor<256x256xf32>
}
}

// -----

// It needs more of the device than it may have.
// CHECK-LABEL: func.func @capped
// CHECK: dist.loop times 4
module attributes {dist.micro = 4 : i64, dist.device_memory = 1000000 : i64} {
dist.mesh @mesh = <["data"=2]>
func.func @capped(%x: tensor<4x256x256xf32>, %w: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %zero = nn.constant dense<0.0> : tensor<256x256xf32> : tensor<256x256xf32>
  %sum = dist.loop times 4 iter_args(%a = %zero : tensor<256x256xf32>) {
    %s = dist.slice %x over <"micro"=4> shape [4, 256, 256] split 0 : tensor<4x256x256xf32> -> tensor<1x256x256xf32>
    %r = nn.reshape %s : (tensor<1x256x256xf32>) -> tensor<256x256xf32>
    %t = nn.contract %r, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %n = nn.add %a, %t : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    dist.yield %n : tensor<256x256xf32>
  }
  %all = dist.collective all_reduce %sum over <"data"=2> shape [256, 256] reduce sum : tensor<256x256xf32> -> tensor<256x256xf32>
  return %all : tensor<256x256xf32>
}
}

// -----

// And this does not.
// CHECK-LABEL: func.func @fits
// CHECK: dist.loop times 3
module attributes {dist.micro = 4 : i64, dist.device_memory = 100000000 : i64} {
dist.mesh @mesh = <["data"=2]>
func.func @fits(%x: tensor<4x256x256xf32>, %w: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %zero = nn.constant dense<0.0> : tensor<256x256xf32> : tensor<256x256xf32>
  %sum = dist.loop times 4 iter_args(%a = %zero : tensor<256x256xf32>) {
    %s = dist.slice %x over <"micro"=4> shape [4, 256, 256] split 0 : tensor<4x256x256xf32> -> tensor<1x256x256xf32>
    %r = nn.reshape %s : (tensor<1x256x256xf32>) -> tensor<256x256xf32>
    %t = nn.contract %r, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %n = nn.add %a, %t : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    dist.yield %n : tensor<256x256xf32>
  }
  %all = dist.collective all_reduce %sum over <"data"=2> shape [256, 256] reduce sum : tensor<256x256xf32> -> tensor<256x256xf32>
  return %all : tensor<256x256xf32>
}
}

// -----

// A step of a batch that grows with the ranks is of the first microbatches only.
// CHECK-LABEL: func.func @grows
// CHECK: dist.loop times 1
// CHECK: {shift = array<i64: 1>}
module attributes {dist.micro = 4 : i64, dist.elastic = #dist.elastic<"data", [1, 2, 4], 8, scales = true>} {
dist.mesh @mesh = <["data"=2]>
func.func @grows(%x: tensor<4x256x256xf32>, %w: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %zero = nn.constant dense<0.0> : tensor<256x256xf32> : tensor<256x256xf32>
  %sum = dist.loop times 2 iter_args(%a = %zero : tensor<256x256xf32>) {
    %s = dist.slice %x over <"micro"=4> shape [4, 256, 256] split 0 : tensor<4x256x256xf32> -> tensor<1x256x256xf32>
    %r = nn.reshape %s : (tensor<1x256x256xf32>) -> tensor<256x256xf32>
    %t = nn.contract %r, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %n = nn.add %a, %t : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    dist.yield %n : tensor<256x256xf32>
  }
  %all = dist.collective all_reduce %sum over <"data"=2> shape [256, 256] reduce sum : tensor<256x256xf32> -> tensor<256x256xf32>
  return %all : tensor<256x256xf32>
}
}

// -----

// The first turn stands in front of a loop where what all turns need has to be gathered, which is where this turn needs it. It begins with
// zeros of its own, and the loop with the second microbatch.
// CHECK-LABEL: func.func @gathered
// CHECK-NOT: dist.collective
// CHECK: %[[X:.*]] = dist.slice %arg0 over <"micro"=4> shape [4, 256, 256] split 0 :
// CHECK-NEXT: %[[ROWS:.*]] = nn.reshape %[[X]]
// CHECK-NEXT: %[[W:.*]] = dist.collective all_gather
// CHECK-NEXT: %[[TERM:.*]] = nn.contract %[[ROWS]], %[[W]]
// CHECK-NEXT: %[[ZERO:.*]] = nn.constant
// CHECK-NEXT: %[[FIRST:.*]] = nn.add %[[ZERO]], %[[TERM]]
// CHECK-NEXT: %[[SUM:.*]] = dist.loop from 1 times 3 iter_args(%{{.*}} = %[[FIRST]] : tensor<256x256xf32>) {
// CHECK-NEXT: dist.slice %arg0 over <"micro"=4> shape [4, 256, 256] split 0 :
// CHECK: dist.yield
// CHECK: return %[[SUM]]
module attributes {dist.micro = 4 : i64} {
dist.mesh @mesh = <["data"=2]>
nn.variable @w : tensor<128x256xf32> {role = "parameter", trained = true}
func.func @gathered(%x: tensor<4x256x256xf32>) -> tensor<256x256xf32> {
  %v = nn.read @w : tensor<128x256xf32>
  %w = dist.collective all_gather %v over <"data"=2> shape [128, 256] concat 0 : tensor<128x256xf32> -> tensor<256x256xf32>
  %zero = nn.constant dense<0.0> : tensor<256x256xf32> : tensor<256x256xf32>
  %sum = dist.loop times 4 iter_args(%a = %zero : tensor<256x256xf32>) {
    %s = dist.slice %x over <"micro"=4> shape [4, 256, 256] split 0 : tensor<4x256x256xf32> -> tensor<1x256x256xf32>
    %r = nn.reshape %s : (tensor<1x256x256xf32>) -> tensor<256x256xf32>
    %t = nn.contract %r, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %n = nn.add %a, %t : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    dist.yield %n : tensor<256x256xf32>
  }
  return %sum : tensor<256x256xf32>
}

// Of two turns none is left in the loop.
// CHECK-LABEL: func.func @two
// CHECK-NOT: dist.loop
// CHECK: dist.collective all_gather
// CHECK-NEXT: %[[TERM:.*]] = nn.contract
// CHECK-NEXT: %[[ZERO:.*]] = nn.constant
// CHECK-NEXT: %[[FIRST:.*]] = nn.add %[[ZERO]], %[[TERM]]
// CHECK-NEXT: dist.slice %arg0 over <"micro"=4> shape [4, 256, 256] split 0 {shift = array<i64: 1>}
// CHECK: %[[ALL:.*]] = nn.add %[[FIRST]], %{{.*}}
// CHECK-NEXT: dist.collective all_reduce %[[ALL]]
func.func @two(%x: tensor<4x256x256xf32>) -> tensor<256x256xf32> {
  %v = nn.read @w : tensor<128x256xf32>
  %w = dist.collective all_gather %v over <"data"=2> shape [128, 256] concat 0 : tensor<128x256xf32> -> tensor<256x256xf32>
  %zero = nn.constant dense<0.0> : tensor<256x256xf32> : tensor<256x256xf32>
  %sum = dist.loop times 2 iter_args(%a = %zero : tensor<256x256xf32>) {
    %s = dist.slice %x over <"micro"=4> shape [4, 256, 256] split 0 : tensor<4x256x256xf32> -> tensor<1x256x256xf32>
    %r = nn.reshape %s : (tensor<1x256x256xf32>) -> tensor<256x256xf32>
    %t = nn.contract %r, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %n = nn.add %a, %t : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    dist.yield %n : tensor<256x256xf32>
  }
  %all = dist.collective all_reduce %sum over <"data"=2> shape [256, 256] reduce sum : tensor<256x256xf32> -> tensor<256x256xf32>
  return %all : tensor<256x256xf32>
}

// What is sent in front of a loop but is no variable is not worth a turn.
// CHECK-LABEL: func.func @reduced_in_front
// CHECK: dist.collective all_reduce
// CHECK: dist.loop times 4
func.func @reduced_in_front(%x: tensor<4x256x256xf32>, %v: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %w = dist.collective all_reduce %v over <"data"=2> shape [256, 256] reduce sum : tensor<256x256xf32> -> tensor<256x256xf32>
  %zero = nn.constant dense<0.0> : tensor<256x256xf32> : tensor<256x256xf32>
  %sum = dist.loop times 4 iter_args(%a = %zero : tensor<256x256xf32>) {
    %s = dist.slice %x over <"micro"=4> shape [4, 256, 256] split 0 : tensor<4x256x256xf32> -> tensor<1x256x256xf32>
    %r = nn.reshape %s : (tensor<1x256x256xf32>) -> tensor<256x256xf32>
    %t = nn.contract %r, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    %n = nn.add %a, %t : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
    dist.yield %n : tensor<256x256xf32>
  }
  return %sum : tensor<256x256xf32>
}
}
