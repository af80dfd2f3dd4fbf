module attributes {nn.model = "07bea65991f6c71f29d70063ef9860502f051b30c9ca45a2793ed6f7deb169f1", nn.phase = "import"} {
  nn.variable @w : tensor<4x4xf32> {role = "parameter", trained = true}
  nn.variable @u : tensor<4x4xf32> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4xf32> {nn.kind = "data", nn.name = "x"}) -> (tensor<2x4xf32> {nn.name = "y"}) {
    %0 = nn.read @w : tensor<4x4xf32>
    %1 = nn.read @u : tensor<4x4xf32>
    %2 = nn.contract %arg0, %0 {lhs_letters = "si", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %3 = nn.relu %2 : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %4 = nn.contract %3, %1 {lhs_letters = "si", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    return %4 : tensor<2x4xf32>
  }
}
