// The order of operators that needs the least memory.
// RUN: tessera-opt %s --tessera-order-for-memory | FileCheck %s

nn.variable @w : tensor<64x64xf32> {role = "parameter", trained = true}
nn.variable @v : tensor<64x64xf32> {role = "parameter", trained = true}

// Each gradient is used up before the next one is made; its norm and its all-reduce go with it.
// CHECK-LABEL: func.func @updates_follow_gradients
// CHECK: %[[A:.*]] = nn.exp
// CHECK-NEXT: %[[R:.*]] = dist.collective all_reduce %[[A]]
// CHECK-NEXT: nn.sum_squares %[[R]]
// CHECK-NEXT: %[[U:.*]] = nn.update %{{.*}}, %[[R]]
// CHECK-NEXT: nn.assign @w, %[[U]]
// CHECK-NEXT: %[[B:.*]] = nn.neg
// CHECK-NEXT: nn.sum_squares %[[B]]
// CHECK-NEXT: nn.add
// CHECK-NEXT: nn.update %{{.*}}, %[[B]]
func.func @updates_follow_gradients(%x: tensor<64x64xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %d: tensor<2xf32>) -> tensor<f32> {
  %w = nn.read @w : tensor<64x64xf32>
  %v = nn.read @v : tensor<64x64xf32>
  %a = nn.exp %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = nn.neg %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %r = dist.collective all_reduce %a over <"t"=2> shape [64, 64] reduce sum : tensor<64x64xf32> -> tensor<64x64xf32>
  %n = nn.sum_squares %r : (tensor<64x64xf32>) -> tensor<f32>
  %m = nn.sum_squares %b : (tensor<64x64xf32>) -> tensor<f32>
  %t = nn.add %n, %m : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %u = nn.update %w, %r, %none, %s, %d {index = 0 : i64, kind = "sgd"} : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<64x64xf32>
  nn.assign @w, %u : tensor<64x64xf32>
  %q = nn.update %v, %b, %none, %s, %d {index = 1 : i64, kind = "sgd"} : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<64x64xf32>
  nn.assign @v, %q : tensor<64x64xf32>
  return %t : tensor<f32>
}

// Neither reshapes nor reads make memory; a variable is not written while its old value is read.
// CHECK-LABEL: func.func @readers_first
// CHECK: %[[W:.*]] = nn.read @w
// CHECK: nn.mul %[[W]]
// CHECK-NEXT: nn.update %[[W]]
// CHECK: nn.exp
func.func @readers_first(%g: tensor<64x64xf32>, %x: tensor<64x64xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %d: tensor<2xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %w = nn.read @w : tensor<64x64xf32>
  %y = nn.mul %w, %x : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %e = nn.exp %y : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %u = nn.update %w, %g, %none, %s, %d {index = 0 : i64, kind = "sgd"} : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<64x64xf32>
  nn.assign @w, %u : tensor<64x64xf32>
  return %y, %e : tensor<64x64xf32>, tensor<64x64xf32>
}

// What shrinks the most goes first: the two wide values are never live together.
// CHECK-LABEL: func.func @shrinks_first
// CHECK: %[[A:.*]] = nn.broadcast
// CHECK-NEXT: nn.reduce %[[A]]
// CHECK-NEXT: %[[B:.*]] = nn.broadcast
// CHECK-NEXT: nn.reduce %[[B]]
func.func @shrinks_first(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %a = nn.broadcast %x {dims = array<i64: 0>} : (tensor<64xf32>) -> tensor<64x999xf32>
  %b = nn.broadcast %x {dims = array<i64: 0>} : (tensor<64xf32>) -> tensor<64x999xf32>
  %p = nn.reduce %a {dims = array<i64: 1>, kind = "sum"} : (tensor<64x999xf32>) -> tensor<64xf32>
  %q = nn.reduce %b {dims = array<i64: 1>, kind = "sum"} : (tensor<64x999xf32>) -> tensor<64xf32>
  return %p, %q : tensor<64xf32>, tensor<64xf32>
}

// Where it gains nothing the order stays.
// CHECK-LABEL: func.func @stays
// CHECK-NEXT: nn.exp
// CHECK-NEXT: nn.neg
// CHECK-NEXT: nn.mul
func.func @stays(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %a = nn.exp %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = nn.neg %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %c = nn.mul %a, %b : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %c : tensor<64x64xf32>
}

// Messages keep their order.
// CHECK-LABEL: func.func @messages
// CHECK: dist.send {{.*}} channel 0
// CHECK: dist.send {{.*}} channel 1
func.func @messages(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) {
  %a = nn.exp %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  dist.send %a to 1 channel 0 : tensor<64x64xf32>
  dist.send %y to 1 channel 1 : tensor<64x64xf32>
  return
}

// Nothing moves from one step of a pipeline to another, whatever it would free.
// CHECK-LABEL: func.func @steps
// CHECK: %[[A:.*]] = nn.broadcast
// CHECK-NEXT: dist.step forward chunk 0 micro 1
// CHECK-NEXT: nn.reduce %[[A]]
// CHECK-NEXT: %[[B:.*]] = nn.broadcast
// CHECK-NEXT: nn.reduce %[[B]]
func.func @steps(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  dist.step forward chunk 0 micro 0
  %a = nn.broadcast %x {dims = array<i64: 0>} : (tensor<64xf32>) -> tensor<64x999xf32>
  dist.step forward chunk 0 micro 1
  %b = nn.broadcast %x {dims = array<i64: 0>} : (tensor<64xf32>) -> tensor<64x999xf32>
  %p = nn.reduce %a {dims = array<i64: 1>, kind = "sum"} : (tensor<64x999xf32>) -> tensor<64xf32>
  %q = nn.reduce %b {dims = array<i64: 1>, kind = "sum"} : (tensor<64x999xf32>) -> tensor<64xf32>
  return %p, %q : tensor<64xf32>, tensor<64xf32>
}

// What follows the last step runs beside it where it uses what that computes: a sum is reduced and written before the step is done; what was
// there before would only hold up what the step receives.
// CHECK-LABEL: func.func @beside_the_last_step
// CHECK: dist.step backward
// CHECK: %[[Y:.*]] = nn.exp
// CHECK-NEXT: %[[R:.*]] = dist.collective all_reduce %[[Y]]
// CHECK-NEXT: nn.assign @w, %[[R]]
// CHECK-NEXT: nn.log
// CHECK-NEXT: dist.step update
// CHECK-NEXT: dist.collective all_reduce %arg0
func.func @beside_the_last_step(%sum: tensor<64x64xf32>, %x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  dist.step forward chunk 0 micro 0
  dist.step backward chunk 0 micro 0
  %y = nn.exp %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %z = nn.log %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  dist.step update chunk 0 micro 0
  %s = dist.collective all_reduce %sum over <"d"=2> shape [64, 64] reduce sum : tensor<64x64xf32> -> tensor<64x64xf32>
  nn.assign @v, %s : tensor<64x64xf32>
  %r = dist.collective all_reduce %y over <"d"=2> shape [64, 64] reduce sum : tensor<64x64xf32> -> tensor<64x64xf32>
  nn.assign @w, %r : tensor<64x64xf32>
  return %z : tensor<64x64xf32>
}

// But not before the last step's message, which another stage waits for, and not what is of a microbatch.
// CHECK-LABEL: func.func @behind_the_message
// CHECK: dist.step backward
// CHECK: dist.send_start
// CHECK: dist.collective all_reduce
// CHECK: nn.log
// CHECK: dist.step update
// CHECK: dist.slice
func.func @behind_the_message(%rows: tensor<2xf32>, %x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<1xf32>) {
  dist.step backward chunk 0 micro 1
  %y = nn.exp %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %both = nn.neg %rows : (tensor<2xf32>) -> tensor<2xf32>
  %g = nn.sin %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %token = dist.send_start %g to 0 channel 1 : tensor<64x64xf32> -> !dist.token<tensor<64x64xf32>>
  %z = nn.log %x : (tensor<64x64xf32>) -> tensor<64x64xf32>
  dist.step update chunk 0 micro 0
  dist.send_wait %token : !dist.token<tensor<64x64xf32>>
  %r = dist.collective all_reduce %y over <"d"=2> shape [64, 64] reduce sum : tensor<64x64xf32> -> tensor<64x64xf32>
  nn.assign @w, %r : tensor<64x64xf32>
  %s = dist.slice %both over <"micro"=2> shape [2] split 0 : tensor<2xf32> -> tensor<1xf32>
  return %z, %s : tensor<64x64xf32>, tensor<1xf32>
}

// Behind the last step a stage sends before it receives, and waits for others when there is no more work.
// CHECK-LABEL: func.func @waits_last
// CHECK: dist.step update
// CHECK: dist.send_start
// CHECK: nn.exp
// CHECK: dist.recv
// CHECK: nn.sum_squares
// CHECK: dist.collective all_reduce
func.func @waits_last(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>, %loss: tensor<f32>)
    -> (tensor<f32>, tensor<f32>, tensor<64x64xf32>) {
  dist.step backward chunk 0 micro 0
  dist.step update chunk 0 micro 0
  %received = dist.recv from 1 channel 0 : tensor<64x64xf32>
  %l = dist.collective all_reduce %loss over <"pipe"=2> shape [] reduce sum {dist.stage_sum = 0 : i64} : tensor<f32> -> tensor<f32>
  %token = dist.send_start %x to 1 channel 1 : tensor<64x64xf32> -> !dist.token<tensor<64x64xf32>>
  %z = nn.exp %y : (tensor<64x64xf32>) -> tensor<64x64xf32>
  dist.send_wait %token : !dist.token<tensor<64x64xf32>>
  %n = nn.sum_squares %received : (tensor<64x64xf32>) -> tensor<f32>
  return %l, %n, %z : tensor<f32>, tensor<f32>, tensor<64x64xf32>
}

// What all stages of a pipeline do together keeps its order.
// CHECK-LABEL: func.func @over_stages
// CHECK: dist.collective all_reduce %arg1
// CHECK: dist.collective all_reduce
func.func @over_stages(%x: tensor<64xf32>, %y: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %a = nn.sum_squares %x : (tensor<64xf32>) -> tensor<f32>
  %b = dist.collective all_reduce %y over <"pipe"=2> shape [] reduce sum {dist.stage_sum = 0 : i64} : tensor<f32> -> tensor<f32>
  %c = dist.collective all_reduce %a over <"pipe"=2> shape [] reduce sum {dist.stage_sum = 1 : i64} : tensor<f32> -> tensor<f32>
  return %b, %c : tensor<f32>, tensor<f32>
}

// What reads variables alone goes to its first reader, and the backward has a conversion of its own: two are never live, nor is one from the
// forward to the backward.
nn.variable @a : tensor<128x128xf32> {role = "parameter", trained = true}
nn.variable @b : tensor<128x128xf32> {role = "parameter", trained = true}
// CHECK-LABEL: func.func @conversions
// CHECK-NOT: nn.cast
// CHECK: nn.relu
// CHECK-NEXT: %[[A:.*]] = nn.cast %{{.*}} : (tensor<128x128xf32>)
// CHECK-NEXT: nn.contract %{{.*}}, %[[A]]
// CHECK-NEXT: %[[B:.*]] = nn.cast
// CHECK-NEXT: nn.contract %{{.*}}, %[[B]]
// CHECK-NEXT: %[[C:.*]] = nn.cast
// CHECK-NEXT: nn.contract %{{.*}}, %[[C]] {{.*}}nn.grad_of = #nn.grad_of<"second"
// CHECK-NEXT: %[[D:.*]] = nn.cast
// CHECK-NEXT: nn.contract %{{.*}}, %[[D]] {{.*}}nn.grad_of = #nn.grad_of<"first"
func.func @conversions(%x: tensor<8x128xbf16>) -> tensor<8x128xbf16> {
  %a = nn.read @a : tensor<128x128xf32>
  %b = nn.read @b : tensor<128x128xf32>
  %v = nn.cast %a {to = bf16} : (tensor<128x128xf32>) -> tensor<128x128xbf16>
  %w = nn.cast %b {to = bf16} : (tensor<128x128xf32>) -> tensor<128x128xbf16>
  %r = nn.relu %x : (tensor<8x128xbf16>) -> tensor<8x128xbf16>
  %p = nn.contract %r, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<8x128xbf16>, tensor<128x128xbf16>) -> tensor<8x128xbf16>
  %q = nn.contract %p, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<8x128xbf16>, tensor<128x128xbf16>) -> tensor<8x128xbf16>
  %c = nn.contract %q, %w {lhs_letters = "bo", out_letters = "bi", rhs_letters = "io", nn.grad_of = #nn.grad_of<"second", [0, 1, 2]>} : (tensor<8x128xbf16>, tensor<128x128xbf16>) -> tensor<8x128xbf16>
  %d = nn.contract %c, %v {lhs_letters = "bo", out_letters = "bi", rhs_letters = "io", nn.grad_of = #nn.grad_of<"first", [0, 1, 2]>} : (tensor<8x128xbf16>, tensor<128x128xbf16>) -> tensor<8x128xbf16>
  return %d : tensor<8x128xbf16>
}

// Where that saves nothing, the work is done once; and what is computed of a variable's old value stays before it is written.
// CHECK-LABEL: func.func @once
// CHECK: %[[OLD:.*]] = nn.cast
// CHECK: nn.update
// CHECK-NEXT: nn.assign @a
// CHECK: nn.contract %{{.*}}, %[[OLD]]
// CHECK-NOT: nn.cast
// CHECK: return
func.func @once(%x: tensor<9999x128xbf16>, %g: tensor<128x128xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %e: tensor<2xf32>) -> tensor<9999x128xbf16> {
  %a = nn.read @a : tensor<128x128xf32>
  %v = nn.cast %a {to = bf16} : (tensor<128x128xf32>) -> tensor<128x128xbf16>
  %u = nn.update %a, %g, %none, %s, %e {index = 0 : i64, kind = "sgd"} : (tensor<128x128xf32>, tensor<128x128xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<128x128xf32>
  nn.assign @a, %u : tensor<128x128xf32>
  %p = nn.contract %x, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<9999x128xbf16>, tensor<128x128xbf16>) -> tensor<9999x128xbf16>
  %d = nn.contract %p, %v {lhs_letters = "bo", out_letters = "bi", rhs_letters = "io", nn.grad_of = #nn.grad_of<"first", [0, 1, 2]>} : (tensor<9999x128xbf16>, tensor<128x128xbf16>) -> tensor<9999x128xbf16>
  return %d : tensor<9999x128xbf16>
}

// A gradient that is scattered is under way beside all that follows, although most bytes are live elsewhere; what something waits for is
// where it was.
nn.variable @scattered : tensor<64xf32> {role = "parameter", trained = true}
// CHECK-LABEL: func.func @early
// CHECK: nn.neg %arg0
// CHECK: %[[A:.*]] = nn.exp %arg1
// CHECK-NEXT: %[[R:.*]] = dist.collective reduce_scatter %[[A]]
// CHECK-NEXT: nn.assign @scattered, %[[R]]
// CHECK-NEXT: %[[B:.*]] = nn.exp %arg2
// CHECK-NEXT: %[[C:.*]] = nn.exp %arg3
// CHECK-NEXT: %[[S:.*]] = dist.collective reduce_scatter %[[B]]
// CHECK-NEXT: nn.add %[[C]], %[[S]]
func.func @early(%big: tensor<65536xf32>, %x: tensor<128xf32>, %y: tensor<128xf32>, %z: tensor<64xf32>) -> (tensor<65536xf32>, tensor<64xf32>) {
  %n = nn.neg %big : (tensor<65536xf32>) -> tensor<65536xf32>
  %a = nn.exp %x : (tensor<128xf32>) -> tensor<128xf32>
  %b = nn.exp %y : (tensor<128xf32>) -> tensor<128xf32>
  %c = nn.exp %z : (tensor<64xf32>) -> tensor<64xf32>
  %s = dist.collective reduce_scatter %b over <"d"=2> shape [128] split 0 reduce sum : tensor<128xf32> -> tensor<64xf32>
  %d = nn.add %c, %s : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %r = dist.collective reduce_scatter %a over <"d"=2> shape [128] split 0 reduce sum : tensor<128xf32> -> tensor<64xf32>
  nn.assign @scattered, %r : tensor<64xf32>
  return %n, %d : tensor<65536xf32>, tensor<64xf32>
}
