// Tables that are stored in pieces are converted before they are gathered.
// RUN: tessera-opt %s --tessera-narrow-tables | FileCheck %s
nn.variable @t : tensor<64xf32> {role = "parameter", trained = true}

// CHECK-LABEL: func.func @converted
// CHECK: %[[T:.*]] = nn.read @t
// CHECK-NEXT: %[[HALF:.*]] = nn.cast %[[T]] {to = bf16}
// CHECK-NEXT: %[[ALL:.*]] = dist.collective  all_gather %[[HALF]] over <"d"=2> shape [64] concat 0 {dist.gather = #dist<gather forward>} : tensor<64xbf16> -> tensor<128xbf16>
// CHECK-NEXT: %[[TABLE:.*]] = dist.unflatten %[[ALL]] : tensor<128xbf16> -> tensor<30x4xbf16>
// CHECK-NEXT: %[[ROWS:.*]] = nn.gather %[[TABLE]], %arg0 : (tensor<30x4xbf16>, tensor<8xi64>) -> tensor<8x4xbf16>
// CHECK-NEXT: nn.exp %[[ROWS]]
func.func @converted(%ids: tensor<8xi64>) -> tensor<8x4xbf16> {
  %t = nn.read @t : tensor<64xf32>
  %all = dist.collective all_gather %t over <"d"=2> shape [64] concat 0 {dist.gather = #dist<gather forward>} : tensor<64xf32> -> tensor<128xf32>
  %table = dist.unflatten %all : tensor<128xf32> -> tensor<30x4xf32>
  %rows = nn.gather %table, %ids : (tensor<30x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  %half = nn.cast %rows {to = bf16} : (tensor<8x4xf32>) -> tensor<8x4xbf16>
  %0 = nn.exp %half : (tensor<8x4xbf16>) -> tensor<8x4xbf16>
  return %0 : tensor<8x4xbf16>
}

// What is gathered of it otherwise comes first then.
// CHECK-LABEL: func.func @tied
// CHECK: %[[T:.*]] = nn.read @t
// CHECK-NEXT: %[[HALF:.*]] = nn.cast %[[T]] {to = bf16}
// CHECK-NEXT: %[[ALL:.*]] = dist.collective  all_gather %[[HALF]]
// CHECK-NEXT: dist.unflatten %[[ALL]]
// CHECK-NEXT: nn.gather
// CHECK-NOT: dist.collective
// CHECK: dist.unflatten %[[ALL]]
// CHECK-NEXT: return
func.func @tied(%ids: tensor<8xi64>) -> (tensor<8x4xbf16>, tensor<30x4xbf16>) {
  %t = nn.read @t : tensor<64xf32>
  %c = nn.cast %t {to = bf16} : (tensor<64xf32>) -> tensor<64xbf16>
  %all = dist.collective all_gather %t over <"d"=2> shape [64] concat 0 : tensor<64xf32> -> tensor<128xf32>
  %table = dist.unflatten %all : tensor<128xf32> -> tensor<30x4xf32>
  %rows = nn.gather %table, %ids : (tensor<30x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  %half = nn.cast %rows {to = bf16} : (tensor<8x4xf32>) -> tensor<8x4xbf16>
  %whole = dist.collective all_gather %c over <"d"=2> shape [64] concat 0 : tensor<64xbf16> -> tensor<128xbf16>
  %head = dist.unflatten %whole : tensor<128xbf16> -> tensor<30x4xbf16>
  return %half, %head : tensor<8x4xbf16>, tensor<30x4xbf16>
}

// Not where the backward gathers it again: it would stay until then.
// CHECK-LABEL: func.func @again
// CHECK-COUNT-2: dist.collective  all_gather %{{.*}} : tensor<64xbf16> -> tensor<128xbf16>
func.func @again(%ids: tensor<8xi64>) -> (tensor<8x4xbf16>, tensor<30x4xbf16>) {
  %t = nn.read @t : tensor<64xf32>
  %c = nn.cast %t {to = bf16} : (tensor<64xf32>) -> tensor<64xbf16>
  %all = dist.collective all_gather %t over <"d"=2> shape [64] concat 0 {dist.gather = #dist<gather forward>} : tensor<64xf32> -> tensor<128xf32>
  %table = dist.unflatten %all : tensor<128xf32> -> tensor<30x4xf32>
  %rows = nn.gather %table, %ids : (tensor<30x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  %half = nn.cast %rows {to = bf16} : (tensor<8x4xf32>) -> tensor<8x4xbf16>
  %whole = dist.collective all_gather %c over <"d"=2> shape [64] concat 0 {dist.gather = #dist<gather forward>} : tensor<64xbf16> -> tensor<128xbf16>
  %head = dist.unflatten %whole : tensor<128xbf16> -> tensor<30x4xbf16>
  return %half, %head : tensor<8x4xbf16>, tensor<30x4xbf16>
}

// What else is read of the rows keeps its type, and a type of as many bytes is no gain.
// CHECK-LABEL: func.func @wide
// CHECK-NOT: tensor<64xbf16>
// CHECK-NOT: tensor<64xi32>
// CHECK: return
func.func @wide(%ids: tensor<8xi64>) -> (tensor<8x4xf32>, tensor<8x4xbf16>, tensor<8x4xi32>) {
  %t = nn.read @t : tensor<64xf32>
  %all = dist.collective all_gather %t over <"d"=2> shape [64] concat 0 : tensor<64xf32> -> tensor<128xf32>
  %table = dist.unflatten %all : tensor<128xf32> -> tensor<30x4xf32>
  %rows = nn.gather %table, %ids : (tensor<30x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  %half = nn.cast %rows {to = bf16} : (tensor<8x4xf32>) -> tensor<8x4xbf16>
  %others = nn.gather %table, %ids : (tensor<30x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  %number = nn.cast %others {to = i32} : (tensor<8x4xf32>) -> tensor<8x4xi32>
  return %rows, %half, %number : tensor<8x4xf32>, tensor<8x4xbf16>, tensor<8x4xi32>
}
