module attributes {nn.model = "72887e7ac376186b48f8d58086f45a269d3a0a62705008f47e80c55f81d0a504", nn.phase = "import"} {
  nn.variable @w : tensor<8x24xf32> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4x8xf32> {nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x4x8xf32> {nn.name = "y"}) {
    %0 = nn.read @w : tensor<8x24xf32>
    %1 = nn.constant dense<-1.46596742> : tensor<f32> : tensor<f32>
    %2 = nn.contract %arg0, %0 {lhs_letters = "bsi", out_letters = "bso", rhs_letters = "io"} : (tensor<2x4x8xf32>, tensor<8x24xf32>) -> tensor<2x4x24xf32>
    %3 = nn.reshape %2 : (tensor<2x4x24xf32>) -> tensor<2x4x3x2x4xf32>
    %4 = nn.transpose %3 {perm = array<i64: 2, 0, 3, 1, 4>} : (tensor<2x4x3x2x4xf32>) -> tensor<3x2x2x4x4xf32>
    %5 = nn.slice %4 {sizes = array<i64: 1, 2, 2, 4, 4>, starts = array<i64: 0, 0, 0, 0, 0>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<3x2x2x4x4xf32>) -> tensor<1x2x2x4x4xf32>
    %6 = nn.reshape %5 : (tensor<1x2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
    %7 = nn.slice %4 {sizes = array<i64: 1, 2, 2, 4, 4>, starts = array<i64: 1, 0, 0, 0, 0>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<3x2x2x4x4xf32>) -> tensor<1x2x2x4x4xf32>
    %8 = nn.reshape %7 : (tensor<1x2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
    %9 = nn.slice %4 {sizes = array<i64: 1, 2, 2, 4, 4>, starts = array<i64: 2, 0, 0, 0, 0>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<3x2x2x4x4xf32>) -> tensor<1x2x2x4x4xf32>
    %10 = nn.reshape %9 : (tensor<1x2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
    %11 = nn.transpose %8 {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
    %12 = nn.contract %6, %11 {lhs_letters = "bhsi", out_letters = "bhso", rhs_letters = "bhio"} : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
    %13 = nn.mul %12, %1 : (tensor<2x2x4x4xf32>, tensor<f32>) -> tensor<2x2x4x4xf32>
    %14 = nn.softmax %13 : (tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
    %15 = nn.contract %14, %10 {lhs_letters = "bhsi", out_letters = "bhso", rhs_letters = "bhio"} : (tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32>
    %16 = nn.transpose %15 {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x2x4x4xf32>) -> tensor<2x4x2x4xf32>
    %17 = nn.reshape %16 : (tensor<2x4x2x4xf32>) -> tensor<2x4x8xf32>
    return %17 : tensor<2x4x8xf32>
  }
}
