// Small collectives of flat storage are packed by blocks: one for each rank, with a piece of every member.
// RUN: tessera-opt %s --pass-pipeline='builtin.module(func.func(tessera-bucket-collectives{bytes=4096}))' | FileCheck %s
// RUN: tessera-opt %s --tessera-bucket-collectives | FileCheck %s --check-prefix=FEW

nn.variable @w : tensor<32xf32> {role = "parameter", trained = true}
nn.variable @v : tensor<3xf32> {role = "parameter", trained = true}
nn.variable @x : tensor<64xf32> {role = "parameter", trained = true}
nn.variable @y : tensor<6xf32> {role = "parameter", trained = true}
nn.variable @large : tensor<65536xf32> {role = "parameter", trained = true}
nn.variable @huge : tensor<2097152xf32> {role = "parameter", trained = true}

// A sixteenth of these, a 128th of what is stored, is less than any of them.
// FEW-NOT: dist.pack

// Gradients that are scattered: 3 elements of a block begin at 0, 32 at 64 bytes.
// CHECK-LABEL: func.func @scattered
// CHECK: %[[P:.*]] = dist.pack %{{.*}}, %{{.*}} {blocks = 2 : i64} : tensor<6xf32>, tensor<64xf32> -> tensor<96xf32>
// CHECK-NEXT: %[[R:.*]] = dist.collective reduce_scatter %[[P]] over <"d"=2> shape [96] split 0 reduce sum : tensor<96xf32> -> tensor<48xf32>
// CHECK-NEXT: %[[U:.*]]:2 = dist.unpack %[[R]] : tensor<48xf32> -> tensor<3xf32>, tensor<32xf32>
// CHECK: nn.update %{{.*}}, %[[U]]#0
// CHECK: nn.update %{{.*}}, %[[U]]#1
func.func @scattered(%x: tensor<64xf32>, %y: tensor<6xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %d: tensor<2xf32>) {
  %w = nn.read @w : tensor<32xf32>
  %v = nn.read @v : tensor<3xf32>
  %a = nn.exp %x : (tensor<64xf32>) -> tensor<64xf32>
  %b = nn.neg %y : (tensor<6xf32>) -> tensor<6xf32>
  %q = dist.collective reduce_scatter %b over <"d"=2> shape [6] split 0 reduce sum : tensor<6xf32> -> tensor<3xf32>
  %t = nn.update %v, %q, %none, %s, %d {index = 1 : i64, kind = "sgd"} : (tensor<3xf32>, tensor<3xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<3xf32>
  nn.assign @v, %t : tensor<3xf32>
  %r = dist.collective reduce_scatter %a over <"d"=2> shape [64] split 0 reduce sum : tensor<64xf32> -> tensor<32xf32>
  %u = nn.update %w, %r, %none, %s, %d {index = 0 : i64, kind = "sgd"} : (tensor<32xf32>, tensor<32xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<32xf32>
  nn.assign @w, %u : tensor<32xf32>
  return
}

// A norm of a gradient's piece without its padding does not wait for it more than one of a whole piece.
// CHECK-LABEL: func.func @padded
// CHECK: dist.pack %{{.*}}, %{{.*}} {blocks = 2 : i64} : tensor<6xf32>, tensor<64xf32> -> tensor<96xf32>
func.func @padded(%x: tensor<64xf32>, %y: tensor<6xf32>) -> tensor<f32> {
  %a = nn.exp %x : (tensor<64xf32>) -> tensor<64xf32>
  %b = nn.neg %y : (tensor<6xf32>) -> tensor<6xf32>
  %q = dist.collective reduce_scatter %b over <"d"=2> shape [6] split 0 reduce sum : tensor<6xf32> -> tensor<3xf32>
  nn.assign @v, %q : tensor<3xf32>
  %r = dist.collective reduce_scatter %a over <"d"=2> shape [64] split 0 reduce sum : tensor<64xf32> -> tensor<32xf32>
  %m = dist.mask_padding %r over <"d"=2> shape [1, 32, 1] size 60 value 0.0 : f32 : tensor<32xf32>
  %n = nn.sum_squares %m : (tensor<32xf32>) -> tensor<f32>
  nn.assign @w, %r : tensor<32xf32>
  return %n : tensor<f32>
}

// What is gathered for variables alone.
// CHECK-LABEL: func.func @updated
// CHECK: %[[P:.*]] = dist.pack %{{.*}}, %{{.*}} : tensor<3xf32>, tensor<32xf32> -> tensor<48xf32>
// CHECK-NEXT: %[[G:.*]] = dist.collective all_gather %[[P]] over <"d"=2> shape [48] concat 0 : tensor<48xf32> -> tensor<96xf32>
// CHECK-NEXT: %[[U:.*]]:2 = dist.unpack %[[G]] {blocks = 2 : i64} : tensor<96xf32> -> tensor<6xf32>, tensor<64xf32>
// CHECK-DAG: nn.assign @y, %[[U]]#0
// CHECK-DAG: nn.assign @x, %[[U]]#1
func.func @updated(%x: tensor<32xf32>, %y: tensor<3xf32>) {
  %a = nn.neg %y : (tensor<3xf32>) -> tensor<3xf32>
  %q = dist.collective all_gather %a over <"d"=2> shape [3] concat 0 : tensor<3xf32> -> tensor<6xf32>
  nn.assign @y, %q : tensor<6xf32>
  %b = nn.exp %x : (tensor<32xf32>) -> tensor<32xf32>
  %r = dist.collective all_gather %b over <"d"=2> shape [32] concat 0 : tensor<32xf32> -> tensor<64xf32>
  nn.assign @x, %r : tensor<64xf32>
  return
}

// Stored parameters: what is gathered later goes with what is gathered first, but not the second time.
// CHECK-LABEL: func.func @stored
// CHECK: %[[V:.*]] = nn.read @v
// CHECK: %[[W:.*]] = nn.read @w
// CHECK: dist.pack %[[V]], %[[W]]
// CHECK-NEXT: %[[G:.*]] = dist.collective all_gather {{.*}} -> tensor<96xf32>
// CHECK-NEXT: %[[U:.*]]:2 = dist.unpack %[[G]] {blocks = 2 : i64}
// CHECK: nn.exp %[[U]]#0
// CHECK: nn.exp %[[U]]#1
// CHECK: %[[AGAIN:.*]] = dist.collective all_gather %[[V]]
// CHECK: nn.neg %[[AGAIN]]
func.func @stored() -> (tensor<6xf32>, tensor<64xf32>, tensor<6xf32>) {
  %v = nn.read @v : tensor<3xf32>
  %p = dist.collective all_gather %v over <"d"=2> shape [3] concat 0 {dist.gather = #dist<gather forward>} : tensor<3xf32> -> tensor<6xf32>
  %a = nn.exp %p : (tensor<6xf32>) -> tensor<6xf32>
  %w = nn.read @w : tensor<32xf32>
  %q = dist.collective all_gather %w over <"d"=2> shape [32] concat 0 {dist.gather = #dist<gather forward>} : tensor<32xf32> -> tensor<64xf32>
  %b = nn.exp %q : (tensor<64xf32>) -> tensor<64xf32>
  %r = dist.collective all_gather %v over <"d"=2> shape [3] concat 0 {dist.gather = #dist<gather forward>} : tensor<3xf32> -> tensor<6xf32>
  %c = nn.neg %r : (tensor<6xf32>) -> tensor<6xf32>
  return %a, %b, %c : tensor<6xf32>, tensor<64xf32>, tensor<6xf32>
}

// Written before it is gathered, and gathered by columns: neither moves.
// CHECK-LABEL: func.func @apart
// CHECK-NOT: dist.pack
// CHECK: return
func.func @apart(%x: tensor<3xf32>, %y: tensor<4x3xf32>) -> (tensor<6xf32>, tensor<64xf32>, tensor<4x6xf32>) {
  %w = nn.read @w : tensor<32xf32>
  %q = dist.collective all_gather %w over <"d"=2> shape [32] concat 0 {dist.gather = #dist<gather forward>} : tensor<32xf32> -> tensor<64xf32>
  %b = nn.exp %q : (tensor<64xf32>) -> tensor<64xf32>
  nn.assign @v, %x : tensor<3xf32>
  %v = nn.read @v : tensor<3xf32>
  %p = dist.collective all_gather %v over <"d"=2> shape [3] concat 0 {dist.gather = #dist<gather forward>} : tensor<3xf32> -> tensor<6xf32>
  %a = nn.exp %p : (tensor<6xf32>) -> tensor<6xf32>
  %r = dist.collective all_gather %y over <"d"=2> shape [4, 3] concat 1 : tensor<4x3xf32> -> tensor<4x6xf32>
  return %a, %b, %r : tensor<6xf32>, tensor<64xf32>, tensor<4x6xf32>
}

// Stored parameters that are gathered for their own updates: together, before either is written.
// CHECK-LABEL: func.func @rewritten
// CHECK: dist.pack %{{.*}}, %{{.*}} : tensor<3xf32>, tensor<32xf32>
// CHECK: nn.assign @v
// CHECK: nn.assign @w
func.func @rewritten(%zy: tensor<6xf32>, %zx: tensor<64xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %d: tensor<2xf32>) {
  %v = nn.read @v : tensor<3xf32>
  %p = dist.collective all_gather %v over <"d"=2> shape [3] concat 0 {dist.gather = #dist<gather forward>} : tensor<3xf32> -> tensor<6xf32>
  %t = nn.update %p, %zy, %none, %s, %d {index = 1 : i64, kind = "sgd"} : (tensor<6xf32>, tensor<6xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<6xf32>
  %a = dist.slice %t over <"d"=2> shape [6] split 0 : tensor<6xf32> -> tensor<3xf32>
  nn.assign @v, %a : tensor<3xf32>
  %w = nn.read @w : tensor<32xf32>
  %q = dist.collective all_gather %w over <"d"=2> shape [32] concat 0 {dist.gather = #dist<gather forward>} : tensor<32xf32> -> tensor<64xf32>
  %u = nn.update %q, %zx, %none, %s, %d {index = 0 : i64, kind = "sgd"} : (tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<64xf32>
  %b = dist.slice %u over <"d"=2> shape [64] split 0 : tensor<64xf32> -> tensor<32xf32>
  nn.assign @w, %b : tensor<32xf32>
  return
}

// What is gathered once for the forward and the backward loses little by being there early, so a sixteenth of all counts; where there is no
// backward it does, and a 128th.
// FEW-LABEL: func.func @once
// FEW: dist.pack %{{.*}}, %{{.*}} : tensor<3xf32>, tensor<6xf32>
// FEW-LABEL: func.func @forward
// FEW-NOT: dist.pack
func.func @once() -> (tensor<6xf32>, tensor<12xf32>, tensor<128xf32>, tensor<64xf32>) attributes {nn.role = #nn<role train>} {
  %v = nn.read @v : tensor<3xf32>
  %p = dist.collective all_gather %v over <"d"=2> shape [3] concat 0 : tensor<3xf32> -> tensor<6xf32>
  %a = nn.exp %p : (tensor<6xf32>) -> tensor<6xf32>
  %y = nn.read @y : tensor<6xf32>
  %q = dist.collective all_gather %y over <"d"=2> shape [6] concat 0 : tensor<6xf32> -> tensor<12xf32>
  %b = nn.exp %q : (tensor<12xf32>) -> tensor<12xf32>
  %x = nn.read @x : tensor<64xf32>
  %r = dist.collective all_gather %x over <"d"=2> shape [64] concat 0 : tensor<64xf32> -> tensor<128xf32>
  %c = nn.exp %r : (tensor<128xf32>) -> tensor<128xf32>
  %w = nn.read @w : tensor<32xf32>
  %s = dist.collective all_gather %w over <"d"=2> shape [32] concat 0 : tensor<32xf32> -> tensor<64xf32>
  %d = nn.exp %s : (tensor<64xf32>) -> tensor<64xf32>
  return %a, %b, %c, %d : tensor<6xf32>, tensor<12xf32>, tensor<128xf32>, tensor<64xf32>
}
func.func @forward() -> (tensor<6xf32>, tensor<12xf32>, tensor<128xf32>, tensor<64xf32>) {
  %v = nn.read @v : tensor<3xf32>
  %p = dist.collective all_gather %v over <"d"=2> shape [3] concat 0 : tensor<3xf32> -> tensor<6xf32>
  %a = nn.exp %p : (tensor<6xf32>) -> tensor<6xf32>
  %y = nn.read @y : tensor<6xf32>
  %q = dist.collective all_gather %y over <"d"=2> shape [6] concat 0 : tensor<6xf32> -> tensor<12xf32>
  %b = nn.exp %q : (tensor<12xf32>) -> tensor<12xf32>
  %x = nn.read @x : tensor<64xf32>
  %r = dist.collective all_gather %x over <"d"=2> shape [64] concat 0 : tensor<64xf32> -> tensor<128xf32>
  %c = nn.exp %r : (tensor<128xf32>) -> tensor<128xf32>
  %w = nn.read @w : tensor<32xf32>
  %s = dist.collective all_gather %w over <"d"=2> shape [32] concat 0 : tensor<32xf32> -> tensor<64xf32>
  %d = nn.exp %s : (tensor<64xf32>) -> tensor<64xf32>
  return %a, %b, %c, %d : tensor<6xf32>, tensor<12xf32>, tensor<128xf32>, tensor<64xf32>
}

// Blocks are copied out of a pack, which for 256 KiB takes longer than another collective takes to start.
// FEW-LABEL: func.func @copied
// FEW-NOT: dist.pack
// FEW: return
func.func @copied() -> (tensor<6xf32>, tensor<131072xf32>, tensor<4194304xf32>) attributes {nn.role = #nn<role train>} {
  %v = nn.read @v : tensor<3xf32>
  %p = dist.collective all_gather %v over <"d"=2> shape [3] concat 0 : tensor<3xf32> -> tensor<6xf32>
  %a = nn.exp %p : (tensor<6xf32>) -> tensor<6xf32>
  %l = nn.read @large : tensor<65536xf32>
  %q = dist.collective all_gather %l over <"d"=2> shape [65536] concat 0 : tensor<65536xf32> -> tensor<131072xf32>
  %b = nn.exp %q : (tensor<131072xf32>) -> tensor<131072xf32>
  %h = nn.read @huge : tensor<2097152xf32>
  %r = dist.collective all_gather %h over <"d"=2> shape [2097152] concat 0 : tensor<2097152xf32> -> tensor<4194304xf32>
  %c = nn.exp %r : (tensor<4194304xf32>) -> tensor<4194304xf32>
  return %a, %b, %c : tensor<6xf32>, tensor<131072xf32>, tensor<4194304xf32>
}
