// RUN: tessera-opt %s --tessera-partition | FileCheck %s

// A rank's kernel is told the logical positions along dimensions that it holds otherwise than whole and in order, and the whole shape.
dist.mesh @mesh = <["a"=2]>

// CHECK-LABEL: func.func @whole
// CHECK: %[[ID:.*]] = arith.constant 7 : i64
// CHECK: nn.dropout %arg0, %arg1, %[[ID]] {dims = array<i64>, global = array<i64: 4, 6>, id = 0 : i64, ratio = 5.000000e-01 : f64}
func.func @whole(%x: tensor<4x6xf32, #dist.layout<[[4], [6]]>>, %key: tensor<i64, #dist.layout<[]>>) -> tensor<4x6xf32, #dist.layout<[[4], [6]]>> {
  %y = nn.dropout %x, %key {ratio = 0.5, id = 7 : i64} : (tensor<4x6xf32, #dist.layout<[[4], [6]]>>, tensor<i64, #dist.layout<[]>>) -> tensor<4x6xf32, #dist.layout<[[4], [6]]>>
  return %y : tensor<4x6xf32, #dist.layout<[[4], [6]]>>
}

// CHECK-LABEL: func.func @columns
// CHECK: %[[AT:.*]] = dist.logical_index over <"a"=2> size 5 padded 6 : tensor<3xi64>
// CHECK: nn.dropout %arg0, %arg1, %{{.*}}, %[[AT]] {dims = array<i64: 1>, global = array<i64: 4, 5>, {{.*}} : (tensor<4x3xf32>, tensor<i64>, i64, tensor<3xi64>) -> tensor<4x3xf32>
func.func @columns(%x: tensor<4x5xf32, #dist.layout<[[4], [5 pad 6 : "a"=2]]>>, %key: tensor<i64, #dist.layout<[]>>) -> tensor<4x5xf32, #dist.layout<[[4], [5 pad 6 : "a"=2]]>> {
  %y = nn.dropout %x, %key {ratio = 0.5, id = 7 : i64} : (tensor<4x5xf32, #dist.layout<[[4], [5 pad 6 : "a"=2]]>>, tensor<i64, #dist.layout<[]>>) -> tensor<4x5xf32, #dist.layout<[[4], [5 pad 6 : "a"=2]]>>
  return %y : tensor<4x5xf32, #dist.layout<[[4], [5 pad 6 : "a"=2]]>>
}

// Padding inside: position 2 is held as number 3.
// CHECK-LABEL: func.func @inside
// CHECK: dist.logical_index over <> size 2 padded 3
// CHECK: nn.dropout %arg0, %arg1, %{{.*}}, %{{.*}} {dims = array<i64: 0>, global = array<i64: 4>
func.func @inside(%x: tensor<4xf32, #dist.layout<[[2, 2 pad 3]]>>, %key: tensor<i64, #dist.layout<[]>>) -> tensor<4xf32, #dist.layout<[[2, 2 pad 3]]>> {
  %y = nn.dropout %x, %key {ratio = 0.5, id = 7 : i64} : (tensor<4xf32, #dist.layout<[[2, 2 pad 3]]>>, tensor<i64, #dist.layout<[]>>) -> tensor<4xf32, #dist.layout<[[2, 2 pad 3]]>>
  return %y : tensor<4xf32, #dist.layout<[[2, 2 pad 3]]>>
}
