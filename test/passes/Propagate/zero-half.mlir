// Parameters in pieces that are computed with in bf16: a rank's piece is converted, and half the bytes are gathered, for the forward and again
// for the backward. The gradient is scattered in f32.
// RUN: tessera-opt %s --tessera-compute-type="type=bf16" --tessera-differentiate="loss=cross_entropy:logits optimizer=sgd" --tessera-assign="dp=2 zero=3" --tessera-propagate --tessera-verify-layouts | FileCheck %s
nn.variable @up : tensor<8x16xf32> {role = "parameter", trained = true}

// CHECK-LABEL: func.func @train
// CHECK: %[[W:.*]] = nn.read @up : tensor<8x16xf32, #dist.layout<{{.*}}, flat = ["data"=2]>>
// CHECK: %[[H:.*]] = nn.cast %[[W]] {dist.gather = #dist<gather forward>{{.*}}} : (tensor<8x16xf32, {{.*}}, flat = ["data"=2]>>) -> tensor<8x16xbf16, {{.*}}, flat = ["data"=2]>>
// CHECK: %[[G:.*]] = dist.reshard %[[H]] {dist.gather = #dist<gather forward>} : tensor<8x16xbf16, {{.*}}, flat = ["data"=2]>> -> tensor<8x16xbf16,
// CHECK: nn.contract %{{.*}}, %[[G]]
// CHECK: nn.cross_entropy_grad
// CHECK: %[[H2:.*]] = nn.cast %[[W]] {dist.gather = #dist<gather backward>
// CHECK: %[[G2:.*]] = dist.reshard %[[H2]] {dist.gather = #dist<gather backward>} : tensor<8x16xbf16, {{.*}}, flat = ["data"=2]>> -> tensor<8x16xbf16,
// CHECK: dist.reshard {{.*}} : tensor<8x16xf32, {{.*}}, partial = ["data"=2]>> -> tensor<8x16xf32, {{.*}}, flat = ["data"=2]>>
// CHECK: nn.update
func.func @infer(%x: tensor<4x8xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<4x8xf32> {nn.name = "logits"}) {
  %w = nn.read @up : tensor<8x16xf32>
  %a = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %b = nn.contract %a, %w {lhs_letters = "bo", out_letters = "bi", rhs_letters = "io"} : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
  return %b : tensor<4x8xf32>
}
