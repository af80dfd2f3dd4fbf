// Flat storage of integers is cut in pieces like any other, and what the last piece has beyond the end is masked by an integer.
// RUN: tessera-opt %s --tessera-partition | FileCheck %s

// CHECK-LABEL: func.func @flat
// CHECK: %[[L:.*]] = nn.read @labels : tensor<5xi64>
// CHECK-NEXT: %[[M:.*]] = dist.mask_padding %[[L]] over <"d"=2> shape [1, 5, 1] size 9 value -100 : i64 : tensor<5xi64>
// CHECK-NEXT: nn.count_valid %[[M]]
dist.mesh @mesh = <["d"=2]>
nn.variable @labels : tensor<3x3xi64, #dist.layout<[[3], [3]], flat = ["d"=2]>> {role = "buffer"}
func.func @flat() -> tensor<f32, #dist.layout<[], partial = ["d"=2]>> {
  %l = nn.read @labels : tensor<3x3xi64, #dist.layout<[[3], [3]], flat = ["d"=2]>>
  %c = nn.count_valid %l : (tensor<3x3xi64, #dist.layout<[[3], [3]], flat = ["d"=2]>>) -> tensor<f32, #dist.layout<[], partial = ["d"=2]>>
  return %c : tensor<f32, #dist.layout<[], partial = ["d"=2]>>
}
