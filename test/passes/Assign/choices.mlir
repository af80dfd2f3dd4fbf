// What is a matter of cost is one of three words.
// RUN: not tessera-opt %s --tessera-assign="regather=sometimes" 2>&1 | FileCheck %s --check-prefix=GATHER
// RUN: not tessera-opt %s --tessera-assign="stream=often" 2>&1 | FileCheck %s --check-prefix=STREAM
// RUN: tessera-opt %s --tessera-assign="regather=never stream=auto" | FileCheck %s
// GATHER: error: dist.regather is to be "sometimes"; expected never, always or auto
// STREAM: error: dist.stream is to be "often"; expected never, always or auto
// CHECK: module attributes {dist.micro = 1 : i64, dist.regather = #dist<when never>}
func.func @infer(%x: tensor<4xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<4xf32> {nn.name = "y"}) {
  return %x : tensor<4xf32>
}
