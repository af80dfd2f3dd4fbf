module attributes {dist.micro = 1 : i64, nn.model = "a32169748e98bb28c46514ce2a9d58638b7fbb7d24acd4e0d4df74016c91ec89", nn.phase = "schedule"} {
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
    %0 = nn.read @w : tensor<20x8xf32>
    %1 = nn.read @u : tensor<8x20xf32>
    %2 = exec.apply @kernel_5(%arg1) {kind = "count_valid"} : (tensor<4x8xi64>) -> tensor<f32>
    %3 = exec.apply @kernel_8() {kind = "constant"} : () -> tensor<f32>
    %4 = nn.gather %0, %arg0 : (tensor<20x8xf32>, tensor<4x8xi64>) -> tensor<4x8x8xf32>
    %5 = nn.contract %4, %1 {lhs_letters = "bsi", nn.id = "contract_0", out_letters = "bso", rhs_letters = "io"} : (tensor<4x8x8xf32>, tensor<8x20xf32>) -> tensor<4x8x20xf32>
    %6 = exec.apply @kernel_0(%5) {kind = "reduce"} : (tensor<4x8x20xf32>) -> tensor<4x8xf32>
    %sum, %picked = nn.softmax_sums %5, %arg1, %6 : (tensor<4x8x20xf32>, tensor<4x8xi64>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
    %7:2 = exec.apply @kernel_1(%sum, %picked) {kind = "fused"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
    %8 = exec.apply @kernel_2(%arg1, %7#1) {kind = "fused"} : (tensor<4x8xi64>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %9 = exec.apply @kernel_3(%8) {kind = "reduce"} : (tensor<4x8xf32>) -> tensor<f32>
    %10:2 = exec.apply @kernel_6(%2, %9) {kind = "fused"} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
    %11 = exec.apply @kernel_4(%6, %7#0) {kind = "add"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %12 = nn.cross_entropy_grad %5, %arg1, %11, %10#0 : (tensor<4x8x20xf32>, tensor<4x8xi64>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8x20xf32>
    %13 = nn.contract %12, %1 {lhs_letters = "bso", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 3, 2]>, out_letters = "bsi", rhs_letters = "io"} : (tensor<4x8x20xf32>, tensor<8x20xf32>) -> tensor<4x8x8xf32>
    %14 = nn.contract %4, %12 {lhs_letters = "bsi", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 2, 3]>, out_letters = "io", rhs_letters = "bso"} : (tensor<4x8x8xf32>, tensor<4x8x20xf32>) -> tensor<8x20xf32>
    %15 = nn.sum_squares %14 : (tensor<8x20xf32>) -> tensor<f32>
    %updated = nn.update %1, %14, %3, %arg2, %arg3 {index = 1 : i64, kind = "sgd"} : (tensor<8x20xf32>, tensor<8x20xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<8x20xf32>
    nn.assign @u, %updated : tensor<8x20xf32>
    %16 = nn.scatter_add %arg0, %13 : (tensor<4x8xi64>, tensor<4x8x8xf32>) -> tensor<20x8xf32>
    %17 = nn.sum_squares %16 : (tensor<20x8xf32>) -> tensor<f32>
    %18 = exec.apply @kernel_7(%17, %15) {kind = "fused"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %updated_0 = nn.update %0, %16, %3, %arg2, %arg3 {index = 0 : i64, kind = "sgd"} : (tensor<20x8xf32>, tensor<20x8xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<20x8xf32>
    nn.assign @w, %updated_0 : tensor<20x8xf32>
    return %10#1, %18 : tensor<f32>, tensor<f32>
  }
  func.func @train_clipped(%arg0: tensor<4x8xi64> {dist.layout = #dist.layout<[[4], [8]]>, dist.shape = array<i64: 4, 8>, nn.kind = #nn<kind data>, nn.name = "x", nn.range = array<i64: 0, 20>} loc("/work/wt/mem/test/fuzz/Inputs/onnx/embedding.onnx":0:0), %arg1: tensor<4x8xi64> {dist.layout = #dist.layout<[[4], [8]]>, dist.shape = array<i64: 4, 8>, nn.kind = #nn<kind labels>, nn.name = "labels", nn.range = array<i64: 0, 20>} loc("/work/wt/mem/test/fuzz/Inputs/onnx/embedding.onnx":0:0), %arg2: tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.kind = #nn<kind scalars>, nn.name = "scalars"} loc("/work/wt/mem/test/fuzz/Inputs/onnx/embedding.onnx":0:0), %arg3: tensor<2xf32> {dist.layout = #dist.layout<[[2]]>, dist.shape = array<i64: 2>, nn.kind = #nn<kind decay>, nn.name = "decay"} loc("/work/wt/mem/test/fuzz/Inputs/onnx/embedding.onnx":0:0)) -> (tensor<f32> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.name = "loss"}, tensor<f32> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.name = "grad_norm"}) attributes {nn.loss = "cross_entropy:logits"} {
    %0 = nn.read @w : tensor<20x8xf32>
    %1 = nn.read @u : tensor<8x20xf32>
    %2 = exec.apply @kernel_5(%arg1) {kind = "count_valid"} : (tensor<4x8xi64>) -> tensor<f32>
    %3 = nn.gather %0, %arg0 : (tensor<20x8xf32>, tensor<4x8xi64>) -> tensor<4x8x8xf32>
    %4 = nn.contract %3, %1 {lhs_letters = "bsi", nn.id = "contract_0", out_letters = "bso", rhs_letters = "io"} : (tensor<4x8x8xf32>, tensor<8x20xf32>) -> tensor<4x8x20xf32>
    %5 = exec.apply @kernel_0(%4) {kind = "reduce"} : (tensor<4x8x20xf32>) -> tensor<4x8xf32>
    %sum, %picked = nn.softmax_sums %4, %arg1, %5 : (tensor<4x8x20xf32>, tensor<4x8xi64>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
    %6:2 = exec.apply @kernel_1(%sum, %picked) {kind = "fused"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
    %7 = exec.apply @kernel_2(%arg1, %6#1) {kind = "fused"} : (tensor<4x8xi64>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %8 = exec.apply @kernel_3(%7) {kind = "reduce"} : (tensor<4x8xf32>) -> tensor<f32>
    %9:2 = exec.apply @kernel_6(%2, %8) {kind = "fused"} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
    %10 = exec.apply @kernel_4(%5, %6#0) {kind = "add"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %11 = nn.cross_entropy_grad %4, %arg1, %10, %9#0 : (tensor<4x8x20xf32>, tensor<4x8xi64>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8x20xf32>
    %12 = nn.contract %11, %1 {lhs_letters = "bso", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 3, 2]>, out_letters = "bsi", rhs_letters = "io"} : (tensor<4x8x20xf32>, tensor<8x20xf32>) -> tensor<4x8x8xf32>
    %13 = nn.contract %3, %11 {lhs_letters = "bsi", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 2, 3]>, out_letters = "io", rhs_letters = "bso"} : (tensor<4x8x8xf32>, tensor<4x8x20xf32>) -> tensor<8x20xf32>
    %14 = nn.sum_squares %13 : (tensor<8x20xf32>) -> tensor<f32>
    %15 = nn.scatter_add %arg0, %12 : (tensor<4x8xi64>, tensor<4x8x8xf32>) -> tensor<20x8xf32>
    %16 = nn.sum_squares %15 : (tensor<20x8xf32>) -> tensor<f32>
    %17 = exec.apply @kernel_7(%16, %14) {kind = "fused"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %updated = nn.update %0, %15, %17, %arg2, %arg3 {index = 0 : i64, kind = "sgd"} : (tensor<20x8xf32>, tensor<20x8xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<20x8xf32>
    nn.assign @w, %updated : tensor<20x8xf32>
    %updated_0 = nn.update %1, %13, %17, %arg2, %arg3 {index = 1 : i64, kind = "sgd"} : (tensor<8x20xf32>, tensor<8x20xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<8x20xf32>
    nn.assign @u, %updated_0 : tensor<8x20xf32>
    return %9#1, %17 : tensor<f32>, tensor<f32>
  }
  module @kernels {
    func.func @kernel_0(%arg0: tensor<4x8x20xf32> loc(unknown)) -> tensor<4x8xf32> {
      %0 = nn.reduce %arg0 {dims = array<i64: 2>, kind = "max"} : (tensor<4x8x20xf32>) -> tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    func.func @kernel_1(%arg0: tensor<4x8xf32> loc(unknown), %arg1: tensor<4x8xf32> loc(unknown)) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
      %0 = nn.log %arg0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %1 = nn.sub %0, %arg1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
    }
    func.func @kernel_2(%arg0: tensor<4x8xi64> loc(unknown), %arg1: tensor<4x8xf32> loc(unknown)) -> tensor<4x8xf32> {
      %0 = nn.constant dense<-100> : tensor<i64> : tensor<i64>
      %1 = nn.constant dense<0.000000e+00> : tensor<f32> : tensor<f32>
      %2 = nn.compare %arg0, %0 {predicate = "ne"} : (tensor<4x8xi64>, tensor<i64>) -> tensor<4x8xi1>
      %3 = nn.select %2, %arg1, %1 : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
      return %3 : tensor<4x8xf32>
    }
    func.func @kernel_3(%arg0: tensor<4x8xf32> loc(unknown)) -> tensor<f32> {
      %0 = nn.reduce %arg0 {dims = array<i64: 0, 1>, kind = "sum"} : (tensor<4x8xf32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    func.func @kernel_4(%arg0: tensor<4x8xf32> loc(unknown), %arg1: tensor<4x8xf32> loc(unknown)) -> tensor<4x8xf32> {
      %0 = nn.add %arg0, %arg1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    func.func @kernel_5(%arg0: tensor<4x8xi64> loc(unknown)) -> tensor<f32> {
      %0 = nn.count_valid %arg0 : (tensor<4x8xi64>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    func.func @kernel_6(%arg0: tensor<f32> loc(unknown), %arg1: tensor<f32> loc(unknown)) -> (tensor<f32>, tensor<f32>) {
      %0 = nn.reciprocal %arg0 : (tensor<f32>) -> tensor<f32>
      %1 = nn.mul %arg1, %0 : (tensor<f32>, tensor<f32>) -> tensor<f32>
      return %0, %1 : tensor<f32>, tensor<f32>
    }
    func.func @kernel_7(%arg0: tensor<f32> loc(unknown), %arg1: tensor<f32> loc(unknown)) -> tensor<f32> {
      %0 = nn.acc %arg0, %arg1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %1 = nn.sqrt %0 : (tensor<f32>) -> tensor<f32>
      return %1 : tensor<f32>
    }
    func.func @kernel_8() -> tensor<f32> {
      %0 = nn.constant dense<0.000000e+00> : tensor<f32> : tensor<f32>
      return %0 : tensor<f32>
    }
  }
}
