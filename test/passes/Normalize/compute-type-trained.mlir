// RUN: not tessera-opt %s --tessera-compute-type=type=bf16 2>&1 | FileCheck %s
// CHECK: error: is a training program already: the compute type is chosen before differentiation
nn.variable @w : tensor<4xf32> {role = "parameter", trained = true}
func.func @train(%x: tensor<4xf32>) attributes {nn.role = #nn<role train>} {
  nn.assign @w, %x : tensor<4xf32>
  return
}
