// Operators that no program holds once its kernels are formed.
// RUN: tessera-opt %s --split-input-file --verify-diagnostics --tessera-plan-memory

module {
  dist.mesh @mesh = <[]>
  module @kernels {
  }
  func.func @infer(%x: tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.name = "x"})
      -> (tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.name = "y"}) {
    // expected-error @below {{'nn.relu' op cannot be executed; it should have been partitioned or lowered}}
    %y = nn.relu %x : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

// A product of integers is no library's.
module {
  dist.mesh @mesh = <[]>
  module @kernels {
  }
  func.func @infer(%x: tensor<8x8xi32> {dist.layout = #dist.layout<[[8], [8]]>, dist.shape = array<i64: 8, 8>, nn.name = "x"})
      -> (tensor<8x8xi32> {dist.layout = #dist.layout<[[8], [8]]>, dist.shape = array<i64: 8, 8>, nn.name = "y"}) {
    // expected-error @below {{'nn.contract' op has no library function and was not made part of a kernel}}
    %y = nn.contract %x, %x {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi32>
    return %y : tensor<8x8xi32>
  }
}
