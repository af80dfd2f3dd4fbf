// RUN: tessera-opt %s -split-input-file -tessera-normalize | FileCheck %s

// Eager attention on [b, h, s, d], scaled after the product, with a causal mask.
// CHECK-LABEL: @eager_causal
// CHECK-NOT: nn.softmax
// CHECK: %[[O:.*]], %{{.*}} = nn.attention %arg0, %arg1, %arg2 {causal = true, {{.*}}scale = 2.500000e-01
// CHECK-NEXT: nn.reshape %[[O]] : (tensor<2x8x4x1x16xf32>) -> tensor<2x8x64xf32>
func.func @eager_causal(%q5: tensor<2x8x4x1x16xf32>, %k: tensor<2x8x4x16xf32>, %v: tensor<2x8x4x16xf32>) -> tensor<2x8x64xf32> {
  %q = nn.reshape %q5 : (tensor<2x8x4x1x16xf32>) -> tensor<2x8x4x16xf32>
  %qt = nn.transpose %q {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x8x4x16xf32>) -> tensor<2x4x8x16xf32>
  %kt = nn.transpose %k {perm = array<i64: 0, 2, 3, 1>} : (tensor<2x8x4x16xf32>) -> tensor<2x4x16x8xf32>
  %vt = nn.transpose %v {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x8x4x16xf32>) -> tensor<2x4x8x16xf32>
  %s = nn.contract %qt, %kt {lhs_letters = "bhsi", rhs_letters = "bhio", out_letters = "bhso"} : (tensor<2x4x8x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x8x8xf32>
  %quarter = nn.constant dense<0.25> : tensor<f32> : tensor<f32>
  %scaled = nn.mul %s, %quarter : (tensor<2x4x8x8xf32>, tensor<f32>) -> tensor<2x4x8x8xf32>
  %i = nn.iota {dim = 2 : i64} : () -> tensor<1x1x8x1xi64>
  %j = nn.iota {dim = 3 : i64} : () -> tensor<1x1x1x8xi64>
  %seen = nn.compare %j, %i {predicate = "le"} : (tensor<1x1x1x8xi64>, tensor<1x1x8x1xi64>) -> tensor<1x1x8x8xi1>
  %zero = nn.constant dense<0.0> : tensor<f32> : tensor<f32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %mask = nn.select %seen, %zero, %low : (tensor<1x1x8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x8x8xf32>
  %masked = nn.add %scaled, %mask : (tensor<2x4x8x8xf32>, tensor<1x1x8x8xf32>) -> tensor<2x4x8x8xf32>
  %p = nn.softmax %masked : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %o = nn.contract %p, %vt {lhs_letters = "bhsi", rhs_letters = "bhio", out_letters = "bhso"} : (tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  %ot = nn.transpose %o {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x4x8x16xf32>) -> tensor<2x8x4x16xf32>
  %r = nn.reshape %ot : (tensor<2x8x4x16xf32>) -> tensor<2x8x64xf32>
  return %r : tensor<2x8x64xf32>
}

// -----

// The fused export: both operands scaled by the root, keys transposed by way of three dimensions, a guard against NaN.
// CHECK-LABEL: @guarded_with_split_scale
// CHECK-NOT: nn.mul
// CHECK: nn.attention %{{.*}}, %arg1, %arg2 {{.*}}scale = 2.500000e-01
// CHECK-NOT: nn.is_nan
func.func @guarded_with_split_scale(%q: tensor<2x4x8x16xf32>, %k: tensor<2x8x4x16xf32>, %v: tensor<2x8x4x16xf32>) -> tensor<2x4x8x16xf32> {
  %kt = nn.transpose %k {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x8x4x16xf32>) -> tensor<2x4x8x16xf32>
  %vt = nn.transpose %v {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x8x4x16xf32>) -> tensor<2x4x8x16xf32>
  %k3 = nn.reshape %kt : (tensor<2x4x8x16xf32>) -> tensor<8x8x16xf32>
  %k3t = nn.transpose %k3 {perm = array<i64: 0, 2, 1>} : (tensor<8x8x16xf32>) -> tensor<8x16x8xf32>
  %k4 = nn.reshape %k3t : (tensor<8x16x8xf32>) -> tensor<2x4x16x8xf32>
  %half = nn.constant dense<0.5> : tensor<f32> : tensor<f32>
  %qs = nn.mul %q, %half : (tensor<2x4x8x16xf32>, tensor<f32>) -> tensor<2x4x8x16xf32>
  %ks = nn.mul %k4, %half : (tensor<2x4x16x8xf32>, tensor<f32>) -> tensor<2x4x16x8xf32>
  %s = nn.contract %qs, %ks {lhs_letters = "bhsi", rhs_letters = "bhio", out_letters = "bhso"} : (tensor<2x4x8x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x8x8xf32>
  %p = nn.softmax %s : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %nan = nn.is_nan %p : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xi1>
  %zero = nn.constant dense<0.0> : tensor<f32> : tensor<f32>
  %guarded = nn.select %nan, %zero, %p : (tensor<2x4x8x8xi1>, tensor<f32>, tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %o = nn.contract %guarded, %vt {lhs_letters = "bhsi", rhs_letters = "bhio", out_letters = "bhso"} : (tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %o : tensor<2x4x8x16xf32>
}

// -----

// Keys and values repeated for two query heads each: the groups become attention's own.
// CHECK-LABEL: @grouped_queries
// CHECK-NOT: nn.broadcast
// CHECK: nn.attention %{{.*}}, %arg1, %arg2 {{.*}} : (tensor<2x8x2x2x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>)
func.func @grouped_queries(%q: tensor<2x4x8x16xf32>, %k: tensor<2x8x2x16xf32>, %v: tensor<2x8x2x16xf32>) -> tensor<2x4x8x16xf32> {
  %kt = nn.transpose %k {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x8x2x16xf32>) -> tensor<2x2x8x16xf32>
  %vt = nn.transpose %v {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x8x2x16xf32>) -> tensor<2x2x8x16xf32>
  %k5 = nn.broadcast %kt {dims = array<i64: 0, 1, 3, 4>} : (tensor<2x2x8x16xf32>) -> tensor<2x2x2x8x16xf32>
  %v5 = nn.broadcast %vt {dims = array<i64: 0, 1, 3, 4>} : (tensor<2x2x8x16xf32>) -> tensor<2x2x2x8x16xf32>
  %k4 = nn.reshape %k5 : (tensor<2x2x2x8x16xf32>) -> tensor<2x4x8x16xf32>
  %v4 = nn.reshape %v5 : (tensor<2x2x2x8x16xf32>) -> tensor<2x4x8x16xf32>
  %kx = nn.transpose %k4 {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x4x8x16xf32>) -> tensor<2x4x16x8xf32>
  %s = nn.contract %q, %kx {lhs_letters = "bhsi", rhs_letters = "bhio", out_letters = "bhso"} : (tensor<2x4x8x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x8x8xf32>
  %p = nn.softmax %s : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %o = nn.contract %p, %v4 {lhs_letters = "bhsi", rhs_letters = "bhio", out_letters = "bhso"} : (tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %o : tensor<2x4x8x16xf32>
}

// -----

// One key head for all query heads: the products broadcast.
// CHECK-LABEL: @one_key_head
// CHECK: nn.attention {{.*}} : (tensor<2x8x1x4x16xf32>, tensor<2x8x1x16xf32>, tensor<2x8x1x16xf32>)
func.func @one_key_head(%q: tensor<2x4x8x16xf32>, %k: tensor<2x8x16xf32>, %v: tensor<2x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %s = nn.contract %q, %k {lhs_letters = "bhsi", rhs_letters = "bti", out_letters = "bhst"} : (tensor<2x4x8x16xf32>, tensor<2x8x16xf32>) -> tensor<2x4x8x8xf32>
  %p = nn.softmax %s : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %o = nn.contract %p, %v {lhs_letters = "bhsi", rhs_letters = "bio", out_letters = "bhso"} : (tensor<2x4x8x8xf32>, tensor<2x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %o : tensor<2x4x8x16xf32>
}

// -----

// A softmax over the queries is not attention.
// CHECK-LABEL: @softmax_over_queries
// CHECK-NOT: nn.attention
func.func @softmax_over_queries(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %s = nn.contract %q, %k {lhs_letters = "bhsi", rhs_letters = "bhio", out_letters = "bhos"} : (tensor<2x4x8x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x8x8xf32>
  %p = nn.softmax %s : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %o = nn.contract %p, %v {lhs_letters = "bhis", rhs_letters = "bhio", out_letters = "bhso"} : (tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %o : tensor<2x4x8x16xf32>
}

// -----

// A causal mask inside of the scaling, and one of numbers: the first is seen for what it is, the second is scaled.
// CHECK-LABEL: @masked_then_scaled
// CHECK-NOT: nn.softmax
// CHECK: %[[BIAS:.*]] = nn.mul %arg3, %{{.*}}
// CHECK: %[[FIVE:.*]] = nn.reshape %[[BIAS]]
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[FIVE]] {causal = true, {{.*}}scale = 2.500000e-01
func.func @masked_then_scaled(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x8x16xf32>, %padding: tensor<2x1x1x8xf32>) -> tensor<2x4x8x16xf32> {
  %s = nn.contract %q, %k {lhs_letters = "bhsi", rhs_letters = "bhio", out_letters = "bhso"} : (tensor<2x4x8x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x8x8xf32>
  %i = nn.iota {dim = 2 : i64} : () -> tensor<1x1x8x1xi64>
  %j = nn.iota {dim = 3 : i64} : () -> tensor<1x1x1x8xi64>
  %seen = nn.compare %j, %i {predicate = "le"} : (tensor<1x1x1x8xi64>, tensor<1x1x8x1xi64>) -> tensor<1x1x8x8xi1>
  %zero = nn.constant dense<0.0> : tensor<f32> : tensor<f32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %mask = nn.select %seen, %zero, %low : (tensor<1x1x8x8xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x8x8xf32>
  %masked = nn.add %s, %mask : (tensor<2x4x8x8xf32>, tensor<1x1x8x8xf32>) -> tensor<2x4x8x8xf32>
  %twice = nn.add %masked, %padding : (tensor<2x4x8x8xf32>, tensor<2x1x1x8xf32>) -> tensor<2x4x8x8xf32>
  %root = nn.constant dense<4.0> : tensor<f32> : tensor<f32>
  %scaled = nn.div %twice, %root : (tensor<2x4x8x8xf32>, tensor<f32>) -> tensor<2x4x8x8xf32>
  %p = nn.softmax %scaled : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %o = nn.contract %p, %v {lhs_letters = "bhsi", rhs_letters = "bhio", out_letters = "bhso"} : (tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %o : tensor<2x4x8x16xf32>
}

// -----

// Scores that are filled where a key is hidden: the condition is the other way round.
// CHECK-LABEL: @filled
// CHECK-NOT: nn.softmax
// CHECK: %[[BIAS:.*]] = nn.select %arg3, %{{.*}}, %{{.*}} : (tensor<2x1x1x8xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x1x8xf32>
// CHECK: %[[FIVE:.*]] = nn.reshape %[[BIAS]]
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[FIVE]] {
func.func @filled(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x8x16xf32>, %hidden: tensor<2x1x1x8xi1>) -> tensor<2x4x8x16xf32> {
  %s = nn.contract %q, %k {lhs_letters = "bhsi", rhs_letters = "bhio", out_letters = "bhso"} : (tensor<2x4x8x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x8x8xf32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %masked = nn.select %hidden, %low, %s : (tensor<2x1x1x8xi1>, tensor<f32>, tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %p = nn.softmax %masked : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %o = nn.contract %p, %v {lhs_letters = "bhsi", rhs_letters = "bhio", out_letters = "bhso"} : (tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %o : tensor<2x4x8x16xf32>
}

// -----

// Slopes added where batch and heads are one dimension: they are a mask of each head all the same.
// CHECK-LABEL: @slopes_on_merged_heads
// CHECK-NOT: nn.softmax
// CHECK: %[[SLOPES:.*]] = nn.reshape %arg3 : (tensor<2x4x8xf32>) -> tensor<2x4x1x1x8xf32>
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[SLOPES]] {
func.func @slopes_on_merged_heads(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x16x8xf32>, %v: tensor<2x4x8x16xf32>, %slopes: tensor<2x4x8xf32>) -> tensor<2x4x8x16xf32> {
  %s = nn.contract %q, %k {lhs_letters = "bhsi", rhs_letters = "bhio", out_letters = "bhso"} : (tensor<2x4x8x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x8x8xf32>
  %merged = nn.reshape %s : (tensor<2x4x8x8xf32>) -> tensor<8x8x8xf32>
  %rows = nn.reshape %slopes : (tensor<2x4x8xf32>) -> tensor<8x1x8xf32>
  %sum = nn.add %merged, %rows : (tensor<8x8x8xf32>, tensor<8x1x8xf32>) -> tensor<8x8x8xf32>
  %split = nn.reshape %sum : (tensor<8x8x8xf32>) -> tensor<2x4x8x8xf32>
  %p = nn.softmax %split : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %o = nn.contract %p, %v {lhs_letters = "bhsi", rhs_letters = "bhio", out_letters = "bhso"} : (tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %o : tensor<2x4x8x16xf32>
}

// -----

// Queries without the batch dimension of the scores, and summed over one of their own.
// CHECK-LABEL: @queries_summed_alone
// CHECK: nn.softmax
func.func @queries_summed_alone(%q: tensor<3x4x8x16xf32>, %kt: tensor<2x4x16x8xf32>, %vt: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %s = nn.contract %q, %kt {lhs_letters = "ghsi", rhs_letters = "bhio", out_letters = "bhso"} : (tensor<3x4x8x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x8x8xf32>
  %p = nn.softmax %s : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %o = nn.contract %p, %vt {lhs_letters = "bhsi", rhs_letters = "bhio", out_letters = "bhso"} : (tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %o : tensor<2x4x8x16xf32>
}

// -----

// CHECK-LABEL: @keys_summed_alone
// CHECK: nn.softmax
func.func @keys_summed_alone(%qt: tensor<2x4x8x16xf32>, %kt: tensor<2x4x16x8x3xf32>, %vt: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %s = nn.contract %qt, %kt {lhs_letters = "bhsi", rhs_letters = "bhioz", out_letters = "bhso"} : (tensor<2x4x8x16xf32>, tensor<2x4x16x8x3xf32>) -> tensor<2x4x8x8xf32>
  %p = nn.softmax %s : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %o = nn.contract %p, %vt {lhs_letters = "bhsi", rhs_letters = "bhio", out_letters = "bhso"} : (tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %o : tensor<2x4x8x16xf32>
}
