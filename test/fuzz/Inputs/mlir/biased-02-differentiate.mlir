module attributes {nn.model = "c5b026a08a23f9cf5403097bef71ff565ffb4eb854d94556fb78a5069666ad8b", nn.phase = "differentiate"} {
  nn.variable @w : tensor<4x4xf32> {role = "parameter", trained = true}
  nn.variable @b : tensor<4xf32> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4xf32> {nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x4xf32> {nn.name = "y"}) {
    %0 = nn.read @w : tensor<4x4xf32>
    %1 = nn.read @b : tensor<4xf32>
    %2 = nn.contract %arg0, %0 {lhs_letters = "si", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %3 = nn.add %2, %1 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %4 = nn.gelu %3 : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %5 = nn.contract %4, %0 {lhs_letters = "si", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    return %5 : tensor<2x4xf32>
  }
}
