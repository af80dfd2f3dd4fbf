// Gradients are ordinary operators of the global program; they split as their forward operators do.
// RUN: tessera-opt %s --tessera-differentiate="loss=cross_entropy:logits optimizer=sgd" --tessera-assign="dp=2 tp=2" --tessera-propagate --tessera-verify-layouts | FileCheck %s
// RUN: tessera-opt %s --tessera-differentiate="loss=cross_entropy:logits optimizer=sgd" --tessera-assign="dp=2 tp=2" --tessera-propagate --tessera-verify-layouts | FileCheck %s --check-prefix=SUMS

nn.variable @up : tensor<8x16xf32> {role = "parameter", trained = true}
nn.variable @down : tensor<16x8xf32> {role = "parameter", trained = true}
nn.variable @gain : tensor<8xf32> {role = "parameter", trained = true}
nn.variable @head : tensor<8x24xf32> {role = "parameter", trained = true}

// CHECK-LABEL: func.func @train
// The gradient of a block of logits needs nothing from other blocks.
// CHECK: %[[DL:.*]] = nn.cross_entropy_grad {{.*}} -> tensor<4x24xf32, #dist.layout<{{\[\[}}4 : "data"=2], [24 : "tensor"=2]]>>
// The backward of the column-like head is a partial sum over the axis, reduced where it meets the primal; that of the weight one over the batch.
// CHECK: %[[DD:.*]] = nn.contract %[[DL]], {{.*}} -> tensor<4x8xf32, #dist.layout<{{.*}}, partial = ["tensor"=2]>>
// CHECK: %[[DHEAD:.*]] = nn.contract {{.*}}, %[[DL]] {{.*}} -> tensor<8x24xf32, #dist.layout<{{\[\[}}8], [24 : "tensor"=2]], partial = ["data"=2]>>
// CHECK: %[[D:.*]] = dist.reshard %[[DD]] : {{.*}} -> tensor<4x8xf32, #dist.layout<{{\[\[}}4 : "data"=2], [8]]>>
// Of the row product: split columns again, nothing sent.
// CHECK: nn.contract %[[D]], {{.*}} -> tensor<4x16xf32, #dist.layout<{{\[\[}}4 : "data"=2], [16 : "tensor"=2]]>>
// CHECK: nn.gelu_grad
// Of the column product: a partial sum, reduced; the residual's cotangent is added whole.
// CHECK: %[[DX:.*]] = nn.contract {{.*}}grad_of<"contract_0"{{.*}} partial = ["tensor"=2]>>
// CHECK: %[[X:.*]] = dist.reshard %[[DX]]
// CHECK-NEXT: nn.acc %[[D]], %[[X]]
// Each parameter's gradient is reduced once, over the batch, into the parameter's own layout.
// SUMS-COUNT-4: dist.reshard {{.*}} partial = ["data"=2]>> ->
// Blocks of one sum are added before they are reduced, the replicated parameter's square apart: it counts once.
// CHECK: %[[S0:.*]] = nn.sum_squares {{.*}} -> tensor<f32, #dist.layout<[], partial = ["tensor"=2]>>
// CHECK: %[[S1:.*]] = nn.sum_squares
// CHECK: %[[GAIN:.*]] = nn.sum_squares {{.*}} -> tensor<f32, #dist.layout<[]>>
// CHECK: %[[S2:.*]] = nn.sum_squares
// CHECK: %[[PART:.*]] = nn.acc %[[S0]], %[[S1]], %[[S2]]
// CHECK: %[[SUM:.*]] = dist.reshard %[[PART]]
// CHECK: nn.acc %[[SUM]], %[[GAIN]]
// CHECK-NOT: dist.reshard
func.func @infer(%x: tensor<4x8xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<4x24xf32> {nn.name = "logits"}) {
  %w0 = nn.read @up : tensor<8x16xf32>
  %w1 = nn.read @down : tensor<16x8xf32>
  %g = nn.read @gain : tensor<8xf32>
  %w2 = nn.read @head : tensor<8x24xf32>
  %r = nn.mul %x, %g : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %a = nn.contract %r, %w0 {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %b = nn.gelu %a {tanh = true} : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %c = nn.contract %b, %w1 {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %d = nn.add %r, %c : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %l = nn.contract %d, %w2 {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<4x8xf32>, tensor<8x24xf32>) -> tensor<4x24xf32>
  return %l : tensor<4x24xf32>
}
