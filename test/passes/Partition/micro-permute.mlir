// Ranks exchange blocks of one microbatch: `micro` counts iterations, and is in no layout of a permute.
// RUN: tessera-opt %s --tessera-partition | FileCheck %s
// CHECK: dist.collective permute {{.*}} over <"a"=2 "b"=2> shape [1, 2, 4, 4] from <{{\[\[}}1, 2], [8 : "a"=2], [8 : "b"=2]]> to <{{\[\[}}1, 2], [8 : "b"=2], [8 : "a"=2]]>
module attributes {dist.micro = 2 : i64} {
  dist.mesh @mesh = <["a"=2, "b"=2]>
  func.func @f(%x: tensor<4x8x8xf32, #dist.layout<[[2, 2], [8], [8]]>>) -> tensor<f32, #dist.layout<[]>> {
    %a = dist.reshard %x : tensor<4x8x8xf32, #dist.layout<[[2, 2], [8], [8]]>> -> tensor<4x8x8xf32, #dist.layout<[[2 : "micro"=2, 2], [8 : "a"=2], [8 : "b"=2]]>>
    %b = nn.exp %a : (tensor<4x8x8xf32, #dist.layout<[[2 : "micro"=2, 2], [8 : "a"=2], [8 : "b"=2]]>>) -> tensor<4x8x8xf32, #dist.layout<[[2 : "micro"=2, 2], [8 : "a"=2], [8 : "b"=2]]>>
    %c = dist.reshard %b : tensor<4x8x8xf32, #dist.layout<[[2 : "micro"=2, 2], [8 : "a"=2], [8 : "b"=2]]>> -> tensor<4x8x8xf32, #dist.layout<[[2 : "micro"=2, 2], [8 : "b"=2], [8 : "a"=2]]>>
    %d = nn.reduce %c {dims = array<i64: 0, 1, 2>, kind = "sum"} : (tensor<4x8x8xf32, #dist.layout<[[2 : "micro"=2, 2], [8 : "b"=2], [8 : "a"=2]]>>) -> tensor<f32, #dist.layout<[], partial = ["a"=2 "b"=2 "micro"=2]>>
    %e = dist.reshard %d : tensor<f32, #dist.layout<[], partial = ["a"=2 "b"=2 "micro"=2]>> -> tensor<f32, #dist.layout<[]>>
    return %e : tensor<f32, #dist.layout<[]>>
  }
}
