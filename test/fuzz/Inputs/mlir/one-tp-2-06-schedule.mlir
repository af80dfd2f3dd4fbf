module attributes {dist.micro = 1 : i64, nn.model = "562e0c7ebf807de2b6276268a45f42e073465088c7616d6966e01dbe50da7b8c", nn.phase = "schedule"} {
  dist.mesh @mesh = <["tensor"=2]>
  nn.variable @w : tensor<4x4xf32, #dist.layout<[[4], [4 : "tensor"=2]]>> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4xf32> {dist.layout = #dist.layout<[[2], [4]]>, dist.shape = array<i64: 2, 4>, nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x2xf32> {dist.layout = #dist.layout<[[2], [4 : "tensor"=2]]>, dist.shape = array<i64: 2, 4>, nn.name = "y"}) {
    %0 = nn.read @w : tensor<4x2xf32>
    %1 = nn.contract %arg0, %0 {dist.origin = "recipe", dist.pattern = #dist.pattern<"vocab", ["tensor"]>, lhs_letters = "si", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
    return %1 : tensor<2x2xf32>
  }
  module @kernels {
  }
}
