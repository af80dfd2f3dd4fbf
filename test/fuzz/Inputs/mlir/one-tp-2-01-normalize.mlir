module attributes {nn.model = "562e0c7ebf807de2b6276268a45f42e073465088c7616d6966e01dbe50da7b8c", nn.phase = "normalize"} {
  nn.variable @w : tensor<4x4xf32> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4xf32> {nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x4xf32> {nn.name = "y"}) {
    %0 = nn.read @w : tensor<4x4xf32>
    %1 = nn.contract %arg0, %0 {lhs_letters = "si", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
}
