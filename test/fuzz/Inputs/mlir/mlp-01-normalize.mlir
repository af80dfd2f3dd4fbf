module attributes {nn.model = "213f4847f75b3e3114396ec715f5eb07577d3d91941d40f80e7b8acac3143224", nn.phase = "normalize"} {
  nn.variable @w : tensor<16x8xf32> {role = "parameter", trained = true}
  nn.variable @b : tensor<16xf32> {role = "parameter", trained = true}
  nn.variable @u : tensor<16x4xf32> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<4x8xf32> {nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<4x4xf32> {nn.name = "y"}) {
    %0 = nn.read @w : tensor<16x8xf32>
    %1 = nn.read @b : tensor<16xf32>
    %2 = nn.read @u : tensor<16x4xf32>
    %3 = nn.contract %arg0, %0 {lhs_letters = "si", out_letters = "so", rhs_letters = "oi"} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
    %4 = nn.add %3, %1 : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %5 = nn.relu %4 : (tensor<4x16xf32>) -> tensor<4x16xf32>
    %6 = nn.contract %5, %2 {lhs_letters = "si", out_letters = "so", rhs_letters = "io"} : (tensor<4x16xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    return %6 : tensor<4x4xf32>
  }
}
