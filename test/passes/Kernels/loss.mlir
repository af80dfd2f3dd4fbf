// What a loss sums over classes are plain sums, which the lanes of a GPU's warp can share.
// RUN: tessera-opt %s --tessera-form-kernels --tessera-lower-kernels | FileCheck %s

// CHECK: ^bb0(%[[X:[a-z0-9_]+]]: f32, %[[LABEL:[a-z0-9_]+]]: i64, %[[MAX:[a-z0-9_]+]]: f32, %[[SUM:[a-z0-9_]+]]: f32, %[[PICKED:[a-z0-9_]+]]: f32):
// CHECK: %[[D:.*]] = arith.subf %[[X]], %[[MAX]]
// CHECK: %[[HERE:.*]] = arith.select %{{.*}}, %[[D]], %{{.*}} : f32
// CHECK: arith.addf %[[PICKED]], %[[HERE]]
func.func @loss(%l: tensor<4x23xbf16>, %labels: tensor<4xi64>) -> tensor<f32> {
  %loss, %lse = nn.cross_entropy %l, %labels : (tensor<4x23xbf16>, tensor<4xi64>) -> (tensor<f32>, tensor<4xf32>)
  return %loss : tensor<f32>
}
