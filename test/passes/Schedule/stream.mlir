// A product of what is gathered for it becomes products of panels, each broadcast while the one before is multiplied.
// RUN: tessera-opt %s --pass-pipeline="builtin.module(func.func(tessera-stream-contractions))" | FileCheck %s
// RUN: tessera-opt %s --pass-pipeline="builtin.module(func.func(tessera-stream-contractions,tessera-overlap-collectives))" | FileCheck %s --check-prefix=OVERLAP

module attributes {dist.stream = #dist<when always>} {

nn.variable @w : tensor<4x6xf32> {role = "parameter", trained = true}

// SUMMA, AB: both operands along the summed letter; products add up in one place.
// CHECK-LABEL: func.func @both_summed
// CHECK-NEXT: %[[X0:.*]] = dist.collective broadcast %arg0 over <"col"=3> shape [2, 4] root 0
// CHECK-NEXT: %[[W0:.*]] = dist.collective broadcast %arg1 over <"row"=3> shape [4, 5] root 0
// CHECK-NEXT: %[[X1:.*]] = dist.collective broadcast %arg0 over <"col"=3> shape [2, 4] root 1
// CHECK-NEXT: %[[W1:.*]] = dist.collective broadcast %arg1 over <"row"=3> shape [4, 5] root 1
// CHECK-NEXT: %[[P0:.*]] = nn.contract_panel %[[X0]], %[[W0]] over "i" size 4 at [0, 0, 0]
// CHECK-NEXT: %[[X2:.*]] = dist.collective broadcast %arg0 over <"col"=3> shape [2, 4] root 2
// CHECK-NEXT: %[[W2:.*]] = dist.collective broadcast %arg1 over <"row"=3> shape [4, 5] root 2
// CHECK-NEXT: %[[P1:.*]] = nn.contract_panel %[[X1]], %[[W1]], %[[P0]] over "i" size 4 at [0, 0, 0]
// CHECK-NEXT: %[[P2:.*]] = nn.contract_panel %[[X2]], %[[W2]], %[[P1]] over "i" size 4 at [0, 0, 0]
// CHECK-NEXT: return %[[P2]]
// The broadcasts of a panel are on their way while the panel before is multiplied.
// OVERLAP-LABEL: func.func @both_summed
// OVERLAP: %[[T1:.*]] = dist.collective_start broadcast %arg0 {{.*}} root 1
// OVERLAP-NEXT: dist.collective_start broadcast %arg1 {{.*}} root 1
// OVERLAP: nn.contract_panel
// OVERLAP-NEXT: %[[T2:.*]] = dist.collective_start broadcast %arg0 {{.*}} root 2
// OVERLAP-NEXT: dist.collective_start broadcast %arg1 {{.*}} root 2
// OVERLAP: dist.collective_wait %[[T1]]
// OVERLAP: nn.contract_panel
// OVERLAP-NEXT: dist.collective_wait %[[T2]]
func.func @both_summed(%x: tensor<2x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x5xf32> {
  %0 = dist.collective all_gather %x over <"col"=3> shape [2, 4] concat 1 : tensor<2x4xf32> -> tensor<2x12xf32>
  %1 = dist.collective all_gather %w over <"row"=3> shape [4, 5] concat 0 : tensor<4x5xf32> -> tensor<12x5xf32>
  %2 = nn.contract %0, %1 {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x12xf32>, tensor<12x5xf32>) -> tensor<2x5xf32>
  return %2 : tensor<2x5xf32>
}

// A grid that is not square: a panel ends where a block of either operand ends, and every block is broadcast once.
// CHECK-LABEL: func.func @uneven_grid
// CHECK: %[[W1:.*]] = dist.collective broadcast %arg1 over <"row"=3> {{.*}} root 1
// CHECK: nn.contract_panel {{.*}} over "i" size 4 at [0, 0, 0]
// CHECK-NEXT: %[[X1:.*]] = dist.collective broadcast %arg0 over <"col"=2> {{.*}} root 1
// CHECK-NEXT: nn.contract_panel %{{.*}}, %[[W1]], {{.*}} over "i" size 2 at [4, 0, 0]
// CHECK-NEXT: %[[W2:.*]] = dist.collective broadcast %arg1 over <"row"=3> {{.*}} root 2
// CHECK-NEXT: nn.contract_panel %[[X1]], %[[W1]], {{.*}} over "i" size 2 at [0, 2, 0]
// CHECK-NEXT: nn.contract_panel %[[X1]], %[[W2]], {{.*}} over "i" size 4 at [2, 0, 0]
// CHECK-NEXT: return
func.func @uneven_grid(%x: tensor<2x6xf32>, %w: tensor<4x5xf32>) -> tensor<2x5xf32> {
  %0 = dist.collective all_gather %x over <"col"=2> shape [2, 6] concat 1 : tensor<2x6xf32> -> tensor<2x12xf32>
  %1 = dist.collective all_gather %w over <"row"=3> shape [4, 5] concat 0 : tensor<4x5xf32> -> tensor<12x5xf32>
  %2 = nn.contract %0, %1 {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x12xf32>, tensor<12x5xf32>) -> tensor<2x5xf32>
  return %2 : tensor<2x5xf32>
}

// ABt: one operand's rows are the result's columns, each block of which is reduced to its rank while the next is computed.
// CHECK-LABEL: func.func @scattered
// CHECK: %[[W0:.*]] = dist.collective broadcast %arg1 {{.*}} root 0
// CHECK: %[[P0:.*]] = nn.contract_panel %arg0, %[[W0]] over "i" size 4 at [0, 0, 0] {{.*}} -> tensor<2x4xf32>
// CHECK-NEXT: %[[T0:.*]] = dist.collective_start reduce %[[P0]] over <"col"=3> shape [2, 4] root 0 reduce sum : tensor<2x4xf32> ->
// CHECK: %[[P1:.*]] = nn.contract_panel
// CHECK-NEXT: %[[R0:.*]] = dist.collective_wait %[[T0]]
// CHECK-NEXT: %[[T1:.*]] = dist.collective_start reduce %[[P1]] over <"col"=3> shape [2, 4] root 1 reduce sum
// CHECK-NEXT: %[[P2:.*]] = nn.contract_panel
// CHECK-NEXT: %[[R1:.*]] = dist.collective_wait %[[T1]]
// CHECK-NEXT: %[[R2:.*]] = dist.collective reduce %[[P2]] over <"col"=3> shape [2, 4] root 2 reduce sum
// CHECK-NEXT: nn.exp
// CHECK-NEXT: %[[OWN:.*]] = exec.own %[[R0]], %[[R1]], %[[R2]]
// CHECK-NEXT: nn.neg %[[OWN]]
// Whatever comes next overlaps with the last reduction, too.
// OVERLAP-LABEL: func.func @scattered
// OVERLAP: %[[T1:.*]] = dist.collective_start reduce {{.*}} root 1
// OVERLAP: nn.contract_panel
// OVERLAP-NEXT: dist.collective_wait %[[T1]]
// OVERLAP-NEXT: %[[T2:.*]] = dist.collective_start reduce {{.*}} root 2
// OVERLAP-NEXT: nn.exp
// OVERLAP-NEXT: %[[R2:.*]] = dist.collective_wait %[[T2]]
// OVERLAP-NEXT: exec.own %{{.*}}, %{{.*}}, %[[R2]]
func.func @scattered(%dy: tensor<2x5xf32>, %w: tensor<4x5xf32>) -> (tensor<2x4xf32>, tensor<2x5xf32>) {
  %0 = dist.collective all_gather %w over <"row"=3> shape [4, 5] concat 0 : tensor<4x5xf32> -> tensor<12x5xf32>
  %1 = nn.contract %dy, %0 {lhs_letters = "bo", rhs_letters = "io", out_letters = "bi"} : (tensor<2x5xf32>, tensor<12x5xf32>) -> tensor<2x12xf32>
  %2 = dist.collective reduce_scatter %1 over <"col"=3> shape [2, 12] split 1 reduce sum : tensor<2x12xf32> -> tensor<2x4xf32>
  %3 = nn.exp %dy : (tensor<2x5xf32>) -> tensor<2x5xf32>
  %4 = nn.neg %2 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %4, %3 : tensor<2x4xf32>, tensor<2x5xf32>
}

// A result is reduce-scattered and nothing is gathered: its blocks alone.
// CHECK-LABEL: func.func @scatter_alone
// CHECK-NEXT: %[[P0:.*]] = nn.contract_panel %arg0, %arg1 over "s" size 4 at [0, 0, 0] {{.*}} -> tensor<2x4x3xf32>
// CHECK-NEXT: %[[T0:.*]] = dist.collective_start reduce %[[P0]] over <"t"=2> shape [2, 4, 3] root 0
// CHECK-NEXT: %[[P1:.*]] = nn.contract_panel %arg0, %arg1 over "s" size 4 at [4, 0, 0]
// CHECK-NEXT: %[[R0:.*]] = dist.collective_wait %[[T0]]
// CHECK-NEXT: %[[R1:.*]] = dist.collective reduce %[[P1]] over <"t"=2> shape [2, 4, 3] root 1
// CHECK-NEXT: exec.own %[[R0]], %[[R1]]
func.func @scatter_alone(%x: tensor<2x8x5xf32>, %w: tensor<5x3xf32>) -> tensor<2x4x3xf32> {
  %0 = nn.contract %x, %w {lhs_letters = "bsi", rhs_letters = "io", out_letters = "bso"} : (tensor<2x8x5xf32>, tensor<5x3xf32>) -> tensor<2x8x3xf32>
  %1 = dist.collective reduce_scatter %0 over <"t"=2> shape [2, 8, 3] split 1 reduce sum : tensor<2x8x3xf32> -> tensor<2x4x3xf32>
  return %1 : tensor<2x4x3xf32>
}

// Two products of one gathered operand share its panels: filled in along a free letter, added up along a summed one; the other operand is read in place.
// CHECK-LABEL: func.func @shared
// CHECK-COUNT-2: dist.collective broadcast %arg0
// CHECK: %[[A0:.*]] = nn.contract_panel %{{.*}}, %arg2 over "s" size 4 at [0, 0, 0]
// CHECK: %[[B0:.*]] = nn.contract_panel %arg1, %{{.*}} over "s" size 4 at [0, 0, 0]
// CHECK-NOT: broadcast
// CHECK: %[[A1:.*]] = nn.contract_panel %{{.*}}, %arg2, %[[A0]] over "s" size 4 at [0, 0, 4]
// CHECK: %[[B1:.*]] = nn.contract_panel %arg1, %{{.*}}, %[[B0]] over "s" size 4 at [4, 0, 0]
// CHECK: return %[[A1]], %[[B1]]
func.func @shared(%dy: tensor<2x4x3xf32>, %x: tensor<2x8x5xf32>, %w: tensor<5x3xf32>) -> (tensor<2x8x5xf32>, tensor<5x3xf32>) {
  %0 = dist.collective all_gather %dy over <"t"=2> shape [2, 4, 3] concat 1 : tensor<2x4x3xf32> -> tensor<2x8x3xf32>
  %1 = nn.contract %0, %w {lhs_letters = "bso", rhs_letters = "io", out_letters = "bsi"} : (tensor<2x8x3xf32>, tensor<5x3xf32>) -> tensor<2x8x5xf32>
  %2 = nn.contract %x, %0 {lhs_letters = "bsi", rhs_letters = "bso", out_letters = "io"} : (tensor<2x8x5xf32>, tensor<2x8x3xf32>) -> tensor<5x3xf32>
  return %1, %2 : tensor<2x8x5xf32>, tensor<5x3xf32>
}

// Padding is masked in each rank's own block, before it is broadcast.
// CHECK-LABEL: func.func @masked
// CHECK-NEXT: %[[M:.*]] = dist.mask_padding %arg0 over <"col"=3> shape [2, 4, 1] size 10 value 0.000000e+00 : f32 : tensor<2x4xf32>
// CHECK-NEXT: dist.collective broadcast %[[M]] over <"col"=3> shape [2, 4] root 0
// CHECK-NOT: all_gather
// CHECK: return
func.func @masked(%x: tensor<2x4xf32>, %w: tensor<12x5xf32>) -> tensor<2x5xf32> {
  %0 = dist.collective all_gather %x over <"col"=3> shape [2, 4] concat 1 : tensor<2x4xf32> -> tensor<2x12xf32>
  %1 = dist.mask_padding %0 over <> shape [2, 12, 1] size 10 value 0.0 : f32 : tensor<2x12xf32>
  %2 = nn.contract %1, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x12xf32>, tensor<12x5xf32>) -> tensor<2x5xf32>
  return %2 : tensor<2x5xf32>
}

// What else reads the gathered operand needs it whole.
// CHECK-LABEL: func.func @read_whole
// CHECK: all_gather
// CHECK: nn.contract %
func.func @read_whole(%x: tensor<2x4xf32>, %w: tensor<12x5xf32>) -> (tensor<2x5xf32>, tensor<2x12xf32>) {
  %0 = dist.collective all_gather %x over <"col"=3> shape [2, 4] concat 1 : tensor<2x4xf32> -> tensor<2x12xf32>
  %1 = nn.contract %0, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x12xf32>, tensor<12x5xf32>) -> tensor<2x5xf32>
  %2 = nn.exp %0 : (tensor<2x12xf32>) -> tensor<2x12xf32>
  return %1, %2 : tensor<2x5xf32>, tensor<2x12xf32>
}

// Ranks' blocks that lie scattered in the dimension are no panels, and neither are those of a type that the library does not multiply.
// CHECK-LABEL: func.func @not_consecutive
// CHECK: all_gather
// CHECK-NEXT: nn.contract %
func.func @not_consecutive(%x: tensor<2x6xf32>, %w: tensor<12x5xf32>) -> tensor<2x5xf32> {
  %0 = dist.collective all_gather %x over <"t"=2> shape [2, 3, 2] concat 2 : tensor<2x6xf32> -> tensor<2x12xf32>
  %1 = nn.contract %0, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x12xf32>, tensor<12x5xf32>) -> tensor<2x5xf32>
  return %1 : tensor<2x5xf32>
}
// CHECK-LABEL: func.func @not_of_the_library
// CHECK: all_gather
// CHECK-NEXT: nn.contract %
func.func @not_of_the_library(%x: tensor<2x4xf64>, %w: tensor<12x5xf64>) -> tensor<2x5xf64> {
  %0 = dist.collective all_gather %x over <"col"=3> shape [2, 4] concat 1 : tensor<2x4xf64> -> tensor<2x12xf64>
  %1 = nn.contract %0, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x12xf64>, tensor<12x5xf64>) -> tensor<2x5xf64>
  return %1 : tensor<2x5xf64>
}

// A variable that is written between the gather and the product was gathered as it was before.
// CHECK-LABEL: func.func @overwritten
// CHECK: all_gather
// CHECK: nn.contract %
func.func @overwritten(%x: tensor<2x8xf32>, %g: tensor<4x6xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %d: tensor<1xf32>) -> tensor<2x6xf32> {
  %w = nn.read @w : tensor<4x6xf32>
  %0 = dist.collective all_gather %w over <"row"=2> shape [4, 6] concat 0 : tensor<4x6xf32> -> tensor<8x6xf32>
  %u = nn.update %w, %g, %none, %s, %d {index = 0 : i64, kind = "sgd"} : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<f32>, tensor<8xf32>, tensor<1xf32>) -> tensor<4x6xf32>
  nn.assign @w, %u : tensor<4x6xf32>
  %1 = nn.contract %x, %0 {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x8xf32>, tensor<8x6xf32>) -> tensor<2x6xf32>
  return %1 : tensor<2x6xf32>
}
}
