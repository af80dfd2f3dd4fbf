module attributes {dist.micro = 1 : i64, nn.model = "c5b026a08a23f9cf5403097bef71ff565ffb4eb854d94556fb78a5069666ad8b", nn.phase = "assign"} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<4x4xf32> {role = "parameter", trained = true}
  nn.variable @b : tensor<4xf32> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4xf32> {nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x4xf32> {nn.name = "y"}) {
    %0 = nn.read @w : tensor<4x4xf32>
    %1 = nn.read @b : tensor<4xf32>
    %2 = nn.contract %arg0, %0 {lhs_letters = "si", nn.id = "contract_0", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %3 = nn.add %2, %1 {nn.id = "add_0"} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %4 = nn.gelu %3 {nn.id = "gelu_0"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %5 = nn.contract %4, %0 {lhs_letters = "si", nn.id = "contract_1", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    return %5 : tensor<2x4xf32>
  }
  func.func @train(%arg0: tensor<2x4xf32> {nn.kind = #nn<kind data>, nn.name = "x"} loc("/tmp/tmpl8_p2m7x/biased.onnx":0:0), %arg1: tensor<2xi64> {nn.kind = #nn<kind labels>, nn.name = "labels", nn.range = array<i64: 0, 4>} loc("/tmp/tmpl8_p2m7x/biased.onnx":0:0), %arg2: tensor<8xf32> {nn.kind = #nn<kind scalars>, nn.name = "scalars"} loc("/tmp/tmpl8_p2m7x/biased.onnx":0:0), %arg3: tensor<2xf32> {nn.kind = #nn<kind decay>, nn.name = "decay"} loc("/tmp/tmpl8_p2m7x/biased.onnx":0:0)) -> (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.name = "grad_norm"}) attributes {nn.loss = "cross_entropy:y"} {
    %0 = nn.read @w : tensor<4x4xf32>
    %1 = nn.read @b : tensor<4xf32>
    %2 = nn.contract %arg0, %0 {lhs_letters = "si", nn.id = "contract_0", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %3 = nn.add %2, %1 {nn.id = "add_0"} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %4 = nn.gelu %3 {nn.id = "gelu_0"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %5 = nn.contract %4, %0 {lhs_letters = "si", nn.id = "contract_1", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %loss, %lse = nn.cross_entropy %5, %arg1 {nn.id = "cross_entropy_0"} : (tensor<2x4xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<2xf32>)
    %6 = nn.count_valid %arg1 {nn.id = "count_valid_0", nn.prologue} : (tensor<2xi64>) -> tensor<f32>
    %7 = nn.reciprocal %6 {nn.id = "reciprocal_0", nn.prologue} : (tensor<f32>) -> tensor<f32>
    %8 = nn.mul %loss, %7 {nn.id = "mul_0"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %9 = nn.acc %7 {nn.cotangent_of = #nn.value<"cross_entropy_0", 0>} : (tensor<f32>) -> tensor<f32>
    %10 = nn.cross_entropy_grad %5, %arg1, %lse, %9 {nn.grad_of = #nn.grad_of<"cross_entropy_0", [0, 1]>} : (tensor<2x4xf32>, tensor<2xi64>, tensor<2xf32>, tensor<f32>) -> tensor<2x4xf32>
    %11 = nn.acc %10 {nn.cotangent_of = #nn.value<"contract_1", 0>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %12 = nn.contract %11, %0 {lhs_letters = "so", nn.grad_of = #nn.grad_of<"contract_1", [0, 2, 1]>, out_letters = "si", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %13 = nn.contract %4, %11 {lhs_letters = "si", nn.grad_of = #nn.grad_of<"contract_1", [0, 1, 2]>, out_letters = "io", rhs_letters = "so"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %14 = nn.acc %12 {nn.cotangent_of = #nn.value<"gelu_0", 0>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %15 = nn.gelu_grad %3, %14 {nn.grad_of = #nn.grad_of<"gelu_0", [0, 1]>} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %16 = nn.acc %15 {nn.cotangent_of = #nn.value<"add_0", 0>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %17 = nn.reduce %16 {dims = array<i64: 0>, kind = "sum", nn.grad_of = #nn.grad_of<"add_0", [0, 1]>} : (tensor<2x4xf32>) -> tensor<4xf32>
    %18 = nn.acc %17 {nn.cotangent_of = @b} : (tensor<4xf32>) -> tensor<4xf32>
    %19 = nn.acc %16 {nn.cotangent_of = #nn.value<"contract_0", 0>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %20 = nn.contract %arg0, %19 {lhs_letters = "si", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 2]>, out_letters = "io", rhs_letters = "so"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %21 = nn.acc %13, %20 {nn.cotangent_of = @w} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %22 = nn.sum_squares %21 : (tensor<4x4xf32>) -> tensor<f32>
    %23 = nn.sum_squares %18 : (tensor<4xf32>) -> tensor<f32>
    %24 = nn.acc %22, %23 : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %25 = nn.sqrt %24 : (tensor<f32>) -> tensor<f32>
    %updated = nn.update %0, %21, %25, %arg2, %arg3 {index = 0 : i64, kind = "sgd"} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<4x4xf32>
    nn.assign @w, %updated : tensor<4x4xf32>
    %updated_0 = nn.update %1, %18, %25, %arg2, %arg3 {index = 1 : i64, kind = "sgd"} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<4xf32>
    nn.assign @b, %updated_0 : tensor<4xf32>
    return %8, %25 : tensor<f32>, tensor<f32>
  }
}
