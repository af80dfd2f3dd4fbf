module attributes {dist.micro = 1 : i64, nn.model = "562e0c7ebf807de2b6276268a45f42e073465088c7616d6966e01dbe50da7b8c", nn.phase = "partition"} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<4x4xf32, #dist.layout<[[4], [4]]>> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4xf32> {dist.layout = #dist.layout<[[2], [4]]>, dist.shape = array<i64: 2, 4>, nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x4xf32> {dist.layout = #dist.layout<[[2], [4]]>, dist.shape = array<i64: 2, 4>, nn.name = "y"}) {
    %0 = nn.read @w : tensor<4x4xf32>
    %1 = nn.contract %arg0, %0 {lhs_letters = "si", nn.id = "contract_0", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
  func.func @train(%arg0: tensor<2x4xf32> {dist.layout = #dist.layout<[[2], [4]]>, dist.shape = array<i64: 2, 4>, nn.kind = #nn<kind data>, nn.name = "x"} loc("/tmp/tmpl8_p2m7x/one.onnx":0:0), %arg1: tensor<2xi64> {dist.layout = #dist.layout<[[2]]>, dist.shape = array<i64: 2>, nn.kind = #nn<kind labels>, nn.name = "labels", nn.range = array<i64: 0, 4>} loc("/tmp/tmpl8_p2m7x/one.onnx":0:0), %arg2: tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.kind = #nn<kind scalars>, nn.name = "scalars"} loc("/tmp/tmpl8_p2m7x/one.onnx":0:0), %arg3: tensor<1xf32> {dist.layout = #dist.layout<[[]]>, dist.shape = array<i64: 1>, nn.kind = #nn<kind decay>, nn.name = "decay"} loc("/tmp/tmpl8_p2m7x/one.onnx":0:0)) -> (tensor<f32> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.name = "loss"}, tensor<f32> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.name = "grad_norm"}) attributes {nn.loss = "cross_entropy:y"} {
    %0 = nn.constant dense<0.000000e+00> : tensor<f32> : tensor<f32>
    %1 = nn.constant dense<-100> : tensor<i64> : tensor<i64>
    %2 = nn.read @w : tensor<4x4xf32>
    %3 = nn.contract %arg0, %2 {lhs_letters = "si", nn.id = "contract_0", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %4 = nn.reduce %3 {dims = array<i64: 1>, kind = "max"} : (tensor<2x4xf32>) -> tensor<2xf32>
    %sum, %picked = nn.softmax_sums %3, %arg1, %4 : (tensor<2x4xf32>, tensor<2xi64>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
    %5 = nn.log %sum : (tensor<2xf32>) -> tensor<2xf32>
    %6 = nn.compare %arg1, %1 {predicate = "ne"} : (tensor<2xi64>, tensor<i64>) -> tensor<2xi1>
    %7 = nn.sub %5, %picked : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %8 = nn.select %6, %7, %0 : (tensor<2xi1>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    %9 = nn.reduce %8 {dims = array<i64: 0>, kind = "sum"} : (tensor<2xf32>) -> tensor<f32>
    %10 = nn.add %4, %5 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %11 = nn.count_valid %arg1 {nn.id = "count_valid_0", nn.prologue} : (tensor<2xi64>) -> tensor<f32>
    %12 = nn.reciprocal %11 {nn.id = "reciprocal_0", nn.prologue} : (tensor<f32>) -> tensor<f32>
    %13 = nn.mul %9, %12 {nn.id = "mul_0"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %14 = nn.cross_entropy_grad %3, %arg1, %10, %12 : (tensor<2x4xf32>, tensor<2xi64>, tensor<2xf32>, tensor<f32>) -> tensor<2x4xf32>
    %15 = nn.contract %arg0, %14 {lhs_letters = "si", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 2]>, out_letters = "io", rhs_letters = "so"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %16 = nn.sum_squares %15 : (tensor<4x4xf32>) -> tensor<f32>
    %17 = nn.sqrt %16 : (tensor<f32>) -> tensor<f32>
    %updated = nn.update %2, %15, %17, %arg2, %arg3 {index = 0 : i64, kind = "sgd"} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<8xf32>, tensor<1xf32>) -> tensor<4x4xf32>
    nn.assign @w, %updated : tensor<4x4xf32>
    return %13, %17 : tensor<f32>, tensor<f32>
  }
}
