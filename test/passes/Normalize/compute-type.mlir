// RUN: tessera-opt %s -split-input-file --tessera-compute-type=type=bf16 | FileCheck %s
// RUN: tessera-opt %s -split-input-file --tessera-compute-type=type=f16 | FileCheck %s --check-prefix=F16
// RUN: not tessera-opt %s -split-input-file --tessera-compute-type=type=f8 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: error: compute type 'f8' is unknown, expected bf16 or f16

// Parameters stay f32 and are converted once where they are used; a table is looked up in as it is; gains keep f32, statistics are f32.
// CHECK-LABEL: module
// CHECK-SAME: nn.compute_type = bf16
// CHECK: nn.variable @wte : tensor<160x64xf32>
// CHECK-LABEL: func.func @block(
// CHECK-SAME: -> (tensor<4x8x160xbf16> {nn.name = "logits"})
// CHECK: %[[WTE:.*]] = nn.read @wte : tensor<160x64xf32>
// CHECK: %[[HEAD:.*]] = nn.cast %[[WTE]] {to = bf16} : (tensor<160x64xf32>) -> tensor<160x64xbf16>
// CHECK: %[[X:.*]] = nn.gather %[[WTE]], %arg0 : {{.*}} -> tensor<4x8x64xf32>
// CHECK: %[[XH:.*]] = nn.cast %[[X]] {to = bf16}
// CHECK: %[[G:.*]] = nn.read @gain : tensor<64xf32>
// CHECK-NOT: nn.cast
// CHECK: %[[Y:.*]], %{{.*}} = nn.rms_norm %[[XH]], %[[G]] {{.*}} : (tensor<4x8x64xbf16>, tensor<64xf32>) -> (tensor<4x8x64xbf16>, tensor<4x8xf32>)
// CHECK: nn.contract %[[Y]], %[[HEAD]] {{.*}} -> tensor<4x8x160xbf16>
nn.variable @wte : tensor<160x64xf32> {role = "parameter", trained = true}
nn.variable @gain : tensor<64xf32> {role = "parameter", trained = true}
func.func @block(%ids: tensor<4x8xi64>) -> (tensor<4x8x160xf32> {nn.name = "logits"}) {
  %wte = nn.read @wte : tensor<160x64xf32>
  %x = nn.gather %wte, %ids : (tensor<160x64xf32>, tensor<4x8xi64>) -> tensor<4x8x64xf32>
  %g = nn.read @gain : tensor<64xf32>
  %y, %r = nn.rms_norm %x, %g {eps = 1.0e-6 : f64} : (tensor<4x8x64xf32>, tensor<64xf32>) -> (tensor<4x8x64xf32>, tensor<4x8xf32>)
  %l = nn.contract %y, %wte {lhs_letters = "bsh", rhs_letters = "vh", out_letters = "bsv"} : (tensor<4x8x64xf32>, tensor<160x64xf32>) -> tensor<4x8x160xf32>
  return %l : tensor<4x8x160xf32>
}

// -----

// Positions and masks come of integers and constants: they are exact, and rounded where data meets them. A floating input is data, and
// what is finite stays finite.
// CHECK-LABEL: func.func @positions(
// CHECK: %[[P:.*]] = nn.cast %arg1 {to = f32}
// CHECK: %[[A:.*]] = nn.mul %[[P]], %{{.*}} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
// CHECK: %[[C:.*]] = nn.cos %[[A]] : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: %[[CH:.*]] = nn.cast %[[C]] {to = bf16}
// CHECK: nn.mul %{{.*}}, %[[CH]] : (tensor<4x8xbf16>, tensor<8xbf16>) -> tensor<4x8xbf16>
// CHECK: nn.select %arg2, %{{.*}}, %[[LOW:.*]] :
// F16-LABEL: func.func @positions(
// F16: dense<-6.550400e+04> : tensor<f16>
func.func @positions(%x: tensor<4x8xf32>, %ids: tensor<8xi64>, %seen: tensor<4x8xi1>) -> tensor<4x8xf32> {
  %p = nn.cast %ids {to = f32} : (tensor<8xi64>) -> tensor<8xf32>
  %f = nn.constant dense<0.3> : tensor<f32> : tensor<f32>
  %a = nn.mul %p, %f : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %c = nn.cos %a : (tensor<8xf32>) -> tensor<8xf32>
  %y = nn.mul %x, %c : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %m = nn.select %seen, %y, %low : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  return %m : tensor<4x8xf32>
}

// -----

// A number sums up much: it is computed in f32. Integers and f64 are left alone.
// CHECK-LABEL: func.func @numbers(
// CHECK: %[[D:.*]] = nn.sub {{.*}} -> tensor<4x8xbf16>
// CHECK: %[[W:.*]] = nn.cast %[[D]] {to = f32}
// CHECK: nn.reduce %[[W]] {{.*}} -> tensor<f32>
// CHECK: nn.exp %arg2 : (tensor<3xf64>) -> tensor<3xf64>
func.func @numbers(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %z: tensor<3xf64>) -> (tensor<f32>, tensor<3xf64>) {
  %d = nn.sub %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = nn.reduce %d {dims = array<i64: 0, 1>, kind = "sum"} : (tensor<4x8xf32>) -> tensor<f32>
  %e = nn.exp %z : (tensor<3xf64>) -> tensor<3xf64>
  return %s, %e : tensor<f32>, tensor<3xf64>
}

// -----

// A decision between data and what is exact is made in f32: of positions from 257 on bf16 has every second one. Data among itself, or
// with a constant, is compared as it is.
// CHECK-LABEL: func.func @decisions(
// CHECK: %[[X:.*]] = nn.cast %arg0 {to = bf16}
// CHECK: %[[S:.*]] = nn.add %[[X]], %[[X]] : {{.*}} -> tensor<4x300xbf16>
// CHECK-DAG: %[[P:.*]] = nn.cast %{{.*}} {to = f32} : (tensor<300xi64>) -> tensor<300xf32>
// CHECK-DAG: %[[W:.*]] = nn.cast %[[S]] {to = f32}
// CHECK: nn.compare %[[W]], %[[P]]
// CHECK: nn.compare %[[S]], %{{.*}} : (tensor<4x300xbf16>, tensor<bf16>) -> tensor<4x300xi1>
func.func @decisions(%x: tensor<4x300xf32>) -> (tensor<4x300xi1>, tensor<4x300xi1>) {
  %s = nn.add %x, %x : (tensor<4x300xf32>, tensor<4x300xf32>) -> tensor<4x300xf32>
  %i = nn.iota {dim = 0 : i64} : () -> tensor<300xi64>
  %p = nn.cast %i {to = f32} : (tensor<300xi64>) -> tensor<300xf32>
  %c = nn.compare %s, %p {predicate = "lt"} : (tensor<4x300xf32>, tensor<300xf32>) -> tensor<4x300xi1>
  %f = nn.constant dense<0.3> : tensor<f32> : tensor<f32>
  %d = nn.compare %s, %f {predicate = "lt"} : (tensor<4x300xf32>, tensor<f32>) -> tensor<4x300xi1>
  return %c, %d : tensor<4x300xi1>, tensor<4x300xi1>
}
