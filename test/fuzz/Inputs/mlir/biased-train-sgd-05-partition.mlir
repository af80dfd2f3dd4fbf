module attributes {dist.micro = 1 : i64, nn.model = "c5b026a08a23f9cf5403097bef71ff565ffb4eb854d94556fb78a5069666ad8b", nn.phase = "partition"} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<4x4xf32, #dist.layout<[[4], [4]]>> {role = "parameter", trained = true}
  nn.variable @b : tensor<4xf32, #dist.layout<[[4]]>> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4xf32> {dist.layout = #dist.layout<[[2], [4]]>, dist.shape = array<i64: 2, 4>, nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x4xf32> {dist.layout = #dist.layout<[[2], [4]]>, dist.shape = array<i64: 2, 4>, nn.name = "y"}) {
    %0 = nn.read @w : tensor<4x4xf32>
    %1 = nn.read @b : tensor<4xf32>
    %2 = nn.contract %arg0, %0 {lhs_letters = "si", nn.id = "contract_0", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %3 = nn.add %2, %1 {nn.id = "add_0"} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %4 = nn.gelu %3 {nn.id = "gelu_0"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %5 = nn.contract %4, %0 {lhs_letters = "si", nn.id = "contract_1", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    return %5 : tensor<2x4xf32>
  }
  func.func @train(%arg0: tensor<2x4xf32> {dist.layout = #dist.layout<[[2], [4]]>, dist.shape = array<i64: 2, 4>, nn.kind = #nn<kind data>, nn.name = "x"} loc("/tmp/tmpl8_p2m7x/biased.onnx":0:0), %arg1: tensor<2xi64> {dist.layout = #dist.layout<[[2]]>, dist.shape = array<i64: 2>, nn.kind = #nn<kind labels>, nn.name = "labels", nn.range = array<i64: 0, 4>} loc("/tmp/tmpl8_p2m7x/biased.onnx":0:0), %arg2: tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.kind = #nn<kind scalars>, nn.name = "scalars"} loc("/tmp/tmpl8_p2m7x/biased.onnx":0:0), %arg3: tensor<2xf32> {dist.layout = #dist.layout<[[2]]>, dist.shape = array<i64: 2>, nn.kind = #nn<kind decay>, nn.name = "decay"} loc("/tmp/tmpl8_p2m7x/biased.onnx":0:0)) -> (tensor<f32> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.name = "loss"}, tensor<f32> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.name = "grad_norm"}) attributes {nn.loss = "cross_entropy:y"} {
    %0 = nn.constant dense<0.000000e+00> : tensor<f32> : tensor<f32>
    %1 = nn.constant dense<-100> : tensor<i64> : tensor<i64>
    %2 = nn.read @w : tensor<4x4xf32>
    %3 = nn.read @b : tensor<4xf32>
    %4 = nn.contract %arg0, %2 {lhs_letters = "si", nn.id = "contract_0", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %5 = nn.add %4, %3 {nn.id = "add_0"} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %6 = nn.gelu %5 {nn.id = "gelu_0"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %7 = nn.contract %6, %2 {lhs_letters = "si", nn.id = "contract_1", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %8 = nn.reduce %7 {dims = array<i64: 1>, kind = "max"} : (tensor<2x4xf32>) -> tensor<2xf32>
    %sum, %picked = nn.softmax_sums %7, %arg1, %8 : (tensor<2x4xf32>, tensor<2xi64>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
    %9 = nn.log %sum : (tensor<2xf32>) -> tensor<2xf32>
    %10 = nn.compare %arg1, %1 {predicate = "ne"} : (tensor<2xi64>, tensor<i64>) -> tensor<2xi1>
    %11 = nn.sub %9, %picked : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %12 = nn.select %10, %11, %0 : (tensor<2xi1>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    %13 = nn.reduce %12 {dims = array<i64: 0>, kind = "sum"} : (tensor<2xf32>) -> tensor<f32>
    %14 = nn.add %8, %9 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %15 = nn.count_valid %arg1 {nn.id = "count_valid_0", nn.prologue} : (tensor<2xi64>) -> tensor<f32>
    %16 = nn.reciprocal %15 {nn.id = "reciprocal_0", nn.prologue} : (tensor<f32>) -> tensor<f32>
    %17 = nn.mul %13, %16 {nn.id = "mul_0"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %18 = nn.cross_entropy_grad %7, %arg1, %14, %16 : (tensor<2x4xf32>, tensor<2xi64>, tensor<2xf32>, tensor<f32>) -> tensor<2x4xf32>
    %19 = nn.contract %18, %2 {lhs_letters = "so", nn.grad_of = #nn.grad_of<"contract_1", [0, 2, 1]>, out_letters = "si", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %20 = nn.contract %6, %18 {lhs_letters = "si", nn.grad_of = #nn.grad_of<"contract_1", [0, 1, 2]>, out_letters = "io", rhs_letters = "so"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %21 = nn.gelu_grad %5, %19 {nn.grad_of = #nn.grad_of<"gelu_0", [0, 1]>} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %22 = nn.reduce %21 {dims = array<i64: 0>, kind = "sum"} : (tensor<2x4xf32>) -> tensor<4xf32>
    %23 = nn.contract %arg0, %21 {lhs_letters = "si", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 2]>, out_letters = "io", rhs_letters = "so"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %24 = nn.acc %20, %23 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %25 = nn.sum_squares %24 : (tensor<4x4xf32>) -> tensor<f32>
    %26 = nn.sum_squares %22 : (tensor<4xf32>) -> tensor<f32>
    %27 = nn.acc %25, %26 : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %28 = nn.sqrt %27 : (tensor<f32>) -> tensor<f32>
    %updated = nn.update %2, %24, %28, %arg2, %arg3 {index = 0 : i64, kind = "sgd"} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<4x4xf32>
    nn.assign @w, %updated : tensor<4x4xf32>
    %updated_0 = nn.update %3, %22, %28, %arg2, %arg3 {index = 1 : i64, kind = "sgd"} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<4xf32>
    nn.assign @b, %updated_0 : tensor<4xf32>
    return %17, %28 : tensor<f32>, tensor<f32>
  }
}
