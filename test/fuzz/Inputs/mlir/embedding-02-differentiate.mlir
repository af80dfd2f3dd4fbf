module attributes {nn.model = "a32169748e98bb28c46514ce2a9d58638b7fbb7d24acd4e0d4df74016c91ec89", nn.phase = "differentiate"} {
  nn.variable @w : tensor<20x8xf32> {role = "parameter", trained = true}
  nn.variable @u : tensor<8x20xf32> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<4x8xi64> {nn.kind = #nn<kind data>, nn.name = "x", nn.range = array<i64: 0, 20>}) -> (tensor<4x8x20xf32> {nn.name = "logits"}) {
    %0 = nn.read @w : tensor<20x8xf32>
    %1 = nn.read @u : tensor<8x20xf32>
    %2 = nn.gather %0, %arg0 {nn.id = "gather_0"} : (tensor<20x8xf32>, tensor<4x8xi64>) -> tensor<4x8x8xf32>
    %3 = nn.contract %2, %1 {lhs_letters = "bsi", nn.id = "contract_0", out_letters = "bso", rhs_letters = "io"} : (tensor<4x8x8xf32>, tensor<8x20xf32>) -> tensor<4x8x20xf32>
    return %3 : tensor<4x8x20xf32>
  }
  func.func @train(%arg0: tensor<4x8xi64> {nn.kind = #nn<kind data>, nn.name = "x", nn.range = array<i64: 0, 20>} loc("/work/wt/mem/test/fuzz/Inputs/onnx/embedding.onnx":0:0), %arg1: tensor<4x8xi64> {nn.kind = #nn<kind labels>, nn.name = "labels", nn.range = array<i64: 0, 20>} loc("/work/wt/mem/test/fuzz/Inputs/onnx/embedding.onnx":0:0), %arg2: tensor<8xf32> {nn.kind = #nn<kind scalars>, nn.name = "scalars"} loc("/work/wt/mem/test/fuzz/Inputs/onnx/embedding.onnx":0:0), %arg3: tensor<2xf32> {nn.kind = #nn<kind decay>, nn.name = "decay"} loc("/work/wt/mem/test/fuzz/Inputs/onnx/embedding.onnx":0:0)) -> (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.name = "grad_norm"}) attributes {nn.loss = "cross_entropy:logits"} {
    %0 = nn.read @w : tensor<20x8xf32>
    %1 = nn.read @u : tensor<8x20xf32>
    %2 = nn.gather %0, %arg0 {nn.id = "gather_0"} : (tensor<20x8xf32>, tensor<4x8xi64>) -> tensor<4x8x8xf32>
    %3 = nn.contract %2, %1 {lhs_letters = "bsi", nn.id = "contract_0", out_letters = "bso", rhs_letters = "io"} : (tensor<4x8x8xf32>, tensor<8x20xf32>) -> tensor<4x8x20xf32>
    %loss, %lse = nn.cross_entropy %3, %arg1 {nn.id = "cross_entropy_0"} : (tensor<4x8x20xf32>, tensor<4x8xi64>) -> (tensor<f32>, tensor<4x8xf32>)
    %4 = nn.count_valid %arg1 {nn.id = "count_valid_0", nn.prologue} : (tensor<4x8xi64>) -> tensor<f32>
    %5 = nn.reciprocal %4 {nn.id = "reciprocal_0", nn.prologue} : (tensor<f32>) -> tensor<f32>
    %6 = nn.mul %loss, %5 {nn.id = "mul_0"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %7 = nn.acc %5 {nn.cotangent_of = #nn.value<"cross_entropy_0", 0>} : (tensor<f32>) -> tensor<f32>
    %8 = nn.cross_entropy_grad %3, %arg1, %lse, %7 {nn.grad_of = #nn.grad_of<"cross_entropy_0", [0, 1, 2]>} : (tensor<4x8x20xf32>, tensor<4x8xi64>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8x20xf32>
    %9 = nn.acc %8 {nn.cotangent_of = #nn.value<"contract_0", 0>} : (tensor<4x8x20xf32>) -> tensor<4x8x20xf32>
    %10 = nn.contract %9, %1 {lhs_letters = "bso", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 3, 2]>, out_letters = "bsi", rhs_letters = "io"} : (tensor<4x8x20xf32>, tensor<8x20xf32>) -> tensor<4x8x8xf32>
    %11 = nn.contract %2, %9 {lhs_letters = "bsi", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 2, 3]>, out_letters = "io", rhs_letters = "bso"} : (tensor<4x8x8xf32>, tensor<4x8x20xf32>) -> tensor<8x20xf32>
    %12 = nn.acc %11 {nn.cotangent_of = @u} : (tensor<8x20xf32>) -> tensor<8x20xf32>
    %13 = nn.acc %10 {nn.cotangent_of = #nn.value<"gather_0", 0>} : (tensor<4x8x8xf32>) -> tensor<4x8x8xf32>
    %14 = nn.scatter_add %arg0, %13 {nn.grad_of = #nn.grad_of<"gather_0", [2, 3, 1, 0]>} : (tensor<4x8xi64>, tensor<4x8x8xf32>) -> tensor<20x8xf32>
    %15 = nn.acc %14 {nn.cotangent_of = @w} : (tensor<20x8xf32>) -> tensor<20x8xf32>
    %16 = nn.sum_squares %15 : (tensor<20x8xf32>) -> tensor<f32>
    %17 = nn.sum_squares %12 : (tensor<8x20xf32>) -> tensor<f32>
    %18 = nn.acc %16, %17 : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %19 = nn.sqrt %18 : (tensor<f32>) -> tensor<f32>
    %updated = nn.update %0, %15, %19, %arg2, %arg3 {index = 0 : i64, kind = "sgd"} : (tensor<20x8xf32>, tensor<20x8xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<20x8xf32>
    nn.assign @w, %updated : tensor<20x8xf32>
    %updated_0 = nn.update %1, %12, %19, %arg2, %arg3 {index = 1 : i64, kind = "sgd"} : (tensor<8x20xf32>, tensor<8x20xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<8x20xf32>
    nn.assign @u, %updated_0 : tensor<8x20xf32>
    return %6, %19 : tensor<f32>, tensor<f32>
  }
}
