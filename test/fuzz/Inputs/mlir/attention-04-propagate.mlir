module attributes {dist.micro = 1 : i64, nn.model = "72887e7ac376186b48f8d58086f45a269d3a0a62705008f47e80c55f81d0a504", nn.phase = "propagate"} {
  dist.mesh @mesh = <["data"=2]>
  nn.variable @w : tensor<8x24xf32, #dist.layout<[[8], [3, 2, 4]]>> {role = "parameter", trained = true}
  func.func @infer(%arg0: tensor<2x4x8xf32, #dist.layout<[[2 : "data"=2], [4], [8]]>> {dist.split = [["data"], [], []], nn.kind = #nn<kind data>, nn.name = "x"}) -> (tensor<2x4x8xf32, #dist.layout<[[2 : "data"=2], [4], [2, 4]]>> {nn.name = "y"}) {
    %0 = nn.read @w : tensor<8x24xf32, #dist.layout<[[8], [3, 2, 4]]>>
    %1 = nn.contract %arg0, %0 {lhs_letters = "bsi", out_letters = "bso", rhs_letters = "io"} : (tensor<2x4x8xf32, #dist.layout<[[2 : "data"=2], [4], [8]]>>, tensor<8x24xf32, #dist.layout<[[8], [3, 2, 4]]>>) -> tensor<2x4x24xf32, #dist.layout<[[2 : "data"=2], [4], [3, 2, 4]]>>
    %2 = nn.reshape %1 : (tensor<2x4x24xf32, #dist.layout<[[2 : "data"=2], [4], [3, 2, 4]]>>) -> tensor<2x4x3x2x4xf32, #dist.layout<[[2 : "data"=2], [4], [3], [2], [4]]>>
    %3 = nn.slice %2 {sizes = array<i64: 2, 4, 1, 2, 4>, starts = array<i64: 0, 0, 0, 0, 0>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x4x3x2x4xf32, #dist.layout<[[2 : "data"=2], [4], [3], [2], [4]]>>) -> tensor<2x4x1x2x4xf32, #dist.layout<[[2 : "data"=2], [4], [], [2], [4]]>>
    %4 = nn.slice %2 {sizes = array<i64: 2, 4, 1, 2, 4>, starts = array<i64: 0, 0, 1, 0, 0>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x4x3x2x4xf32, #dist.layout<[[2 : "data"=2], [4], [3], [2], [4]]>>) -> tensor<2x4x1x2x4xf32, #dist.layout<[[2 : "data"=2], [4], [], [2], [4]]>>
    %5 = nn.slice %2 {sizes = array<i64: 2, 4, 1, 2, 4>, starts = array<i64: 0, 0, 2, 0, 0>, steps = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x4x3x2x4xf32, #dist.layout<[[2 : "data"=2], [4], [3], [2], [4]]>>) -> tensor<2x4x1x2x4xf32, #dist.layout<[[2 : "data"=2], [4], [], [2], [4]]>>
    %6 = nn.reshape %3 : (tensor<2x4x1x2x4xf32, #dist.layout<[[2 : "data"=2], [4], [], [2], [4]]>>) -> tensor<2x4x2x1x4xf32, #dist.layout<[[2 : "data"=2], [4], [2], [], [4]]>>
    %7 = nn.reshape %4 : (tensor<2x4x1x2x4xf32, #dist.layout<[[2 : "data"=2], [4], [], [2], [4]]>>) -> tensor<2x4x2x4xf32, #dist.layout<[[2 : "data"=2], [4], [2], [4]]>>
    %8 = nn.reshape %5 : (tensor<2x4x1x2x4xf32, #dist.layout<[[2 : "data"=2], [4], [], [2], [4]]>>) -> tensor<2x4x2x4xf32, #dist.layout<[[2 : "data"=2], [4], [2], [4]]>>
    %o, %lse = nn.attention %6, %7, %8 {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = -1.4659674167633057 : f64} : (tensor<2x4x2x1x4xf32, #dist.layout<[[2 : "data"=2], [4], [2], [], [4]]>>, tensor<2x4x2x4xf32, #dist.layout<[[2 : "data"=2], [4], [2], [4]]>>, tensor<2x4x2x4xf32, #dist.layout<[[2 : "data"=2], [4], [2], [4]]>>) -> (tensor<2x4x2x1x4xf32, #dist.layout<[[2 : "data"=2], [4], [2], [], [4]]>>, tensor<2x4x2x1xf32, #dist.layout<[[2 : "data"=2], [4], [2], []]>>)
    %9 = nn.reshape %o : (tensor<2x4x2x1x4xf32, #dist.layout<[[2 : "data"=2], [4], [2], [], [4]]>>) -> tensor<2x4x8xf32, #dist.layout<[[2 : "data"=2], [4], [2, 4]]>>
    return %9 : tensor<2x4x8xf32, #dist.layout<[[2 : "data"=2], [4], [2, 4]]>>
  }
}
