module attributes {nn.model = "213f4847f75b3e3114396ec715f5eb07577d3d91941d40f80e7b8acac3143224", nn.phase = "differentiate"} {
  nn.variable @w : tensor<16x8xf32> {role = "parameter", trained = true}
  nn.variable @b : tensor<16xf32> {role = "parameter", trained = true}
  nn.variable @u : tensor<16x4xf32> {role = "parameter", trained = true}
  nn.variable @w.m : tensor<16x8xf32> {init = "zero", of = "w", role = "optimizer", slot = "m"}
  nn.variable @w.v : tensor<16x8xf32> {init = "zero", of = "w", role = "optimizer", slot = "v"}
  nn.variable @b.m : tensor<16xf32> {init = "zero", of = "b", role = "optimizer", slot = "m"}
  nn.variable @b.v : tensor<16xf32> {init = "zero", of = "b", role = "optimizer", slot = "v"}
  nn.variable @u.m : tensor<16x4xf32> {init = "zero", of = "u", role = "optimizer", slot = "m"}
  nn.variable @u.v : tensor<16x4xf32> {init = "zero", of = "u", role = "optimizer", slot = "v"}
  func.func @infer(%arg0: tensor<4x8xf32> {nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<4x4xf32> {nn.name = "y"}) {
    %0 = nn.read @w : tensor<16x8xf32>
    %1 = nn.read @b : tensor<16xf32>
    %2 = nn.read @u : tensor<16x4xf32>
    %3 = nn.contract %arg0, %0 {lhs_letters = "si", nn.id = "contract_0", out_letters = "so", rhs_letters = "oi"} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
    %4 = nn.add %3, %1 {nn.id = "add_0"} : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %5 = nn.relu %4 {nn.id = "relu_0"} : (tensor<4x16xf32>) -> tensor<4x16xf32>
    %6 = nn.contract %5, %2 {lhs_letters = "si", nn.id = "contract_1", out_letters = "so", rhs_letters = "io"} : (tensor<4x16xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    return %6 : tensor<4x4xf32>
  }
  func.func @train(%arg0: tensor<4x8xf32> {nn.kind = #nn<kind data>, nn.name = "x"} loc("/work/wt/mem/test/fuzz/Inputs/onnx/mlp.onnx":0:0), %arg1: tensor<4xi64> {nn.kind = #nn<kind labels>, nn.name = "labels", nn.range = array<i64: 0, 4>} loc("/work/wt/mem/test/fuzz/Inputs/onnx/mlp.onnx":0:0), %arg2: tensor<8xf32> {nn.kind = #nn<kind scalars>, nn.name = "scalars"} loc("/work/wt/mem/test/fuzz/Inputs/onnx/mlp.onnx":0:0), %arg3: tensor<9xf32> {nn.kind = #nn<kind decay>, nn.name = "decay"} loc("/work/wt/mem/test/fuzz/Inputs/onnx/mlp.onnx":0:0)) -> (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.name = "grad_norm"}) attributes {nn.loss = "cross_entropy:y"} {
    %0 = nn.read @w : tensor<16x8xf32>
    %1 = nn.read @b : tensor<16xf32>
    %2 = nn.read @u : tensor<16x4xf32>
    %3 = nn.contract %arg0, %0 {lhs_letters = "si", nn.id = "contract_0", out_letters = "so", rhs_letters = "oi"} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
    %4 = nn.add %3, %1 {nn.id = "add_0"} : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %5 = nn.relu %4 {nn.id = "relu_0"} : (tensor<4x16xf32>) -> tensor<4x16xf32>
    %6 = nn.contract %5, %2 {lhs_letters = "si", nn.id = "contract_1", out_letters = "so", rhs_letters = "io"} : (tensor<4x16xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %loss, %lse = nn.cross_entropy %6, %arg1 {nn.id = "cross_entropy_0"} : (tensor<4x4xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4xf32>)
    %7 = nn.count_valid %arg1 {nn.id = "count_valid_0", nn.prologue} : (tensor<4xi64>) -> tensor<f32>
    %8 = nn.reciprocal %7 {nn.id = "reciprocal_0", nn.prologue} : (tensor<f32>) -> tensor<f32>
    %9 = nn.mul %loss, %8 {nn.id = "mul_0"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %10 = nn.acc %8 {nn.cotangent_of = #nn.value<"cross_entropy_0", 0>} : (tensor<f32>) -> tensor<f32>
    %11 = nn.cross_entropy_grad %6, %arg1, %lse, %10 {nn.grad_of = #nn.grad_of<"cross_entropy_0", [0, 1]>} : (tensor<4x4xf32>, tensor<4xi64>, tensor<4xf32>, tensor<f32>) -> tensor<4x4xf32>
    %12 = nn.acc %11 {nn.cotangent_of = #nn.value<"contract_1", 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %13 = nn.contract %12, %2 {lhs_letters = "so", nn.grad_of = #nn.grad_of<"contract_1", [0, 2, 1]>, out_letters = "si", rhs_letters = "io"} : (tensor<4x4xf32>, tensor<16x4xf32>) -> tensor<4x16xf32>
    %14 = nn.contract %5, %12 {lhs_letters = "si", nn.grad_of = #nn.grad_of<"contract_1", [0, 1, 2]>, out_letters = "io", rhs_letters = "so"} : (tensor<4x16xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
    %15 = nn.acc %14 {nn.cotangent_of = @u} : (tensor<16x4xf32>) -> tensor<16x4xf32>
    %16 = nn.acc %13 {nn.cotangent_of = #nn.value<"relu_0", 0>} : (tensor<4x16xf32>) -> tensor<4x16xf32>
    %17 = nn.constant {nn.grad_of = #nn.grad_of<"relu_0", []>} dense<0.000000e+00> : tensor<f32> : tensor<f32>
    %18 = nn.compare %4, %17 {nn.grad_of = #nn.grad_of<"relu_0", [0, 1]>, predicate = "gt"} : (tensor<4x16xf32>, tensor<f32>) -> tensor<4x16xi1>
    %19 = nn.constant {nn.grad_of = #nn.grad_of<"relu_0", []>} dense<0.000000e+00> : tensor<f32> : tensor<f32>
    %20 = nn.select %18, %16, %19 {nn.grad_of = #nn.grad_of<"relu_0", [0, 1]>} : (tensor<4x16xi1>, tensor<4x16xf32>, tensor<f32>) -> tensor<4x16xf32>
    %21 = nn.acc %20 {nn.cotangent_of = #nn.value<"add_0", 0>} : (tensor<4x16xf32>) -> tensor<4x16xf32>
    %22 = nn.reduce %21 {dims = array<i64: 0>, kind = "sum", nn.grad_of = #nn.grad_of<"add_0", [0, 1]>} : (tensor<4x16xf32>) -> tensor<16xf32>
    %23 = nn.acc %22 {nn.cotangent_of = @b} : (tensor<16xf32>) -> tensor<16xf32>
    %24 = nn.acc %21 {nn.cotangent_of = #nn.value<"contract_0", 0>} : (tensor<4x16xf32>) -> tensor<4x16xf32>
    %25 = nn.contract %arg0, %24 {lhs_letters = "si", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 2]>, out_letters = "oi", rhs_letters = "so"} : (tensor<4x8xf32>, tensor<4x16xf32>) -> tensor<16x8xf32>
    %26 = nn.acc %25 {nn.cotangent_of = @w} : (tensor<16x8xf32>) -> tensor<16x8xf32>
    %27 = nn.sum_squares %26 : (tensor<16x8xf32>) -> tensor<f32>
    %28 = nn.sum_squares %23 : (tensor<16xf32>) -> tensor<f32>
    %29 = nn.sum_squares %15 : (tensor<16x4xf32>) -> tensor<f32>
    %30 = nn.acc %27, %28, %29 : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %31 = nn.sqrt %30 : (tensor<f32>) -> tensor<f32>
    %32 = nn.read @w.m : tensor<16x8xf32>
    %33 = nn.read @w.v : tensor<16x8xf32>
    %updated, %newState:2 = nn.update %0, %26, %32, %33, %31, %arg2, %arg3 {index = 0 : i64, kind = "adamw"} : (tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<f32>, tensor<8xf32>, tensor<9xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>)
    nn.assign @w, %updated : tensor<16x8xf32>
    nn.assign @w.m, %newState#0 : tensor<16x8xf32>
    nn.assign @w.v, %newState#1 : tensor<16x8xf32>
    %34 = nn.read @b.m : tensor<16xf32>
    %35 = nn.read @b.v : tensor<16xf32>
    %updated_0, %newState_1:2 = nn.update %1, %23, %34, %35, %31, %arg2, %arg3 {index = 1 : i64, kind = "adamw"} : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<f32>, tensor<8xf32>, tensor<9xf32>) -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
    nn.assign @b, %updated_0 : tensor<16xf32>
    nn.assign @b.m, %newState_1#0 : tensor<16xf32>
    nn.assign @b.v, %newState_1#1 : tensor<16xf32>
    %36 = nn.read @u.m : tensor<16x4xf32>
    %37 = nn.read @u.v : tensor<16x4xf32>
    %updated_2, %newState_3:2 = nn.update %2, %15, %36, %37, %31, %arg2, %arg3 {index = 2 : i64, kind = "adamw"} : (tensor<16x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>, tensor<f32>, tensor<8xf32>, tensor<9xf32>) -> (tensor<16x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>)
    nn.assign @u, %updated_2 : tensor<16x4xf32>
    nn.assign @u.m, %newState_3#0 : tensor<16x4xf32>
    nn.assign @u.v, %newState_3#1 : tensor<16x4xf32>
    return %9, %31 : tensor<f32>, tensor<f32>
  }
}
