// What crosses to another stage is received once, in the first step there that uses it: weights' gradients may come first in the block, but run last.
// RUN: tessera-opt %s --tessera-partition | FileCheck %s

module attributes {dist.micro = 2 : i64, dist.pipeline = {axis = "pipe", schedule = "zero-bubble", stages = array<i64: 0, 1, 1, 0>}} {
  dist.mesh @mesh = <["pipe"=2]>
  // CHECK-LABEL: func.func @train_stage1
  // CHECK: %[[A:.*]] = dist.recv from 0 channel 0 {dist.chunk = 2 : i64, dist.work = "backward"}
  // CHECK-NOT: dist.recv
  // CHECK: nn.neg %[[A]]
  // CHECK: nn.sin %[[A]]
  // CHECK: nn.exp %[[A]]
  func.func @train(%x: tensor<4xf32, #dist.layout<[[4]]>>) -> (tensor<4xf32, #dist.layout<[[4]]>>, tensor<4xf32, #dist.layout<[[4]]>>, tensor<4xf32, #dist.layout<[[4]]>>) {
    %a = nn.cos %x {dist.chunk = 0 : i64, dist.work = "forward"} : (tensor<4xf32, #dist.layout<[[4]]>>) -> tensor<4xf32, #dist.layout<[[4]]>>
    %w = nn.neg %a {dist.chunk = 1 : i64, dist.work = "weight"} : (tensor<4xf32, #dist.layout<[[4]]>>) -> tensor<4xf32, #dist.layout<[[4]]>>
    %b = nn.sin %a {dist.chunk = 1 : i64, dist.work = "backward"} : (tensor<4xf32, #dist.layout<[[4]]>>) -> tensor<4xf32, #dist.layout<[[4]]>>
    %c = nn.exp %a {dist.chunk = 2 : i64, dist.work = "backward"} : (tensor<4xf32, #dist.layout<[[4]]>>) -> tensor<4xf32, #dist.layout<[[4]]>>
    return %w, %b, %c : tensor<4xf32, #dist.layout<[[4]]>>, tensor<4xf32, #dist.layout<[[4]]>>, tensor<4xf32, #dist.layout<[[4]]>>
  }
}
