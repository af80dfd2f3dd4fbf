module attributes {nn.model = "562e0c7ebf807de2b6276268a45f42e073465088c7616d6966e01dbe50da7b8c", nn.phase = "differentiate"} {
  nn.variable @w : tensor<4x4xf32> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4xf32> {nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x4xf32> {nn.name = "y"}) {
    %0 = nn.read @w : tensor<4x4xf32>
    %1 = nn.contract %arg0, %0 {lhs_letters = "si", nn.id = "contract_0", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
  func.func @train(%arg0: tensor<2x4xf32> {nn.kind = #nn<kind data>, nn.name = "x"} loc("/tmp/tmpl8_p2m7x/one.onnx":0:0), %arg1: tensor<2xi64> {nn.kind = #nn<kind labels>, nn.name = "labels", nn.range = array<i64: 0, 4>} loc("/tmp/tmpl8_p2m7x/one.onnx":0:0), %arg2: tensor<8xf32> {nn.kind = #nn<kind scalars>, nn.name = "scalars"} loc("/tmp/tmpl8_p2m7x/one.onnx":0:0), %arg3: tensor<1xf32> {nn.kind = #nn<kind decay>, nn.name = "decay"} loc("/tmp/tmpl8_p2m7x/one.onnx":0:0)) -> (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.name = "grad_norm"}) attributes {nn.loss = "cross_entropy:y"} {
    %0 = nn.read @w : tensor<4x4xf32>
    %1 = nn.contract %arg0, %0 {lhs_letters = "si", nn.id = "contract_0", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %loss, %lse = nn.cross_entropy %1, %arg1 {nn.id = "cross_entropy_0"} : (tensor<2x4xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<2xf32>)
    %2 = nn.count_valid %arg1 {nn.id = "count_valid_0", nn.prologue} : (tensor<2xi64>) -> tensor<f32>
    %3 = nn.reciprocal %2 {nn.id = "reciprocal_0", nn.prologue} : (tensor<f32>) -> tensor<f32>
    %4 = nn.mul %loss, %3 {nn.id = "mul_0"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %5 = nn.acc %3 {nn.cotangent_of = #nn.value<"cross_entropy_0", 0>} : (tensor<f32>) -> tensor<f32>
    %6 = nn.cross_entropy_grad %1, %arg1, %lse, %5 {nn.grad_of = #nn.grad_of<"cross_entropy_0", [0, 1]>} : (tensor<2x4xf32>, tensor<2xi64>, tensor<2xf32>, tensor<f32>) -> tensor<2x4xf32>
    %7 = nn.acc %6 {nn.cotangent_of = #nn.value<"contract_0", 0>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %8 = nn.contract %arg0, %7 {lhs_letters = "si", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 2]>, out_letters = "io", rhs_letters = "so"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %9 = nn.acc %8 {nn.cotangent_of = @w} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %10 = nn.sum_squares %9 : (tensor<4x4xf32>) -> tensor<f32>
    %11 = nn.acc %10 : (tensor<f32>) -> tensor<f32>
    %12 = nn.sqrt %11 : (tensor<f32>) -> tensor<f32>
    %updated = nn.update %0, %9, %12, %arg2, %arg3 {index = 0 : i64, kind = "sgd"} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<8xf32>, tensor<1xf32>) -> tensor<4x4xf32>
    nn.assign @w, %updated : tensor<4x4xf32>
    return %4, %12 : tensor<f32>, tensor<f32>
  }
}
