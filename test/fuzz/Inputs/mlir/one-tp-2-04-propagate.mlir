module attributes {dist.micro = 1 : i64, nn.model = "8d456c0fe98ea6716383ddb1b85cb4a379689efb03e99b1f2f7a07bf4167b592", nn.phase = "propagate"} {
  dist.mesh @mesh = <["tensor"=2]>
  nn.variable @w : tensor<4x4xf32, #dist.layout<[[4], [4 : "tensor"=2]]>> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4xf32, #dist.layout<[[2], [4]]>> {nn.kind = "data", nn.name = "x"}) -> (tensor<2x4xf32, #dist.layout<[[2], [4 : "tensor"=2]]>> {nn.name = "y"}) {
    %0 = nn.read @w : tensor<4x4xf32, #dist.layout<[[4], [4 : "tensor"=2]]>>
    %1 = nn.contract %arg0, %0 {dist.origin = "recipe", dist.pattern = #dist.pattern<"vocab", ["tensor"]>, lhs_letters = "si", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>, tensor<4x4xf32, #dist.layout<[[4], [4 : "tensor"=2]]>>) -> tensor<2x4xf32, #dist.layout<[[2], [4 : "tensor"=2]]>>
    return %1 : tensor<2x4xf32, #dist.layout<[[2], [4 : "tensor"=2]]>>
  }
}
