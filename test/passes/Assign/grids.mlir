// Products over grids: where weights live, what is computed, where results live.
// RUN: tessera-opt %s --tessera-assign="tp=6 tp-mode=2d" --tessera-propagate --tessera-verify-layouts | FileCheck %s --check-prefix=TWO
// RUN: tessera-opt %s --tessera-assign="tp=8 tp-mode=2.5d" --tessera-propagate --tessera-verify-layouts | FileCheck %s --check-prefix=DEEP
// RUN: tessera-opt %s --tessera-assign="tp=8 tp-mode=3d" --tessera-propagate --tessera-verify-layouts | FileCheck %s --check-prefix=THREE

// TWO: dist.mesh @mesh = <["row"=2, "col"=3]>
// DEEP: dist.mesh @mesh = <["row"=2, "col"=2, "depth"=2]>
// THREE: dist.mesh @mesh = <["i"=2, "j"=2, "k"=2]>

// TWO: @up : tensor<12x24xf32, #dist.layout<{{\[\[}}12 : "row"=2], [24 : "col"=3]]>>
// DEEP: @up : tensor<12x24xf32, #dist.layout<{{\[\[}}12 : "row"=2], [24 : "col"=2]]>>
// THREE: @up : tensor<12x24xf32, #dist.layout<{{\[\[}}12 : "k"=2 "i"=2], [24 : "j"=2]]>>
nn.variable @up : tensor<12x24xf32> {role = "parameter"}
// The second product finds its input split over j: the roles of j and k are exchanged.
// THREE: @down : tensor<24x12xf32, #dist.layout<{{\[\[}}24 : "j"=2 "i"=2], [12 : "k"=2]]>>
nn.variable @down : tensor<24x12xf32> {role = "parameter"}

// TWO: nn.contract {{.*}} -> tensor<8x24xf32, #dist.layout<{{\[\[}}8 : "row"=2], [24 : "col"=3]]>>
// DEEP: nn.contract {{.*}} -> tensor<8x24xf32, #dist.layout<{{\[\[}}8 : "depth"=2 "row"=2], [24 : "col"=2]]>>
// THREE: nn.contract {{.*}} -> tensor<8x24xf32, #dist.layout<{{\[\[}}8 : "i"=2], [24 : "j"=2]], partial = ["k"=2]>>
// THREE: dist.reshard {{.*}} -> tensor<8x24xf32, #dist.layout<{{\[\[}}8 : "i"=2 "k"=2], [24 : "j"=2]]>>
// THREE: nn.contract {{.*}} -> tensor<8x12xf32, #dist.layout<{{\[\[}}8 : "i"=2], [12 : "k"=2]], partial = ["j"=2]>>
func.func @infer(%x: tensor<8x12xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<8x12xf32> {nn.name = "y"}) {
  %u = nn.read @up : tensor<12x24xf32>
  %d = nn.read @down : tensor<24x12xf32>
  %h = nn.contract %x, %u {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<8x12xf32>, tensor<12x24xf32>) -> tensor<8x24xf32>
  %y = nn.contract %h, %d {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<8x24xf32>, tensor<24x12xf32>) -> tensor<8x12xf32>
  return %y : tensor<8x12xf32>
}
