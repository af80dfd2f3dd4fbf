// The numbers of ranks that may share the batch: each gets the microbatches that are left to it, and what cannot be shared is refused.
// RUN: split-file %s %t
// RUN: tessera-opt %t/model.mlir --tessera-assign="dp=4 sizes=1,2,4 size=2" | FileCheck %s
// CHECK: module attributes {dist.elastic = #dist.elastic<"data", [1, 2, 4], 4>, dist.micro = 2 : i64}
// CHECK: dist.mesh @mesh = <["data"=2]>
// RUN: tessera-opt %t/model.mlir --tessera-assign="dp=4 sizes=1,2,4" | FileCheck %s --check-prefix=ALL
// ALL: dist.micro = 1
// ALL: dist.mesh @mesh = <["data"=4]>
// RUN: tessera-opt %t/model.mlir --tessera-assign="plan=%t/plan.toml" | FileCheck %s --check-prefix=PLAN
// PLAN: dist.elastic = #dist.elastic<"data", [2, 4], 8>, dist.micro = 4
// RUN: tessera plan %S/../../models/mlp.onnx --train sgd --dp 4 --sizes 1,2,4 | FileCheck %s --check-prefix=PRINTED
// PRINTED: [elastic]
// PRINTED-NEXT: axis = "data"
// PRINTED-NEXT: sizes = [1, 2, 4]
// PRINTED-NEXT: shards = 4
// PRINTED-NOT: on_resize
// RUN: tessera-opt %t/model.mlir --tessera-assign="dp=4 sizes=1,2,4 on-resize=scale size=2" | FileCheck %s --check-prefix=SCALE
// RUN: tessera-opt %t/model.mlir --tessera-assign="dp=4 sizes=1,2,4 on-resize=scale size=2" | tessera-opt | FileCheck %s --check-prefix=SCALE
// RUN: tessera-opt %t/model.mlir --tessera-assign="plan=%t/scale.toml" | FileCheck %s --check-prefix=SCALE
// SCALE: module attributes {dist.elastic = #dist.elastic<"data", [1, 2, 4], 4, scales = true>, dist.micro = 2 : i64}
// RUN: tessera plan %S/../../models/mlp.onnx --train sgd --dp 4 --sizes 1,2,4 --on-resize scale | FileCheck %s --check-prefix=SCALES
// SCALES: shards = 4
// SCALES-NEXT: on_resize = "scale"

// RUN: not tessera-opt %t/model.mlir --tessera-assign="dp=2 sizes=2,1" 2>&1 | FileCheck %s --check-prefix=TEXT
// TEXT: error: --sizes=2,1: expected numbers of ranks in ascending order, such as 1,2,4
// RUN: not tessera compile %S/../../models/mlp.onnx --dp 2 --sizes 1,x -o %t/p 2>&1 | FileCheck %s --check-prefix=OPTION
// OPTION: error: --sizes=1,x: expected numbers of ranks in ascending order, such as 1,2,4
// RUN: not tessera-opt %t/model.mlir --tessera-assign="dp=2 on-resize=scale" 2>&1 | FileCheck %s --check-prefix=ALONE
// ALONE: error: --on-resize=scale is of a batch that several numbers of ranks may share; give --sizes, too
// RUN: not tessera-opt %t/model.mlir --tessera-assign="dp=2 sizes=1,2 on-resize=grow" 2>&1 | FileCheck %s --check-prefix=RULE
// RULE: error: --on-resize=grow: expected keep or scale
// RUN: not tessera compile %S/../../models/mlp.onnx --dp 2 --sizes 1,2 --on-resize grow -o %t/p 2>&1 | FileCheck %s --check-prefix=RULE
// RUN: not tessera-opt %t/model.mlir --tessera-assign="sizes=1,2" 2>&1 | FileCheck %s --check-prefix=AXIS
// AXIS: error: the batch is to be shared by other numbers of ranks along axis "data", which the mesh lacks; --dp N adds it
// RUN: not tessera-opt %t/model.mlir --tessera-assign="dp=3 sizes=2,3" 2>&1 | FileCheck %s --check-prefix=CHAIN
// CHAIN: error: the batch cannot be shared over "data": sizes must divide one another, or sums would have other bits on each; 2 does not divide 3
// RUN: not tessera-opt %t/model.mlir --tessera-assign="dp=3 sizes=1,2,4" 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: the batch cannot be shared over "data": 3 is none of the sizes
// RUN: not tessera-opt %t/model.mlir --tessera-assign="dp=5 sizes=1,5" 2>&1 | FileCheck %s --check-prefix=BATCH
// BATCH: error: input "x" has a batch of 8, which 5 shards do not divide; 5 and 10 would be
// RUN: not tessera-opt %t/model.mlir --tessera-assign="plan=%t/wrong.toml" 2>&1 | FileCheck %s --check-prefix=WRONG
// WRONG: wrong.toml:4:1: [elastic] needs "sizes", such as [1, 2, 4]
// WRONG: wrong.toml:5:10: "shards" is 0; it is at least 1
// WRONG: wrong.toml:6:13: "on_resize" is "grow"; keep or scale is expected
// RUN: not tessera-opt %t/model.mlir --tessera-assign="plan=%t/shards.toml" 2>&1 | FileCheck %s --check-prefix=SHARDS
// SHARDS: shards.toml:4:1: error: the batch cannot be shared over "data": 6 shards of the batch are not divided by size 4
// RUN: not tessera-opt %t/attribute.mlir 2>&1 | FileCheck %s --check-prefix=ATTRIBUTE
// ATTRIBUTE: error: a batch of 4 shards cannot be shared by [2, 1]: sizes must ascend, from 1 to
//--- plan.toml
[mesh]
data = 2

[elastic]
sizes = [2, 4]
shards = 8

[[input]]
match = "*"
dim = 0
axes = ["data"]
//--- scale.toml
[mesh]
data = 2

[elastic]
sizes = [1, 2, 4]
on_resize = "scale"
shards = 4

[[input]]
match = "*"
dim = 0
axes = ["data"]
//--- wrong.toml
[mesh]
data = 2

[elastic]
shards = 0
on_resize = "grow"
//--- shards.toml
[mesh]
data = 2

[elastic]
sizes = [2, 4]
shards = 6
//--- attribute.mlir
module attributes {dist.elastic = #dist.elastic<"data", [2, 1], 4>} {}
//--- model.mlir
nn.variable @w : tensor<8x4xf32> {role = "parameter", trained = true}
func.func @train(%x: tensor<8x8xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<8x4xf32> {nn.name = "y"}) attributes {nn.role = #nn<role train>} {
  %w = nn.read @w : tensor<8x4xf32>
  %y = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}
