module attributes {nn.model = "3ec579fa44e81e6fa584a15c56474a49e375531eb7317a35f759a747b9d3e616", nn.phase = "normalize"} {
  func.func @infer(%arg0: tensor<2x4xf32> {nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<1x6xf32> {nn.name = "y"}) {
    %0 = nn.transpose %arg0 {perm = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
    %1 = nn.reshape %0 : (tensor<4x2xf32>) -> tensor<2x4xf32>
    %2 = nn.slice %1 {sizes = array<i64: 1, 4>, starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} : (tensor<2x4xf32>) -> tensor<1x4xf32>
    %3 = nn.pad %2 {high = array<i64: 0, 1>, interior = array<i64: 0, 0>, low = array<i64: 0, 1>} : (tensor<1x4xf32>) -> tensor<1x6xf32>
    return %3 : tensor<1x6xf32>
  }
}
