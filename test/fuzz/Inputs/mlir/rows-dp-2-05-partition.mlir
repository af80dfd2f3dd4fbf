module attributes {dist.micro = 1 : i64, nn.model = "203fd0345266274ff5947f13f57a32e4371c3fa121d8e12fdc30b362ae312746", nn.phase = "partition"} {
  dist.mesh @mesh = <["data"=2]>
  func.func @infer(%arg0: tensor<1x4xf32> {dist.layout = #dist.layout<[[2 : "data"=2], [4]]>, dist.shape = array<i64: 2, 4>, nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<f32> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.name = "y"}) {
    %0 = nn.softmax %arg0 : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %1 = nn.reduce %0 {dims = array<i64: 0, 1>, kind = "sum"} : (tensor<1x4xf32>) -> tensor<f32>
    %2 = dist.collective  all_reduce %1 over <"data"=2> shape [] reduce  sum : tensor<f32> -> tensor<f32>
    return %2 : tensor<f32>
  }
}
