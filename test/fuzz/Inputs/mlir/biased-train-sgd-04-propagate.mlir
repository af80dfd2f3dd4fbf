module attributes {dist.micro = 1 : i64, nn.model = "c5b026a08a23f9cf5403097bef71ff565ffb4eb854d94556fb78a5069666ad8b", nn.phase = "propagate"} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<4x4xf32, #dist.layout<[[4], [4]]>> {role = "parameter", trained = true}
  nn.variable @b : tensor<4xf32, #dist.layout<[[4]]>> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4xf32, #dist.layout<[[2], [4]]>> {nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x4xf32, #dist.layout<[[2], [4]]>> {nn.name = "y"}) {
    %0 = nn.read @w : tensor<4x4xf32, #dist.layout<[[4], [4]]>>
    %1 = nn.read @b : tensor<4xf32, #dist.layout<[[4]]>>
    %2 = nn.contract %arg0, %0 {lhs_letters = "si", nn.id = "contract_0", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>, tensor<4x4xf32, #dist.layout<[[4], [4]]>>) -> tensor<2x4xf32, #dist.layout<[[2], [4]]>>
    %3 = nn.add %2, %1 {nn.id = "add_0"} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>, tensor<4xf32, #dist.layout<[[4]]>>) -> tensor<2x4xf32, #dist.layout<[[2], [4]]>>
    %4 = nn.gelu %3 {nn.id = "gelu_0"} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>) -> tensor<2x4xf32, #dist.layout<[[2], [4]]>>
    %5 = nn.contract %4, %0 {lhs_letters = "si", nn.id = "contract_1", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>, tensor<4x4xf32, #dist.layout<[[4], [4]]>>) -> tensor<2x4xf32, #dist.layout<[[2], [4]]>>
    return %5 : tensor<2x4xf32, #dist.layout<[[2], [4]]>>
  }
  func.func @train(%arg0: tensor<2x4xf32, #dist.layout<[[2], [4]]>> {nn.kind = #nn<kind data>, nn.name = "x"} loc("/tmp/tmpl8_p2m7x/biased.onnx":0:0), %arg1: tensor<2xi64, #dist.layout<[[2]]>> {nn.kind = #nn<kind labels>, nn.name = "labels", nn.range = array<i64: 0, 4>} loc("/tmp/tmpl8_p2m7x/biased.onnx":0:0), %arg2: tensor<8xf32, #dist.layout<[[8]]>> {nn.kind = #nn<kind scalars>, nn.name = "scalars"} loc("/tmp/tmpl8_p2m7x/biased.onnx":0:0), %arg3: tensor<2xf32, #dist.layout<[[2]]>> {nn.kind = #nn<kind decay>, nn.name = "decay"} loc("/tmp/tmpl8_p2m7x/biased.onnx":0:0)) -> (tensor<f32, #dist.layout<[]>> {nn.name = "loss"}, tensor<f32, #dist.layout<[]>> {nn.name = "grad_norm"}) attributes {nn.loss = "cross_entropy:y"} {
    %0 = nn.read @w : tensor<4x4xf32, #dist.layout<[[4], [4]]>>
    %1 = nn.read @b : tensor<4xf32, #dist.layout<[[4]]>>
    %2 = nn.contract %arg0, %0 {lhs_letters = "si", nn.id = "contract_0", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>, tensor<4x4xf32, #dist.layout<[[4], [4]]>>) -> tensor<2x4xf32, #dist.layout<[[2], [4]]>>
    %3 = nn.add %2, %1 {nn.id = "add_0"} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>, tensor<4xf32, #dist.layout<[[4]]>>) -> tensor<2x4xf32, #dist.layout<[[2], [4]]>>
    %4 = nn.gelu %3 {nn.id = "gelu_0"} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>) -> tensor<2x4xf32, #dist.layout<[[2], [4]]>>
    %5 = nn.contract %4, %0 {lhs_letters = "si", nn.id = "contract_1", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>, tensor<4x4xf32, #dist.layout<[[4], [4]]>>) -> tensor<2x4xf32, #dist.layout<[[2], [4]]>>
    %loss, %lse = nn.cross_entropy %5, %arg1 {nn.id = "cross_entropy_0"} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>, tensor<2xi64, #dist.layout<[[2]]>>) -> (tensor<f32, #dist.layout<[]>>, tensor<2xf32, #dist.layout<[[2]]>>)
    %6 = nn.count_valid %arg1 {nn.id = "count_valid_0", nn.prologue} : (tensor<2xi64, #dist.layout<[[2]]>>) -> tensor<f32, #dist.layout<[]>>
    %7 = nn.reciprocal %6 {nn.id = "reciprocal_0", nn.prologue} : (tensor<f32, #dist.layout<[]>>) -> tensor<f32, #dist.layout<[]>>
    %8 = nn.mul %loss, %7 {nn.id = "mul_0"} : (tensor<f32, #dist.layout<[]>>, tensor<f32, #dist.layout<[]>>) -> tensor<f32, #dist.layout<[]>>
    %9 = nn.cross_entropy_grad %5, %arg1, %lse, %7 {nn.grad_of = #nn.grad_of<"cross_entropy_0", [0, 1]>} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>, tensor<2xi64, #dist.layout<[[2]]>>, tensor<2xf32, #dist.layout<[[2]]>>, tensor<f32, #dist.layout<[]>>) -> tensor<2x4xf32, #dist.layout<[[2], [4]]>>
    %10 = nn.contract %9, %0 {lhs_letters = "so", nn.grad_of = #nn.grad_of<"contract_1", [0, 2, 1]>, out_letters = "si", rhs_letters = "io"} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>, tensor<4x4xf32, #dist.layout<[[4], [4]]>>) -> tensor<2x4xf32, #dist.layout<[[2], [4]]>>
    %11 = nn.contract %4, %9 {lhs_letters = "si", nn.grad_of = #nn.grad_of<"contract_1", [0, 1, 2]>, out_letters = "io", rhs_letters = "so"} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>, tensor<2x4xf32, #dist.layout<[[2], [4]]>>) -> tensor<4x4xf32, #dist.layout<[[4], [4]]>>
    %12 = nn.gelu_grad %3, %10 {nn.grad_of = #nn.grad_of<"gelu_0", [0, 1]>} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>, tensor<2x4xf32, #dist.layout<[[2], [4]]>>) -> tensor<2x4xf32, #dist.layout<[[2], [4]]>>
    %13 = nn.reduce %12 {dims = array<i64: 0>, kind = "sum", nn.grad_of = #nn.grad_of<"add_0", [0, 1]>} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>) -> tensor<4xf32, #dist.layout<[[4]]>>
    %14 = nn.contract %arg0, %12 {lhs_letters = "si", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 2]>, out_letters = "io", rhs_letters = "so"} : (tensor<2x4xf32, #dist.layout<[[2], [4]]>>, tensor<2x4xf32, #dist.layout<[[2], [4]]>>) -> tensor<4x4xf32, #dist.layout<[[4], [4]]>>
    %15 = nn.acc %11, %14 : (tensor<4x4xf32, #dist.layout<[[4], [4]]>>, tensor<4x4xf32, #dist.layout<[[4], [4]]>>) -> tensor<4x4xf32, #dist.layout<[[4], [4]]>>
    %16 = nn.sum_squares %15 : (tensor<4x4xf32, #dist.layout<[[4], [4]]>>) -> tensor<f32, #dist.layout<[]>>
    %17 = nn.sum_squares %13 : (tensor<4xf32, #dist.layout<[[4]]>>) -> tensor<f32, #dist.layout<[]>>
    %18 = nn.acc %16, %17 : (tensor<f32, #dist.layout<[]>>, tensor<f32, #dist.layout<[]>>) -> tensor<f32, #dist.layout<[]>>
    %19 = nn.sqrt %18 : (tensor<f32, #dist.layout<[]>>) -> tensor<f32, #dist.layout<[]>>
    %updated = nn.update %0, %15, %19, %arg2, %arg3 {index = 0 : i64, kind = "sgd"} : (tensor<4x4xf32, #dist.layout<[[4], [4]]>>, tensor<4x4xf32, #dist.layout<[[4], [4]]>>, tensor<f32, #dist.layout<[]>>, tensor<8xf32, #dist.layout<[[8]]>>, tensor<2xf32, #dist.layout<[[2]]>>) -> tensor<4x4xf32, #dist.layout<[[4], [4]]>>
    nn.assign @w, %updated : tensor<4x4xf32, #dist.layout<[[4], [4]]>>
    %updated_0 = nn.update %1, %13, %19, %arg2, %arg3 {index = 1 : i64, kind = "sgd"} : (tensor<4xf32, #dist.layout<[[4]]>>, tensor<4xf32, #dist.layout<[[4]]>>, tensor<f32, #dist.layout<[]>>, tensor<8xf32, #dist.layout<[[8]]>>, tensor<2xf32, #dist.layout<[[2]]>>) -> tensor<4xf32, #dist.layout<[[4]]>>
    nn.assign @b, %updated_0 : tensor<4xf32, #dist.layout<[[4]]>>
    return %8, %19 : tensor<f32, #dist.layout<[]>>, tensor<f32, #dist.layout<[]>>
  }
}
