// Calls that come to a part of a buffer say how much, for estimates of time.
// RUN: tessera-opt %s --split-input-file --tessera-form-kernels --tessera-plan-memory --tessera-verify-memory | FileCheck %s

// Of two ranks' 5 rows of 24 bytes in blocks of 3 the last row is padding: 4 times 2 elements. Copied, all is visited.
// CHECK-LABEL: func.func @masked()
// CHECK: exec.call "mask_padding"(%[[X:[0-9]+]]) {{.*}}, touched = 32 : i64
// CHECK: exec.call "mask_padding"(%{{.*}}, %{{.*}})
// CHECK-NOT: touched
func.func @masked(%x: tensor<4x6xf32> {nn.name = "x", dist.layout = #dist.layout<[[4], [6]]>, dist.shape = array<i64: 4, 6>})
    -> (tensor<4x6xf32> {nn.name = "a", dist.layout = #dist.layout<[[4], [6]]>, dist.shape = array<i64: 4, 6>},
        tensor<4x6xf32> {nn.name = "b", dist.layout = #dist.layout<[[4], [6]]>, dist.shape = array<i64: 4, 6>}) {
  %y = nn.exp %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %a = dist.mask_padding %y over <"t"=2> shape [4, 3, 2] size 5 value 0.0 : f32 : tensor<4x6xf32>
  %b = dist.mask_padding %x over <"t"=2> shape [4, 3, 2] size 5 value 0.0 : f32 : tensor<4x6xf32>
  return %a, %b : tensor<4x6xf32>, tensor<4x6xf32>
}

// -----

// A rank's half of 96 bytes.
// CHECK-LABEL: func.func @sliced()
// CHECK: exec.call "copy_box"({{.*}}, touched = 48 : i64
func.func @sliced(%x: tensor<4x6xf32> {nn.name = "x", dist.layout = #dist.layout<[[4], [6]]>, dist.shape = array<i64: 4, 6>})
    -> (tensor<4x3xf32> {nn.name = "a", dist.layout = #dist.layout<[[4], [3]]>, dist.shape = array<i64: 4, 3>}) {
  %a = dist.slice %x over <"t"=2> shape [4, 3, 2] split 2 : tensor<4x6xf32> -> tensor<4x3xf32>
  return %a : tensor<4x3xf32>
}
