module attributes {nn.model = "eea156db4d8452575c5343e2338a1d5d3020262a613348e2902ab92538e60fb1", nn.phase = "import"} {
  nn.variable @w : tensor<4x3x3x3xf32> {role = "parameter", trained = true}
  nn.variable @b : tensor<4xf32> {role = "parameter", trained = true}
  nn.variable @s : tensor<4xf32> {role = "parameter", trained = true}
  nn.variable @u : tensor<4x5xf32> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x3x6x6xf32> {nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x5xf32> {nn.name = "y"}) {
    %0 = nn.read @w : tensor<4x3x3x3xf32>
    %1 = nn.read @b : tensor<4xf32>
    %2 = nn.read @s : tensor<4xf32>
    %3 = nn.read @u : tensor<4x5xf32>
    %4 = nn.conv %arg0, %0, %1 {dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x3x6x6xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<2x4x3x3xf32>
    %5 = nn.constant dense<9.99999974E-6> : tensor<f32> : tensor<f32>
    %6 = nn.add %2, %5 : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %7 = nn.rsqrt %6 : (tensor<4xf32>) -> tensor<4xf32>
    %8 = nn.mul %2, %7 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %9 = nn.reshape %2 : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %10 = nn.sub %4, %9 : (tensor<2x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<2x4x3x3xf32>
    %11 = nn.reshape %8 : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %12 = nn.mul %10, %11 : (tensor<2x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<2x4x3x3xf32>
    %13 = nn.reshape %2 : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %14 = nn.add %12, %13 : (tensor<2x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<2x4x3x3xf32>
    %15 = nn.relu %14 : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
    %16 = nn.reduce %15 {dims = array<i64: 2, 3>, kind = "sum"} : (tensor<2x4x3x3xf32>) -> tensor<2x4xf32>
    %17 = nn.reshape %16 : (tensor<2x4xf32>) -> tensor<2x4x1x1xf32>
    %18 = nn.constant dense<9.000000e+00> : tensor<f32> : tensor<f32>
    %19 = nn.div %17, %18 : (tensor<2x4x1x1xf32>, tensor<f32>) -> tensor<2x4x1x1xf32>
    %20 = nn.reshape %19 : (tensor<2x4x1x1xf32>) -> tensor<2x4xf32>
    %21 = nn.contract %20, %3 {lhs_letters = "si", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
    return %21 : tensor<2x5xf32>
  }
}
