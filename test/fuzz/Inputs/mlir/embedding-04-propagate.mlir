module attributes {dist.micro = 1 : i64, nn.model = "a32169748e98bb28c46514ce2a9d58638b7fbb7d24acd4e0d4df74016c91ec89", nn.phase = "propagate"} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<20x8xf32, #dist.layout<[[20], [8]]>> {role = "parameter", trained = true}
  nn.variable @u : tensor<8x20xf32, #dist.layout<[[8], [20]]>> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<4x8xi64, #dist.layout<[[4], [8]]>> {nn.kind = #nn<kind data>, nn.name = "x", nn.range = array<i64: 0, 20>}) -> (tensor<4x8x20xf32, #dist.layout<[[4], [8], [20]]>> {nn.name = "logits"}) {
    %0 = nn.read @w : tensor<20x8xf32, #dist.layout<[[20], [8]]>>
    %1 = nn.read @u : tensor<8x20xf32, #dist.layout<[[8], [20]]>>
    %2 = nn.gather %0, %arg0 {nn.id = "gather_0"} : (tensor<20x8xf32, #dist.layout<[[20], [8]]>>, tensor<4x8xi64, #dist.layout<[[4], [8]]>>) -> tensor<4x8x8xf32, #dist.layout<[[4], [8], [8]]>>
    %3 = nn.contract %2, %1 {lhs_letters = "bsi", nn.id = "contract_0", out_letters = "bso", rhs_letters = "io"} : (tensor<4x8x8xf32, #dist.layout<[[4], [8], [8]]>>, tensor<8x20xf32, #dist.layout<[[8], [20]]>>) -> tensor<4x8x20xf32, #dist.layout<[[4], [8], [20]]>>
    return %3 : tensor<4x8x20xf32, #dist.layout<[[4], [8], [20]]>>
  }
  func.func @train(%arg0: tensor<4x8xi64, #dist.layout<[[4], [8]]>> {nn.kind = #nn<kind data>, nn.name = "x", nn.range = array<i64: 0, 20>} loc("/work/wt/mem/test/fuzz/Inputs/onnx/embedding.onnx":0:0), %arg1: tensor<4x8xi64, #dist.layout<[[4], [8]]>> {nn.kind = #nn<kind labels>, nn.name = "labels", nn.range = array<i64: 0, 20>} loc("/work/wt/mem/test/fuzz/Inputs/onnx/embedding.onnx":0:0), %arg2: tensor<8xf32, #dist.layout<[[8]]>> {nn.kind = #nn<kind scalars>, nn.name = "scalars"} loc("/work/wt/mem/test/fuzz/Inputs/onnx/embedding.onnx":0:0), %arg3: tensor<2xf32, #dist.layout<[[2]]>> {nn.kind = #nn<kind decay>, nn.name = "decay"} loc("/work/wt/mem/test/fuzz/Inputs/onnx/embedding.onnx":0:0)) -> (tensor<f32, #dist.layout<[]>> {nn.name = "loss"}, tensor<f32, #dist.layout<[]>> {nn.name = "grad_norm"}) attributes {nn.loss = "cross_entropy:logits"} {
    %0 = nn.read @w : tensor<20x8xf32, #dist.layout<[[20], [8]]>>
    %1 = nn.read @u : tensor<8x20xf32, #dist.layout<[[8], [20]]>>
    %2 = nn.gather %0, %arg0 {nn.id = "gather_0"} : (tensor<20x8xf32, #dist.layout<[[20], [8]]>>, tensor<4x8xi64, #dist.layout<[[4], [8]]>>) -> tensor<4x8x8xf32, #dist.layout<[[4], [8], [8]]>>
    %3 = nn.contract %2, %1 {lhs_letters = "bsi", nn.id = "contract_0", out_letters = "bso", rhs_letters = "io"} : (tensor<4x8x8xf32, #dist.layout<[[4], [8], [8]]>>, tensor<8x20xf32, #dist.layout<[[8], [20]]>>) -> tensor<4x8x20xf32, #dist.layout<[[4], [8], [20]]>>
    %loss, %lse = nn.cross_entropy %3, %arg1 {nn.id = "cross_entropy_0"} : (tensor<4x8x20xf32, #dist.layout<[[4], [8], [20]]>>, tensor<4x8xi64, #dist.layout<[[4], [8]]>>) -> (tensor<f32, #dist.layout<[]>>, tensor<4x8xf32, #dist.layout<[[4], [8]]>>)
    %4 = nn.count_valid %arg1 {nn.id = "count_valid_0", nn.prologue} : (tensor<4x8xi64, #dist.layout<[[4], [8]]>>) -> tensor<f32, #dist.layout<[]>>
    %5 = nn.reciprocal %4 {nn.id = "reciprocal_0", nn.prologue} : (tensor<f32, #dist.layout<[]>>) -> tensor<f32, #dist.layout<[]>>
    %6 = nn.mul %loss, %5 {nn.id = "mul_0"} : (tensor<f32, #dist.layout<[]>>, tensor<f32, #dist.layout<[]>>) -> tensor<f32, #dist.layout<[]>>
    %7 = nn.cross_entropy_grad %3, %arg1, %lse, %5 {nn.grad_of = #nn.grad_of<"cross_entropy_0", [0, 1, 2]>} : (tensor<4x8x20xf32, #dist.layout<[[4], [8], [20]]>>, tensor<4x8xi64, #dist.layout<[[4], [8]]>>, tensor<4x8xf32, #dist.layout<[[4], [8]]>>, tensor<f32, #dist.layout<[]>>) -> tensor<4x8x20xf32, #dist.layout<[[4], [8], [20]]>>
    %8 = nn.contract %7, %1 {lhs_letters = "bso", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 3, 2]>, out_letters = "bsi", rhs_letters = "io"} : (tensor<4x8x20xf32, #dist.layout<[[4], [8], [20]]>>, tensor<8x20xf32, #dist.layout<[[8], [20]]>>) -> tensor<4x8x8xf32, #dist.layout<[[4], [8], [8]]>>
    %9 = nn.contract %2, %7 {lhs_letters = "bsi", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 2, 3]>, out_letters = "io", rhs_letters = "bso"} : (tensor<4x8x8xf32, #dist.layout<[[4], [8], [8]]>>, tensor<4x8x20xf32, #dist.layout<[[4], [8], [20]]>>) -> tensor<8x20xf32, #dist.layout<[[8], [20]]>>
    %10 = nn.scatter_add %arg0, %8 {nn.grad_of = #nn.grad_of<"gather_0", [2, 3, 1, 0]>} : (tensor<4x8xi64, #dist.layout<[[4], [8]]>>, tensor<4x8x8xf32, #dist.layout<[[4], [8], [8]]>>) -> tensor<20x8xf32, #dist.layout<[[20], [8]]>>
    %11 = nn.sum_squares %10 : (tensor<20x8xf32, #dist.layout<[[20], [8]]>>) -> tensor<f32, #dist.layout<[]>>
    %12 = nn.sum_squares %9 : (tensor<8x20xf32, #dist.layout<[[8], [20]]>>) -> tensor<f32, #dist.layout<[]>>
    %13 = nn.acc %11, %12 : (tensor<f32, #dist.layout<[]>>, tensor<f32, #dist.layout<[]>>) -> tensor<f32, #dist.layout<[]>>
    %14 = nn.sqrt %13 : (tensor<f32, #dist.layout<[]>>) -> tensor<f32, #dist.layout<[]>>
    %updated = nn.update %0, %10, %14, %arg2, %arg3 {index = 0 : i64, kind = "sgd"} : (tensor<20x8xf32, #dist.layout<[[20], [8]]>>, tensor<20x8xf32, #dist.layout<[[20], [8]]>>, tensor<f32, #dist.layout<[]>>, tensor<8xf32, #dist.layout<[[8]]>>, tensor<2xf32, #dist.layout<[[2]]>>) -> tensor<20x8xf32, #dist.layout<[[20], [8]]>>
    nn.assign @w, %updated : tensor<20x8xf32, #dist.layout<[[20], [8]]>>
    %updated_0 = nn.update %1, %9, %14, %arg2, %arg3 {index = 1 : i64, kind = "sgd"} : (tensor<8x20xf32, #dist.layout<[[8], [20]]>>, tensor<8x20xf32, #dist.layout<[[8], [20]]>>, tensor<f32, #dist.layout<[]>>, tensor<8xf32, #dist.layout<[[8]]>>, tensor<2xf32, #dist.layout<[[2]]>>) -> tensor<8x20xf32, #dist.layout<[[8], [20]]>>
    nn.assign @u, %updated_0 : tensor<8x20xf32, #dist.layout<[[8], [20]]>>
    return %6, %14 : tensor<f32, #dist.layout<[]>>, tensor<f32, #dist.layout<[]>>
  }
}
