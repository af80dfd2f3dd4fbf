// RUN: tessera-opt %s --tessera-plan-memory -verify-diagnostics -o /dev/null
module {
  dist.mesh @mesh = <["x"=2]>
  module @kernels {
  }
  // A number of a rank's own cannot be multiplied by a row's length.
  func.func @own_number(%cache: tensor<6x4xf32> {dist.layout = #dist.layout<[[6], [4]]>, dist.shape = array<i64: 6, 4>, nn.name = "cache"},
                        %key: tensor<1x4xf32> {dist.layout = #dist.layout<[[1], [4]]>, dist.shape = array<i64: 1, 4>, nn.name = "key"})
      -> (tensor<6x4xf32> {dist.layout = #dist.layout<[[6], [4]]>, dist.shape = array<i64: 6, 4>, nn.name = "new"}) {
    %at = dist.block_start over <"x"=2> block 3 : i64
    // expected-error @+1 {{needs an input of kind scalar as operand 2}}
    %new = nn.insert_slice %cache, %key, %at {dim = 0 : i64} : (tensor<6x4xf32>, tensor<1x4xf32>, i64) -> tensor<6x4xf32>
    return %new : tensor<6x4xf32>
  }
}
