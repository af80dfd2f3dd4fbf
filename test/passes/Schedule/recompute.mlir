// What is made again for the backward.
// RUN: tessera-opt %s --tessera-recompute --tessera-verify-recompute --split-input-file 2>&1 | FileCheck %s

// Three blocks that are narrow between each other: the first two are made again, each just before the backward reads it, of what is kept between them. The last
// is read at once.
// CHECK: remark: program 'blocks': 256.0 KiB (262144 bytes) of activations (4 values) are made again, +{{[0-9.]+}} % operations
// CHECK-LABEL: func.func @blocks
// CHECK: nn.contract %arg0, %[[W:.*]] {dist.repeated = "contract_[[N1:.]]"
// CHECK: nn.exp %{{.*}} {dist.repeated = "exp_[[E1:.]]"}
// CHECK-NEXT: %[[C1:.*]] = nn.contract
// CHECK-NEXT: nn.contract %[[C1]], %[[W]] {dist.repeated = "contract_[[N2:.]]"
// CHECK-NEXT: nn.exp %{{.*}} {dist.repeated = "exp_[[E2:.]]"}
// CHECK-NOT: dist.{{repeated|recompute}} =
// CHECK: nn.grad_of = #nn.grad_of<"a3"
// CHECK: %[[A2:.*]] = nn.contract %[[C1]], %[[W]] {dist.recompute = "contract_[[N2]]"
// CHECK-NEXT: %[[B2:.*]] = nn.exp %[[A2]] {dist.recompute = "exp_[[E2]]"}
// CHECK-NEXT: nn.mul {{.*}}, %[[B2]]
// CHECK: %[[A1:.*]] = nn.contract %arg0, %[[W]] {dist.recompute = "contract_[[N1]]"
// CHECK-NEXT: %[[B1:.*]] = nn.exp %[[A1]] {dist.recompute = "exp_[[E1]]"}
// CHECK-NEXT: nn.mul {{.*}}, %[[B1]]
module attributes {dist.recomputation = "block"} {
nn.variable @w : tensor<8x256xf32> {role = "parameter", trained = true}
nn.variable @v : tensor<256x8xf32> {role = "parameter", trained = true}
func.func @blocks(%x: tensor<64x8xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %d: tensor<2xf32>) -> tensor<64x8xf32> {
  %w = nn.read @w : tensor<8x256xf32>
  %v = nn.read @v : tensor<256x8xf32>
  %a1 = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x256xf32>) -> tensor<64x256xf32>
  %b1 = nn.exp %a1 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c1 = nn.contract %b1, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32>
  %a2 = nn.contract %c1, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x256xf32>) -> tensor<64x256xf32>
  %b2 = nn.exp %a2 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c2 = nn.contract %b2, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32>
  %a3 = nn.contract %c2, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x256xf32>) -> tensor<64x256xf32>
  %b3 = nn.exp %a3 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c3 = nn.contract %b3, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32>
  %h3 = nn.contract %c3, %v {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"c3", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<256x8xf32>) -> tensor<64x256xf32>
  %m3 = nn.mul %h3, %b3 {nn.grad_of = #nn.grad_of<"b3", [0, 1]>} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %g3 = nn.contract %m3, %w {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a3", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x256xf32>, tensor<8x256xf32>) -> tensor<64x8xf32>
  %h2 = nn.contract %g3, %v {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"c2", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<256x8xf32>) -> tensor<64x256xf32>
  %m2 = nn.mul %h2, %b2 {nn.grad_of = #nn.grad_of<"b2", [0, 1]>} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %g2 = nn.contract %m2, %w {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a2", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x256xf32>, tensor<8x256xf32>) -> tensor<64x8xf32>
  %h1 = nn.contract %g2, %v {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"c1", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<256x8xf32>) -> tensor<64x256xf32>
  %m1 = nn.mul %h1, %b1 {nn.grad_of = #nn.grad_of<"b1", [0, 1]>} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %g1 = nn.contract %m1, %w {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a1", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x256xf32>, tensor<8x256xf32>) -> tensor<64x8xf32>
  return %g1 : tensor<64x8xf32>
}
}

// -----

// @w has been written when the backward of the second and the first block begins: the products that read it stay alone, and what they make is kept, of which the
// rest is made again. That saves nothing.
// CHECK-LABEL: func.func @written
// CHECK-NOT: dist.{{repeated|recompute}} =
module attributes {dist.recomputation = "block"} {
nn.variable @w : tensor<8x256xf32> {role = "parameter", trained = true}
nn.variable @v : tensor<256x8xf32> {role = "parameter", trained = true}
nn.variable @z : tensor<8x256xf32> {role = "parameter", trained = true}
func.func @written(%x: tensor<64x8xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %d: tensor<2xf32>) -> tensor<64x8xf32> {
  %w = nn.read @w : tensor<8x256xf32>
  %z = nn.read @z : tensor<8x256xf32>
  %v = nn.read @v : tensor<256x8xf32>
  %a1 = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x256xf32>) -> tensor<64x256xf32>
  %b1 = nn.exp %a1 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c1 = nn.contract %b1, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32>
  %a2 = nn.contract %c1, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x256xf32>) -> tensor<64x256xf32>
  %b2 = nn.exp %a2 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c2 = nn.contract %b2, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32>
  %a3 = nn.contract %c2, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x256xf32>) -> tensor<64x256xf32>
  %b3 = nn.exp %a3 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c3 = nn.contract %b3, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32>
  %h3 = nn.contract %c3, %v {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"c3", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<256x8xf32>) -> tensor<64x256xf32>
  %m3 = nn.mul %h3, %b3 {nn.grad_of = #nn.grad_of<"b3", [0, 1]>} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %g3 = nn.contract %m3, %w {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a3", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x256xf32>, tensor<8x256xf32>) -> tensor<64x8xf32>
  %u = nn.update %w, %w, %none, %s, %d {index = 0 : i64, kind = "sgd"} : (tensor<8x256xf32>, tensor<8x256xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<8x256xf32>
  nn.assign @w, %u : tensor<8x256xf32>
  %h2 = nn.contract %g3, %v {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"c2", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<256x8xf32>) -> tensor<64x256xf32>
  %m2 = nn.mul %h2, %b2 {nn.grad_of = #nn.grad_of<"b2", [0, 1]>} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %g2 = nn.contract %m2, %z {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a2", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x256xf32>, tensor<8x256xf32>) -> tensor<64x8xf32>
  %h1 = nn.contract %g2, %v {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"c1", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<256x8xf32>) -> tensor<64x256xf32>
  %m1 = nn.mul %h1, %b1 {nn.grad_of = #nn.grad_of<"b1", [0, 1]>} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %g1 = nn.contract %m1, %z {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a1", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x256xf32>, tensor<8x256xf32>) -> tensor<64x8xf32>
  return %g1 : tensor<64x8xf32>
}
}

// -----

// Nothing is made again where the module does not say so, nor without a backward.
// CHECK-LABEL: func.func @unasked
// CHECK-NOT: dist.{{repeated|recompute}} =
module attributes {dist.recomputation = "auto"} {
nn.variable @w : tensor<8x256xf32> {role = "parameter", trained = true}
nn.variable @v : tensor<256x8xf32> {role = "parameter", trained = true}
func.func @unasked(%x: tensor<64x8xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %d: tensor<2xf32>) -> tensor<64x8xf32> {
  %w = nn.read @w : tensor<8x256xf32>
  %v = nn.read @v : tensor<256x8xf32>
  %a1 = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x256xf32>) -> tensor<64x256xf32>
  %b1 = nn.exp %a1 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c1 = nn.contract %b1, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32>
  %a2 = nn.contract %c1, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x256xf32>) -> tensor<64x256xf32>
  %b2 = nn.exp %a2 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c2 = nn.contract %b2, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32>
  %a3 = nn.contract %c2, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x256xf32>) -> tensor<64x256xf32>
  %b3 = nn.exp %a3 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c3 = nn.contract %b3, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32>
  %h3 = nn.contract %c3, %v {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"c3", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<256x8xf32>) -> tensor<64x256xf32>
  %m3 = nn.mul %h3, %b3 {nn.grad_of = #nn.grad_of<"b3", [0, 1]>} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %g3 = nn.contract %m3, %w {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a3", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x256xf32>, tensor<8x256xf32>) -> tensor<64x8xf32>
  %h2 = nn.contract %g3, %v {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"c2", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<256x8xf32>) -> tensor<64x256xf32>
  %m2 = nn.mul %h2, %b2 {nn.grad_of = #nn.grad_of<"b2", [0, 1]>} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %g2 = nn.contract %m2, %w {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a2", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x256xf32>, tensor<8x256xf32>) -> tensor<64x8xf32>
  %h1 = nn.contract %g2, %v {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"c1", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<256x8xf32>) -> tensor<64x256xf32>
  %m1 = nn.mul %h1, %b1 {nn.grad_of = #nn.grad_of<"b1", [0, 1]>} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %g1 = nn.contract %m1, %w {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a1", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x256xf32>, tensor<8x256xf32>) -> tensor<64x8xf32>
  return %g1 : tensor<64x8xf32>
}
}

// -----

// The backward gathers @w too, for its last product: what runs again takes that, and for it the gather is done earlier. So the forward's is not kept.
// CHECK-LABEL: func.func @gathered
// CHECK: %[[R:.*]] = nn.read @w
// CHECK: %[[S:.*]] = dist.collective_start all_gather %[[R]]
// CHECK: %[[W:.*]] = dist.collective_wait %[[S]]
// CHECK: nn.exp {{.*}} {dist.repeated =
// CHECK: %[[T:.*]] = dist.collective_start all_gather %[[R]]
// CHECK: nn.grad_of<"c3"
// CHECK: %[[Z:.*]] = dist.collective_wait %[[T]]
// CHECK: nn.contract {{.*}}, %[[Z]] {dist.recompute =
// CHECK: nn.contract {{.*}}, %[[Z]] {dist.recompute =
// CHECK-NOT: dist.collective_start
// CHECK: nn.contract {{.*}}, %[[Z]] {{.*}}nn.grad_of<"a1"
module attributes {dist.recomputation = "block"} {
nn.variable @w : tensor<4x256xf32> {role = "parameter", trained = true}
nn.variable @v : tensor<256x8xf32> {role = "parameter", trained = true}
func.func @gathered(%x: tensor<64x8xf32>) -> tensor<64x8xf32> {
  %r = nn.read @w : tensor<4x256xf32>
  %v = nn.read @v : tensor<256x8xf32>
  %ws = dist.collective_start all_gather %r over <"d"=2> shape [4, 256] concat 0 : tensor<4x256xf32> -> !dist.token<tensor<8x256xf32>>
  %w = dist.collective_wait %ws : !dist.token<tensor<8x256xf32>>
  %a1 = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x256xf32>) -> tensor<64x256xf32>
  %b1 = nn.exp %a1 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c1 = nn.contract %b1, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32>
  %a2 = nn.contract %c1, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x256xf32>) -> tensor<64x256xf32>
  %b2 = nn.exp %a2 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c2 = nn.contract %b2, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32>
  %a3 = nn.contract %c2, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x256xf32>) -> tensor<64x256xf32>
  %b3 = nn.exp %a3 : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c3 = nn.contract %b3, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32>
  %h3 = nn.contract %c3, %v {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"c3", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<256x8xf32>) -> tensor<64x256xf32>
  %m3 = nn.mul %h3, %b3 {nn.grad_of = #nn.grad_of<"b3", [0, 1]>} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %g3 = nn.reduce %m3 {dims = array<i64: 1>, kind = "sum", nn.grad_of = #nn.grad_of<"a3", [0, 1]>} : (tensor<64x256xf32>) -> tensor<64xf32>
  %n3 = nn.broadcast %g3 {dims = array<i64: 0>} : (tensor<64xf32>) -> tensor<64x8xf32>
  %h2 = nn.contract %n3, %v {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"c2", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<256x8xf32>) -> tensor<64x256xf32>
  %m2 = nn.mul %h2, %b2 {nn.grad_of = #nn.grad_of<"b2", [0, 1]>} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %g2 = nn.reduce %m2 {dims = array<i64: 1>, kind = "sum", nn.grad_of = #nn.grad_of<"a2", [0, 1]>} : (tensor<64x256xf32>) -> tensor<64xf32>
  %n2 = nn.broadcast %g2 {dims = array<i64: 0>} : (tensor<64xf32>) -> tensor<64x8xf32>
  %h1 = nn.contract %n2, %v {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"c1", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<256x8xf32>) -> tensor<64x256xf32>
  %m1 = nn.mul %h1, %b1 {nn.grad_of = #nn.grad_of<"b1", [0, 1]>} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  %g1 = nn.reduce %m1 {dims = array<i64: 1>, kind = "sum", nn.grad_of = #nn.grad_of<"a1", [0, 1]>} : (tensor<64x256xf32>) -> tensor<64xf32>
  %n1 = nn.broadcast %g1 {dims = array<i64: 0>} : (tensor<64xf32>) -> tensor<64x8xf32>
  %zs = dist.collective_start all_gather %r over <"d"=2> shape [4, 256] concat 0 : tensor<4x256xf32> -> !dist.token<tensor<8x256xf32>>
  %z = dist.collective_wait %zs : !dist.token<tensor<8x256xf32>>
  %l = nn.contract %m1, %z {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a1", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x256xf32>, tensor<8x256xf32>) -> tensor<64x8xf32>
  return %l : tensor<64x8xf32>
}
}

// -----

// A plan names what is made again: the first product and its exponential, of which the backward reads only the second. What an entry before has on the device
// is kept, and what no entry names.
// CHECK-LABEL: func.func @named
// CHECK: nn.contract %arg0, %[[W:.*]] {dist.repeated = "contract_0"
// CHECK: nn.exp %{{.*}} {dist.repeated = "exp_0"}
// CHECK-NOT: dist.repeated =
// CHECK: nn.grad_of = #nn.grad_of<"a3"
// CHECK-NOT: dist.recompute =
// CHECK: nn.grad_of = #nn.grad_of<"a2"
// CHECK: %[[A1:.*]] = nn.contract %arg0, %[[W]] {dist.recompute = "contract_0"
// CHECK: %[[B1:.*]] = nn.exp %[[A1]] {dist.recompute = "exp_0"}
// CHECK-NEXT: nn.mul {{.*}}, %[[B1]]
// CHECK-NOT: dist.recompute =
module attributes {dist.place = [{match = ["b2"], tier = #dist.tier<device>}, {match = ["a1", "b*"], program = "named", recompute}, {match = ["*"], tier = #dist.tier<device>}]} {
nn.variable @w : tensor<8x256xf32> {role = "parameter", trained = true}
nn.variable @v : tensor<256x8xf32> {role = "parameter", trained = true}
func.func @named(%x: tensor<64x8xf32>) -> tensor<64x8xf32> attributes {nn.role = #nn<role train>} {
  %w = nn.read @w : tensor<8x256xf32>
  %v = nn.read @v : tensor<256x8xf32>
  %a1 = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x256xf32>) -> tensor<64x256xf32> loc("a1")
  %b1 = nn.exp %a1 : (tensor<64x256xf32>) -> tensor<64x256xf32> loc("b1")
  %c1 = nn.contract %b1, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32> loc("c1")
  %a2 = nn.contract %c1, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x8xf32>, tensor<8x256xf32>) -> tensor<64x256xf32> loc("a2")
  %b2 = nn.exp %a2 : (tensor<64x256xf32>) -> tensor<64x256xf32> loc("b2")
  %c2 = nn.contract %b2, %v {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<64x256xf32>, tensor<256x8xf32>) -> tensor<64x8xf32> loc("c2")
  %h3 = nn.contract %c2, %v {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a3", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<256x8xf32>) -> tensor<64x256xf32> loc("c2")
  %m2 = nn.mul %h3, %b2 {nn.grad_of = #nn.grad_of<"b2", [0, 1]>} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32> loc("b2")
  %g2 = nn.contract %m2, %w {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a2", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x256xf32>, tensor<8x256xf32>) -> tensor<64x8xf32> loc("a2")
  %h1 = nn.contract %g2, %v {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"c1", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x8xf32>, tensor<256x8xf32>) -> tensor<64x256xf32> loc("c1")
  %m1 = nn.mul %h1, %b1 {nn.grad_of = #nn.grad_of<"b1", [0, 1]>} : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32> loc("b1")
  %g1 = nn.contract %m1, %w {lhs_letters = "bi", nn.grad_of = #nn.grad_of<"a1", [0, 2, 1]>, out_letters = "bo", rhs_letters = "oi"} : (tensor<64x256xf32>, tensor<8x256xf32>) -> tensor<64x8xf32> loc("a1")
  return %g1 : tensor<64x8xf32>
}
}
