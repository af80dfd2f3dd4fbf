// An input that kernels alone read, by value, has no bytes; one that something else reads has.
// RUN: tessera-opt %s --tessera-plan-memory | FileCheck %s

// CHECK-LABEL: func.func @step
// CHECK: exec.input {{{.*}}kind = "scalar"{{.*}}name = "position"
// CHECK: exec.input %{{.*}} {{{.*}}kind = "scalar"{{.*}}name = "bias"
// CHECK: %[[P:.*]] = exec.scalar "position" : i64
// CHECK: exec.launch @k(%{{.*}}) scalars(%[[P]])
module {
  dist.mesh @mesh = <[]>
  module @kernels {
    func.func @k(%x: tensor<8xf32>, %p: i64) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @step(%x: tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.name = "x"},
                  %p: tensor<i64> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.kind = #nn<kind scalar>, nn.name = "position"},
                  %b: tensor<f32> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.kind = #nn<kind scalar>, nn.name = "bias"})
      -> (tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.name = "y"},
          tensor<f32> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.name = "b"}) {
    %0 = exec.scalar "position" : i64
    %y = exec.apply @k(%x, %0) {kind = "fused"} : (tensor<8xf32>, i64) -> tensor<8xf32>
    return %y, %b : tensor<8xf32>, tensor<f32>
  }
}
