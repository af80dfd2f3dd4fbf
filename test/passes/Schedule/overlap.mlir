// Collectives start where their input exists and are waited for before the first use.
// RUN: tessera-opt %s --tessera-overlap-collectives | FileCheck %s

// CHECK-LABEL: func.func @overlaps
// CHECK: %[[T:.*]] = dist.collective_start all_reduce %arg0 over <"t"=2> shape [4, 8] reduce sum
// CHECK-NEXT: %[[E:.*]] = nn.exp %arg1
// CHECK-NEXT: %[[R:.*]] = dist.collective_wait %[[T]]
// CHECK-NEXT: nn.add %[[R]], %[[E]]
func.func @overlaps(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = dist.collective all_reduce %x over <"t"=2> shape [4, 8] reduce sum : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = nn.exp %y : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = nn.add %0, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// Nothing to overlap with.
// CHECK-LABEL: func.func @used_at_once
// CHECK-NEXT: dist.collective all_reduce
func.func @used_at_once(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = dist.collective all_reduce %x over <"t"=2> shape [4, 8] reduce sum : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = nn.exp %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// Two start in the order of the program, on every rank; a use inside a loop waits before the loop.
// CHECK-LABEL: func.func @keeps_order
// CHECK: %[[T0:.*]] = dist.collective_start all_reduce %arg0
// CHECK-NEXT: %[[T1:.*]] = dist.collective_start all_gather %arg1
// CHECK-NEXT: nn.exp
// CHECK-NEXT: nn.constant
// CHECK-NEXT: %[[R1:.*]] = dist.collective_wait %[[T1]]
// CHECK-NEXT: dist.loop
// CHECK-NEXT: nn.add {{.*}}, %[[R1]]
// CHECK: dist.collective_wait %[[T0]]
func.func @keeps_order(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<8x8xf32> {
  %0 = dist.collective all_reduce %x over <"t"=2> shape [4, 8] reduce sum : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = dist.collective all_gather %y over <"t"=2> shape [4, 8] concat 0 : tensor<4x8xf32> -> tensor<8x8xf32>
  %2 = nn.exp %y : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %z = nn.constant dense<0.0> : tensor<8x8xf32> : tensor<8x8xf32>
  %3 = dist.loop times 2 iter_args(%a = %z : tensor<8x8xf32>) {
    %n = nn.add %a, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    dist.yield %n : tensor<8x8xf32>
  }
  %4 = nn.sub %0, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %5 = nn.concat %4, %4 {dim = 0 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %6 = nn.add %3, %5 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %6 : tensor<8x8xf32>
}

nn.variable @w : tensor<64x64xf32> {role = "parameter", trained = true}

// A gradient is waited for when two more collectives have started, the last ones when all other work is done; its update follows at once.
// CHECK-LABEL: func.func @gradients
// CHECK: %[[A:.*]] = dist.collective_start all_reduce %arg0
// CHECK-NEXT: nn.exp
// CHECK-NEXT: dist.collective_start all_reduce %arg1
// CHECK-NEXT: nn.exp
// CHECK-NEXT: dist.collective_start all_reduce %arg2
// CHECK-NEXT: %[[R:.*]] = dist.collective_wait %[[A]]
// CHECK-NEXT: nn.update %{{.*}}, %[[R]]
// CHECK-NEXT: nn.assign @w
// CHECK-NEXT: nn.exp
// CHECK-NEXT: dist.collective_wait
// CHECK-NEXT: dist.collective_wait
// CHECK-NEXT: return
func.func @gradients(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>, %z: tensor<64x64xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %d: tensor<1xf32>)
    -> (tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) {
  %w = nn.read @w : tensor<64x64xf32>
  %a = dist.collective all_reduce %x over <"d"=2> shape [64, 64] reduce sum : tensor<64x64xf32> -> tensor<64x64xf32>
  %u = nn.update %w, %a, %none, %s, %d {index = 0 : i64, kind = "sgd"} : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<f32>, tensor<8xf32>, tensor<1xf32>) -> tensor<64x64xf32>
  nn.assign @w, %u : tensor<64x64xf32>
  %e = nn.exp %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = dist.collective all_reduce %y over <"d"=2> shape [64, 64] reduce sum : tensor<64x64xf32> -> tensor<64x64xf32>
  %f = nn.exp %e : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %c = dist.collective all_reduce %z over <"d"=2> shape [64, 64] reduce sum : tensor<64x64xf32> -> tensor<64x64xf32>
  %g = nn.exp %f : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %b, %c, %g : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
}

// Stored variables are gathered while what was gathered before them is computed with, as many bytes as their own: the large one starts two
// ahead, the last one one ahead.
nn.variable @p : tensor<64xf32> {role = "parameter", trained = true}
nn.variable @q : tensor<64xf32> {role = "parameter", trained = true}
nn.variable @r : tensor<128xf32> {role = "parameter", trained = true}
nn.variable @s : tensor<64xf32> {role = "parameter", trained = true}
// CHECK-LABEL: func.func @ahead
// CHECK: %[[P:.*]] = dist.collective_start all_gather
// CHECK: %[[HALF:.*]] = nn.cast
// CHECK: %[[Q:.*]] = dist.collective_start all_gather %[[HALF]]
// CHECK: %[[R:.*]] = dist.collective_start all_gather
// CHECK-NEXT: %[[U:.*]] = dist.collective_wait %[[P]]
// CHECK-NEXT: nn.exp %[[U]]
// CHECK-NEXT: %[[V:.*]] = dist.collective_wait %[[Q]]
// CHECK-NEXT: nn.exp %[[V]]
// CHECK-NEXT: %[[S:.*]] = dist.collective_start all_gather
// CHECK-NEXT: %[[W:.*]] = dist.collective_wait %[[R]]
// CHECK-NEXT: nn.exp %[[W]]
// CHECK-NEXT: %[[X:.*]] = dist.collective_wait %[[S]]
// CHECK-NEXT: nn.exp %[[X]]
func.func @ahead() -> (tensor<128xf32>, tensor<128xbf16>, tensor<256xf32>, tensor<128xf32>) {
  %p = nn.read @p : tensor<64xf32>
  %q = nn.read @q : tensor<64xf32>
  %r = nn.read @r : tensor<128xf32>
  %s = nn.read @s : tensor<64xf32>
  %0 = dist.collective all_gather %p over <"d"=2> shape [64] concat 0 : tensor<64xf32> -> tensor<128xf32>
  %1 = nn.exp %0 : (tensor<128xf32>) -> tensor<128xf32>
  %h = nn.cast %q {to = bf16} : (tensor<64xf32>) -> tensor<64xbf16>
  %2 = dist.collective all_gather %h over <"d"=2> shape [64] concat 0 : tensor<64xbf16> -> tensor<128xbf16>
  %3 = nn.exp %2 : (tensor<128xbf16>) -> tensor<128xbf16>
  %4 = dist.collective all_gather %r over <"d"=2> shape [128] concat 0 : tensor<128xf32> -> tensor<256xf32>
  %5 = nn.exp %4 : (tensor<256xf32>) -> tensor<256xf32>
  %6 = dist.collective all_gather %s over <"d"=2> shape [64] concat 0 : tensor<64xf32> -> tensor<128xf32>
  %7 = nn.exp %6 : (tensor<128xf32>) -> tensor<128xf32>
  return %1, %3, %5, %7 : tensor<128xf32>, tensor<128xbf16>, tensor<256xf32>, tensor<128xf32>
}

// Not before the variable is written, nor to another step of a pipeline.
// CHECK-LABEL: func.func @not_ahead
// CHECK: nn.exp
// CHECK: nn.assign @q
// CHECK: dist.collective all_gather
// CHECK: nn.exp
// CHECK: dist.step
// CHECK: dist.collective all_gather
// CHECK: nn.exp
func.func @not_ahead(%x: tensor<64xf32>) -> (tensor<128xf32>, tensor<128xf32>, tensor<256xf32>) {
  %p = nn.read @p : tensor<64xf32>
  %q = nn.read @q : tensor<64xf32>
  %r = nn.read @r : tensor<128xf32>
  %0 = dist.collective all_gather %p over <"d"=2> shape [64] concat 0 : tensor<64xf32> -> tensor<128xf32>
  %1 = nn.exp %0 : (tensor<128xf32>) -> tensor<128xf32>
  nn.assign @q, %x : tensor<64xf32>
  %2 = dist.collective all_gather %q over <"d"=2> shape [64] concat 0 : tensor<64xf32> -> tensor<128xf32>
  %3 = nn.exp %2 : (tensor<128xf32>) -> tensor<128xf32>
  dist.step forward chunk 0 micro 1
  %4 = dist.collective all_gather %r over <"d"=2> shape [128] concat 0 : tensor<128xf32> -> tensor<256xf32>
  %5 = nn.exp %4 : (tensor<256xf32>) -> tensor<256xf32>
  return %1, %3, %5 : tensor<128xf32>, tensor<128xf32>, tensor<256xf32>
}
