// Microbatches that divide the batch are its major atom, so that another axis can leave the batch without moving rows from one to another.
// RUN: tessera-opt %s --split-input-file --tessera-propagate --tessera-verify-layouts | FileCheck %s

// The product takes "d" for its columns: rows of one microbatch are gathered.
// CHECK-LABEL: func.func @leaves
// CHECK-SAME: tensor<8x4xf32, #dist.layout<{{\[\[}}2, 4 : "d"=2], [4]]>>
// CHECK: %[[X:.*]] = dist.reshard %{{.*}} -> tensor<8x4xf32, #dist.layout<{{\[\[}}2 : "micro"=2, 4], [4]]>>
// CHECK: nn.contract %[[X]], {{.*}} -> tensor<8x6xf32, #dist.layout<{{\[\[}}2 : "micro"=2, 4], [6 : "d"=2]]>>
module attributes {dist.micro = 2 : i64} {
  dist.mesh @mesh = <["d"=2]>
  nn.variable @w : tensor<4x6xf32> {role = "parameter", trained = true}
  func.func @leaves(%x: tensor<8x4xf32> {nn.name = "x", dist.split = [["d", "micro"], []]}) -> tensor<8x6xf32> {
    %w = nn.read @w : tensor<4x6xf32>
    %y = nn.contract %x, %w {dist.pattern = #dist.pattern<"column", ["d"]>, lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    return %y : tensor<8x6xf32>
  }
}

// -----

// Two microbatches of a batch of five are blocks of its padded rows.
// CHECK-LABEL: func.func @uneven
// CHECK: dist.reshard {{.*}} -> tensor<5x4xf32, #dist.layout<{{\[\[}}5 pad 8 : "d"=2 "micro"=2], [4]]>>
module attributes {dist.micro = 2 : i64} {
  dist.mesh @mesh = <["d"=2]>
  nn.variable @loss : tensor<f32> {role = "buffer", trained = false}
  func.func @uneven(%x: tensor<5x4xf32> {nn.name = "x", dist.split = [["d", "micro"], []]}) -> tensor<f32> {
    %s = nn.reduce %x {dims = array<i64: 0, 1>, kind = "sum"} : (tensor<5x4xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}

// -----

// A variable with the batch as a dimension is there for all microbatches: each takes its part.
// CHECK-LABEL: func.func @table_of_the_batch
// CHECK: %[[T:.*]] = nn.read @table : tensor<8x4xf32, #dist.layout<{{\[\[}}2, 4 : "d"=2], [4]]>>
// CHECK: dist.reshard %[[T]] {{.*}} -> tensor<8x4xf32, #dist.layout<{{\[\[}}2 : "micro"=2, 4 : "d"=2], [4]]>>
module attributes {dist.micro = 2 : i64} {
  dist.mesh @mesh = <["d"=2]>
  nn.variable @table : tensor<8x4xf32> {role = "buffer", trained = false}
  func.func @table_of_the_batch(%x: tensor<8x4xf32> {nn.name = "x", dist.split = [["d", "micro"], []]}) -> tensor<8x4xf32> {
    %t = nn.read @table : tensor<8x4xf32>
    %y = nn.add %x, %t : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    return %y : tensor<8x4xf32>
  }
}
