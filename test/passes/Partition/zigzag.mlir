// One rank computes what a causal ring does whose positions are held in zig-zag order: inputs, positions that are variables, numbers and constants,
// a bias over queries and keys.
// RUN: tessera verify %s --train sgd --loss mse:y --sp 4
// RUN: tessera verify %s --train sgd --loss mse:y --dp 2 --sp 2 --microbatches 2
// Positions learned, and rotary tables; other axes beside the ring.
// RUN: tessera verify %S/../../models/gpt2.onnx --train sgd --sp 4
// RUN: tessera verify %S/../../models/gpt2.onnx --train sgd --pp 2 --microbatches 2 --sp 2
// Tokens in order, with padding at their end, in a pipeline.
// RUN: tessera verify %S/../../models/gpt2.onnx --train sgd --pp 2 --microbatches 2 --sp 3
// RUN: tessera verify %S/../../models/llama.onnx --train sgd --dp 2 --sp 2 --tp 2 --zero 3
nn.variable @position : tensor<16x2x4xf32> {role = "parameter", trained = true, init = "zero"}
func.func @infer(%x: tensor<4x16x2x4xf32> {nn.name = "x", nn.kind = #nn<kind data>}, %bias: tensor<4x16xf32> {nn.name = "bias", nn.kind = #nn<kind data>})
    -> (tensor<4x16x2x1x4xf32> {nn.name = "y"}) {
  %p = nn.read @position : tensor<16x2x4xf32>
  %w = nn.constant dense<[[[0.1]], [[0.2]], [[0.3]], [[0.4]], [[0.5]], [[0.6]], [[0.7]], [[0.8]], [[0.9]], [[1.0]], [[1.1]], [[1.2]], [[1.3]], [[1.4]], [[1.5]], [[1.6]]]> : tensor<16x1x1xf32> : tensor<16x1x1xf32>
  %i = nn.iota {dim = 0 : i64} : () -> tensor<16x1x1xf32>
  %m = nn.mul %i, %w : (tensor<16x1x1xf32>, tensor<16x1x1xf32>) -> tensor<16x1x1xf32>
  %pw = nn.add %p, %m : (tensor<16x2x4xf32>, tensor<16x1x1xf32>) -> tensor<16x2x4xf32>
  %k = nn.mul %x, %pw : (tensor<4x16x2x4xf32>, tensor<16x2x4xf32>) -> tensor<4x16x2x4xf32>
  %q = nn.reshape %k : (tensor<4x16x2x4xf32>) -> tensor<4x16x2x1x4xf32>
  %b = nn.reshape %bias : (tensor<4x16xf32>) -> tensor<4x1x1x1x16xf32>
  %o, %lse = nn.attention %q, %k, %k, %b {causal = true, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>, scale = 0.1 : f64} : (tensor<4x16x2x1x4xf32>, tensor<4x16x2x4xf32>, tensor<4x16x2x4xf32>, tensor<4x1x1x1x16xf32>) -> (tensor<4x16x2x1x4xf32>, tensor<4x16x2x1xf32>) loc("attention")
  return %o : tensor<4x16x2x1x4xf32>
}
