// RUN: tessera-opt %s --tessera-partition | FileCheck %s

// A layer norm of 10 over three ranks, blocks of 4, 4 and 2: each rank's mean and sum of squared deviations of what is no padding, one gather
// of these, and a merge that weighs them by their counts.
dist.mesh @mesh = <["t"=3]>

// CHECK-LABEL: func.func @split
// CHECK: %[[SUM:.*]] = nn.reduce {{.*}} (tensor<8x4xf32>) -> tensor<8xf32>
// CHECK: %[[SHARES:.*]] = nn.constant dense<[2.500000e-01, 2.500000e-01, 5.000000e-01]> : tensor<3xf32>
// CHECK: %[[SHARE:.*]] = dist.slice %[[SHARES]] over <"t"=3>
// CHECK: %[[NUMBER:.*]] = nn.reshape %[[SHARE]] {{.*}} -> tensor<f32>
// CHECK: nn.mul %[[SUM]], %[[NUMBER]]
// CHECK: %[[VALID:.*]] = dist.mask_padding {{.*}} over <"t"=3> shape [1, 4, 1] size 10 value 0.000000e+00
// CHECK: %[[SQUARES:.*]] = nn.mul {{.*}}, %[[VALID]]
// CHECK: nn.reduce %[[SQUARES]]
// CHECK: dist.collective {{ ?}}all_gather {{.*}} over <"t"=3> shape [1, 2, 8] concat 0 : tensor<1x2x8xf32> -> tensor<3x2x8xf32>
// CHECK-NOT: dist.collective
// CHECK: nn.constant dense<{{\[\[}}4.000000e-01], [4.000000e-01], [2.000000e-01]]>
// CHECK-NOT: dist.collective
// CHECK: return
func.func @split(%x: tensor<8x10xf32, #dist.layout<[[8], [10 pad 12 : "t"=3]]>>, %g: tensor<10xf32, #dist.layout<[[10 pad 12 : "t"=3]]>>)
    -> tensor<8x10xf32, #dist.layout<[[8], [10 pad 12 : "t"=3]]>> {
  %y, %mean, %rstd = nn.layer_norm %x, %g, %g {eps = 1.0e-5} : (tensor<8x10xf32, #dist.layout<[[8], [10 pad 12 : "t"=3]]>>, tensor<10xf32, #dist.layout<[[10 pad 12 : "t"=3]]>>, tensor<10xf32, #dist.layout<[[10 pad 12 : "t"=3]]>>)
    -> (tensor<8x10xf32, #dist.layout<[[8], [10 pad 12 : "t"=3]]>>, tensor<8xf32, #dist.layout<[[8]]>>, tensor<8xf32, #dist.layout<[[8]]>>)
  return %y : tensor<8x10xf32, #dist.layout<[[8], [10 pad 12 : "t"=3]]>>
}

// Where the ranks divide the width nothing is masked and all counts are one number.
// CHECK-LABEL: func.func @even
// CHECK-NOT: dist.mask_padding
// CHECK: dist.collective {{ ?}}all_gather
// CHECK-NOT: dist.
// CHECK: return
func.func @even(%x: tensor<8x12xf32, #dist.layout<[[8], [12 : "t"=3]]>>, %g: tensor<12xf32, #dist.layout<[[12 : "t"=3]]>>)
    -> tensor<8x12xf32, #dist.layout<[[8], [12 : "t"=3]]>> {
  %y, %mean, %rstd = nn.layer_norm %x, %g, %g {eps = 1.0e-5} : (tensor<8x12xf32, #dist.layout<[[8], [12 : "t"=3]]>>, tensor<12xf32, #dist.layout<[[12 : "t"=3]]>>, tensor<12xf32, #dist.layout<[[12 : "t"=3]]>>)
    -> (tensor<8x12xf32, #dist.layout<[[8], [12 : "t"=3]]>>, tensor<8xf32, #dist.layout<[[8]]>>, tensor<8xf32, #dist.layout<[[8]]>>)
  return %y : tensor<8x12xf32, #dist.layout<[[8], [12 : "t"=3]]>>
}
