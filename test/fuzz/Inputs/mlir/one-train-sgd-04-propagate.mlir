module attributes {dist.micro = 1 : i64, nn.model = "562e0c7ebf807de2b6276268a45f42e073465088c7616d6966e01dbe50da7b8c", nn.phase = "propagate"} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<4x4xf32, #dist.layout<[[4], [4]]>> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4xf32, #dist.layout<[[2], [4]]>> {nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x4xf32, #dist.layout<[[2], [4]]>> {nn.name = "y"}) {
    %0 = nn.read @w : tensor<4x4xf32, #dist.layout<[[4], [4]]>>
    %1 = nn.contract %arg0, %0 {lhs_letters = "si", nn.id = "contract_0", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>, tensor<4x4xf32, #dist.layout<[[4], [4]]>>) -> tensor<2x4xf32, #dist.layout<[[2], [4]]>>
    return %1 : tensor<2x4xf32, #dist.layout<[[2], [4]]>>
  }
  func.func @train(%arg0: tensor<2x4xf32, #dist.layout<[[2], [4]]>> {nn.kind = #nn<kind data>, nn.name = "x"} loc("/tmp/tmpl8_p2m7x/one.onnx":0:0), %arg1: tensor<2xi64, #dist.layout<[[2]]>> {nn.kind = #nn<kind labels>, nn.name = "labels", nn.range = array<i64: 0, 4>} loc("/tmp/tmpl8_p2m7x/one.onnx":0:0), %arg2: tensor<8xf32, #dist.layout<[[8]]>> {nn.kind = #nn<kind scalars>, nn.name = "scalars"} loc("/tmp/tmpl8_p2m7x/one.onnx":0:0), %arg3: tensor<1xf32, #dist.layout<[[]]>> {nn.kind = #nn<kind decay>, nn.name = "decay"} loc("/tmp/tmpl8_p2m7x/one.onnx":0:0)) -> (tensor<f32, #dist.layout<[]>> {nn.name = "loss"}, tensor<f32, #dist.layout<[]>> {nn.name = "grad_norm"}) attributes {nn.loss = "cross_entropy:y"} {
    %0 = nn.read @w : tensor<4x4xf32, #dist.layout<[[4], [4]]>>
    %1 = nn.contract %arg0, %0 {lhs_letters = "si", nn.id = "contract_0", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>, tensor<4x4xf32, #dist.layout<[[4], [4]]>>) -> tensor<2x4xf32, #dist.layout<[[2], [4]]>>
    %loss, %lse = nn.cross_entropy %1, %arg1 {nn.id = "cross_entropy_0"} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>, tensor<2xi64, #dist.layout<[[2]]>>) -> (tensor<f32, #dist.layout<[]>>, tensor<2xf32, #dist.layout<[[2]]>>)
    %2 = nn.count_valid %arg1 {nn.id = "count_valid_0", nn.prologue} : (tensor<2xi64, #dist.layout<[[2]]>>) -> tensor<f32, #dist.layout<[]>>
    %3 = nn.reciprocal %2 {nn.id = "reciprocal_0", nn.prologue} : (tensor<f32, #dist.layout<[]>>) -> tensor<f32, #dist.layout<[]>>
    %4 = nn.mul %loss, %3 {nn.id = "mul_0"} : (tensor<f32, #dist.layout<[]>>, tensor<f32, #dist.layout<[]>>) -> tensor<f32, #dist.layout<[]>>
    %5 = nn.cross_entropy_grad %1, %arg1, %lse, %3 {nn.grad_of = #nn.grad_of<"cross_entropy_0", [0, 1]>} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>, tensor<2xi64, #dist.layout<[[2]]>>, tensor<2xf32, #dist.layout<[[2]]>>, tensor<f32, #dist.layout<[]>>) -> tensor<2x4xf32, #dist.layout<[[2], [4]]>>
    %6 = nn.contract %arg0, %5 {lhs_letters = "si", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 2]>, out_letters = "io", rhs_letters = "so"} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>, tensor<2x4xf32, #dist.layout<[[2], [4]]>>) -> tensor<4x4xf32, #dist.layout<[[4], [4]]>>
    %7 = nn.sum_squares %6 : (tensor<4x4xf32, #dist.layout<[[4], [4]]>>) -> tensor<f32, #dist.layout<[]>>
    %8 = nn.sqrt %7 : (tensor<f32, #dist.layout<[]>>) -> tensor<f32, #dist.layout<[]>>
    %updated = nn.update %0, %6, %8, %arg2, %arg3 {index = 0 : i64, kind = "sgd"} : (tensor<4x4xf32, #dist.layout<[[4], [4]]>>, tensor<4x4xf32, #dist.layout<[[4], [4]]>>, tensor<f32, #dist.layout<[]>>, tensor<8xf32, #dist.layout<[[8]]>>, tensor<1xf32, #dist.layout<[[]]>>) -> tensor<4x4xf32, #dist.layout<[[4], [4]]>>
    nn.assign @w, %updated : tensor<4x4xf32, #dist.layout<[[4], [4]]>>
    return %4, %8 : tensor<f32, #dist.layout<[]>>, tensor<f32, #dist.layout<[]>>
  }
}
