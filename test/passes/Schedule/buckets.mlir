// Small all-reduces that only updates and outputs wait for become one.
// RUN: tessera-opt %s --tessera-bucket-collectives | FileCheck %s
// RUN: tessera-opt %s --tessera-bucket-collectives=bytes=64 | FileCheck %s --check-prefix=SMALL

nn.variable @w : tensor<64xf32> {role = "parameter", trained = true}
nn.variable @v : tensor<3xf32> {role = "parameter", trained = true}

// The first member's update waits for the bucket; each begins at a multiple of 64 bytes.
// CHECK-LABEL: func.func @gradients
// CHECK: %[[A:.*]] = nn.exp
// CHECK-NEXT: %[[B:.*]] = nn.neg
// CHECK-NEXT: %[[P:.*]] = dist.pack %[[B]], %[[A]] : tensor<3xf32>, tensor<64xf32> -> tensor<80xf32>
// CHECK-NEXT: %[[R:.*]] = dist.collective all_reduce %[[P]] over <"d"=2> shape [80] reduce sum : tensor<80xf32> -> tensor<80xf32>
// CHECK-NEXT: %[[U:.*]]:2 = dist.unpack %[[R]] : tensor<80xf32> -> tensor<3xf32>, tensor<64xf32>
// CHECK-NEXT: nn.update %{{.*}}, %[[U]]#0
// CHECK-NEXT: nn.assign @v
// CHECK-NEXT: nn.update %{{.*}}, %[[U]]#1
// A bucket of 64 bytes is full with the first; the second is larger.
// SMALL-LABEL: func.func @gradients
// SMALL-NOT: dist.pack
// SMALL: return
func.func @gradients(%x: tensor<64xf32>, %y: tensor<3xf32>, %none: tensor<f32>, %s: tensor<8xf32>, %d: tensor<2xf32>) {
  %w = nn.read @w : tensor<64xf32>
  %v = nn.read @v : tensor<3xf32>
  %a = nn.exp %x : (tensor<64xf32>) -> tensor<64xf32>
  %b = nn.neg %y : (tensor<3xf32>) -> tensor<3xf32>
  %q = dist.collective all_reduce %b over <"d"=2> shape [3] reduce sum : tensor<3xf32> -> tensor<3xf32>
  %t = nn.update %v, %q, %none, %s, %d {index = 1 : i64, kind = "sgd"} : (tensor<3xf32>, tensor<3xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<3xf32>
  nn.assign @v, %t : tensor<3xf32>
  %r = dist.collective all_reduce %a over <"d"=2> shape [64] reduce sum : tensor<64xf32> -> tensor<64xf32>
  %u = nn.update %w, %r, %none, %s, %d {index = 0 : i64, kind = "sgd"} : (tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<8xf32>, tensor<2xf32>) -> tensor<64xf32>
  nn.assign @w, %u : tensor<64xf32>
  return
}

// Other axes, another reduction, another element type, a result that work waits for: none of them joins.
// CHECK-LABEL: func.func @strangers
// CHECK-NOT: dist.pack
// CHECK: return
func.func @strangers(%x: tensor<64xf32>, %y: tensor<64xf64>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf64>) {
  %a = dist.collective all_reduce %x over <"d"=2> shape [64] reduce sum : tensor<64xf32> -> tensor<64xf32>
  %b = dist.collective all_reduce %x over <"t"=2> shape [64] reduce sum : tensor<64xf32> -> tensor<64xf32>
  %c = dist.collective all_reduce %x over <"d"=2> shape [64] reduce max : tensor<64xf32> -> tensor<64xf32>
  %e = dist.collective all_reduce %y over <"d"=2> shape [64] reduce sum : tensor<64xf64> -> tensor<64xf64>
  %f = dist.collective all_reduce %x over <"d"=2> shape [64] reduce sum : tensor<64xf32> -> tensor<64xf32>
  %g = nn.exp %f : (tensor<64xf32>) -> tensor<64xf32>
  return %a, %b, %g, %e : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf64>
}

// One that depends on a member goes into the next bucket, as does all behind it.
// CHECK-LABEL: func.func @dependent
// CHECK: dist.pack %arg0, %arg1
// CHECK-NEXT: dist.collective
// CHECK-NEXT: %[[U:.*]]:2 = dist.unpack
// CHECK: %[[N:.*]] = nn.sum_squares %[[U]]#0
// CHECK: %[[P:.*]] = dist.pack %[[N]], %arg2
// CHECK-NEXT: dist.collective all_reduce %[[P]]
func.func @dependent(%x: tensor<64xf32>, %y: tensor<64xf32>, %z: tensor<64xf32>) -> (tensor<64xf32>, tensor<f32>, tensor<64xf32>) {
  %a = dist.collective all_reduce %x over <"d"=2> shape [64] reduce sum : tensor<64xf32> -> tensor<64xf32>
  %n = nn.sum_squares %a : (tensor<64xf32>) -> tensor<f32>
  %b = dist.collective all_reduce %y over <"d"=2> shape [64] reduce sum : tensor<64xf32> -> tensor<64xf32>
  %m = dist.collective all_reduce %n over <"d"=2> shape [] reduce sum : tensor<f32> -> tensor<f32>
  %c = dist.collective all_reduce %z over <"d"=2> shape [64] reduce sum : tensor<64xf32> -> tensor<64xf32>
  return %b, %m, %c : tensor<64xf32>, tensor<f32>, tensor<64xf32>
}
