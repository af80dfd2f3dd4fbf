// RUN: tessera-opt %s --tessera-differentiate="loss=mse:y" | FileCheck %s --check-prefix=MSE
// RUN: tessera-opt %s --tessera-differentiate="loss=s optimizer=sgd-momentum" | FileCheck %s --check-prefix=SCALAR
// RUN: not tessera-opt %s --tessera-differentiate="loss=y" 2>&1 | FileCheck %s --check-prefix=NOTSCALAR
// RUN: not tessera-opt %s --tessera-differentiate="loss=mse:z" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not tessera-opt %s --tessera-differentiate="optimizer=lion" 2>&1 | FileCheck %s --check-prefix=OPTIMIZER

// MSE: nn.variable @w.m : tensor<3x4xf64> {init = "zero", of = "w", role = "optimizer", slot = "m"}
// MSE: nn.variable @w.v
// MSE: func.func @train({{.*}}: tensor<2x3xf64> {{.*}}, %[[T:.*]]: tensor<2x4xf64> {nn.kind = #nn<kind target>, nn.name = "target"}
// MSE: %[[D:.*]] = nn.sub %{{.*}}, %[[T]]
// MSE: %[[Q:.*]] = nn.mul %[[D]], %[[D]]
// MSE: %[[SUM:.*]] = nn.reduce %[[Q]] {dims = array<i64: 0, 1>, kind = "sum"
// MSE: %[[N:.*]] = nn.constant {{.*}}dense<1.250000e-01> : tensor<f64>
// MSE: nn.mul %[[SUM]], %[[N]]
// MSE: nn.acc %[[N]] {nn.cotangent_of = #nn.value<"reduce_1", 0>}

// SCALAR: nn.variable @w.momentum : tensor<3x4xf64> {init = "zero", of = "w", role = "optimizer", slot = "momentum"}
// SCALAR: func.func @train({{.*}}: tensor<2x3xf64> {{.*}}, %{{.*}}: tensor<8xf32> {nn.kind = #nn<kind scalars>
// SCALAR: nn.constant {{.*}}dense<1.000000e+00> : tensor<f64>
// SCALAR: nn.update {{.*}}kind = "sgd_momentum"

// NOTSCALAR: error: loss 'y': the output has type 'tensor<2x4xf64>', expected a scalar; cross_entropy:y or mse:y compare it with labels or a target
// UNKNOWN: error: loss 'mse:z': there is no output called 'z'; the outputs are y, s
// OPTIMIZER: error: optimizer 'lion' is unknown, expected adamw, adam, sgd or sgd-momentum
nn.variable @w : tensor<3x4xf64> {role = "parameter", trained = true}
func.func @infer(%x: tensor<2x3xf64> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<2x4xf64> {nn.name = "y"}, tensor<f64> {nn.name = "s"}) {
  %w = nn.read @w : tensor<3x4xf64>
  %y = nn.contract %x, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<2x3xf64>, tensor<3x4xf64>) -> tensor<2x4xf64>
  %s = nn.reduce %y {dims = array<i64: 0, 1>, kind = "sum"} : (tensor<2x4xf64>) -> tensor<f64>
  return %y, %s : tensor<2x4xf64>, tensor<f64>
}
