// What plans and options say of memory stands on the module.
// RUN: split-file %s %t
// RUN: tessera-opt %t/model.mlir --tessera-assign="plan=%t/plan.toml host-memory=1024" | FileCheck %s
// RUN: tessera-opt %t/model.mlir --tessera-assign="device-memory=4096 offload=none" | FileCheck %s --check-prefix=OPTIONS
// RUN: not tessera-opt %t/model.mlir --tessera-assign="plan=%t/plan.toml offload=everything" 2>&1 | FileCheck %s --check-prefix=WORD

// CHECK: #[[FIRST:.*]] = loc("{{.*}}plan.toml":6:1)
// CHECK: #[[SECOND:.*]] = loc("{{.*}}plan.toml":13:1)
// CHECK: #[[THIRD:.*]] = loc("{{.*}}plan.toml":17:1)
// CHECK: module attributes {dist.device_memory = 2097152 : i64, dist.host_memory = 1024 : i64
// CHECK-SAME: dist.offload = ["optimizer", "activations"]
// CHECK-SAME: dist.place = [{at = #[[FIRST]], match = ["*.mlp.*", "w"], moves = [array<i64: 0, -1, -1, 4>], program = "train", tier = #dist.tier<host>, what = "parameter"},
// CHECK-SAME: {at = #[[SECOND]], match = ["x"], recompute},
// CHECK-SAME: {at = #[[THIRD]], match = ["*"], tier = #dist.tier<device>}]

// OPTIONS: dist.device_memory = 4096 : i64
// OPTIONS-SAME: dist.offload = []
// OPTIONS-NOT: dist.place

// WORD: error: --offload=everything: expected none, auto, or a list of optimizer, parameters, activations

//--- plan.toml
[memory]
device = "2MiB"
offload = ["optimizer", "activations"]

# A list of globs, and exactly when they leave.
[[place]]
match = ["*.mlp.*", "w"]
what = "parameter"
program = "train"
tier = "host"
moves = [[0, -1, -1, 4]]

[[place]]
match = "x"
recompute = true

[[place]]
match = "*"
tier = "device"

//--- model.mlir
nn.variable @w : tensor<8x4xf32> {role = "parameter"}
func.func @infer(%x: tensor<12x8xf32> {nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<12x4xf32> {nn.name = "y"}) attributes {nn.role = #nn<role infer>} {
  %w = nn.read @w : tensor<8x4xf32>
  %y = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<12x8xf32>, tensor<8x4xf32>) -> tensor<12x4xf32>
  return %y : tensor<12x4xf32>
}
