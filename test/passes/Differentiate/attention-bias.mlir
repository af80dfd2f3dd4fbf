// What the gradient of a bias compares with the scores' sums knows its factors behind the reshape too: it is split as the forward operator is,
// over microbatches as well.
// RUN: tessera-opt %s --tessera-differentiate="loss=mse:y optimizer=sgd" | FileCheck %s
// RUN: tessera-opt %s --tessera-differentiate="loss=mse:y optimizer=sgd" --tessera-assign="dp=2 microbatches=2" --tessera-propagate --tessera-partition | FileCheck %s --check-prefix=LOCAL
// CHECK: nn.compare {{.*}}nn.grad_of = #nn.grad_of<"attention_0", [0, 2, -1, 1, -1]>
// LOCAL: nn.compare {{.*}} tensor<1x4x1x8x1xi1>
nn.variable @w : tensor<16x16xf32> {role = "parameter", trained = true}
nn.variable @bias : tensor<1x4x1x8x8xf32> {role = "parameter", trained = true}
func.func @infer(%x: tensor<4x8x4x16xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<4x8x4x1x16xf32> {nn.name = "y"}) {
  %w = nn.read @w : tensor<16x16xf32>
  %bias = nn.read @bias : tensor<1x4x1x8x8xf32>
  %k = nn.contract %x, %w {lhs_letters = "bsmi", out_letters = "bsmo", rhs_letters = "io"} : (tensor<4x8x4x16xf32>, tensor<16x16xf32>) -> tensor<4x8x4x16xf32>
  %q = nn.reshape %k : (tensor<4x8x4x16xf32>) -> tensor<4x8x4x1x16xf32>
  %o, %lse = nn.attention %q, %k, %x, %bias {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>, scale = 0.25 : f64} : (tensor<4x8x4x1x16xf32>, tensor<4x8x4x16xf32>, tensor<4x8x4x16xf32>, tensor<1x4x1x8x8xf32>) -> (tensor<4x8x4x1x16xf32>, tensor<4x8x4x1xf32>)
  return %o : tensor<4x8x4x1x16xf32>
}
