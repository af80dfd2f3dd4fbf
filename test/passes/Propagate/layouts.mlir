// What propagation decides, one property a function.
// RUN: tessera-opt %s --split-input-file --tessera-propagate --tessera-verify-layouts | FileCheck %s

// A row product leaves a partial sum, reduced once, to a replicated value, before what is not linear; the weight is stored split.
// CHECK: nn.variable @rows : tensor<8x16xf32, #dist.layout<{{\[\[}}8 : "t"=2], [16]]>>
// CHECK-LABEL: func.func @row_product
// CHECK: %[[R:.*]] = nn.contract {{.*}} -> tensor<4x16xf32, #dist.layout<{{\[\[}}4], [16]], partial = ["t"=2]>>
// CHECK-NEXT: %[[S:.*]] = dist.reshard %[[R]] : {{.*}} -> tensor<4x16xf32, #dist.layout<{{\[\[}}4], [16]]>>
// CHECK-NEXT: nn.gelu %[[S]]
// CHECK-NOT: dist.reshard
dist.mesh @mesh = <["t"=2]>
nn.variable @columns : tensor<8x8xf32> {role = "parameter", trained = true}
nn.variable @rows : tensor<8x16xf32> {role = "parameter", trained = true}
func.func @row_product(%x: tensor<4x8xf32> {nn.name = "x"}) -> (tensor<4x16xf32> {nn.name = "y"}) {
  %w0 = nn.read @columns : tensor<8x8xf32>
  %w1 = nn.read @rows : tensor<8x16xf32>
  %a = nn.contract %x, %w0 {dist.pattern = #dist.pattern<"column", ["t"]>, lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %b = nn.contract %a, %w1 {dist.pattern = #dist.pattern<"row", ["t"]>, lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %c = nn.gelu %b {tanh = true} : (tensor<4x16xf32>) -> tensor<4x16xf32>
  return %c : tensor<4x16xf32>
}

// -----

// A packed qkv weight is cut at the atoms 3, n, d: its columns are split by heads, without moving them, and the reshape is free.
// CHECK: nn.variable @qkv : tensor<16x48xf32, #dist.layout<{{\[\[}}16], [3, 4 : "t"=2, 4]]>>
// CHECK-LABEL: func.func @packed
// CHECK: nn.contract {{.*}} -> tensor<2x48xf32, #dist.layout<{{\[\[}}2], [3, 4 : "t"=2, 4]]>>
// CHECK-NEXT: nn.reshape {{.*}} -> tensor<2x3x4x4xf32, #dist.layout<{{\[\[}}2], [3], [4 : "t"=2], [4]]>>
// CHECK-NEXT: nn.slice
dist.mesh @mesh = <["t"=2]>
nn.variable @qkv : tensor<16x48xf32> {role = "parameter", trained = true}
func.func @packed(%x: tensor<2x16xf32> {nn.name = "x"}) -> (tensor<2x1x4x4xf32> {nn.name = "y"}) {
  %w = nn.read @qkv : tensor<16x48xf32>
  %a = nn.contract %x, %w {dist.pattern = #dist.pattern<"column", ["t"]>, lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<2x16xf32>, tensor<16x48xf32>) -> tensor<2x48xf32>
  %h = nn.reshape %a : (tensor<2x48xf32>) -> tensor<2x3x4x4xf32>
  %q = nn.slice %h {sizes = array<i64: 2, 1, 4, 4>, starts = array<i64: 0, 0, 0, 0>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x4xf32>) -> tensor<2x1x4x4xf32>
  %e = nn.gelu %q {tanh = true} : (tensor<2x1x4x4xf32>) -> tensor<2x1x4x4xf32>
  return %e : tensor<2x1x4x4xf32>
}

// -----

// Three heads on two ranks are padded as whole heads, and a vocabulary of 23 to 24; a file's shape stays what it was.
// CHECK: nn.variable @q : tensor<16x12xf32, #dist.layout<{{\[\[}}16], [3 pad 4 : "t"=2, 4]]>>
// CHECK: nn.variable @head : tensor<12x23xf32, #dist.layout<{{\[\[}}3 pad 4, 4], [23 pad 24 : "t"=2]]>>
// CHECK-LABEL: func.func @padding
dist.mesh @mesh = <["t"=2]>
nn.variable @q : tensor<16x12xf32> {role = "parameter", trained = true}
nn.variable @head : tensor<12x23xf32> {role = "parameter", trained = true}
func.func @padding(%x: tensor<2x16xf32> {nn.name = "x"}) -> (tensor<2x23xf32> {nn.name = "y"}) {
  %w0 = nn.read @q : tensor<16x12xf32>
  %w1 = nn.read @head : tensor<12x23xf32>
  %a = nn.contract %x, %w0 {dist.pattern = #dist.pattern<"column", ["t"]>, lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<2x16xf32>, tensor<16x12xf32>) -> tensor<2x12xf32>
  %h = nn.reshape %a : (tensor<2x12xf32>) -> tensor<2x3x4xf32>
  %s = nn.softmax %h : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %f = nn.reshape %s : (tensor<2x3x4xf32>) -> tensor<2x12xf32>
  %l = nn.contract %f, %w1 {dist.pattern = #dist.pattern<"vocab", ["t"]>, lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<2x12xf32>, tensor<12x23xf32>) -> tensor<2x23xf32>
  return %l : tensor<2x23xf32>
}

// -----

// A residual stays where it is: the branch's sum is reduced into its layout, not the other way round.
// CHECK-LABEL: func.func @residual
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32, #dist.layout<{{\[\[}}4 : "d"=2], [8]]>>
// CHECK: %[[R:.*]] = nn.contract {{.*}} partial = ["t"=2]>>
// CHECK-NEXT: %[[S:.*]] = dist.reshard %[[R]] : {{.*}} -> tensor<4x8xf32, #dist.layout<{{\[\[}}4 : "d"=2], [8]]>>
// CHECK-NEXT: nn.add %[[X]], %[[S]]
dist.mesh @mesh = <["d"=2, "t"=2]>
nn.variable @rows : tensor<8x8xf32> {role = "parameter", trained = true}
func.func @residual(%x: tensor<4x8xf32> {nn.name = "x", dist.split = [["d"], []]}) -> (tensor<4x8xf32> {nn.name = "y"}) {
  %w = nn.read @rows : tensor<8x8xf32>
  %a = nn.contract %x, %w {dist.pattern = #dist.pattern<"row", ["t"]>, lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %b = nn.add %x, %a : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %b : tensor<4x8xf32>
}

// -----

// What is computed from parameters and constants alone waits until a consumer says where it is needed: no reshard of the mask or the bias.
// CHECK: nn.variable @bias : tensor<8xf32, #dist.layout<{{\[\[}}8 : "t"=2]]>>
// CHECK-LABEL: func.func @free_values
// CHECK: nn.exp {{.*}} -> tensor<8xf32, #dist.layout<{{\[\[}}8 : "t"=2]]>>
// CHECK: nn.iota {{.*}} -> tensor<4x8xf32, #dist.layout<{{\[\[}}4 : "d"=2], [8 : "t"=2]]>>
// CHECK: nn.contract
// CHECK-NEXT: nn.add
// CHECK-NEXT: nn.add
dist.mesh @mesh = <["d"=2, "t"=2]>
nn.variable @w : tensor<8x8xf32> {role = "parameter", trained = true}
nn.variable @bias : tensor<8xf32> {role = "parameter", trained = true}
func.func @free_values(%x: tensor<4x8xf32> {nn.name = "x", dist.split = [["d"], []]}) -> (tensor<4x8xf32> {nn.name = "y"}) {
  %w = nn.read @w : tensor<8x8xf32>
  %b0 = nn.read @bias : tensor<8xf32>
  %b1 = nn.exp %b0 : (tensor<8xf32>) -> tensor<8xf32>
  %i = nn.iota {dim = 1 : i64} : () -> tensor<4x8xf32>
  %a = nn.contract %x, %w {dist.pattern = #dist.pattern<"column", ["t"]>, lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %c = nn.add %a, %b1 : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %d = nn.add %c, %i : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %d : tensor<4x8xf32>
}

// -----

// The logits of a vocabulary that is split are never whole: the loss works on the blocks, and only it is a partial sum, over the batch.
// CHECK-LABEL: func.func @vocabulary
// CHECK: %[[L:.*]] = nn.contract {{.*}} -> tensor<4x32xf32, #dist.layout<{{\[\[}}4 : "d"=2], [32 : "t"=2]]>>
// CHECK-NEXT: nn.cross_entropy %[[L]], {{.*}} -> (tensor<f32, #dist.layout<[], partial = ["d"=2]>>, tensor<4xf32, #dist.layout<{{\[\[}}4 : "d"=2]]>>)
dist.mesh @mesh = <["d"=2, "t"=2]>
nn.variable @head : tensor<8x32xf32> {role = "parameter", trained = true}
func.func @vocabulary(%x: tensor<4x8xf32> {nn.name = "x", dist.split = [["d"], []]}, %labels: tensor<4xi64> {nn.name = "labels", dist.split = [["d"]]}) -> (tensor<f32> {nn.name = "loss"}) {
  %w = nn.read @head : tensor<8x32xf32>
  %a = nn.contract %x, %w {dist.pattern = #dist.pattern<"vocab", ["t"]>, lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<4x8xf32>, tensor<8x32xf32>) -> tensor<4x32xf32>
  %loss, %lse = nn.cross_entropy %a, %labels : (tensor<4x32xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4xf32>)
  return %loss : tensor<f32>
}
