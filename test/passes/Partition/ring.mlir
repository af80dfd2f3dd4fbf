// Attention whose keys and values go round: three hops of each forward over four ranks, backward as many and four of their cotangents. Nothing is gathered.
// Blocks are in zig-zag order, which the attention knows.
// RUN: tessera-opt %s --tessera-differentiate="loss=mse:y optimizer=sgd" --tessera-assign="sp=4" --tessera-propagate --tessera-verify-layouts --tessera-partition | FileCheck %s
// What passed forward is not kept for the backward.
// RUN: tessera-opt %s --tessera-differentiate="loss=mse:y optimizer=sgd" --tessera-assign="sp=4" --tessera-propagate --tessera-partition --canonicalize --cse | FileCheck %s
// RUN: tessera-opt %s --tessera-differentiate="loss=mse:y optimizer=sgd" --tessera-assign="sp=4" --tessera-propagate --tessera-partition | FileCheck %s --check-prefix=ZIGZAG
// RUN: tessera-opt %s --tessera-differentiate="loss=mse:y optimizer=sgd" --tessera-assign="sp=4 sp-mode=rsa" --tessera-propagate --tessera-verify-layouts --tessera-partition | FileCheck %s --check-prefix=RSA
// RUN: tessera-opt %s --tessera-differentiate="loss=mse:y optimizer=sgd" --tessera-assign="sp=2 sp-mode=ulysses" --tessera-propagate --tessera-verify-layouts --tessera-partition | FileCheck %s --check-prefix=ULYSSES

// ZIGZAG-LABEL: func.func @infer
// ZIGZAG-COUNT-4: nn.attention {{.*}}zigzag = 4 : i64} : (tensor<2x4x2x1x4xf32>, tensor<2x4x2x4xf32>
// ZIGZAG-NOT: nn.attention
// ZIGZAG: return

// CHECK-LABEL: func.func @infer
// CHECK-COUNT-6: permute {{.*}} over <"seq"=4> shape [2, 4, 2, 4] shift -1
// CHECK-NOT: permute
// CHECK: return
// CHECK-LABEL: func.func @train
// CHECK-NOT: all_gather
// CHECK-COUNT-20: permute
// CHECK-NOT: permute
// CHECK: return

// Blocks of keys and values go round; those of their cotangents make one hop less than in a ring, and the last sum is at home.
// RSA-LABEL: func.func @infer
// RSA-COUNT-6: permute {{.*}} over <"seq"=4> shape [2, 4, 2, 4] shift -1
// RSA-NOT: permute
// RSA: return
// RSA-LABEL: func.func @train
// RSA-NOT: all_gather
// RSA-COUNT-18: permute
// RSA-NOT: permute
// RSA: return

// ULYSSES-LABEL: func.func @infer
// ULYSSES-COUNT-4: all_to_all
// ULYSSES-NOT: all_to_all
// ULYSSES-LABEL: func.func @train
// ULYSSES-COUNT-8: all_to_all
// ULYSSES-NOT: all_to_all
nn.variable @k : tensor<2x16x2x4xf32> {role = "parameter", trained = true}
nn.variable @v : tensor<2x16x2x4xf32> {role = "parameter", trained = true}
nn.variable @q : tensor<2x16x2x1x4xf32> {role = "parameter", trained = true}
func.func @infer(%x: tensor<2x16x2x1x4xf32> {nn.name = "x", nn.kind = #nn<kind data>}, %z: tensor<2x16x2x4xf32> {nn.name = "z", nn.kind = #nn<kind data>})
    -> (tensor<2x16x2x1x4xf32> {nn.name = "y"}) {
  %pq = nn.read @q : tensor<2x16x2x1x4xf32>
  %pk = nn.read @k : tensor<2x16x2x4xf32>
  %pv = nn.read @v : tensor<2x16x2x4xf32>
  %q = nn.add %x, %pq : (tensor<2x16x2x1x4xf32>, tensor<2x16x2x1x4xf32>) -> tensor<2x16x2x1x4xf32>
  %k = nn.add %z, %pk : (tensor<2x16x2x4xf32>, tensor<2x16x2x4xf32>) -> tensor<2x16x2x4xf32>
  %v = nn.add %z, %pv : (tensor<2x16x2x4xf32>, tensor<2x16x2x4xf32>) -> tensor<2x16x2x4xf32>
  %o, %lse = nn.attention %q, %k, %v {causal = true, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.5 : f64} : (tensor<2x16x2x1x4xf32>, tensor<2x16x2x4xf32>, tensor<2x16x2x4xf32>) -> (tensor<2x16x2x1x4xf32>, tensor<2x16x2x1xf32>) loc("attention")
  return %o : tensor<2x16x2x1x4xf32>
}
