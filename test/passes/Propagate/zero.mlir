// ZeRO: training state in pieces over the axes that do not split it already.
// RUN: tessera-opt %s --tessera-differentiate="loss=cross_entropy:logits optimizer=sgd-momentum" --tessera-assign="dp=2 tp=2 zero=1" --tessera-propagate --tessera-verify-layouts | FileCheck %s --check-prefixes=BOTH,ONE
// RUN: tessera-opt %s --tessera-differentiate="loss=cross_entropy:logits optimizer=sgd-momentum" --tessera-assign="dp=2 tp=2 zero=3" --tessera-propagate --tessera-verify-layouts | FileCheck %s --check-prefixes=BOTH,THREE
// RUN: tessera-opt %s --tessera-differentiate="loss=cross_entropy:logits optimizer=sgd-momentum" --tessera-assign="dp=2 tp=2 zero=3 regather=never" --tessera-propagate --tessera-verify-layouts | FileCheck %s --check-prefix=KEPT

// The parameter is split over tensor by its product; its state in pieces over data besides. Of stage 3 the parameter too.
// ONE: nn.variable @up : tensor<8x16xf32, #dist.layout<{{\[\[}}8], [16 : "tensor"=2]]>>
// THREE: nn.variable @up : tensor<8x16xf32, #dist.layout<{{\[\[}}8], [16 : "tensor"=2]], flat = ["data"=2]>>
nn.variable @up : tensor<8x16xf32> {role = "parameter", trained = true}
nn.variable @down : tensor<16x8xf32> {role = "parameter", trained = true}
nn.variable @gain : tensor<8xf32> {role = "parameter", trained = true}
nn.variable @frozen : tensor<8x24xf32> {role = "parameter", trained = false}
// A single element is not cut.
// BOTH: nn.variable @scale : tensor<1xf32, #dist.layout<{{\[\[}}]]>>
nn.variable @scale : tensor<1xf32> {role = "parameter", trained = true}
// BOTH: nn.variable @up.momentum : tensor<8x16xf32, #dist.layout<{{\[\[}}8], [16 : "tensor"=2]], flat = ["data"=2]>>
// BOTH: nn.variable @gain.momentum : tensor<8xf32, #dist.layout<{{\[\[}}8]], flat = ["data"=2]>>
// BOTH: nn.variable @scale.momentum : tensor<1xf32, #dist.layout<{{\[\[}}]]>>

// BOTH-LABEL: func.func @train
// Gathered for the forward, and again for the backward; where the backward does not read it, not again.
// ONE-NOT: flat = ["data"=2]>> -> {{.*}}dist.gather
// THREE-DAG: dist.reshard %[[UP:.*]] {dist.gather = #dist<gather forward>} : tensor<8x16xf32, {{.*}}, flat = ["data"=2]>> -> tensor<8x16xf32, #dist.layout<{{\[\[}}8], [16 : "tensor"=2]]>>
// THREE-DAG: dist.reshard {{.*}} {dist.gather = #dist<gather forward>} : tensor<8x24xf32
// THREE: nn.cross_entropy_grad
// THREE: dist.reshard %[[UP]] {dist.gather = #dist<gather backward>} : tensor<8x16xf32, {{.*}}, flat = ["data"=2]>> -> tensor<8x16xf32, #dist.layout<{{\[\[}}8], [16 : "tensor"=2]]>>
// KEPT-LABEL: func.func @train
// KEPT-COUNT-1: dist.reshard {{.*}} : tensor<8x16xf32, {{.*}}, flat = ["data"=2]>> -> tensor<8x16xf32, #dist.layout<{{\[\[}}8], [16 : "tensor"=2]]>>
// KEPT-NOT: dist.reshard {{.*}} : tensor<8x16xf32, {{.*}}, flat = ["data"=2]>> ->
// Gradients go into pieces; one sum of squares for those in pieces over both axes, one for those over data.
// BOTH: %[[G:.*]] = dist.reshard {{.*}} : tensor<8x16xf32, {{.*}}, partial = ["data"=2]>> -> tensor<8x16xf32, {{.*}}, flat = ["data"=2]>>
// BOTH: nn.sum_squares {{.*}} -> tensor<f32, #dist.layout<[], partial = ["data"=2 "tensor"=2]>>
// BOTH: nn.sum_squares {{.*}} -> tensor<f32, #dist.layout<[], partial = ["data"=2]>>
// BOTH: nn.update {{.*}} -> (tensor<8x16xf32, {{.*}}, flat = ["data"=2]>>, tensor<8x16xf32, {{.*}}, flat = ["data"=2]>>)
// The updated parameter is gathered where it is whole.
// ONE: dist.reshard {{.*}} flat = ["data"=2]>> -> tensor<8x16xf32, #dist.layout<{{\[\[}}8], [16 : "tensor"=2]]>>
// ONE-NEXT: nn.assign @up
// THREE-NEXT: nn.assign @up
func.func @infer(%x: tensor<4x8xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<4x24xf32> {nn.name = "logits"}) {
  %w0 = nn.read @up : tensor<8x16xf32>
  %w1 = nn.read @down : tensor<16x8xf32>
  %g = nn.read @gain : tensor<8xf32>
  %s = nn.read @scale : tensor<1xf32>
  %w2 = nn.read @frozen : tensor<8x24xf32>
  %r = nn.add %x, %g : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %q = nn.mul %r, %s : (tensor<4x8xf32>, tensor<1xf32>) -> tensor<4x8xf32>
  %a = nn.contract %q, %w0 {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %b = nn.gelu %a {tanh = true} : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %c = nn.contract %b, %w1 {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %l = nn.contract %c, %w2 {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<4x8xf32>, tensor<8x24xf32>) -> tensor<4x24xf32>
  return %l : tensor<4x24xf32>
}
