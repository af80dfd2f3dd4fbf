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

// -----

// The blocks of a pack have those of the other member between them.
// CHECK-LABEL: func.func @packed()
// CHECK: exec.call "copy_box"({{.*}}, touched = 24 : i64
// CHECK: exec.call "copy_box"({{.*}}, touched = 256 : i64
// CHECK: exec.collective "all_gather"
// CHECK: exec.call "copy_box"({{.*}}, touched = 24 : i64
// CHECK: exec.call "copy_box"({{.*}}, touched = 256 : i64
func.func @packed(%x: tensor<6xf32> {nn.name = "x", dist.layout = #dist.layout<[[6]]>, dist.shape = array<i64: 6>},
                  %y: tensor<64xf32> {nn.name = "y", dist.layout = #dist.layout<[[64]]>, dist.shape = array<i64: 64>})
    -> (tensor<6xf32> {nn.name = "a", dist.layout = #dist.layout<[[6]]>, dist.shape = array<i64: 6>},
        tensor<64xf32> {nn.name = "b", dist.layout = #dist.layout<[[64]]>, dist.shape = array<i64: 64>}) {
  %p = dist.pack %x, %y {blocks = 2 : i64} : tensor<6xf32>, tensor<64xf32> -> tensor<96xf32>
  %r = dist.collective reduce_scatter %p over <"d"=2> shape [96] split 0 reduce sum : tensor<96xf32> -> tensor<48xf32>
  %g = dist.collective all_gather %r over <"d"=2> shape [48] concat 0 : tensor<48xf32> -> tensor<96xf32>
  %u:2 = dist.unpack %g {blocks = 2 : i64} : tensor<96xf32> -> tensor<6xf32>, tensor<64xf32>
  return %u#0, %u#1 : tensor<6xf32>, tensor<64xf32>
}
