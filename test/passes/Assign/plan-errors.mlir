// What means nothing in a plan file is an error with its line and column and the nearest name.
// RUN: split-file %s %t
// RUN: not tessera-opt %t/model.mlir --tessera-assign="plan=%t/keys.toml" 2>&1 | FileCheck %s --check-prefix=KEYS
// RUN: not tessera-opt %t/model.mlir --tessera-assign="plan=%t/axes.toml" 2>&1 | FileCheck %s --check-prefix=AXES
// RUN: not tessera-opt %t/model.mlir --tessera-assign="plan=%t/axis.toml dp=2" 2>&1 | FileCheck %s --check-prefix=AXIS
// RUN: not tessera-opt %t/model.mlir --tessera-assign="plan=%t/planner.toml" 2>&1 | FileCheck %s --check-prefix=PLANNER
// RUN: not tessera-opt %t/model.mlir --tessera-assign="plan=%t/sizes.toml" 2>&1 | FileCheck %s --check-prefix=SIZES
// RUN: not tessera-opt %t/model.mlir --tessera-assign="plan=%t/zero.toml" 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not tessera-opt %t/model.mlir --tessera-assign="plan=%t/precision.toml" 2>&1 | FileCheck %s --check-prefix=PRECISION
// RUN: not tessera-opt %t/model.mlir --tessera-assign="zero=1" 2>&1 | FileCheck %s --check-prefix=NODATA
// RUN: not tessera-opt %t/model.mlir --tessera-assign="plan=%t/syntax.toml" 2>&1 | FileCheck %s --check-prefix=SYNTAX
// RUN: not tessera-opt %t/model.mlir --tessera-assign="plan=%t/glob.toml" 2>&1 | FileCheck %s --check-prefix=GLOB
// RUN: not tessera-opt %t/model.mlir --tessera-assign="plan=%t/applies.toml" 2>&1 | FileCheck %s --check-prefix=APPLIES
// RUN: not tessera-opt %t/model.mlir --tessera-assign="plan=%t/dim.toml" 2>&1 | FileCheck %s --check-prefix=DIM
// RUN: not tessera-opt %t/model.mlir --tessera-assign="plan=%t/twice.toml" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not tessera-opt %t/model.mlir --tessera-assign="plan=%t/parameter.toml" 2>&1 | FileCheck %s --check-prefix=PARAMETER
// RUN: not tessera-opt %t/model.mlir --tessera-assign="plan=%t/ranks.toml" 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not tessera-opt %t/model.mlir --tessera-assign="plan=%t/missing.toml" 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not tessera-opt %t/model.mlir --tessera-assign="plan=%t/good.toml dp=3" 2>&1 | FileCheck %s --check-prefix=TWOSIZES
// RUN: not tessera-opt %t/model.mlir --tessera-assign="tp=2" 2>&1 | FileCheck %s --check-prefix=NOPAIR
// RUN: not tessera-opt %t/model.mlir --tessera-assign="ep=2" 2>&1 | FileCheck %s --check-prefix=NOEXPERTS
// NOEXPERTS: --ep: the model has no mixture of experts, no product whose weight has a dimension of experts; --dp splits its batch and --tp its products
// RUN: not tessera-opt %t/ambiguous.mlir --tessera-assign="dp=2" 2>&1 | FileCheck %s --check-prefix=AMBIGUOUS

// Every problem of the file is reported, not only the first.
// KEYS: keys.toml:1:1: unknown key "opp" in the plan; the nearest is "op"
// KEYS: keys.toml:7:1: unknown key "dims" in {{\[\[}}input]]; the nearest is "dim"
// KEYS: keys.toml:12:11: there is no pattern "colum"; the nearest is "column"
// KEYS: keys.toml:15:1: "pattern" is missing
// KEYS: keys.toml:20:1: unknown key "stage" in [pipeline]; the nearest is "stages"
//--- keys.toml
opp = 1
[mesh]
data = 2

[[input]]
match = "x"
dims = 0
axes = ["data"]

[[op]]
match = "w"
pattern = "colum"
axes = ["data"]

[[op]]
match = "w"
axes = ["data"]

[pipeline]
stage = 2

# AXES: axes.toml:11:{{[0-9]+}}: axis "data" is listed twice
# AXES: axes.toml:13:1: "axes" is missing
# AXES: axes.toml:7:{{[0-9]+}}: pattern "column" takes 1 axis names and was given 2
# AXES: axes.toml:18:{{[0-9]+}}: axis "data" splits two dimensions of one value
//--- axes.toml
[mesh]
data = 2
tensor = 2
[[op]]
match = "w"
pattern = "column"
axes = ["data", "tensor"]

[[input]]
match = "x"
axes = ["data", "data"]

[[input]]
match = "x"

[[value]]
match = "x"
split = { 0 = ["data"], 1 = ["data"] }

# SIZES: sizes.toml:2:8: mesh axis "data" has size 0; sizes are at least 1
# SIZES: sizes.toml:3:10: the size of a mesh axis must be an integer
# SIZES: sizes.toml:4:9: "micro" names microbatches and cannot be a mesh axis
# SIZES: sizes.toml:6:16: "microbatches" is 0; it is at least 1
//--- sizes.toml
[mesh]
data = 0
tensor = "2"
micro = 2
[pipeline]
microbatches = 0

# ZERO: zero.toml:6:1: unknown key "stages" in [zero]; the nearest is "stage"
# ZERO: zero.toml:4:9: "stage" is 4; it is 0 (off), 1 (optimizer state), 2 (gradients too) or 3 (parameters too)
# NODATA: error: --zero=1 stores training state in pieces over the axis "data", which the mesh does not have; add --dp N, or [zero] with other axes to the plan
//--- zero.toml
[mesh]
data = 2
[zero]
stage = 4
axes = ["data"]
stages = 3

# The recipe's axes are known once the file has been read.
# AXIS: axis.toml:4:9: error: the mesh has no axis "dta"; the nearest is "data"
# AXIS: axis.toml:8:9: error: the mesh has no axis "tensor"; the nearest is "data"
# AXIS: axis.toml:10:8: error: the mesh has no axis "pipe"; the nearest is "data"
//--- axis.toml
[[input]]
match = "x"
dim = 0
axes = ["dta"]

[zero]
stage = 1
axes = ["tensor"]
[pipeline]
axis = "pipe"

# PLANNER: planner.toml:2:1: unknown key "recipes" in [planner]; the nearest is "recipe"
# PLANNER: planner.toml:1:1: "recipe" is missing
# PLANNER: planner.toml:3:16: "alternatives" must be a list of texts
# PLANNER: planner.toml:4:11: "entries" must be a list of texts
//--- planner.toml
[planner]
recipes = "--dp 2"
alternatives = [1]
entries = "all"

# PRECISION: precision.toml:3:1: unknown key "master" in [precision]; the nearest is "compute"
# PRECISION: precision.toml:2:11: "compute" is "fp16"; it is "f32", "bf16" or "f16"
//--- precision.toml
[precision]
compute = "fp16"
master = "f32"

# SYNTAX: syntax.toml:2:{{[0-9]+}}: {{.+}}
//--- syntax.toml
[mesh]
data =

# GLOB: glob.toml:3:1: error: no operator, module or parameter is named "h.*.mlp"
//--- glob.toml
[mesh]
data = 2
[[op]]
match = "h.*.mlp"
pattern = "column"
axes = ["data"]

# APPLIES: applies.toml:3:1: error: "w": 'heads' splits the heads of an attention, and this operator is none
//--- applies.toml
[mesh]
data = 2
[[op]]
match = "w"
pattern = "heads"
axes = ["data"]

# DIM: dim.toml:3:1: error: input "x" has 2 dimensions and no dimension 2
//--- dim.toml
[mesh]
data = 2
[[input]]
match = "*"
dim = 2
axes = ["data"]

# TWICE: twice.toml:7:1: error: axis "data" splits dimension 0 of input "x" already; an axis splits one dimension, so give dimension 1 another
//--- twice.toml
[mesh]
data = 2
[[input]]
match = "*"
dim = 0
axes = ["data"]
[[input]]
match = "*"
dim = 1
axes = ["data"]

# PARAMETER: parameter.toml:3:1: error: "w" is a parameter, and {{\[\[}}value]] lays down what nodes compute; {{.*}} by an {{\[\[}}op]] with match = "w"
//--- parameter.toml
[mesh]
data = 2
[[value]]
match = "w"
split = { 0 = ["data"] }

# RANKS: ranks.toml:1:1: [mesh]: the mesh has more than 65536 ranks, the most that programs are made for
//--- ranks.toml
[mesh]
data = 65537

# MISSING: error: {{.*}}missing.toml:{{.*}}could not be opened
//--- good.toml
[mesh]
data = 2

# TWOSIZES: error: mesh axis "data" has one size in the plan and size 3 by option
# NOPAIR: error: --tp: the model has no pair of products to split as column and row, and no vocabulary
# AMBIGUOUS: error: --dp: it is not clear which inputs share the batch dimension; say so with {{\[\[}}input]] entries of a plan
//--- model.mlir
nn.variable @w : tensor<8x16xf32> {role = "parameter", trained = true}
func.func @infer(%x: tensor<12x8xf32> {nn.name = "x"}) -> (tensor<f32> {nn.name = "z"}) {
  %w = nn.read @w : tensor<8x16xf32>
  %a = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<12x8xf32>, tensor<8x16xf32>) -> tensor<12x16xf32>
  %s = nn.reduce %a {dims = array<i64: 0, 1>, kind = "sum"} : (tensor<12x16xf32>) -> tensor<f32>
  return %s : tensor<f32>
}
//--- ambiguous.mlir
func.func @infer(%x: tensor<12x8xf32> {nn.name = "x"}, %y: tensor<6x8xf32> {nn.name = "y"}) -> (tensor<12x8xf32> {nn.name = "z"}) {
  return %x : tensor<12x8xf32>
}
