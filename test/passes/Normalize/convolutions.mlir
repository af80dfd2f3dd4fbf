// The bias of a convolution is added behind the sum over channels, so that ranks may share that.
// RUN: tessera-opt %s -tessera-normalize | FileCheck %s
// RUN: tessera-opt %s -tessera-normalize --tessera-propagate --tessera-verify-layouts --tessera-partition | FileCheck %s --check-prefix=ROW

dist.mesh @mesh = <["t"=2]>
nn.variable @w : tensor<4x6x3x3xf32> {role = "parameter", trained = true}
nn.variable @b : tensor<4xf32> {role = "parameter", trained = true}
// CHECK-LABEL: @infer
// CHECK: %[[Y:.*]] = nn.conv %{{[^,]*}}, %{{[^,]*}} {{{.*}}} : (tensor<2x6x5x5xf32>, tensor<4x6x3x3xf32>) -> tensor<2x4x3x3xf32>
// CHECK: %[[B:.*]] = nn.reshape %{{.*}} : (tensor<4xf32>) -> tensor<4x1x1xf32>
// CHECK: %[[Z:.*]] = nn.add %[[Y]], %[[B]]
// CHECK: return %[[Z]]
// ROW: %[[Y:.*]] = nn.conv {{.*}} : (tensor<2x3x5x5xf32>, tensor<4x3x3x3xf32>)
// ROW: %[[SUM:.*]] = dist.collective all_reduce %[[Y]]
// ROW: nn.add %[[SUM]]
func.func @infer(%x: tensor<2x6x5x5xf32> {nn.name = "x"}) -> (tensor<2x4x3x3xf32> {nn.name = "y"}) {
  %w = nn.read @w : tensor<4x6x3x3xf32>
  %b = nn.read @b : tensor<4xf32>
  %y = nn.conv %x, %w, %b {dist.pattern = #dist.pattern<"row", ["t"]>, dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<2x6x5x5xf32>, tensor<4x6x3x3xf32>, tensor<4xf32>) -> tensor<2x4x3x3xf32>
  return %y : tensor<2x4x3x3xf32>
}
