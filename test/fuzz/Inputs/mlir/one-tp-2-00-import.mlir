module attributes {nn.model = "8d456c0fe98ea6716383ddb1b85cb4a379689efb03e99b1f2f7a07bf4167b592", nn.phase = "import"} {
  nn.variable @w : tensor<4x4xf32> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4xf32> {nn.kind = "data", nn.name = "x"}) -> (tensor<2x4xf32> {nn.name = "y"}) {
    %0 = nn.read @w : tensor<4x4xf32>
    %1 = nn.contract %arg0, %0 {lhs_letters = "si", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
}
