// ZeRO: training state in pieces over the axes that do not split it already.
// RUN: tessera-opt %s --tessera-differentiate="loss=cross_entropy:logits optimizer=sgd-momentum" --tessera-assign="dp=2 tp=2 zero=1" --tessera-propagate --tessera-verify-layouts | FileCheck %s --check-prefixes=BOTH,ONE
// RUN: tessera-opt %s --tessera-differentiate="loss=cross_entropy:logits optimizer=sgd-momentum" --tessera-assign="dp=2 tp=2 zero=3" --tessera-propagate --tessera-verify-layouts | FileCheck %s --check-prefixes=BOTH,THREE
// RUN: tessera-opt %s --tessera-differentiate="loss=cross_entropy:logits optimizer=sgd-momentum" --tessera-assign="dp=2 tp=2 zero=2" --tessera-propagate --tessera-verify-layouts | FileCheck %s --check-prefix=ONCE
// RUN: tessera-opt %s --tessera-differentiate="loss=cross_entropy:logits optimizer=sgd-momentum" --tessera-assign="dp=2 tp=2 zero=3 regather=never" --tessera-propagate --tessera-verify-layouts | FileCheck %s --check-prefix=ONCE
// RUN: tessera-opt %s --tessera-differentiate="loss=cross_entropy:logits optimizer=sgd-momentum" --tessera-assign="dp=2 tp=4 tp-mode=2d zero=1" --tessera-propagate --tessera-verify-layouts | FileCheck %s --check-prefix=GRID

// The parameter is split over tensor by its product; it and its state are in pieces over data besides.
// BOTH: nn.variable @up : tensor<8x16xf32, #dist.layout<{{\[\[}}8], [16 : "tensor"=2]], flat = ["data"=2]>>
nn.variable @up : tensor<8x16xf32> {role = "parameter", trained = true}
nn.variable @down : tensor<16x8xf32> {role = "parameter", trained = true}
nn.variable @gain : tensor<8xf32> {role = "parameter", trained = true}
// What no update changes is in pieces under stage 3 alone.
// ONE: nn.variable @frozen : tensor<8x24xf32, #dist.layout<{{\[\[}}8], [24 : "tensor"=2]]>>
// THREE: nn.variable @frozen : tensor<8x24xf32, #dist.layout<{{\[\[}}8], [24 : "tensor"=2]], flat = ["data"=2]>>
nn.variable @frozen : tensor<8x24xf32> {role = "parameter", trained = false}
// A single element is not cut.
// BOTH: nn.variable @scale : tensor<1xf32, #dist.layout<{{\[\[}}]]>>
nn.variable @scale : tensor<1xf32> {role = "parameter", trained = true}
// BOTH: nn.variable @up.momentum : tensor<8x16xf32, #dist.layout<{{\[\[}}8], [16 : "tensor"=2]], flat = ["data"=2]>>
// BOTH: nn.variable @gain.momentum : tensor<8xf32, #dist.layout<{{\[\[}}8]], flat = ["data"=2]>>
// BOTH: nn.variable @scale.momentum : tensor<1xf32, #dist.layout<{{\[\[}}]]>>

// BOTH-LABEL: func.func @train
// Stages 1 and 2 gather it once; stage 3 for the forward, and again for the backward; where the backward does
// not read it, not again.
// THREE-DAG: dist.reshard %[[UP:.*]] {dist.gather = #dist<gather forward>} : tensor<8x16xf32, {{.*}}, flat = ["data"=2]>> -> tensor<8x16xf32, #dist.layout<{{\[\[}}8], [16 : "tensor"=2]]>>
// THREE-DAG: dist.reshard {{.*}} {dist.gather = #dist<gather forward>} : tensor<8x24xf32
// THREE: nn.cross_entropy_grad
// THREE: dist.reshard %[[UP]] {dist.gather = #dist<gather backward>} : tensor<8x16xf32, {{.*}}, flat = ["data"=2]>> -> tensor<8x16xf32, #dist.layout<{{\[\[}}8], [16 : "tensor"=2]]>>
// ONCE-LABEL: func.func @train
// ONCE-COUNT-1: dist.reshard {{.*}} : tensor<8x16xf32, {{.*}}, flat = ["data"=2]>> -> tensor<8x16xf32, #dist.layout<{{\[\[}}8], [16 : "tensor"=2]]>>
// ONCE-NOT: dist.reshard {{.*}} : tensor<8x16xf32, {{.*}}, flat = ["data"=2]>> ->
// A grid gathers what it does without ZeRO, of what is no longer in pieces.
// GRID-LABEL: func.func @train
// GRID: %[[BLOCK:.*]] = dist.reshard %{{[0-9]+}} : tensor<8x16xf32, {{.*}}, flat = ["data"=2]>> -> tensor<8x16xf32, #dist.layout<{{\[\[}}8 : "row"=2], [16 : "col"=2]]>>
// GRID: dist.reshard %[[BLOCK]] {dist.gather = #dist<gather forward>} : {{.*}} -> tensor<8x16xf32, #dist.layout<{{\[\[}}8], [16 : "col"=2]]>>
// GRID: dist.reshard %[[BLOCK]] {dist.gather = #dist<gather backward>} : {{.*}} -> tensor<8x16xf32, #dist.layout<{{\[\[}}8], [16 : "col"=2]]>>
// Gradients go into pieces; one sum of squares for those in pieces over both axes, one for those over data.
// BOTH: %[[G:.*]] = dist.reshard {{.*}} : tensor<8x16xf32, {{.*}}, partial = ["data"=2]>> -> tensor<8x16xf32, {{.*}}, flat = ["data"=2]>>
// BOTH: nn.sum_squares {{.*}} -> tensor<f32, #dist.layout<[], partial = ["data"=2 "tensor"=2]>>
// BOTH: nn.sum_squares {{.*}} -> tensor<f32, #dist.layout<[], partial = ["data"=2]>>
// BOTH: nn.update {{.*}} -> (tensor<8x16xf32, {{.*}}, flat = ["data"=2]>>, tensor<8x16xf32, {{.*}}, flat = ["data"=2]>>)
// It stays in pieces: the next step gathers it.
// BOTH-NEXT: nn.assign @up
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
