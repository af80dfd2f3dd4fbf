// Mixtures of experts that gather the weights of each choice, raised to products over a dimension of experts.
// RUN: tessera-opt %s -split-input-file -tessera-normalize | FileCheck %s

nn.variable @up : tensor<4x12x6xf32> {role = "parameter", trained = true}
nn.variable @down : tensor<4x6x6xf32> {role = "parameter", trained = true}

// transformers' batched_mm: rows are (token, choice), 10 = 5 x 2. Gate and up are packed.
// CHECK-LABEL: @batched
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<5x6xf32>, %[[IDS:[a-z0-9]+]]: tensor<5x2xi64>, %[[W:[a-z0-9]+]]: tensor<5x2xf32>
func.func @batched(%x: tensor<5x6xf32>, %ids: tensor<5x2xi64>, %weights: tensor<5x2xf32>) -> tensor<5x6xf32> {
  // CHECK-NOT: nn.gather
  // CHECK-DAG: %[[UP:.*]] = nn.read @up
  // CHECK-DAG: %[[DOWN:.*]] = nn.read @down
  // CHECK-DAG: %[[ONE:.*]] = nn.constant dense<1.000000e+00> : tensor<5x2xf32>
  // CHECK: %[[ROWS:.*]] = nn.dispatch %[[X]], %[[IDS]], %[[ONE]] : {{.*}} -> tensor<4x5x6xf32>
  // CHECK: %[[H:.*]] = nn.contract {{.*}} -> tensor<4x5x12xf32>
  // CHECK: nn.silu {{.*}} : (tensor<4x5x6xf32>)
  // CHECK: %[[ACT:.*]] = nn.mul {{.*}} -> tensor<4x5x6xf32>
  // CHECK: %[[Y:.*]] = nn.contract %[[DOWN]], %[[ACT]] {{.*}} -> tensor<4x5x6xf32>
  // CHECK: %[[OUT:.*]] = nn.combine %{{.*}}, %[[IDS]], %[[W]] : {{.*}} -> tensor<5x6xf32>
  // CHECK: return %[[OUT]]
  %up = nn.read @up : tensor<4x12x6xf32>
  %down = nn.read @down : tensor<4x6x6xf32>
  %one = nn.reshape %x : (tensor<5x6xf32>) -> tensor<5x1x6xf32>
  %same = nn.reshape %one : (tensor<5x1x6xf32>) -> tensor<5x6xf32>
  %twice = nn.broadcast %same {dims = array<i64: 0, 2>} : (tensor<5x6xf32>) -> tensor<5x2x6xf32>
  %rows = nn.reshape %twice : (tensor<5x2x6xf32>) -> tensor<10x6xf32>
  %flat = nn.reshape %ids : (tensor<5x2xi64>) -> tensor<10xi64>
  %zero = nn.constant dense<0> : tensor<i64> : tensor<i64>
  %four = nn.constant dense<4> : tensor<i64> : tensor<i64>
  %negative = nn.compare %flat, %zero {predicate = "lt"} : (tensor<10xi64>, tensor<i64>) -> tensor<10xi1>
  %wrapped = nn.add %flat, %four : (tensor<10xi64>, tensor<i64>) -> tensor<10xi64>
  %id = nn.select %negative, %wrapped, %flat : (tensor<10xi1>, tensor<10xi64>, tensor<10xi64>) -> tensor<10xi64>
  %w0 = nn.gather %up, %id : (tensor<4x12x6xf32>, tensor<10xi64>) -> tensor<10x12x6xf32>
  %column = nn.reshape %rows : (tensor<10x6xf32>) -> tensor<10x6x1xf32>
  %h1 = nn.contract %w0, %column {lhs_letters = "bsi", rhs_letters = "bio", out_letters = "bso"} : (tensor<10x12x6xf32>, tensor<10x6x1xf32>) -> tensor<10x12x1xf32>
  %h = nn.reshape %h1 : (tensor<10x12x1xf32>) -> tensor<10x12xf32>
  %gate = nn.slice %h {starts = array<i64: 0, 0>, sizes = array<i64: 10, 6>, steps = array<i64: 1, 1>} : (tensor<10x12xf32>) -> tensor<10x6xf32>
  %value = nn.slice %h {starts = array<i64: 0, 6>, sizes = array<i64: 10, 6>, steps = array<i64: 1, 1>} : (tensor<10x12xf32>) -> tensor<10x6xf32>
  %s = nn.sigmoid %gate : (tensor<10x6xf32>) -> tensor<10x6xf32>
  %silu = nn.mul %gate, %s : (tensor<10x6xf32>, tensor<10x6xf32>) -> tensor<10x6xf32>
  %act = nn.mul %silu, %value : (tensor<10x6xf32>, tensor<10x6xf32>) -> tensor<10x6xf32>
  %w1 = nn.gather %down, %id : (tensor<4x6x6xf32>, tensor<10xi64>) -> tensor<10x6x6xf32>
  %column1 = nn.reshape %act : (tensor<10x6xf32>) -> tensor<10x6x1xf32>
  %y1 = nn.contract %w1, %column1 {lhs_letters = "bsi", rhs_letters = "bio", out_letters = "bso"} : (tensor<10x6x6xf32>, tensor<10x6x1xf32>) -> tensor<10x6x1xf32>
  %y = nn.reshape %y1 : (tensor<10x6x1xf32>) -> tensor<10x6xf32>
  %weight = nn.reshape %weights : (tensor<5x2xf32>) -> tensor<10x1xf32>
  %weighted = nn.mul %y, %weight : (tensor<10x6xf32>, tensor<10x1xf32>) -> tensor<10x6xf32>
  %split = nn.reshape %weighted : (tensor<10x6xf32>) -> tensor<5x2x6xf32>
  %sum = nn.reduce %split {dims = array<i64: 1>, kind = "sum"} : (tensor<5x2x6xf32>) -> tensor<5x6xf32>
  return %sum : tensor<5x6xf32>
}

// -----

nn.variable @up : tensor<4x7x6xf32> {role = "parameter", trained = true}
nn.variable @bias : tensor<4x7xf32> {role = "parameter", trained = true}
nn.variable @down : tensor<4x6x7xf32> {role = "parameter", trained = true}

// As products with a dimension of choices (gpt-fast), with a bias for each expert.
// CHECK-LABEL: @einsum
func.func @einsum(%x: tensor<5x6xf32>, %ids: tensor<5x2xi64>, %weights: tensor<5x2xf32>) -> tensor<5x6xf32> {
  // CHECK-NOT: nn.gather
  // CHECK: nn.dispatch
  // CHECK: nn.contract {{.*}} -> tensor<4x5x7xf32>
  // CHECK: nn.add {{.*}} : (tensor<4x5x7xf32>, tensor<4x1x7xf32>) -> tensor<4x5x7xf32>
  // CHECK: nn.relu {{.*}} : (tensor<4x5x7xf32>)
  // CHECK: nn.contract {{.*}} -> tensor<4x5x6xf32>
  // CHECK: nn.combine
  %up = nn.read @up : tensor<4x7x6xf32>
  %bias = nn.read @bias : tensor<4x7xf32>
  %down = nn.read @down : tensor<4x6x7xf32>
  %w0 = nn.gather %up, %ids : (tensor<4x7x6xf32>, tensor<5x2xi64>) -> tensor<5x2x7x6xf32>
  %b0 = nn.gather %bias, %ids : (tensor<4x7xf32>, tensor<5x2xi64>) -> tensor<5x2x7xf32>
  %w1 = nn.gather %down, %ids : (tensor<4x6x7xf32>, tensor<5x2xi64>) -> tensor<5x2x6x7xf32>
  %h = nn.contract %x, %w0 {lhs_letters = "ti", rhs_letters = "taoi", out_letters = "tao"} : (tensor<5x6xf32>, tensor<5x2x7x6xf32>) -> tensor<5x2x7xf32>
  %hb = nn.add %h, %b0 : (tensor<5x2x7xf32>, tensor<5x2x7xf32>) -> tensor<5x2x7xf32>
  %act = nn.relu %hb : (tensor<5x2x7xf32>) -> tensor<5x2x7xf32>
  %y = nn.contract %act, %w1 {lhs_letters = "tao", rhs_letters = "taio", out_letters = "tai"} : (tensor<5x2x7xf32>, tensor<5x2x6x7xf32>) -> tensor<5x2x6xf32>
  %sum = nn.contract %y, %weights {lhs_letters = "tai", rhs_letters = "ta", out_letters = "ti"} : (tensor<5x2x6xf32>, tensor<5x2xf32>) -> tensor<5x6xf32>
  return %sum : tensor<5x6xf32>
}

// -----

nn.variable @up : tensor<4x6x6xf32> {role = "parameter", trained = true}
nn.variable @down : tensor<4x6x6xf32> {role = "parameter", trained = true}

// Two looks by different ids are no mixture, and nothing of the attempt is left.
// CHECK-LABEL: @other_ids
func.func @other_ids(%x: tensor<5x6xf32>, %ids: tensor<5x2xi64>, %others: tensor<5x2xi64>, %weights: tensor<5x2xf32>) -> tensor<5x6xf32> {
  // CHECK-NOT: nn.dispatch
  // CHECK-NOT: nn.combine
  // CHECK-COUNT-2: nn.gather
  %up = nn.read @up : tensor<4x6x6xf32>
  %down = nn.read @down : tensor<4x6x6xf32>
  %w0 = nn.gather %up, %ids : (tensor<4x6x6xf32>, tensor<5x2xi64>) -> tensor<5x2x6x6xf32>
  %w1 = nn.gather %down, %others : (tensor<4x6x6xf32>, tensor<5x2xi64>) -> tensor<5x2x6x6xf32>
  %h = nn.contract %x, %w0 {lhs_letters = "ti", rhs_letters = "taoi", out_letters = "tao"} : (tensor<5x6xf32>, tensor<5x2x6x6xf32>) -> tensor<5x2x6xf32>
  %y = nn.contract %h, %w1 {lhs_letters = "tao", rhs_letters = "taio", out_letters = "tai"} : (tensor<5x2x6xf32>, tensor<5x2x6x6xf32>) -> tensor<5x2x6xf32>
  %sum = nn.contract %y, %weights {lhs_letters = "tai", rhs_letters = "ta", out_letters = "ti"} : (tensor<5x2x6xf32>, tensor<5x2xf32>) -> tensor<5x6xf32>
  return %sum : tensor<5x6xf32>
}
