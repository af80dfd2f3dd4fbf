// Collectives start where they stand and are waited for before the first use.
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
nn.variable @piece : tensor<32x64xf32> {role = "parameter", trained = true}
nn.variable @w1 : tensor<64x64xf32> {role = "parameter", trained = true}
nn.variable @w2 : tensor<64x64xf32> {role = "parameter", trained = true}

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

// What depends on a gradient does not count of the two that it is under way beside: it would be waited for behind everything. A pack is no work
// that it has to be there for.
// CHECK-LABEL: func.func @dependent
// CHECK: %[[A:.*]] = dist.collective_start reduce_scatter %arg0
// CHECK-NEXT: nn.exp
// CHECK-NEXT: dist.collective_start all_reduce %arg1
// CHECK-NEXT: nn.exp
// CHECK-NEXT: dist.collective_start all_reduce %arg1
// CHECK-NEXT: %[[R:.*]] = dist.collective_wait %[[A]]
// CHECK-NEXT: %[[P:.*]] = dist.pack %[[R]], %arg0
// CHECK-NEXT: dist.collective_start all_reduce %[[P]]
// CHECK-NEXT: nn.exp
// CHECK-NEXT: nn.exp
func.func @dependent(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> (tensor<6144xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) {
  %a = dist.collective reduce_scatter %x over <"d"=2> shape [64, 64] split 0 reduce sum : tensor<64x64xf32> -> tensor<32x64xf32>
  %p = dist.pack %a, %x : tensor<32x64xf32>, tensor<64x64xf32> -> tensor<6144xf32>
  %q = dist.collective all_reduce %p over <"t"=2> shape [6144] reduce sum : tensor<6144xf32> -> tensor<6144xf32>
  %1 = nn.exp %y : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %c = dist.collective all_reduce %y over <"d"=2> shape [64, 64] reduce sum : tensor<64x64xf32> -> tensor<64x64xf32>
  %2 = nn.exp %1 : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %d = dist.collective all_reduce %y over <"d"=2> shape [64, 64] reduce sum : tensor<64x64xf32> -> tensor<64x64xf32>
  %3 = nn.exp %2 : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = nn.exp %3 : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %q, %4, %c, %d : tensor<6144xf32>, tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>
}

// The last bucket starts before the others are waited for, and is waited for behind them.
// CHECK-LABEL: func.func @last_bucket
// CHECK: %[[A:.*]] = dist.collective_start all_reduce %arg0
// CHECK: dist.pack
// CHECK-NEXT: %[[B:.*]] = dist.collective_start all_reduce
// CHECK-NEXT: dist.collective_wait %[[A]]
// CHECK-NEXT: nn.update
// CHECK-NEXT: nn.assign @w
// CHECK-NEXT: dist.collective_wait %[[B]]
func.func @last_bucket(%x: tensor<64x64xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %d: tensor<1xf32>) -> (tensor<64x64xf32>, tensor<8192xf32>) {
  %w = nn.read @w : tensor<64x64xf32>
  %a = dist.collective all_reduce %x over <"d"=2> shape [64, 64] reduce sum : tensor<64x64xf32> -> tensor<64x64xf32>
  %u = nn.update %w, %a, %none, %s, %d {index = 0 : i64, kind = "sgd"} : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<f32>, tensor<8xf32>, tensor<1xf32>) -> tensor<64x64xf32>
  nn.assign @w, %u : tensor<64x64xf32>
  %1 = nn.exp %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = nn.exp %1 : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %p = dist.pack %1, %2 : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<8192xf32>
  %b = dist.collective all_reduce %p over <"d"=2> shape [8192] reduce sum : tensor<8192xf32> -> tensor<8192xf32>
  return %2, %b : tensor<64x64xf32>, tensor<8192xf32>
}

// Beside the last step of a pipeline what is reduced in place is waited for when that is done, for other stages wait for it, however many
// more have started; what a wait frees is not.
// CHECK-LABEL: func.func @beside_a_step
// CHECK: %[[T:.*]] = dist.collective_start reduce_scatter
// CHECK: %[[A:.*]] = dist.collective_start all_reduce %arg1
// CHECK-NEXT: dist.collective_start all_reduce %arg2
// CHECK-NEXT: dist.collective_wait %[[T]]
// CHECK-NEXT: nn.assign
// CHECK-NEXT: dist.collective_start all_reduce %arg3
// CHECK-NEXT: nn.exp
// CHECK-NEXT: dist.collective_wait %[[A]]
// CHECK: dist.step update
func.func @beside_a_step(%x: tensor<64x64xf32>, %a: tensor<64x64xf32>, %b: tensor<64x64xf32>, %c: tensor<64x64xf32>) -> tensor<64x64xf32> {
  dist.step backward chunk 0 micro 0
  %0 = dist.collective reduce_scatter %x over <"d"=2> shape [64, 64] split 0 reduce sum : tensor<64x64xf32> -> tensor<32x64xf32>
  nn.assign @piece, %0 : tensor<32x64xf32>
  %1 = dist.collective all_reduce %a over <"d"=2> shape [64, 64] reduce sum : tensor<64x64xf32> -> tensor<64x64xf32>
  nn.assign @w, %1 : tensor<64x64xf32>
  %2 = dist.collective all_reduce %b over <"d"=2> shape [64, 64] reduce sum : tensor<64x64xf32> -> tensor<64x64xf32>
  nn.assign @w1, %2 : tensor<64x64xf32>
  %3 = dist.collective all_reduce %c over <"d"=2> shape [64, 64] reduce sum : tensor<64x64xf32> -> tensor<64x64xf32>
  nn.assign @w2, %3 : tensor<64x64xf32>
  %y = nn.exp %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  dist.step update chunk 0 micro 0
  return %y : tensor<64x64xf32>
}

// In a step before it is as everywhere.
// CHECK-LABEL: func.func @in_a_step
// CHECK: %[[A:.*]] = dist.collective_start all_reduce %arg1
// CHECK-COUNT-2: dist.collective_start all_reduce
// CHECK-NEXT: %[[R:.*]] = dist.collective_wait %[[A]]
// CHECK-NEXT: nn.assign @w, %[[R]]
// CHECK: nn.exp
// CHECK: dist.step forward chunk 0 micro 1
// CHECK: dist.step update
func.func @in_a_step(%x: tensor<64x64xf32>, %a: tensor<64x64xf32>, %b: tensor<64x64xf32>, %c: tensor<64x64xf32>) -> tensor<64x64xf32> {
  dist.step forward chunk 0 micro 0
  %1 = dist.collective all_reduce %a over <"d"=2> shape [64, 64] reduce sum : tensor<64x64xf32> -> tensor<64x64xf32>
  nn.assign @w, %1 : tensor<64x64xf32>
  %2 = dist.collective all_reduce %b over <"d"=2> shape [64, 64] reduce sum : tensor<64x64xf32> -> tensor<64x64xf32>
  nn.assign @w1, %2 : tensor<64x64xf32>
  %3 = dist.collective all_reduce %c over <"d"=2> shape [64, 64] reduce sum : tensor<64x64xf32> -> tensor<64x64xf32>
  nn.assign @w2, %3 : tensor<64x64xf32>
  %y = nn.exp %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  dist.step forward chunk 0 micro 1
  dist.step update chunk 0 micro 0
  return %y : tensor<64x64xf32>
}

// Nor is a message held.
// CHECK-LABEL: func.func @sent_beside_a_step
// CHECK: %[[A:.*]] = dist.collective_start all_reduce %arg1
// CHECK-COUNT-2: dist.collective_start all_reduce
// CHECK-NEXT: %[[R:.*]] = dist.collective_wait %[[A]]
// CHECK-NEXT: dist.send_start %[[R]]
// CHECK: nn.exp
// CHECK: dist.step update
func.func @sent_beside_a_step(%x: tensor<64x64xf32>, %a: tensor<64x64xf32>, %b: tensor<64x64xf32>, %c: tensor<64x64xf32>) -> tensor<64x64xf32> {
  dist.step forward chunk 0 micro 0
  %1 = dist.collective all_reduce %a over <"d"=2> shape [64, 64] reduce sum : tensor<64x64xf32> -> tensor<64x64xf32>
  %t = dist.send_start %1 to 1 channel 0 : tensor<64x64xf32> -> !dist.token<tensor<64x64xf32>>
  %2 = dist.collective all_reduce %b over <"d"=2> shape [64, 64] reduce sum : tensor<64x64xf32> -> tensor<64x64xf32>
  nn.assign @w1, %2 : tensor<64x64xf32>
  %3 = dist.collective all_reduce %c over <"d"=2> shape [64, 64] reduce sum : tensor<64x64xf32> -> tensor<64x64xf32>
  nn.assign @w2, %3 : tensor<64x64xf32>
  %y = nn.exp %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  dist.step update chunk 0 micro 0
  dist.send_wait %t : !dist.token<tensor<64x64xf32>>
  return %y : tensor<64x64xf32>
}
