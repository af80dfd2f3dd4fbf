module attributes {dist.micro = 1 : i64, nn.model = "17cbd34f27b2ea13acb790155c54c4e8861266439d9d7f0d9ebb21f7b41f25b0", nn.phase = "assign"} {
  dist.mesh @mesh = <["data"=2]>
  nn.variable @w : tensor<4xf32> {role = "parameter", trained = true}
  nn.variable @b : tensor<4xf32> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4xf32> {dist.split = [["data"], []], nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x4xf32> {nn.name = "y"}) {
    %0 = nn.read @w : tensor<4xf32>
    %1 = nn.read @b : tensor<4xf32>
    %y, %mean, %rstd = nn.layer_norm %arg0, %0, %1 {eps = 9.9999997473787516E-6 : f64} : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
    return %y : tensor<2x4xf32>
  }
}
