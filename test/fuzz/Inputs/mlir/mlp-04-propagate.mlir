module attributes {dist.micro = 1 : i64, nn.model = "213f4847f75b3e3114396ec715f5eb07577d3d91941d40f80e7b8acac3143224", nn.phase = "propagate"} {
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
  func.func @infer(%arg0: tensor<4x8xf32, #dist.layout<[[4], [8]]>> {nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<4x4xf32, #dist.layout<[[4], [4]]>> {nn.name = "y"}) {
    %0 = nn.read @w : tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>>
    %1 = nn.read @b : tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>>
    %2 = nn.read @u : tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>>
    %3 = nn.contract %arg0, %0 {dist.origin = "recipe", dist.pattern = #dist.pattern<"column", ["tensor"]>, lhs_letters = "si", nn.id = "contract_0", out_letters = "so", rhs_letters = "oi"} : (tensor<4x8xf32, #dist.layout<[[4], [8]]>>, tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>>) -> tensor<4x16xf32, #dist.layout<[[4], [16 : "tensor"=2]]>>
    %4 = nn.add %3, %1 {nn.id = "add_0"} : (tensor<4x16xf32, #dist.layout<[[4], [16 : "tensor"=2]]>>, tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>>) -> tensor<4x16xf32, #dist.layout<[[4], [16 : "tensor"=2]]>>
    %5 = nn.relu %4 {nn.id = "relu_0"} : (tensor<4x16xf32, #dist.layout<[[4], [16 : "tensor"=2]]>>) -> tensor<4x16xf32, #dist.layout<[[4], [16 : "tensor"=2]]>>
    %6 = nn.contract %5, %2 {dist.origin = "recipe", dist.pattern = #dist.pattern<"row", ["tensor"]>, lhs_letters = "si", nn.id = "contract_1", out_letters = "so", rhs_letters = "io"} : (tensor<4x16xf32, #dist.layout<[[4], [16 : "tensor"=2]]>>, tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>>) -> tensor<4x4xf32, #dist.layout<[[4], [4]], partial = ["tensor"=2]>>
    %7 = dist.reshard %6 : tensor<4x4xf32, #dist.layout<[[4], [4]], partial = ["tensor"=2]>> -> tensor<4x4xf32, #dist.layout<[[4], [4]]>>
    return %7 : tensor<4x4xf32, #dist.layout<[[4], [4]]>>
  }
  func.func @train(%arg0: tensor<4x8xf32, #dist.layout<[[4], [8]]>> {nn.kind = #nn<kind data>, nn.name = "x"}, %arg1: tensor<4xi64, #dist.layout<[[4]]>> {nn.kind = #nn<kind labels>, nn.name = "labels", nn.range = array<i64: 0, 4>}, %arg2: tensor<8xf32, #dist.layout<[[8]]>> {nn.kind = #nn<kind scalars>, nn.name = "scalars"}, %arg3: tensor<9xf32, #dist.layout<[[9]]>> {nn.kind = #nn<kind decay>, nn.name = "decay"}) -> (tensor<f32, #dist.layout<[]>> {nn.name = "loss"}, tensor<f32, #dist.layout<[]>> {nn.name = "grad_norm"}) attributes {nn.loss = "cross_entropy:y"} {
    %0 = nn.read @w : tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>>
    %1 = nn.read @b : tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>>
    %2 = nn.read @u : tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>>
    %3 = nn.contract %arg0, %0 {dist.origin = "recipe", dist.pattern = #dist.pattern<"column", ["tensor"]>, lhs_letters = "si", nn.id = "contract_0", out_letters = "so", rhs_letters = "oi"} : (tensor<4x8xf32, #dist.layout<[[4], [8]]>>, tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>>) -> tensor<4x16xf32, #dist.layout<[[4], [16 : "tensor"=2]]>>
    %4 = nn.add %3, %1 {nn.id = "add_0"} : (tensor<4x16xf32, #dist.layout<[[4], [16 : "tensor"=2]]>>, tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>>) -> tensor<4x16xf32, #dist.layout<[[4], [16 : "tensor"=2]]>>
    %5 = nn.relu %4 {nn.id = "relu_0"} : (tensor<4x16xf32, #dist.layout<[[4], [16 : "tensor"=2]]>>) -> tensor<4x16xf32, #dist.layout<[[4], [16 : "tensor"=2]]>>
    %6 = nn.contract %5, %2 {dist.origin = "recipe", dist.pattern = #dist.pattern<"row", ["tensor"]>, lhs_letters = "si", nn.id = "contract_1", out_letters = "so", rhs_letters = "io"} : (tensor<4x16xf32, #dist.layout<[[4], [16 : "tensor"=2]]>>, tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>>) -> tensor<4x4xf32, #dist.layout<[[4], [4]], partial = ["tensor"=2]>>
    %7 = dist.reshard %6 : tensor<4x4xf32, #dist.layout<[[4], [4]], partial = ["tensor"=2]>> -> tensor<4x4xf32, #dist.layout<[[4], [4]]>>
    %loss, %lse = nn.cross_entropy %7, %arg1 {nn.id = "cross_entropy_0"} : (tensor<4x4xf32, #dist.layout<[[4], [4]]>>, tensor<4xi64, #dist.layout<[[4]]>>) -> (tensor<f32, #dist.layout<[]>>, tensor<4xf32, #dist.layout<[[4]]>>)
    %8 = nn.count_valid %arg1 {nn.id = "count_valid_0", nn.prologue} : (tensor<4xi64, #dist.layout<[[4]]>>) -> tensor<f32, #dist.layout<[]>>
    %9 = nn.reciprocal %8 {nn.id = "reciprocal_0", nn.prologue} : (tensor<f32, #dist.layout<[]>>) -> tensor<f32, #dist.layout<[]>>
    %10 = nn.mul %loss, %9 {nn.id = "mul_0"} : (tensor<f32, #dist.layout<[]>>, tensor<f32, #dist.layout<[]>>) -> tensor<f32, #dist.layout<[]>>
    %11 = nn.cross_entropy_grad %7, %arg1, %lse, %9 {nn.grad_of = #nn.grad_of<"cross_entropy_0", [0, 1]>} : (tensor<4x4xf32, #dist.layout<[[4], [4]]>>, tensor<4xi64, #dist.layout<[[4]]>>, tensor<4xf32, #dist.layout<[[4]]>>, tensor<f32, #dist.layout<[]>>) -> tensor<4x4xf32, #dist.layout<[[4], [4]]>>
    %12 = nn.contract %11, %2 {lhs_letters = "so", nn.grad_of = #nn.grad_of<"contract_1", [0, 2, 1]>, out_letters = "si", rhs_letters = "io"} : (tensor<4x4xf32, #dist.layout<[[4], [4]]>>, tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>>) -> tensor<4x16xf32, #dist.layout<[[4], [16 : "tensor"=2]]>>
    %13 = nn.contract %5, %11 {lhs_letters = "si", nn.grad_of = #nn.grad_of<"contract_1", [0, 1, 2]>, out_letters = "io", rhs_letters = "so"} : (tensor<4x16xf32, #dist.layout<[[4], [16 : "tensor"=2]]>>, tensor<4x4xf32, #dist.layout<[[4], [4]]>>) -> tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>>
    %14 = nn.constant {nn.grad_of = #nn.grad_of<"relu_0", []>} dense<0.000000e+00> : tensor<f32> : tensor<f32, #dist.layout<[]>>
    %15 = nn.compare %4, %14 {nn.grad_of = #nn.grad_of<"relu_0", [0, 1]>, predicate = "gt"} : (tensor<4x16xf32, #dist.layout<[[4], [16 : "tensor"=2]]>>, tensor<f32, #dist.layout<[]>>) -> tensor<4x16xi1, #dist.layout<[[4], [16 : "tensor"=2]]>>
    %16 = nn.constant {nn.grad_of = #nn.grad_of<"relu_0", []>} dense<0.000000e+00> : tensor<f32> : tensor<f32, #dist.layout<[]>>
    %17 = nn.select %15, %12, %16 {nn.grad_of = #nn.grad_of<"relu_0", [0, 1]>} : (tensor<4x16xi1, #dist.layout<[[4], [16 : "tensor"=2]]>>, tensor<4x16xf32, #dist.layout<[[4], [16 : "tensor"=2]]>>, tensor<f32, #dist.layout<[]>>) -> tensor<4x16xf32, #dist.layout<[[4], [16 : "tensor"=2]]>>
    %18 = nn.reduce %17 {dims = array<i64: 0>, kind = "sum", nn.grad_of = #nn.grad_of<"add_0", [0, 1]>} : (tensor<4x16xf32, #dist.layout<[[4], [16 : "tensor"=2]]>>) -> tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>>
    %19 = nn.contract %arg0, %17 {lhs_letters = "si", nn.grad_of = #nn.grad_of<"contract_0", [0, 1, 2]>, out_letters = "oi", rhs_letters = "so"} : (tensor<4x8xf32, #dist.layout<[[4], [8]]>>, tensor<4x16xf32, #dist.layout<[[4], [16 : "tensor"=2]]>>) -> tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>>
    %20 = nn.sum_squares %19 : (tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>>) -> tensor<f32, #dist.layout<[], partial = ["tensor"=2]>>
    %21 = nn.sum_squares %18 : (tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>>) -> tensor<f32, #dist.layout<[], partial = ["tensor"=2]>>
    %22 = nn.sum_squares %13 : (tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>>) -> tensor<f32, #dist.layout<[], partial = ["tensor"=2]>>
    %23 = nn.acc %20, %21, %22 : (tensor<f32, #dist.layout<[], partial = ["tensor"=2]>>, tensor<f32, #dist.layout<[], partial = ["tensor"=2]>>, tensor<f32, #dist.layout<[], partial = ["tensor"=2]>>) -> tensor<f32, #dist.layout<[], partial = ["tensor"=2]>>
    %24 = dist.reshard %23 : tensor<f32, #dist.layout<[], partial = ["tensor"=2]>> -> tensor<f32, #dist.layout<[]>>
    %25 = nn.sqrt %24 : (tensor<f32, #dist.layout<[]>>) -> tensor<f32, #dist.layout<[]>>
    %26 = nn.read @w.m : tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>>
    %27 = nn.read @w.v : tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>>
    %updated, %newState:2 = nn.update %0, %19, %26, %27, %25, %arg2, %arg3 {index = 0 : i64, kind = "adamw"} : (tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>>, tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>>, tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>>, tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>>, tensor<f32, #dist.layout<[]>>, tensor<8xf32, #dist.layout<[[8]]>>, tensor<9xf32, #dist.layout<[[9]]>>) -> (tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>>, tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>>, tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>>)
    nn.assign @w, %updated : tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>>
    nn.assign @w.m, %newState#0 : tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>>
    nn.assign @w.v, %newState#1 : tensor<16x8xf32, #dist.layout<[[16 : "tensor"=2], [8]]>>
    %28 = nn.read @b.m : tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>>
    %29 = nn.read @b.v : tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>>
    %updated_0, %newState_1:2 = nn.update %1, %18, %28, %29, %25, %arg2, %arg3 {index = 1 : i64, kind = "adamw"} : (tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>>, tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>>, tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>>, tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>>, tensor<f32, #dist.layout<[]>>, tensor<8xf32, #dist.layout<[[8]]>>, tensor<9xf32, #dist.layout<[[9]]>>) -> (tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>>, tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>>, tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>>)
    nn.assign @b, %updated_0 : tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>>
    nn.assign @b.m, %newState_1#0 : tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>>
    nn.assign @b.v, %newState_1#1 : tensor<16xf32, #dist.layout<[[16 : "tensor"=2]]>>
    %30 = nn.read @u.m : tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>>
    %31 = nn.read @u.v : tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>>
    %updated_2, %newState_3:2 = nn.update %2, %13, %30, %31, %25, %arg2, %arg3 {index = 2 : i64, kind = "adamw"} : (tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>>, tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>>, tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>>, tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>>, tensor<f32, #dist.layout<[]>>, tensor<8xf32, #dist.layout<[[8]]>>, tensor<9xf32, #dist.layout<[[9]]>>) -> (tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>>, tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>>, tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>>)
    nn.assign @u, %updated_2 : tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>>
    nn.assign @u.m, %newState_3#0 : tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>>
    nn.assign @u.v, %newState_3#1 : tensor<16x4xf32, #dist.layout<[[16 : "tensor"=2], [4]]>>
    return %10, %25 : tensor<f32, #dist.layout<[]>>, tensor<f32, #dist.layout<[]>>
  }
}
