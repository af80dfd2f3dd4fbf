module attributes {dist.micro = 1 : i64, nn.model = "a32169748e98bb28c46514ce2a9d58638b7fbb7d24acd4e0d4df74016c91ec89", nn.phase = "partition"} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<20x8xf32, #dist.layout<[[20], [8]]>> {role = "parameter", trained = true}
  nn.variable @u : tensor<8x20xf32, #dist.layout<[[8], [20]]>> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<4x8xi64> {dist.layout = #dist.layout<[[4], [8]]>, dist.shape = array<i64: 4, 8>, nn.kind = #nn<kind data>, nn.name = "x", nn.range = array<i64: 0, 20>}) -> (tensor<4x8x20xf32> {dist.layout = #dist.layout<[[4], [8], [20]]>, dist.shape = array<i64: 4, 8, 20>, nn.name = "logits"}) {
    %0 = nn.read @w : tensor<20x8xf32>
    %1 = nn.read @u : tensor<8x20xf32>
    %2 = nn.gather %0, %arg0 : (tensor<20x8xf32>, tensor<4x8xi64>) -> tensor<4x8x8xf32>
    %3 = nn.contract %2, %1 {lhs_letters = "bsi", nn.id = "contract_0", out_letters = "bso", rhs_letters = "io"} : (tensor<4x8x8xf32>, tensor<8x20xf32>) -> tensor<4x8x20xf32>
    return %3 : tensor<4x8x20xf32>
  }
  func.func @train(%arg0: tensor<4x8xi64> {dist.layout = #dist.layout<[[4], [8]]>, dist.shape = array<i64: 4, 8>, nn.kind = #nn<kind data>, nn.name = "x", nn.range = array<i64: 0, 20>} loc("/work/wt/mem/test/fuzz/Inputs/onnx/embedding.onnx":0:0), %arg1: tensor<4x8xi64> {dist.layout = #dist.layout<[[4], [8]]>, dist.shape = array<i64: 4, 8>, nn.kind = #nn<kind labels>, nn.name = "labels", nn.range = array<i64: 0, 20>} loc("/work/wt/mem/test/fuzz/Inputs/onnx/embedding.onnx":0:0), %arg2: tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.kind = #nn<kind scalars>, nn.name = "scalars"} loc("/work/wt/mem/test/fuzz/Inputs/onnx/embedding.onnx":0:0), %arg3: tensor<2xf32> {dist.layout = #dist.layout<[[2]]>, dist.shape = array<i64: 2>, nn.kind = #nn<kind decay>, nn.name = "decay"} loc("/work/wt/mem/test/fuzz/Inputs/onnx/embedding.onnx":0:0)) -> (tensor<f32> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.name = "loss"}, tensor<f32> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.name = "grad_norm"}) attributes {nn.loss = "cross_entropy:logits"} {
    %0 = nn.constant dense<0.000000e+00> : tensor<f32> : tensor<f32>
    %1 = nn.constant dense<-100> : tensor<i64> : tensor<i64>
    %2 = nn.read @w : tensor<20x8xf32>
    %3 = nn.read @u : tensor<8x20xf32>
    %4 = nn.gather %2, %arg0 : (tensor<20x8xf32>, tensor<4x8xi64>) -> tensor<4x8x8xf32>
    %5 = nn.contract %4, %3 {lhs_letters = "bsi", nn.id = "contract_0", out_letters = "bso", rhs_letters = "io"} : (tensor<4x8x8xf32>, tensor<8x20xf32>) -> tensor<4x8x20xf32>
    %6 = nn.reduce %5 {dims = array<i64: 2>, kind = "max"} : (tensor<4x8x20xf32>) -> tensor<4x8xf32>
    %sum, %picked = nn.softmax_sums %5, %arg1, %6 : (tensor<4x8x20xf32>, tensor<4x8xi64>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
    %7 = nn.log %sum : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %8 = nn.compare %arg1, %1 {predicate = "ne"} : (tensor<4x8xi64>, tensor<i64>) -> tensor<4x8xi1>
    %9 = nn.sub %7, %picked : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %10 = nn.select %8, %9, %0 : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %11 = nn.reduce %10 {dims = array<i64: 0, 1>, kind = "sum"} : (tensor<4x8xf32>) -> tensor<f32>
    %12 = nn.add %6, %7 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %13 = nn.count_valid %arg1 {nn.id = "count_valid_0", nn.prologue} : (tensor<4x8xi64>) -> tensor<f32>
    %14 = nn.reciprocal %13 {nn.id = "reciprocal_0", nn.prologue} : (tensor<f32>) -> tensor<f32>
    %15 = nn.mul %11, %14 {nn.id = "mul_0"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %16 = nn.cross_entropy_grad %5, %arg1, %12, %14 : (tensor<4x8x20xf32>, tensor<4x8xi64>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8x20xf32>
    %17 = nn.contract %16, %3 {lhs_letters = "bso", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 3, 2]>, out_letters = "bsi", rhs_letters = "io"} : (tensor<4x8x20xf32>, tensor<8x20xf32>) -> tensor<4x8x8xf32>
    %18 = nn.contract %4, %16 {lhs_letters = "bsi", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 2, 3]>, out_letters = "io", rhs_letters = "bso"} : (tensor<4x8x8xf32>, tensor<4x8x20xf32>) -> tensor<8x20xf32>
    %19 = nn.scatter_add %arg0, %17 : (tensor<4x8xi64>, tensor<4x8x8xf32>) -> tensor<20x8xf32>
    %20 = nn.sum_squares %19 : (tensor<20x8xf32>) -> tensor<f32>
    %21 = nn.sum_squares %18 : (tensor<8x20xf32>) -> tensor<f32>
    %22 = nn.acc %20, %21 : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %23 = nn.sqrt %22 : (tensor<f32>) -> tensor<f32>
    %updated = nn.update %2, %19, %23, %arg2, %arg3 {index = 0 : i64, kind = "sgd"} : (tensor<20x8xf32>, tensor<20x8xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<20x8xf32>
    nn.assign @w, %updated : tensor<20x8xf32>
    %updated_0 = nn.update %3, %18, %23, %arg2, %arg3 {index = 1 : i64, kind = "sgd"} : (tensor<8x20xf32>, tensor<8x20xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<8x20xf32>
    nn.assign @u, %updated_0 : tensor<8x20xf32>
    return %15, %23 : tensor<f32>, tensor<f32>
  }
}
