// Chunks: forward operators are cut by cost, gradients follow, a table that both stages use has a gradient and an update on each.
// RUN: tessera-opt %s --tessera-differentiate="optimizer=sgd" --tessera-assign="pp=2 pp-schedule=gpipe microbatches=2" | FileCheck %s
// RUN: tessera-opt %s --tessera-differentiate="optimizer=sgd" --tessera-assign="pp=2 microbatches=2" --tessera-propagate --tessera-verify-layouts --tessera-partition --canonicalize --cse 2>&1 | FileCheck %s --check-prefix=STAGES --implicit-check-not=warning:
// RUN: not tessera-opt %s --tessera-assign="pp=8" 2>&1 | FileCheck %s --check-prefix=DEEP

// DEEP: the model has 4 layers (products and lookups with a parameter), fewer than the 8 stages of the pipeline; use at most 4 stages

// CHECK: dist.pipeline = #dist.pipeline<"pipe", "gpipe", [0, 1]>
// CHECK: dist.mesh @mesh = <["pipe"=2]>
// CHECK-LABEL: func.func @infer
// CHECK: nn.gather {{.*}}dist.chunk = 0 : i64, dist.work = #dist<work forward>
// CHECK: nn.contract {{.*}}dist.chunk = 1 : i64, dist.work = #dist<work forward>
// CHECK-LABEL: func.func @train
// What depends on no parameter has no place.
// CHECK: nn.count_valid
// CHECK-NOT: dist.chunk
// CHECK: nn.reciprocal
// CHECK-DAG: nn.acc {{.*}}dist.chunk = 0 : i64, dist.work = #dist<work weight>, nn.cotangent_of = @table
// CHECK-DAG: nn.acc {{.*}}dist.chunk = 1 : i64, dist.work = #dist<work weight>, nn.cotangent_of = @table
// CHECK-DAG: nn.acc {{.*}}dist.chunk = 0 : i64, dist.work = #dist<work update>, nn.cotangent_of = @table
// CHECK-DAG: nn.acc {{.*}}dist.chunk = 1 : i64, dist.work = #dist<work update>, nn.cotangent_of = @table
// CHECK-DAG: nn.assign @table, {{.*}}dist.chunk = 0 : i64, dist.work = #dist<work update>
// CHECK-DAG: nn.assign @table, {{.*}}dist.chunk = 1 : i64, dist.work = #dist<work update>
// CHECK-DAG: nn.acc {{.*}}dist.over_stages

// The residual crosses once each way, the table's sums once each way.
// STAGES-LABEL: func.func @train_stage0
// STAGES-SAME: dist.program = "train", dist.stage = 0
// STAGES-COUNT-2: dist.send
// STAGES-NOT: dist.send
// STAGES-LABEL: func.func @train_stage1
// STAGES: dist.recv from 0
// STAGES: dist.accumulate
// STAGES: dist.collective all_reduce {{.*}} over <"pipe"=2>
nn.variable @table : tensor<16x8xf32> {role = "parameter", trained = true}
nn.variable @w1 : tensor<8x8xf32> {role = "parameter", trained = true}
nn.variable @w2 : tensor<8x8xf32> {role = "parameter", trained = true}
func.func @infer(%ids: tensor<4x4xi64> {nn.name = "input_ids", nn.kind = #nn<kind data>}) -> (tensor<4x4x16xf32> {nn.name = "logits"}) {
  %t = nn.read @table : tensor<16x8xf32>
  %w1 = nn.read @w1 : tensor<8x8xf32>
  %w2 = nn.read @w2 : tensor<8x8xf32>
  %x = nn.gather %t, %ids : (tensor<16x8xf32>, tensor<4x4xi64>) -> tensor<4x4x8xf32>
  %a = nn.contract %x, %w1 {lhs_letters = "bsh", rhs_letters = "ho", out_letters = "bso"} : (tensor<4x4x8xf32>, tensor<8x8xf32>) -> tensor<4x4x8xf32>
  %y = nn.add %x, %a : (tensor<4x4x8xf32>, tensor<4x4x8xf32>) -> tensor<4x4x8xf32>
  %b = nn.contract %y, %w2 {lhs_letters = "bsh", rhs_letters = "ho", out_letters = "bso"} : (tensor<4x4x8xf32>, tensor<8x8xf32>) -> tensor<4x4x8xf32>
  %z = nn.add %y, %b : (tensor<4x4x8xf32>, tensor<4x4x8xf32>) -> tensor<4x4x8xf32>
  %l = nn.contract %z, %t {lhs_letters = "bsh", rhs_letters = "Vh", out_letters = "bsV"} : (tensor<4x4x8xf32>, tensor<16x8xf32>) -> tensor<4x4x16xf32>
  return %l : tensor<4x4x16xf32>
}
