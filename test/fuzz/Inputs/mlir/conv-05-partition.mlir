module attributes {dist.micro = 1 : i64, nn.model = "eea156db4d8452575c5343e2338a1d5d3020262a613348e2902ab92538e60fb1", nn.phase = "partition"} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<4x3x3x3xf32, #dist.layout<[[4], [3], [3], [3]]>> {role = "parameter", trained = true}
  nn.variable @b : tensor<4xf32, #dist.layout<[[4]]>> {role = "parameter", trained = true}
  nn.variable @s : tensor<4xf32, #dist.layout<[[4]]>> {role = "parameter", trained = true}
  nn.variable @u : tensor<4x5xf32, #dist.layout<[[4], [5]]>> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x3x6x6xf32> {dist.layout = #dist.layout<[[2], [3], [6], [6]]>, dist.shape = array<i64: 2, 3, 6, 6>, nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x5xf32> {dist.layout = #dist.layout<[[2], [5]]>, dist.shape = array<i64: 2, 5>, nn.name = "y"}) {
    %0 = nn.constant dense<9.000000e+00> : tensor<f32> : tensor<f32>
    %1 = nn.constant dense<9.99999974E-6> : tensor<f32> : tensor<f32>
    %2 = nn.read @w : tensor<4x3x3x3xf32>
    %3 = nn.read @b : tensor<4xf32>
    %4 = nn.read @s : tensor<4xf32>
    %5 = nn.read @u : tensor<4x5xf32>
    %6 = nn.conv %arg0, %2 {dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x3x3xf32>
    %7 = nn.reshape %3 : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %8 = nn.add %6, %7 : (tensor<2x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<2x4x3x3xf32>
    %9 = nn.add %4, %1 : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %10 = nn.rsqrt %9 : (tensor<4xf32>) -> tensor<4xf32>
    %11 = nn.mul %4, %10 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %12 = nn.reshape %4 : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %13 = nn.sub %8, %12 : (tensor<2x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<2x4x3x3xf32>
    %14 = nn.reshape %11 : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %15 = nn.mul %13, %14 : (tensor<2x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<2x4x3x3xf32>
    %16 = nn.add %15, %12 : (tensor<2x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<2x4x3x3xf32>
    %17 = nn.relu %16 : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
    %18 = nn.reduce %17 {dims = array<i64: 2, 3>, kind = "sum"} : (tensor<2x4x3x3xf32>) -> tensor<2x4xf32>
    %19 = nn.reshape %18 : (tensor<2x4xf32>) -> tensor<2x4x1x1xf32>
    %20 = nn.div %19, %0 : (tensor<2x4x1x1xf32>, tensor<f32>) -> tensor<2x4x1x1xf32>
    %21 = nn.reshape %20 : (tensor<2x4x1x1xf32>) -> tensor<2x4xf32>
    %22 = nn.contract %21, %5 {lhs_letters = "si", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
    return %22 : tensor<2x5xf32>
  }
}
