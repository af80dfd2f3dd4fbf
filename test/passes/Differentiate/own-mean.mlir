// A loss of the model's own that is the mean cross entropy of labels is summed over microbatches: labels are counted before them.
// RUN: tessera-opt %s --tessera-differentiate="loss=mean" | FileCheck %s
// RUN: tessera-opt %s --tessera-differentiate="loss=other" | FileCheck %s --check-prefix=OTHER

nn.variable @w : tensor<3x4xf32> {role = "parameter", trained = true}
// CHECK-LABEL: func.func @train
// CHECK: %[[SHIFTED:.*]] = nn.slice {{.*}}nn.prologue
// CHECK: %[[COUNT:.*]] = nn.count_valid %[[SHIFTED]] {{.*}}nn.prologue
// CHECK: %[[SEED:.*]] = nn.reciprocal %[[COUNT]] {{.*}}nn.prologue
// CHECK: nn.mul %{{.*}}, %[[SEED]]
// What is multiplied with the mean is not known to be one.
// OTHER-LABEL: func.func @train
// OTHER-NOT: nn.prologue
func.func @infer(%x: tensor<2x5x3xf32> {nn.name = "x", nn.kind = #nn<kind data>}, %labels: tensor<2x6xi64> {nn.name = "labels", nn.kind = #nn<kind data>}) -> (tensor<f32> {nn.name = "mean"}, tensor<f32> {nn.name = "other"}) {
  %w = nn.read @w : tensor<3x4xf32>
  %y = nn.contract %x, %w {lhs_letters = "bsi", rhs_letters = "io", out_letters = "bso"} : (tensor<2x5x3xf32>, tensor<3x4xf32>) -> tensor<2x5x4xf32>
  %next = nn.slice %labels {starts = array<i64: 0, 1>, sizes = array<i64: 2, 5>, steps = array<i64: 1, 1>} : (tensor<2x6xi64>) -> tensor<2x5xi64>
  %sum, %lse = nn.cross_entropy %y, %next : (tensor<2x5x4xf32>, tensor<2x5xi64>) -> (tensor<f32>, tensor<2x5xf32>)
  %count = nn.count_valid %next : (tensor<2x5xi64>) -> tensor<f32>
  %mean = nn.div %sum, %count : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %other = nn.mul %mean, %mean : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %mean, %other : tensor<f32>, tensor<f32>
}
