module attributes {dist.micro = 1 : i64, nn.model = "13ae0d32186c22859d48c35ad588116f4dc165e58274c0cb8ce9a5fcebffa4e0", nn.phase = "schedule"} {
  dist.mesh @mesh = <["tensor"=2]>
  nn.variable @w : tensor<4x4xf32, #dist.layout<[[4], [4 : "tensor"=2]]>> {role = "parameter", trained = true}
  nn.variable @u : tensor<4x4xf32, #dist.layout<[[4 : "tensor"=2], [4]]>> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4xf32> {dist.layout = #dist.layout<[[2], [4]]>, dist.shape = array<i64: 2, 4>, nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x4xf32> {dist.layout = #dist.layout<[[2], [4]]>, dist.shape = array<i64: 2, 4>, nn.name = "y"}) {
    %0 = nn.read @w : tensor<4x2xf32>
    %1 = nn.read @u : tensor<2x4xf32>
    %result = nn.fused_contract %arg0, %0 {activation = "relu", dist.origin = "recipe", dist.pattern = #dist.pattern<"column", ["tensor"]>, lhs_letters = "si", operandSegmentSizes = array<i32: 1, 1, 0, 0>, out_letters = "so", resultSegmentSizes = array<i32: 1, 0, 0>, rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
    %2 = nn.contract %result, %1 {dist.origin = "recipe", dist.pattern = #dist.pattern<"row", ["tensor"]>, lhs_letters = "si", out_letters = "so", rhs_letters = "io"} : (tensor<2x2xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %3 = dist.collective  all_reduce %2 over <"tensor"=2> shape [2, 4] reduce  sum : tensor<2x4xf32> -> tensor<2x4xf32>
    return %3 : tensor<2x4xf32>
  }
  module @kernels {
  }
}
