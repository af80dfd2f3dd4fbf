module attributes {dist.micro = 1 : i64, nn.model = "203fd0345266274ff5947f13f57a32e4371c3fa121d8e12fdc30b362ae312746", nn.phase = "assign"} {
  dist.mesh @mesh = <["data"=2]>
  func.func @infer(%arg0: tensor<2x4xf32> {dist.split = [["data"], []], nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<f32> {nn.name = "y"}) {
    %0 = nn.softmax %arg0 : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %1 = nn.reduce %0 {dims = array<i64: 0, 1>, kind = "sum"} : (tensor<2x4xf32>) -> tensor<f32>
    return %1 : tensor<f32>
  }
}
