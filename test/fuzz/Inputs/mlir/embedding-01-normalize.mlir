module attributes {nn.model = "a32169748e98bb28c46514ce2a9d58638b7fbb7d24acd4e0d4df74016c91ec89", nn.phase = "normalize"} {
  nn.variable @w : tensor<20x8xf32> {role = "parameter", trained = true}
  nn.variable @u : tensor<8x20xf32> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<4x8xi64> {nn.kind = #nn<kind data>, nn.name = "x", nn.range = array<i64: 0, 20>}) -> (tensor<4x8x20xf32> {nn.name = "logits"}) {
    %0 = nn.read @w : tensor<20x8xf32>
    %1 = nn.read @u : tensor<8x20xf32>
    %2 = nn.gather %0, %arg0 : (tensor<20x8xf32>, tensor<4x8xi64>) -> tensor<4x8x8xf32>
    %3 = nn.contract %2, %1 {lhs_letters = "bsi", out_letters = "bso", rhs_letters = "io"} : (tensor<4x8x8xf32>, tensor<8x20xf32>) -> tensor<4x8x20xf32>
    return %3 : tensor<4x8x20xf32>
  }
}
