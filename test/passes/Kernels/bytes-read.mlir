// What kernels read where that is not all of their operands, for estimates of time.
// RUN: tessera-opt %s --tessera-form-kernels --tessera-lower-kernels | FileCheck %s

// Of 4 experts' rows those of one choice for each of 2 tokens: 64 of 256 bytes, beside 16 of ids and 8 of weights.
// CHECK-LABEL: func.func @looked_up
// CHECK: exec.apply {{.*}}nn.bytes_read = 8.800000e+01 : f64
// CHECK-LABEL: func.func @whole
// CHECK-NOT: nn.bytes_read
// CHECK: module @kernels
func.func @looked_up(%y: tensor<4x2x8xf32>, %ids: tensor<2x1xi64>, %w: tensor<2x1xf32>) -> tensor<2x8xf32> {
  %r = nn.combine %y, %ids, %w : (tensor<4x2x8xf32>, tensor<2x1xi64>, tensor<2x1xf32>) -> tensor<2x8xf32>
  return %r : tensor<2x8xf32>
}
func.func @whole(%x: tensor<2x8xf32>, %b: tensor<8xf32>) -> tensor<2x8xf32> {
  %a = nn.add %x, %b : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  return %a : tensor<2x8xf32>
}
