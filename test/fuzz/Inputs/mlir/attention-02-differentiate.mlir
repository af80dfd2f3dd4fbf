module attributes {nn.model = "72887e7ac376186b48f8d58086f45a269d3a0a62705008f47e80c55f81d0a504", nn.phase = "differentiate"} {
  nn.variable @w : tensor<8x24xf32> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4x8xf32> {nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x4x8xf32> {nn.name = "y"}) {
    %0 = nn.read @w : tensor<8x24xf32>
    %1 = nn.contract %arg0, %0 {lhs_letters = "bsi", out_letters = "bso", rhs_letters = "io"} : (tensor<2x4x8xf32>, tensor<8x24xf32>) -> tensor<2x4x24xf32>
    %2 = nn.reshape %1 : (tensor<2x4x24xf32>) -> tensor<2x4x3x2x4xf32>
    %3 = nn.slice %2 {sizes = array<i64: 2, 4, 1, 2, 4>, starts = array<i64: 0, 0, 0, 0, 0>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x4x3x2x4xf32>) -> tensor<2x4x1x2x4xf32>
    %4 = nn.slice %2 {sizes = array<i64: 2, 4, 1, 2, 4>, starts = array<i64: 0, 0, 1, 0, 0>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x4x3x2x4xf32>) -> tensor<2x4x1x2x4xf32>
    %5 = nn.slice %2 {sizes = array<i64: 2, 4, 1, 2, 4>, starts = array<i64: 0, 0, 2, 0, 0>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x4x3x2x4xf32>) -> tensor<2x4x1x2x4xf32>
    %6 = nn.reshape %3 : (tensor<2x4x1x2x4xf32>) -> tensor<2x4x2x1x4xf32>
    %7 = nn.reshape %4 : (tensor<2x4x1x2x4xf32>) -> tensor<2x4x2x4xf32>
    %8 = nn.reshape %5 : (tensor<2x4x1x2x4xf32>) -> tensor<2x4x2x4xf32>
    %o, %lse = nn.attention %6, %7, %8 {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = -1.4659674167633057 : f64} : (tensor<2x4x2x1x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>) -> (tensor<2x4x2x1x4xf32>, tensor<2x4x2x1xf32>)
    %9 = nn.reshape %o : (tensor<2x4x2x1x4xf32>) -> tensor<2x4x8xf32>
    return %9 : tensor<2x4x8xf32>
  }
}
