// RUN: tessera-opt %s --tessera-differentiate="optimizer=sgd emit-grads" | FileCheck %s

nn.variable @frozen : tensor<3xf32> {role = "parameter"}
nn.variable @table : tensor<16x8xf32> {role = "parameter", trained = true}
nn.variable @b : tensor<8xf32> {role = "parameter", trained = true}
nn.variable @unused : tensor<3xf32> {role = "parameter", trained = true}

// Ids are the same in both functions.
// CHECK-LABEL: func.func @infer
// CHECK: nn.gather {{.*}} {nn.id = "gather_0"}
func.func @infer(%ids: tensor<2x4xi64> {nn.name = "input_ids", nn.kind = #nn<kind data>}) -> (tensor<2xf32> {nn.name = "first"}, tensor<2x4x16xf32> {nn.name = "logits"}) {
  %t = nn.read @table : tensor<16x8xf32>
  %b = nn.read @b : tensor<8xf32>
  %x = nn.gather %t, %ids : (tensor<16x8xf32>, tensor<2x4xi64>) -> tensor<2x4x8xf32>
  %y = nn.add %x, %b : (tensor<2x4x8xf32>, tensor<8xf32>) -> tensor<2x4x8xf32>
  %l = nn.contract %y, %t {lhs_letters = "bsh", rhs_letters = "Vh", out_letters = "bsV"} : (tensor<2x4x8xf32>, tensor<16x8xf32>) -> tensor<2x4x16xf32>
  %other = nn.reduce %y {dims = array<i64: 1, 2>, kind = "sum"} : (tensor<2x4x8xf32>) -> tensor<2xf32>
  return %other, %l : tensor<2xf32>, tensor<2x4x16xf32>
}

// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[IDS:.*]]: tensor<2x4xi64> {nn.kind = #nn<kind data>, nn.name = "input_ids"}
// CHECK-SAME: %[[LABELS:.*]]: tensor<2x4xi64> {nn.kind = #nn<kind labels>, nn.name = "labels", nn.range = array<i64: 0, 16>}
// CHECK-SAME: %[[SCALARS:.*]]: tensor<8xf32> {nn.kind = #nn<kind scalars>, nn.name = "scalars"}
// CHECK-SAME: %[[DECAY:.*]]: tensor<4xf32> {nn.kind = #nn<kind decay>, nn.name = "decay"}
// CHECK-SAME: (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.name = "grad_norm"}, tensor<16x8xf32> {nn.name = "grad:table"}, tensor<8xf32> {nn.name = "grad:b"})
// CHECK-SAME: nn.loss = "cross_entropy:logits"

// What only the other output needs is gone; the loss's only divisor is its seed.
// CHECK-NOT: nn.reduce {{.*}}dims = array<i64: 1, 2>
// CHECK: %[[X:.*]] = nn.gather {{.*}} {nn.id = "gather_0"}
// CHECK: %[[SUM:.*]], %[[LSE:.*]] = nn.cross_entropy
// CHECK: %[[COUNT:.*]] = nn.count_valid %[[LABELS]] {{.*}}nn.prologue
// CHECK: %[[SEED:.*]] = nn.reciprocal %[[COUNT]]
// CHECK: %[[LOSS:.*]] = nn.mul %[[SUM]], %[[SEED]]

// Each value's cotangent is one acc, gradients know their factors.
// CHECK: %[[C0:.*]] = nn.acc %[[SEED]] {nn.cotangent_of = #nn.value<"cross_entropy_0", 0>}
// CHECK: %[[DL:.*]] = nn.cross_entropy_grad {{.*}}, %[[LSE]], %[[C0]] {nn.grad_of = #nn.grad_of<"cross_entropy_0", [0, 1, 2]>}
// CHECK: %[[C1:.*]] = nn.acc %[[DL]] {nn.cotangent_of = #nn.value<"contract_0", 0>}
// CHECK: %[[DY:.*]] = nn.contract %[[C1]], {{.*}} {lhs_letters = "bsV", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 3, 2]>, out_letters = "bsh", rhs_letters = "Vh"}
// CHECK: %[[DT:.*]] = nn.contract {{.*}}, %[[C1]] {lhs_letters = "bsh", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 2, 3]>, out_letters = "Vh", rhs_letters = "bsV"}
// CHECK: %[[C2:.*]] = nn.acc %[[DY]] {nn.cotangent_of = #nn.value<"add_0", 0>}
// CHECK: %[[DB:.*]] = nn.reduce %[[C2]] {dims = array<i64: 0, 1>, kind = "sum", nn.grad_of = #nn.grad_of<"add_0", [0, 1, 2]>}
// CHECK: %[[GB:.*]] = nn.acc %[[DB]] {nn.cotangent_of = @b}
// CHECK: %[[C3:.*]] = nn.acc %[[C2]] {nn.cotangent_of = #nn.value<"gather_0", 0>}
// CHECK: %[[DT2:.*]] = nn.scatter_add %[[IDS]], %[[C3]] {nn.grad_of = #nn.grad_of<"gather_0", [2, 3, 1, 0]>}

// A parameter used twice has one sum; one that is not used is not trained.
// CHECK: %[[GT:.*]] = nn.acc %[[DT]], %[[DT2]] {nn.cotangent_of = @table}
// CHECK: %[[S0:.*]] = nn.sum_squares %[[GT]]
// CHECK: %[[S1:.*]] = nn.sum_squares %[[GB]]
// CHECK: %[[SS:.*]] = nn.acc %[[S0]], %[[S1]] :
// CHECK: %[[NORM:.*]] = nn.sqrt %[[SS]]
// CHECK: %[[NEW:.*]] = nn.update {{.*}}, %[[GT]], %[[NORM]], %[[SCALARS]], %[[DECAY]] {index = 1 : i64, kind = "sgd"}
// CHECK: nn.assign @table, %[[NEW]]
// CHECK-NOT: nn.assign @frozen
// CHECK-NOT: nn.assign @unused
// CHECK: return %[[LOSS]], %[[NORM]], %[[GT]], %[[GB]] :
