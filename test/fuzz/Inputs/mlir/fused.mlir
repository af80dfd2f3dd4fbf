module attributes {dist.micro = 1 : i64, nn.phase = "schedule"} {
  dist.mesh @mesh = <[]>
  func.func @infer(%x: tensor<3x4xf32> {dist.layout = #dist.layout<[[3], [4]]>, dist.shape = array<i64: 3, 4>, nn.kind = #nn<kind data>, nn.name = "x"},
      %w: tensor<4x5xf32> {dist.layout = #dist.layout<[[4], [5]]>, dist.shape = array<i64: 4, 5>, nn.kind = #nn<kind data>, nn.name = "w"},
      %b: tensor<5xf32> {dist.layout = #dist.layout<[[5]]>, dist.shape = array<i64: 5>, nn.kind = #nn<kind data>, nn.name = "b"})
      -> (tensor<3x5xf32> {dist.layout = #dist.layout<[[3], [5]]>, dist.shape = array<i64: 3, 5>, nn.name = "y"},
      tensor<4x5xf32> {dist.layout = #dist.layout<[[4], [5]]>, dist.shape = array<i64: 4, 5>, nn.name = "z"},
      tensor<5xf32> {dist.layout = #dist.layout<[[5]]>, dist.shape = array<i64: 5>, nn.name = "s"}) {
    %y, %kept = nn.fused_contract %x, %w, %b {activation = "gelu_tanh", lhs_letters = "bi", rhs_letters = "io", out_letters = "bo",
      operandSegmentSizes = array<i32: 1, 1, 1, 0>, resultSegmentSizes = array<i32: 1, 1, 0>} : (tensor<3x4xf32>, tensor<4x5xf32>, tensor<5xf32>) -> (tensor<3x5xf32>, tensor<3x5xf32>)
    %d = nn.fused_contract %x, %w, %kept {activation = "gelu_tanh", lhs_letters = "bi", rhs_letters = "io", out_letters = "bo",
      operandSegmentSizes = array<i32: 1, 1, 0, 1>, resultSegmentSizes = array<i32: 1, 0, 0>} : (tensor<3x4xf32>, tensor<4x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
    %z, %s = nn.fused_contract %x, %d {lhs_letters = "bi", rhs_letters = "bo", out_letters = "io", sums_of = "rhs",
      operandSegmentSizes = array<i32: 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 1>} : (tensor<3x4xf32>, tensor<3x5xf32>) -> (tensor<4x5xf32>, tensor<5xf32>)
    return %y, %z, %s : tensor<3x5xf32>, tensor<4x5xf32>, tensor<5xf32>
  }
  module @kernels {
  }
}
