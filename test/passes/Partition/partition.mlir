// The program that every rank runs: local shapes, collectives, masks where padding would be mixed in.
// RUN: tessera-opt %s --split-input-file --tessera-propagate --tessera-verify-layouts --tessera-partition --canonicalize --cse | FileCheck %s

// A row product's partial sum is all-reduced. Functions keep the global shapes and layouts for the runtime.
// CHECK-LABEL: func.func @row
// CHECK-SAME: tensor<2x4xf32> {dist.layout = #dist.layout<{{\[\[}}4 : "d"=2], [8 : "t"=2]]>, dist.shape = array<i64: 4, 8>
// CHECK-SAME: -> (tensor<2x16xf32> {dist.layout = #dist.layout<{{\[\[}}4 : "d"=2], [16]]>, dist.shape = array<i64: 4, 16>
// CHECK: nn.read @w : tensor<4x16xf32>
// CHECK: %[[P:.*]] = nn.contract {{.*}} -> tensor<2x16xf32>
// CHECK-NEXT: %[[S:.*]] = dist.collective all_reduce %[[P]] over <"t"=2> shape [2, 16] reduce sum
// CHECK-NEXT: return %[[S]]
dist.mesh @mesh = <["d"=2, "t"=2]>
nn.variable @w : tensor<8x16xf32> {role = "parameter", trained = true}
func.func @row(%x: tensor<4x8xf32> {nn.name = "x", dist.split = [["d"], ["t"]]}) -> (tensor<4x16xf32> {nn.name = "y"}) {
  %w = nn.read @w : tensor<8x16xf32>
  %a = nn.contract %x, %w {dist.pattern = #dist.pattern<"row", ["t"]>, lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return %a : tensor<4x16xf32>
}

// -----

// Three heads on two ranks. What the fourth holds is undefined, so both operands of the sum over it are masked: zero times NaN is NaN.
// The softmax keeps to its rows and needs no mask.
// CHECK-LABEL: func.func @both_operands
// CHECK-DAG: %[[W:.*]] = nn.read @row : tensor<8x16xf32>
// CHECK: nn.softmax
// CHECK-NEXT: %[[X:.*]] = nn.reshape
// CHECK-NEXT: %[[MX:.*]] = dist.mask_padding %[[X]] over <"t"=2> shape [2, 2, 4] size 3 value 0.000000e+00
// CHECK-NEXT: %[[MW:.*]] = dist.mask_padding %[[W]] over <"t"=2> shape [1, 2, 64] size 3 value 0.000000e+00
// CHECK-NEXT: nn.contract %[[MX]], %[[MW]]
dist.mesh @mesh = <["t"=2]>
nn.variable @column : tensor<16x12xf32> {role = "parameter", trained = true}
nn.variable @row : tensor<12x16xf32> {role = "parameter", trained = true}
func.func @both_operands(%x: tensor<2x16xf32> {nn.name = "x"}) -> (tensor<2x16xf32> {nn.name = "y"}) {
  %w0 = nn.read @column : tensor<16x12xf32>
  %w1 = nn.read @row : tensor<12x16xf32>
  %a = nn.contract %x, %w0 {dist.pattern = #dist.pattern<"column", ["t"]>, lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<2x16xf32>, tensor<16x12xf32>) -> tensor<2x12xf32>
  %h = nn.reshape %a : (tensor<2x12xf32>) -> tensor<2x3x4xf32>
  %s = nn.softmax %h : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %f = nn.reshape %s : (tensor<2x3x4xf32>) -> tensor<2x12xf32>
  %b = nn.contract %f, %w1 {dist.pattern = #dist.pattern<"row", ["t"]>, lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<2x12xf32>, tensor<12x16xf32>) -> tensor<2x16xf32>
  return %b : tensor<2x16xf32>
}

// -----

// A vocabulary of 23 on two ranks: the padding's logit is -inf. Three numbers a token are exchanged, in two collectives, never logits.
// CHECK-LABEL: func.func @vocabulary
// CHECK: %[[L:.*]] = nn.contract {{.*}} -> tensor<2x12xf32>
// CHECK-NEXT: %[[M:.*]] = dist.mask_padding %[[L]] over <"t"=2> shape [2, 12, 1] size 23 value 0xFF800000
// CHECK: dist.collective all_reduce {{.*}} over <"t"=2> shape [2] reduce max
// CHECK: %[[START:.*]] = dist.block_start over <"t"=2> block 12
// CHECK: nn.softmax_sums %[[M]], %{{.*}}, %{{.*}}, %[[START]]
// CHECK: dist.collective all_reduce {{.*}} over <"t"=2> shape [2, 2] reduce sum
// CHECK-NOT: dist.collective
dist.mesh @mesh = <["t"=2]>
nn.variable @head : tensor<16x23xf32> {role = "parameter", trained = true}
func.func @vocabulary(%x: tensor<2x16xf32> {nn.name = "x"}, %labels: tensor<2xi64> {nn.name = "labels", nn.kind = #nn<kind labels>}) -> (tensor<f32> {nn.name = "loss"}) {
  %w = nn.read @head : tensor<16x23xf32>
  %l = nn.contract %x, %w {dist.pattern = #dist.pattern<"vocab", ["t"]>, lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<2x16xf32>, tensor<16x23xf32>) -> tensor<2x23xf32>
  %loss, %lse = nn.cross_entropy %l, %labels : (tensor<2x23xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<2xf32>)
  return %loss : tensor<f32>
}

// -----

// A batch of three on two ranks: the padding's label is the one that is not counted.
// CHECK-LABEL: func.func @labels
// CHECK: dist.mask_padding %{{.*}} over <"d"=2> shape [1, 2, 1] size 3 value -100 : i64 : tensor<2xi64>
// The rows' sums are apart from the sum of all rows, which is one thread's work.
// CHECK: %[[MAX:.*]] = nn.reduce %arg0 {dims = array<i64: 1>, kind = "max"}
// CHECK: nn.softmax_sums %arg0, %{{.*}}, %[[MAX]] :
// CHECK: dist.collective all_reduce %{{.*}} over <"d"=2> shape [] reduce sum
dist.mesh @mesh = <["d"=2]>
func.func @labels(%x: tensor<3x8xf32> {nn.name = "x", dist.split = [["d"], []]}, %labels: tensor<3xi64> {nn.name = "labels", nn.kind = #nn<kind labels>, dist.split = [["d"]]}) -> (tensor<f32> {nn.name = "loss"}) {
  %loss, %lse = nn.cross_entropy %x, %labels : (tensor<3x8xf32>, tensor<3xi64>) -> (tensor<f32>, tensor<3xf32>)
  return %loss : tensor<f32>
}

// -----

// Each rank looks up the rows of its own block; others are zero, so the sum is the look-up.
// CHECK-LABEL: func.func @lookup
// CHECK: %[[START:.*]] = dist.block_start over <"t"=2> block 12
// CHECK: %[[ROWS:.*]] = nn.gather %{{.*}}, %{{.*}}, %[[START]] {{.*}} -> tensor<2x16xf32>
// CHECK: dist.collective all_reduce %[[ROWS]]
dist.mesh @mesh = <["t"=2]>
nn.variable @table : tensor<23x16xf32> {role = "parameter", trained = true}
func.func @lookup(%ids: tensor<2xi64> {nn.name = "ids"}) -> (tensor<2x16xf32> {nn.name = "y"}) {
  %w = nn.read @table : tensor<23x16xf32>
  %x = nn.gather %w, %ids {dist.pattern = #dist.pattern<"vocab", ["t"]>} : (tensor<23x16xf32>, tensor<2xi64>) -> tensor<2x16xf32>
  return %x : tensor<2x16xf32>
}
