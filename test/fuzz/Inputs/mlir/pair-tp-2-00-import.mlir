module attributes {nn.model = "13ae0d32186c22859d48c35ad588116f4dc165e58274c0cb8ce9a5fcebffa4e0", nn.phase = "import"} {
  nn.variable @w : tensor<4x4xf32> {role = "parameter", trained = true}
  nn.variable @u : tensor<4x4xf32> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4xf32> {nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x4xf32> {nn.name = "y"}) {
    %0 = nn.read @w : tensor<4x4xf32>
    %1 = nn.read @u : tensor<4x4xf32>
    %2 = nn.contract %arg0, %0 {lhs_letters = "si", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %3 = nn.relu %2 : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %4 = nn.contract %3, %1 {lhs_letters = "si", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    return %4 : tensor<2x4xf32>
  }
}
