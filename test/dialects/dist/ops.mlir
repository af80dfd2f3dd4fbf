// RUN: tessera-opt %s | tessera-opt | FileCheck %s

// CHECK: dist.mesh @mesh = <["data"=2, "tensor"=4]>
dist.mesh @mesh = <["data"=2, "tensor"=4]>

// CHECK-LABEL: func.func @reshard
// CHECK-SAME: tensor<4x2304xf32, #dist.layout<{{\[\[}}4 : "data"=2], [3, 12 pad 16 : "tensor"=2 "tensor":(2)2, 64]], partial = ["pipe":(2)2]>>
func.func @reshard(%x: tensor<4x2304xf32, #dist.layout<[[4 : "data"=2],
                       [3, 12 pad 16 : "tensor":(1)2 "tensor":(2)2, 64]], partial = ["pipe":(2)2]>>)
    -> tensor<4x2304xf32, #dist.layout<[[4], [3, 12 pad 16, 64]]>> {
  // CHECK: dist.reshard %{{.*}} : tensor<{{.*}}> -> tensor<4x2304xf32, #dist.layout<{{\[\[}}4], [3, 12 pad 16, 64]]>>
  %0 = dist.reshard %x : tensor<4x2304xf32, #dist.layout<[[4 : "data"=2],
         [3, 12 pad 16 : "tensor"=2 "tensor":(2)2, 64]], partial = ["pipe":(2)2]>>
       -> tensor<4x2304xf32, #dist.layout<[[4], [3, 12 pad 16, 64]]>>
  return %0 : tensor<4x2304xf32, #dist.layout<[[4], [3, 12 pad 16, 64]]>>
}

// CHECK-LABEL: func.func @unit_dimension_and_scalar
// CHECK-SAME: tensor<1x5xf32, #dist.layout<{{\[\[}}], [5]]>>
// CHECK-SAME: tensor<f32, #dist.layout<[], partial = ["data"=2]>>
func.func @unit_dimension_and_scalar(%x: tensor<1x5xf32, #dist.layout<[[], [5]]>>,
                                     %s: tensor<f32, #dist.layout<[], partial = ["data"=2]>>) {
  return
}

// The block of 4 x 5 elements that a rank has of [8, 5] is cut into three pieces of 7.
// CHECK-LABEL: func.func @flat
// CHECK-SAME: tensor<8x5xf32, #dist.layout<{{\[\[}}8 : "tensor"=2], [5]], flat = ["data"=3]>>
func.func @flat(%x: tensor<8x5xf32, #dist.layout<[[8 : "tensor"=2], [5]], flat = ["data"=3]>>, %block: tensor<4x5xf32>) {
  // CHECK: dist.flatten %{{.*}} : tensor<4x5xf32> -> tensor<21xf32>
  %0 = dist.flatten %block : tensor<4x5xf32> -> tensor<21xf32>
  // CHECK: dist.unflatten %{{.*}} : tensor<21xf32> -> tensor<4x5xf32>
  %1 = dist.unflatten %0 : tensor<21xf32> -> tensor<4x5xf32>
  // CHECK: dist.mask_padding %{{.*}} over <"tensor"=2> shape [1, 4, 5] size 7 value 0.000000e+00 : f32 piece <"data"=3> : tensor<7xf32>
  %2 = dist.slice %0 over <"data"=3> shape [21] split 0 : tensor<21xf32> -> tensor<7xf32>
  %3 = dist.mask_padding %2 over <"tensor"=2> shape [1, 4, 5] size 7 value 0.000000e+00 : f32 piece <"data"=3> : tensor<7xf32>
  return
}

// CHECK-LABEL: func.func @collectives
func.func @collectives(%x: tensor<2x24xf32>, %flat: tensor<48xf32>) {
  // CHECK: dist.collective all_reduce %{{.*}} over <"data"=2 "tensor":(2)2> shape [2, 3, 8] reduce max : tensor<2x24xf32> -> tensor<2x24xf32>
  %0 = dist.collective all_reduce %x over <"data"=2 "tensor":(2)2> shape [2, 3, 8] reduce max
     : tensor<2x24xf32> -> tensor<2x24xf32>
  // CHECK: dist.collective all_gather %{{.*}} over <"tensor"=4> shape [2, 3, 8] concat 1 : tensor<2x24xf32> -> tensor<2x96xf32>
  %1 = dist.collective all_gather %x over <"tensor"=4> shape [2, 3, 8] concat 1 : tensor<2x24xf32> -> tensor<2x96xf32>
  // CHECK: dist.collective reduce_scatter %{{.*}} shape [2, 3, 8] split 2 : tensor<2x24xf32> -> tensor<2x6xf32>
  %2 = dist.collective reduce_scatter %x over <"tensor"=4> shape [2, 3, 8] split 2 : tensor<2x24xf32> -> tensor<2x6xf32>
  // CHECK: dist.collective all_to_all %{{.*}} shape [2, 3, 8] split 2 concat 0 : tensor<2x24xf32> -> tensor<8x6xf32>
  %3 = dist.collective all_to_all %x over <"tensor"=4> shape [2, 3, 8] split 2 concat 0
     : tensor<2x24xf32> -> tensor<8x6xf32>
  // CHECK: dist.collective broadcast %{{.*}} shape [48] root 3
  %4 = dist.collective broadcast %flat over <"tensor"=4> shape [48] root 3 : tensor<48xf32> -> tensor<48xf32>
  // CHECK: dist.collective permute %{{.*}} from <{{\[\[}}4 : "a"=2], [48 : "b"=2]]> to <{{\[\[}}4 : "b"=2], [48 : "a"=2]]>
  %5 = dist.collective permute %x over <"a"=2 "b"=2> shape [2, 24] from <[[4 : "a"=2], [48 : "b"=2]]>
       to <[[4 : "b"=2], [48 : "a"=2]]> : tensor<2x24xf32> -> tensor<2x24xf32>
  %6 = dist.recv from 1 channel 2 : tensor<48xf32>
  // CHECK: dist.recv from 1 channel 2 : tensor<48xf32>
  // CHECK: dist.send %{{.*}} to 0 channel 2 : tensor<2x24xf32>
  dist.send %x to 0 channel 2 : tensor<2x24xf32>
  return
}

// CHECK-LABEL: func.func @halves
func.func @halves(%x: tensor<2x8xf32>) -> tensor<2x32xf32> {
  // CHECK: dist.collective_start all_gather %{{.*}} over <"t"=4> shape [2, 8] concat 1 : tensor<2x8xf32> -> !dist.token<tensor<2x32xf32>>
  %t = dist.collective_start all_gather %x over <"t"=4> shape [2, 8] concat 1
     : tensor<2x8xf32> -> !dist.token<tensor<2x32xf32>>
  // CHECK: dist.collective_wait %{{.*}} : !dist.token<tensor<2x32xf32>>
  %r = dist.collective_wait %t : !dist.token<tensor<2x32xf32>>
  return %r : tensor<2x32xf32>
}

// CHECK-LABEL: func.func @local
func.func @local(%x: tensor<4x6xf32>, %y: tensor<1x3xf32>) {
  // CHECK: dist.slice %{{.*}} over <"t"=2> shape [4, 3, 2] split 2 : tensor<4x6xf32> -> tensor<4x3xf32>
  %0 = dist.slice %x over <"t"=2> shape [4, 3, 2] split 2 : tensor<4x6xf32> -> tensor<4x3xf32>
  // CHECK: dist.mask_padding %{{.*}} over <"t"=2> shape [4, 3, 2] size 5 value 0xFF800000 : f32 : tensor<4x6xf32>
  %1 = dist.mask_padding %x over <"t"=2> shape [4, 3, 2] size 5 value 0xFF800000 : f32 : tensor<4x6xf32>
  // CHECK: dist.block_start over <"t"=2> block 3 : i64
  %2 = dist.block_start over <"t"=2> block 3 : i64
  // CHECK: dist.logical_index over <"t"=2> size 5 padded 6 : tensor<3xi64>
  %3 = dist.logical_index over <"t"=2> size 5 padded 6 : tensor<3xi64>
  // An atom of one position in a dimension of extent 1.
  %4 = dist.collective all_gather %y over <"t"=2> shape [1, 3] concat 0 : tensor<1x3xf32> -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @loop
func.func @loop(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: dist.loop times 4 iter_args(%[[A:.*]] = %{{.*}} : tensor<8xf32>) {
  %0 = dist.loop times 4 iter_args(%a = %x : tensor<8xf32>) {
    // CHECK: dist.yield %[[A]] : tensor<8xf32>
    dist.yield %a : tensor<8xf32>
  }
  // CHECK: dist.loop from 3 times 1 {
  dist.loop from 3 times 1 {
    // CHECK: dist.yield
    dist.yield
  }
  return %0 : tensor<8xf32>
}

// CHECK: func.func private @pattern() attributes {axes = #dist.axes<"a"=2 "b":(2)3>, pattern = #dist.pattern<"2d", ["row", "col"=2]>}
func.func private @pattern() attributes {
  axes = #dist.axes<"a"=2 "b":(2)3>, pattern = #dist.pattern<"2d", ["row", "col":(1)2]>}

// CHECK-LABEL: @pack_of_blocks
// CHECK: dist.pack %arg0, %arg1 {blocks = 2 : i64} : tensor<6xf32>, tensor<4x8xf32> -> tensor<64xf32>
func.func @pack_of_blocks(%x: tensor<6xf32>, %y: tensor<4x8xf32>) -> tensor<64xf32> {
  %0 = dist.pack %x, %y {blocks = 2} : tensor<6xf32>, tensor<4x8xf32> -> tensor<64xf32>
  return %0 : tensor<64xf32>
}

// CHECK-LABEL: @packs
// CHECK: %[[P:.*]] = dist.pack %arg0, %arg1 : tensor<3xf32>, tensor<2x8xf32> -> tensor<32xf32>
// CHECK: dist.unpack %[[P]] : tensor<32xf32> -> tensor<3xf32>, tensor<2x8xf32>
func.func @packs(%x: tensor<3xf32>, %y: tensor<2x8xf32>) -> (tensor<3xf32>, tensor<2x8xf32>) {
  %0 = dist.pack %x, %y : tensor<3xf32>, tensor<2x8xf32> -> tensor<32xf32>
  %1:2 = dist.unpack %0 : tensor<32xf32> -> tensor<3xf32>, tensor<2x8xf32>
  return %1#0, %1#1 : tensor<3xf32>, tensor<2x8xf32>
}

// What is left out is a CPU's.
// CHECK: #dist.machine<flops = 2.000000e+13, half_flops = 1.300000e+11, bytes = 1.500000e+10, per = device, launch = {{.*}}, slice = {{.*}}, link = {{.*}} and {{.*}}, host = {{.*}} and {{.*}}, links = ["data" = 5.000000e-05 and 1.000000e-09]>
func.func private @machine() attributes {m = #dist.machine<flops = 2.0e13, per = device, links = ["data" = 5.0e-5 and 1.0e-9]>}
// Those of classes and shapes.
// CHECK: #dist.machine<flops = {{.*}}, half_flops = 2.000000e+11, f16_flops = 1.000000e+11, bytes = {{.*}}, kernel_launch = 2.000000e-06, row = 1.000000e+10, functions = 5.000000e+08, per = thread, {{.*}}, shapes = [product f32 1.000000e+00 by 1.600000e+01 by 1.024000e+03 by 5.120000e+02 = 4.000000e+10, attention bf16 8.000000e+00 by 1.280000e+02 by 6.450000e+01 by 6.400000e+01 = 9.000000e+10]>
func.func private @rates() attributes {m = #dist.machine<half_flops = 2.0e11, f16_flops = 1.0e11, kernel_launch = 2.0e-6, row = 1.0e10, functions = 5.0e8, shapes = [product f32 1.0 by 16.0 by 1024.0 by 512.0 = 4.0e10, attention bf16 8.0 by 128.0 by 64.5 by 64.0 = 9.0e10]>}
