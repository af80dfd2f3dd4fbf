// RUN: tessera-opt %s --tessera-partition | FileCheck %s

// Of [2, 2] the minor atom is stored as 3, because heads are split by three somewhere: position 2 of the dimension, (1, 0), is position 3 of
// what the rank holds. The operator takes the dimension whole and looks for padding at its end only.
dist.mesh @mesh = <["t"=3]>

// CHECK-LABEL: func.func @padding_inside
// CHECK: %[[A:.*]] = nn.reshape %arg0 : (tensor<6xf32>) -> tensor<2x3xf32>
// CHECK: %[[B:.*]] = nn.slice %[[A]] {{.*}} (tensor<2x3xf32>) -> tensor<2x2xf32>
// CHECK: %[[C:.*]] = nn.reshape %[[B]] : (tensor<2x2xf32>) -> tensor<4xf32>
// CHECK: %[[D:.*]] = nn.pad %[[C]] {{.*}} (tensor<4xf32>) -> tensor<6xf32>
// CHECK: %[[E:.*]] = nn.slice %[[D]] {{.*}} (tensor<6xf32>) -> tensor<4xf32>
// CHECK: nn.slice %[[E]] {{.*}}starts = array<i64: 2>{{.*}} (tensor<4xf32>) -> tensor<1xf32>
func.func @padding_inside(%x: tensor<4xf32, #dist.layout<[[2, 2 pad 3]]>>) -> tensor<1xf32, #dist.layout<[[]]>> {
  %y = nn.slice %x {starts = array<i64: 2>, sizes = array<i64: 1>, steps = array<i64: 1>} : (tensor<4xf32, #dist.layout<[[2, 2 pad 3]]>>) -> tensor<1xf32, #dist.layout<[[]]>>
  return %y : tensor<1xf32, #dist.layout<[[]]>>
}

// Backward the same way round: padding goes inside again.
// CHECK-LABEL: func.func @cotangent
// CHECK: %[[P:.*]] = nn.pad %arg0 {{.*}} (tensor<1xf32>) -> tensor<4xf32>
// CHECK: nn.reshape {{.*}} (tensor<4xf32>) -> tensor<2x2xf32>
// CHECK: nn.pad {{.*}} (tensor<2x2xf32>) -> tensor<2x3xf32>
// CHECK: nn.reshape {{.*}} (tensor<2x3xf32>) -> tensor<6xf32>
func.func @cotangent(%x: tensor<1xf32, #dist.layout<[[]]>>) -> tensor<4xf32, #dist.layout<[[2, 2 pad 3]]>> {
  %y = nn.pad %x {low = array<i64: 2>, high = array<i64: 1>, interior = array<i64: 0>} : (tensor<1xf32, #dist.layout<[[]]>>) -> tensor<4xf32, #dist.layout<[[2, 2 pad 3]]>>
  return %y : tensor<4xf32, #dist.layout<[[2, 2 pad 3]]>>
}
