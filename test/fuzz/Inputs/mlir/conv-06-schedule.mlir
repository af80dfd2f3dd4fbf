module attributes {dist.micro = 1 : i64, nn.model = "eea156db4d8452575c5343e2338a1d5d3020262a613348e2902ab92538e60fb1", nn.phase = "schedule"} {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<4x3x3x3xf32, #dist.layout<[[4], [3], [3], [3]]>> {role = "parameter", trained = true}
  nn.variable @b : tensor<4xf32, #dist.layout<[[4]]>> {role = "parameter", trained = true}
  nn.variable @s : tensor<4xf32, #dist.layout<[[4]]>> {role = "parameter", trained = true}
  nn.variable @u : tensor<4x5xf32, #dist.layout<[[4], [5]]>> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x3x6x6xf32> {dist.layout = #dist.layout<[[2], [3], [6], [6]]>, dist.shape = array<i64: 2, 3, 6, 6>, nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x5xf32> {dist.layout = #dist.layout<[[2], [5]]>, dist.shape = array<i64: 2, 5>, nn.name = "y"}) {
    %0 = nn.read @w : tensor<4x3x3x3xf32>
    %1 = nn.read @b : tensor<4xf32>
    %2 = nn.read @s : tensor<4xf32>
    %3 = nn.read @u : tensor<4x5xf32>
    %4 = nn.reshape %2 : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %5 = nn.reshape %1 : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %6 = nn.conv %arg0, %0 {dilations = array<i64: 1, 1>, groups = 1 : i64, pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<2x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x3x3xf32>
    %7 = exec.apply @kernel_1(%2) {kind = "fused"} : (tensor<4xf32>) -> tensor<4xf32>
    %8 = nn.reshape %7 : (tensor<4xf32>) -> tensor<4x1x1xf32>
    %9 = exec.apply @kernel_0(%6, %5, %4, %8) {kind = "fused"} : (tensor<2x4x3x3xf32>, tensor<4x1x1xf32>, tensor<4x1x1xf32>, tensor<4x1x1xf32>) -> tensor<2x4x3x3xf32>
    %10 = exec.apply @kernel_2(%9) {kind = "reduce"} : (tensor<2x4x3x3xf32>) -> tensor<2x4xf32>
    %11 = nn.reshape %10 : (tensor<2x4xf32>) -> tensor<2x4x1x1xf32>
    %12 = exec.apply @kernel_3(%11) {kind = "div"} : (tensor<2x4x1x1xf32>) -> tensor<2x4x1x1xf32>
    %13 = nn.reshape %12 : (tensor<2x4x1x1xf32>) -> tensor<2x4xf32>
    %14 = nn.contract %13, %3 {lhs_letters = "si", out_letters = "so", rhs_letters = "io"} : (tensor<2x4xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
    return %14 : tensor<2x5xf32>
  }
  module @kernels {
    func.func @kernel_0(%arg0: tensor<2x4x3x3xf32> loc(unknown), %arg1: tensor<4x1x1xf32> loc(unknown), %arg2: tensor<4x1x1xf32> loc(unknown), %arg3: tensor<4x1x1xf32> loc(unknown)) -> tensor<2x4x3x3xf32> {
      %0 = nn.add %arg0, %arg1 : (tensor<2x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<2x4x3x3xf32>
      %1 = nn.sub %0, %arg2 : (tensor<2x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<2x4x3x3xf32>
      %2 = nn.mul %1, %arg3 : (tensor<2x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<2x4x3x3xf32>
      %3 = nn.add %2, %arg2 : (tensor<2x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<2x4x3x3xf32>
      %4 = nn.relu %3 : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
      return %4 : tensor<2x4x3x3xf32>
    }
    func.func @kernel_1(%arg0: tensor<4xf32> loc(unknown)) -> tensor<4xf32> {
      %0 = nn.constant dense<9.99999974E-6> : tensor<f32> : tensor<f32>
      %1 = nn.add %arg0, %0 : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      %2 = nn.rsqrt %1 : (tensor<4xf32>) -> tensor<4xf32>
      %3 = nn.mul %arg0, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %3 : tensor<4xf32>
    }
    func.func @kernel_2(%arg0: tensor<2x4x3x3xf32> loc(unknown)) -> tensor<2x4xf32> {
      %0 = nn.reduce %arg0 {dims = array<i64: 2, 3>, kind = "sum"} : (tensor<2x4x3x3xf32>) -> tensor<2x4xf32>
      return %0 : tensor<2x4xf32>
    }
    func.func @kernel_3(%arg0: tensor<2x4x1x1xf32> loc(unknown)) -> tensor<2x4x1x1xf32> {
      %0 = nn.constant dense<9.000000e+00> : tensor<f32> : tensor<f32>
      %1 = nn.div %arg0, %0 : (tensor<2x4x1x1xf32>, tensor<f32>) -> tensor<2x4x1x1xf32>
      return %1 : tensor<2x4x1x1xf32>
    }
  }
}
