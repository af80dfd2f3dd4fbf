module attributes {dist.micro = 1 : i64, nn.model = "c5b026a08a23f9cf5403097bef71ff565ffb4eb854d94556fb78a5069666ad8b", nn.phase = "schedule"} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<4x4xf32, #dist.layout<[[4], [4]]>> {role = "parameter", trained = true}
  nn.variable @b : tensor<4xf32, #dist.layout<[[4]]>> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4xf32> {dist.layout = #dist.layout<[[2], [4]]>, dist.shape = array<i64: 2, 4>, nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x4xf32> {dist.layout = #dist.layout<[[2], [4]]>, dist.shape = array<i64: 2, 4>, nn.name = "y"}) {
    %0 = nn.read @w : tensor<4x4xf32>
    %1 = nn.read @b : tensor<4xf32>
    %result = nn.fused_contract %arg0, %0, %1 {activation = "gelu_erf", lhs_letters = "si", operandSegmentSizes = array<i32: 1, 1, 1, 0>, out_letters = "so", resultSegmentSizes = array<i32: 1, 0, 0>, rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %2 = nn.contract %result, %0 {lhs_letters = "si", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    return %2 : tensor<2x4xf32>
  }
  module @kernels {
  }
}
