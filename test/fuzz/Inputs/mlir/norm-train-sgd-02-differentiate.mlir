module attributes {nn.model = "17cbd34f27b2ea13acb790155c54c4e8861266439d9d7f0d9ebb21f7b41f25b0", nn.phase = "differentiate"} {
  nn.variable @w : tensor<4xf32> {role = "parameter", trained = true}
  nn.variable @b : tensor<4xf32> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4xf32> {nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x4xf32> {nn.name = "y"}) {
    %0 = nn.read @w : tensor<4xf32>
    %1 = nn.read @b : tensor<4xf32>
    %y, %mean, %rstd = nn.layer_norm %arg0, %0, %1 {eps = 9.9999997473787516E-6 : f64, nn.id = "layer_norm_0"} : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
    return %y : tensor<2x4xf32>
  }
  func.func @train(%arg0: tensor<2x4xf32> {nn.kind = #nn<kind data>, nn.name = "x"} loc("/tmp/tmpl8_p2m7x/norm.onnx":0:0), %arg1: tensor<2xi64> {nn.kind = #nn<kind labels>, nn.name = "labels", nn.range = array<i64: 0, 4>} loc("/tmp/tmpl8_p2m7x/norm.onnx":0:0), %arg2: tensor<8xf32> {nn.kind = #nn<kind scalars>, nn.name = "scalars"} loc("/tmp/tmpl8_p2m7x/norm.onnx":0:0), %arg3: tensor<2xf32> {nn.kind = #nn<kind decay>, nn.name = "decay"} loc("/tmp/tmpl8_p2m7x/norm.onnx":0:0)) -> (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.name = "grad_norm"}) attributes {nn.loss = "cross_entropy:y"} {
    %0 = nn.read @w : tensor<4xf32>
    %1 = nn.read @b : tensor<4xf32>
    %y, %mean, %rstd = nn.layer_norm %arg0, %0, %1 {eps = 9.9999997473787516E-6 : f64, nn.id = "layer_norm_0"} : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
    %loss, %lse = nn.cross_entropy %y, %arg1 {nn.id = "cross_entropy_0"} : (tensor<2x4xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<2xf32>)
    %2 = nn.count_valid %arg1 {nn.id = "count_valid_0", nn.prologue} : (tensor<2xi64>) -> tensor<f32>
    %3 = nn.reciprocal %2 {nn.id = "reciprocal_0", nn.prologue} : (tensor<f32>) -> tensor<f32>
    %4 = nn.mul %loss, %3 {nn.id = "mul_0"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %5 = nn.acc %3 {nn.cotangent_of = #nn.value<"cross_entropy_0", 0>} : (tensor<f32>) -> tensor<f32>
    %6 = nn.cross_entropy_grad %y, %arg1, %lse, %5 {nn.grad_of = #nn.grad_of<"cross_entropy_0", [0, 1]>} : (tensor<2x4xf32>, tensor<2xi64>, tensor<2xf32>, tensor<f32>) -> tensor<2x4xf32>
    %7 = nn.acc %6 {nn.cotangent_of = #nn.value<"layer_norm_0", 0>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %dgamma, %dbeta = nn.layer_norm_grad_affine %7, %arg0, %mean, %rstd {nn.grad_of = #nn.grad_of<"layer_norm_0", [0, 1]>} : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    %8 = nn.acc %dgamma {nn.cotangent_of = @w} : (tensor<4xf32>) -> tensor<4xf32>
    %9 = nn.acc %dbeta {nn.cotangent_of = @b} : (tensor<4xf32>) -> tensor<4xf32>
    %10 = nn.sum_squares %8 : (tensor<4xf32>) -> tensor<f32>
    %11 = nn.sum_squares %9 : (tensor<4xf32>) -> tensor<f32>
    %12 = nn.acc %10, %11 : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %13 = nn.sqrt %12 : (tensor<f32>) -> tensor<f32>
    %updated = nn.update %0, %8, %13, %arg2, %arg3 {index = 0 : i64, kind = "sgd"} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<4xf32>
    nn.assign @w, %updated : tensor<4xf32>
    %updated_0 = nn.update %1, %9, %13, %arg2, %arg3 {index = 1 : i64, kind = "sgd"} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<4xf32>
    nn.assign @b, %updated_0 : tensor<4xf32>
    return %4, %13 : tensor<f32>, tensor<f32>
  }
}
