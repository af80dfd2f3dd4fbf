module attributes {dist.micro = 1 : i64, nn.model = "213f4847f75b3e3114396ec715f5eb07577d3d91941d40f80e7b8acac3143224", nn.phase = "partition"} {
  dist.mesh @mesh = <["tensor"=2]>
  nn.variable @w : tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>> {role = "parameter", trained = true}
  nn.variable @b : tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>> {role = "parameter", trained = true}
  nn.variable @u : tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>> {role = "parameter", trained = true}
  nn.variable @w.m : tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>> {init = "zero", of = "w", role = "optimizer", slot = "m"}
  nn.variable @w.v : tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>> {init = "zero", of = "w", role = "optimizer", slot = "v"}
  nn.variable @b.m : tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>> {init = "zero", of = "b", role = "optimizer", slot = "m"}
  nn.variable @b.v : tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>> {init = "zero", of = "b", role = "optimizer", slot = "v"}
  nn.variable @u.m : tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>> {init = "zero", of = "u", role = "optimizer", slot = "m"}
  nn.variable @u.v : tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>> {init = "zero", of = "u", role = "optimizer", slot = "v"}
  func.func @infer(%arg0: tensor<4x8xf32> {dist.layout = #dist.layout<[[4], [8]]>, dist.shape = array<i64: 4, 8>, nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<4x4xf32> {dist.layout = #dist.layout<[[4], [4]]>, dist.shape = array<i64: 4, 4>, nn.name = "y"}) {
    %0 = nn.read @w : tensor<8x8xf32>
    %1 = nn.read @b : tensor<8xf32>
    %2 = nn.read @u : tensor<8x4xf32>
    %3 = nn.contract %arg0, %0 {dist.origin = "recipe", dist.pattern = #dist.pattern<"column", ["tensor"]>, lhs_letters = "si", nn.id = "contract_0", out_letters = "so", rhs_letters = "oi"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %4 = nn.add %3, %1 {nn.id = "add_0"} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %5 = nn.relu %4 {nn.id = "relu_0"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %6 = nn.contract %5, %2 {dist.origin = "recipe", dist.pattern = #dist.pattern<"row", ["tensor"]>, lhs_letters = "si", nn.id = "contract_1", out_letters = "so", rhs_letters = "io"} : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %7 = dist.collective  all_reduce %6 over <"tensor"=2> shape [4, 4] reduce  sum : tensor<4x4xf32> -> tensor<4x4xf32>
    return %7 : tensor<4x4xf32>
  }
  func.func @train(%arg0: tensor<4x8xf32> {dist.layout = #dist.layout<[[4], [8]]>, dist.shape = array<i64: 4, 8>, nn.kind = #nn<kind data>, nn.name = "x"} loc("/work/wt/mem/test/fuzz/Inputs/onnx/mlp.onnx":0:0), %arg1: tensor<4xi64> {dist.layout = #dist.layout<[[4]]>, dist.shape = array<i64: 4>, nn.kind = #nn<kind labels>, nn.name = "labels", nn.range = array<i64: 0, 4>} loc("/work/wt/mem/test/fuzz/Inputs/onnx/mlp.onnx":0:0), %arg2: tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.kind = #nn<kind scalars>, nn.name = "scalars"} loc("/work/wt/mem/test/fuzz/Inputs/onnx/mlp.onnx":0:0), %arg3: tensor<9xf32> {dist.layout = #dist.layout<[[9]]>, dist.shape = array<i64: 9>, nn.kind = #nn<kind decay>, nn.name = "decay"} loc("/work/wt/mem/test/fuzz/Inputs/onnx/mlp.onnx":0:0)) -> (tensor<f32> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.name = "loss"}, tensor<f32> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.name = "grad_norm"}) attributes {nn.loss = "cross_entropy:y"} {
    %0 = nn.constant dense<0.000000e+00> : tensor<f32> : tensor<f32>
    %1 = nn.constant dense<-100> : tensor<i64> : tensor<i64>
    %2 = nn.read @w : tensor<8x8xf32>
    %3 = nn.read @b : tensor<8xf32>
    %4 = nn.read @u : tensor<8x4xf32>
    %5 = nn.contract %arg0, %2 {dist.origin = "recipe", dist.pattern = #dist.pattern<"column", ["tensor"]>, lhs_letters = "si", nn.id = "contract_0", out_letters = "so", rhs_letters = "oi"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %6 = nn.add %5, %3 {nn.id = "add_0"} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %7 = nn.relu %6 {nn.id = "relu_0"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %8 = nn.contract %7, %4 {dist.origin = "recipe", dist.pattern = #dist.pattern<"row", ["tensor"]>, lhs_letters = "si", nn.id = "contract_1", out_letters = "so", rhs_letters = "io"} : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %9 = dist.collective  all_reduce %8 over <"tensor"=2> shape [4, 4] reduce  sum : tensor<4x4xf32> -> tensor<4x4xf32>
    %10 = nn.reduce %9 {dims = array<i64: 1>, kind = "max"} : (tensor<4x4xf32>) -> tensor<4xf32>
    %sum, %picked = nn.softmax_sums %9, %arg1, %10 : (tensor<4x4xf32>, tensor<4xi64>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    %11 = nn.log %sum : (tensor<4xf32>) -> tensor<4xf32>
    %12 = nn.compare %arg1, %1 {predicate = "ne"} : (tensor<4xi64>, tensor<i64>) -> tensor<4xi1>
    %13 = nn.sub %11, %picked : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %14 = nn.select %12, %13, %0 : (tensor<4xi1>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %15 = nn.reduce %14 {dims = array<i64: 0>, kind = "sum"} : (tensor<4xf32>) -> tensor<f32>
    %16 = nn.add %10, %11 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %17 = nn.count_valid %arg1 {nn.id = "count_valid_0", nn.prologue} : (tensor<4xi64>) -> tensor<f32>
    %18 = nn.reciprocal %17 {nn.id = "reciprocal_0", nn.prologue} : (tensor<f32>) -> tensor<f32>
    %19 = nn.mul %15, %18 {nn.id = "mul_0"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %20 = nn.cross_entropy_grad %9, %arg1, %16, %18 : (tensor<4x4xf32>, tensor<4xi64>, tensor<4xf32>, tensor<f32>) -> tensor<4x4xf32>
    %21 = nn.contract %20, %4 {lhs_letters = "so", nn.grad_of = #nn.grad_of<"contract_1", [0, 2, 1]>, out_letters = "si", rhs_letters = "io"} : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
    %22 = nn.contract %7, %20 {lhs_letters = "si", nn.grad_of = #nn.grad_of<"contract_1", [0, 1, 2]>, out_letters = "io", rhs_letters = "so"} : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %23 = nn.compare %6, %0 {nn.grad_of = #nn.grad_of<"relu_0", [0, 1]>, predicate = "gt"} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xi1>
    %24 = nn.select %23, %21, %0 {nn.grad_of = #nn.grad_of<"relu_0", [0, 1]>} : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %25 = nn.reduce %24 {dims = array<i64: 0>, kind = "sum"} : (tensor<4x8xf32>) -> tensor<8xf32>
    %26 = nn.contract %arg0, %24 {lhs_letters = "si", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 2]>, out_letters = "oi", rhs_letters = "so"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %27 = nn.sum_squares %26 : (tensor<8x8xf32>) -> tensor<f32>
    %28 = nn.sum_squares %25 : (tensor<8xf32>) -> tensor<f32>
    %29 = nn.sum_squares %22 : (tensor<8x4xf32>) -> tensor<f32>
    %30 = nn.acc %27, %28, %29 : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %31 = dist.collective  all_reduce %30 over <"tensor"=2> shape [] reduce  sum : tensor<f32> -> tensor<f32>
    %32 = nn.sqrt %31 : (tensor<f32>) -> tensor<f32>
    %33 = nn.read @w.m : tensor<8x8xf32>
    %34 = nn.read @w.v : tensor<8x8xf32>
    %updated, %newState:2 = nn.update %2, %26, %33, %34, %32, %arg2, %arg3 {index = 0 : i64, kind = "adamw"} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<f32>, tensor<8xf32>, tensor<9xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>)
    nn.assign @w, %updated : tensor<8x8xf32>
    nn.assign @w.m, %newState#0 : tensor<8x8xf32>
    nn.assign @w.v, %newState#1 : tensor<8x8xf32>
    %35 = nn.read @b.m : tensor<8xf32>
    %36 = nn.read @b.v : tensor<8xf32>
    %updated_0, %newState_1:2 = nn.update %3, %25, %35, %36, %32, %arg2, %arg3 {index = 1 : i64, kind = "adamw"} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<8xf32>, tensor<9xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    nn.assign @b, %updated_0 : tensor<8xf32>
    nn.assign @b.m, %newState_1#0 : tensor<8xf32>
    nn.assign @b.v, %newState_1#1 : tensor<8xf32>
    %37 = nn.read @u.m : tensor<8x4xf32>
    %38 = nn.read @u.v : tensor<8x4xf32>
    %updated_2, %newState_3:2 = nn.update %4, %22, %37, %38, %32, %arg2, %arg3 {index = 2 : i64, kind = "adamw"} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>, tensor<8xf32>, tensor<9xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>)
    nn.assign @u, %updated_2 : tensor<8x4xf32>
    nn.assign @u.m, %newState_3#0 : tensor<8x4xf32>
    nn.assign @u.v, %newState_3#1 : tensor<8x4xf32>
    return %19, %32 : tensor<f32>, tensor<f32>
  }
}
