// Experts split over ranks: what every rank runs.
// RUN: tessera-opt %s --split-input-file --tessera-propagate --tessera-verify-layouts --tessera-partition --canonicalize --cse | FileCheck %s

// Tokens are split over the experts' axis: one exchange behind the dispatch, one before the combination, whatever the ids are.
// CHECK-LABEL: func.func @exchanged
// CHECK-DAG: nn.read @up : tensor<2x12x6xf32>
// CHECK-DAG: nn.read @down : tensor<2x6x12xf32>
// CHECK: %[[ROWS:.*]] = nn.dispatch {{.*}} -> tensor<4x4x6xf32>
// CHECK: %[[OWN:.*]] = dist.collective all_to_all %[[ROWS]] over <"e"=2>
// CHECK: nn.contract %{{.*}}, %[[OWN]] {{.*}} -> tensor<2x8x12xf32>
// CHECK: %[[Y:.*]] = nn.contract {{.*}} -> tensor<2x8x6xf32>
// CHECK: %[[BACK:.*]] = dist.collective all_to_all %[[Y]] over <"e"=2>
// CHECK: nn.combine %[[BACK]], {{.*}} -> tensor<4x6xf32>
// CHECK-NOT: all_reduce
dist.mesh @mesh = <["e"=2]>
nn.variable @up : tensor<4x12x6xf32> {role = "parameter", trained = true}
nn.variable @down : tensor<4x6x12xf32> {role = "parameter", trained = true}
func.func @exchanged(%x: tensor<8x6xf32> {nn.name = "x", dist.split = [["e"], []]}, %ids: tensor<8x2xi64> {nn.name = "ids", dist.split = [["e"], []]},
                     %w: tensor<8x2xf32> {nn.name = "w", dist.split = [["e"], []]}) -> (tensor<8x6xf32> {nn.name = "y"}) {
  %up = nn.read @up : tensor<4x12x6xf32>
  %down = nn.read @down : tensor<4x6x12xf32>
  %one = nn.constant dense<1.0> : tensor<8x2xf32> : tensor<8x2xf32>
  %rows = nn.dispatch %x, %ids, %one {dist.pattern = #dist.pattern<"expert", ["e"]>} : (tensor<8x6xf32>, tensor<8x2xi64>, tensor<8x2xf32>) -> tensor<4x8x6xf32>
  %a = nn.contract %up, %rows {dist.pattern = #dist.pattern<"expert", ["e"]>, lhs_letters = "eoi", rhs_letters = "eti", out_letters = "eto"} : (tensor<4x12x6xf32>, tensor<4x8x6xf32>) -> tensor<4x8x12xf32>
  %r = nn.relu %a : (tensor<4x8x12xf32>) -> tensor<4x8x12xf32>
  %b = nn.contract %down, %r {dist.pattern = #dist.pattern<"expert", ["e"]>, lhs_letters = "eoi", rhs_letters = "eti", out_letters = "eto"} : (tensor<4x6x12xf32>, tensor<4x8x12xf32>) -> tensor<4x8x6xf32>
  %y = nn.combine %b, %ids, %w {dist.pattern = #dist.pattern<"expert", ["e"]>} : (tensor<4x8x6xf32>, tensor<8x2xi64>, tensor<8x2xf32>) -> tensor<8x6xf32>
  return %y : tensor<8x6xf32>
}

// -----

// Tokens that every rank has: a rank fills the rows of its own experts, two of three of them padded to four, and what they say is added up.
// CHECK-LABEL: func.func @owned
// CHECK-NOT: all_to_all
// CHECK: %[[START:.*]] = dist.block_start over <"e"=2> block 2
// CHECK: nn.dispatch {{.*}}, %[[START]] : {{.*}} -> tensor<2x8x6xf32>
// CHECK: nn.contract {{.*}} -> tensor<2x8x6xf32>
// CHECK: %[[PART:.*]] = nn.combine {{.*}} -> tensor<8x6xf32>
// CHECK: dist.collective all_reduce %[[PART]] over <"e"=2>
dist.mesh @mesh = <["e"=2]>
nn.variable @up : tensor<3x6x6xf32> {role = "parameter", trained = true}
func.func @owned(%x: tensor<8x6xf32> {nn.name = "x"}, %ids: tensor<8x2xi64> {nn.name = "ids"}, %w: tensor<8x2xf32> {nn.name = "w"}) -> (tensor<8x6xf32> {nn.name = "y"}) {
  %up = nn.read @up : tensor<3x6x6xf32>
  %one = nn.constant dense<1.0> : tensor<8x2xf32> : tensor<8x2xf32>
  %rows = nn.dispatch %x, %ids, %one {dist.pattern = #dist.pattern<"expert", ["e"]>} : (tensor<8x6xf32>, tensor<8x2xi64>, tensor<8x2xf32>) -> tensor<3x8x6xf32>
  %a = nn.contract %up, %rows {dist.pattern = #dist.pattern<"expert", ["e"]>, lhs_letters = "eoi", rhs_letters = "eti", out_letters = "eto"} : (tensor<3x6x6xf32>, tensor<3x8x6xf32>) -> tensor<3x8x6xf32>
  %y = nn.combine %a, %ids, %w {dist.pattern = #dist.pattern<"expert", ["e"]>} : (tensor<3x8x6xf32>, tensor<8x2xi64>, tensor<8x2xf32>) -> tensor<8x6xf32>
  return %y : tensor<8x6xf32>
}

// -----

// Products with the columns and rows of experts split: what the row product leaves partial is combined first, and then reduced, a row for each token
// and not for each expert as well.
// CHECK-LABEL: func.func @reduced_late
// CHECK: %[[Y:.*]] = nn.contract {{.*}}"row", ["t"]{{.*}} -> tensor<4x8x6xf32>
// CHECK-NEXT: %[[OUT:.*]] = nn.combine %[[Y]]
// CHECK-NEXT: dist.collective all_reduce %[[OUT]] over <"t"=2> shape [8, 6]
dist.mesh @mesh = <["t"=2]>
nn.variable @up : tensor<4x12x6xf32> {role = "parameter", trained = true}
nn.variable @down : tensor<4x6x12xf32> {role = "parameter", trained = true}
func.func @reduced_late(%x: tensor<8x6xf32> {nn.name = "x"}, %ids: tensor<8x2xi64> {nn.name = "ids"}, %w: tensor<8x2xf32> {nn.name = "w"}) -> (tensor<8x6xf32> {nn.name = "y"}) {
  %up = nn.read @up : tensor<4x12x6xf32>
  %down = nn.read @down : tensor<4x6x12xf32>
  %one = nn.constant dense<1.0> : tensor<8x2xf32> : tensor<8x2xf32>
  %rows = nn.dispatch %x, %ids, %one : (tensor<8x6xf32>, tensor<8x2xi64>, tensor<8x2xf32>) -> tensor<4x8x6xf32>
  %a = nn.contract %up, %rows {dist.pattern = #dist.pattern<"column", ["t"]>, lhs_letters = "eoi", rhs_letters = "eti", out_letters = "eto"} : (tensor<4x12x6xf32>, tensor<4x8x6xf32>) -> tensor<4x8x12xf32>
  %r = nn.relu %a : (tensor<4x8x12xf32>) -> tensor<4x8x12xf32>
  %b = nn.contract %down, %r {dist.pattern = #dist.pattern<"row", ["t"]>, lhs_letters = "eoi", rhs_letters = "eti", out_letters = "eto"} : (tensor<4x6x12xf32>, tensor<4x8x12xf32>) -> tensor<4x8x6xf32>
  %y = nn.combine %b, %ids, %w : (tensor<4x8x6xf32>, tensor<8x2xi64>, tensor<8x2xf32>) -> tensor<8x6xf32>
  return %y : tensor<8x6xf32>
}
