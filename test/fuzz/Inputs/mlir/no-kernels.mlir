module attributes {dist.micro = 1 : i64, nn.model = "213f4847f75b3e3114396ec715f5eb07577d3d91941d40f80e7b8acac3143224", nn.phase = "schedule"} {
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
  func.func @train(%arg0: tensor<4x8xf32> {dist.layout = #dist.layout<[[4], [8]]>, dist.shape = array<i64: 4, 8>, nn.kind = #nn<kind data>, nn.name = "x"}, %arg1: tensor<4xi64> {dist.layout = #dist.layout<[[4]]>, dist.shape = array<i64: 4>, nn.kind = #nn<kind labels>, nn.name = "labels", nn.range = array<i64: 0, 4>}, %arg2: tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.kind = #nn<kind scalars>, nn.name = "scalars"}, %arg3: tensor<9xf32> {dist.layout = #dist.layout<[[9]]>, dist.shape = array<i64: 9>, nn.kind = #nn<kind decay>, nn.name = "decay"}) -> (tensor<f32> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.name = "loss"}, tensor<f32> {dist.layout = #dist.layout<[]>, dist.shape = array<i64>, nn.name = "grad_norm"}) attributes {nn.loss = "cross_entropy:y"} {
    %0 = nn.constant dense<0.000000e+00> : tensor<f32> : tensor<f32>
    %1 = nn.read @w : tensor<8x8xf32>
    %2 = nn.read @b : tensor<8xf32>
    %3 = nn.read @u : tensor<8x4xf32>
    %4 = nn.contract %arg0, %1 {dist.origin = "recipe", dist.pattern = #dist.pattern<"column", ["tensor"]>, lhs_letters = "si", nn.id = "contract_0", out_letters = "so", rhs_letters = "oi"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %5 = nn.add %4, %2 {nn.id = "add_0"} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %6 = nn.relu %5 {nn.id = "relu_0"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %7 = nn.contract %6, %3 {dist.origin = "recipe", dist.pattern = #dist.pattern<"row", ["tensor"]>, lhs_letters = "si", nn.id = "contract_1", out_letters = "so", rhs_letters = "io"} : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %8 = dist.collective  all_reduce %7 over <"tensor"=2> shape [4, 4] reduce  sum : tensor<4x4xf32> -> tensor<4x4xf32>
    %loss, %lse = nn.cross_entropy %8, %arg1 {nn.id = "cross_entropy_0"} : (tensor<4x4xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4xf32>)
    %9 = nn.count_valid %arg1 {nn.id = "count_valid_0", nn.prologue} : (tensor<4xi64>) -> tensor<f32>
    %10 = nn.reciprocal %9 {nn.id = "reciprocal_0", nn.prologue} : (tensor<f32>) -> tensor<f32>
    %11 = nn.mul %loss, %10 {nn.id = "mul_0"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %12 = nn.cross_entropy_grad %8, %arg1, %lse, %10 : (tensor<4x4xf32>, tensor<4xi64>, tensor<4xf32>, tensor<f32>) -> tensor<4x4xf32>
    %13 = nn.contract %12, %3 {lhs_letters = "so", nn.grad_of = #nn.grad_of<"contract_1", [0, 2, 1]>, out_letters = "si", rhs_letters = "io"} : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
    %14 = nn.contract %6, %12 {lhs_letters = "si", nn.grad_of = #nn.grad_of<"contract_1", [0, 1, 2]>, out_letters = "io", rhs_letters = "so"} : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %15 = nn.compare %5, %0 {nn.grad_of = #nn.grad_of<"relu_0", [0, 1]>, predicate = "gt"} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xi1>
    %16 = nn.select %15, %13, %0 {nn.grad_of = #nn.grad_of<"relu_0", [0, 1]>} : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %17 = nn.reduce %16 {dims = array<i64: 0>, kind = "sum"} : (tensor<4x8xf32>) -> tensor<8xf32>
    %18 = nn.contract %arg0, %16 {lhs_letters = "si", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 2]>, out_letters = "oi", rhs_letters = "so"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %19 = nn.sum_squares %18 : (tensor<8x8xf32>) -> tensor<f32>
    %20 = nn.sum_squares %17 : (tensor<8xf32>) -> tensor<f32>
    %21 = nn.sum_squares %14 : (tensor<8x4xf32>) -> tensor<f32>
    %22 = nn.acc %19, %20, %21 : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %23 = dist.collective  all_reduce %22 over <"tensor"=2> shape [] reduce  sum : tensor<f32> -> tensor<f32>
    %24 = nn.sqrt %23 : (tensor<f32>) -> tensor<f32>
    %25 = nn.read @w.m : tensor<8x8xf32>
    %26 = nn.read @w.v : tensor<8x8xf32>
    %updated, %newState:2 = nn.update %1, %18, %25, %26, %24, %arg2, %arg3 {index = 0 : i64, kind = "adamw"} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<f32>, tensor<8xf32>, tensor<9xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>)
    nn.assign @w, %updated : tensor<8x8xf32>
    nn.assign @w.m, %newState#0 : tensor<8x8xf32>
    nn.assign @w.v, %newState#1 : tensor<8x8xf32>
    %27 = nn.read @b.m : tensor<8xf32>
    %28 = nn.read @b.v : tensor<8xf32>
    %updated_0, %newState_1:2 = nn.update %2, %17, %27, %28, %24, %arg2, %arg3 {index = 1 : i64, kind = "adamw"} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<8xf32>, tensor<9xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    nn.assign @b, %updated_0 : tensor<8xf32>
    nn.assign @b.m, %newState_1#0 : tensor<8xf32>
    nn.assign @b.v, %newState_1#1 : tensor<8xf32>
    %29 = nn.read @u.m : tensor<8x4xf32>
    %30 = nn.read @u.v : tensor<8x4xf32>
    %updated_2, %newState_3:2 = nn.update %3, %14, %29, %30, %24, %arg2, %arg3 {index = 2 : i64, kind = "adamw"} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>, tensor<8xf32>, tensor<9xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>)
    nn.assign @u, %updated_2 : tensor<8x4xf32>
    nn.assign @u.m, %newState_3#0 : tensor<8x4xf32>
    nn.assign @u.v, %newState_3#1 : tensor<8x4xf32>
    return %11, %24 : tensor<f32>, tensor<f32>
  }
}
