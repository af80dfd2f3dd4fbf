module attributes {dist.micro = 1 : i64, nn.model = "07bea65991f6c71f29d70063ef9860502f051b30c9ca45a2793ed6f7deb169f1", nn.phase = "partition"} {
  dist.mesh @mesh = <["tensor"=2]>
  nn.variable @w : tensor<4x4xf32, #dist.layout<[[4], [4 : "tensor"=2]]>> {role = "parameter", trained = true}
  nn.variable @u : tensor<4x4xf32, #dist.layout<[[4 : "tensor"=2], [4]]>> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4xf32> {dist.layout = #dist.layout<[[2], [4]]>, dist.shape = array<i64: 2, 4>, nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x4xf32> {dist.layout = #dist.layout<[[2], [4]]>, dist.shape = array<i64: 2, 4>, nn.name = "y"}) {
    %0 = nn.read @w : tensor<4x2xf32>
    %1 = nn.read @u : tensor<2x4xf32>
    %2 = nn.contract %arg0, %0 {dist.origin = "recipe", dist.pattern = #dist.pattern<"column", ["tensor"]>, lhs_letters = "si", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
    %3 = nn.relu %2 : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %4 = nn.contract %3, %1 {dist.origin = "recipe", dist.pattern = #dist.pattern<"row", ["tensor"]>, lhs_letters = "si", out_letters = "so", rhs_letters = "io"} : (tensor<2x2xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %5 = dist.collective  all_reduce %4 over <"tensor"=1> shape [2, 4] reduce  sum : tensor<2x4xf32> -> tensor<2x4xf32>
    return %5 : tensor<2x4xf32>
  }
}
