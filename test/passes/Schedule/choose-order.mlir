// The order by the peak that is left once collectives are beside other work.
// RUN: tessera-opt %s --tessera-choose-order | FileCheck %s
// RUN: tessera-opt %s --tessera-choose-order=largest=3 | FileCheck %s --check-prefix=FIRST

// By itself the order of the program needs no more than one that ends lives early. But it lets the gather of 32 KiB run beside the first exp, whose
// 2 KiB are live with it then.
// CHECK-LABEL: func.func @beside
// CHECK: %[[W:.*]] = dist.collective all_gather
// CHECK-NEXT: nn.reduce %[[W]]
// CHECK-NEXT: %[[A:.*]] = nn.exp
// CHECK-NEXT: nn.reduce %[[A]]
// CHECK-NEXT: %[[B:.*]] = nn.exp
// CHECK-NEXT: nn.reduce %[[B]]
// FIRST-LABEL: func.func @beside
// FIRST: dist.collective_start all_gather
// FIRST-NEXT: nn.exp
// FIRST-NEXT: dist.collective_wait
func.func @beside(%x: tensor<8x64xf32>, %y: tensor<64x64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %0 = dist.collective all_gather %y over <"t"=2> shape [64, 64] concat 0 : tensor<64x64xf32> -> tensor<128x64xf32>
  %1 = nn.exp %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %2 = nn.reduce %0 {dims = array<i64: 0>, kind = "sum"} : (tensor<128x64xf32>) -> tensor<64xf32>
  %3 = nn.exp %x : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %4 = nn.reduce %1 {dims = array<i64: 0>, kind = "sum"} : (tensor<8x64xf32>) -> tensor<64xf32>
  %5 = nn.reduce %3 {dims = array<i64: 0>, kind = "sum"} : (tensor<8x64xf32>) -> tensor<64xf32>
  return %2, %4, %5 : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}

// Less than a thousandth: the gather of 1 MiB stays beside the exp of 256 bytes.
// CHECK-LABEL: func.func @for_nothing
// CHECK: dist.collective_start all_gather
// CHECK-NEXT: nn.exp
// CHECK-NEXT: dist.collective_wait
func.func @for_nothing(%x: tensor<1x64xf32>, %y: tensor<2048x64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %0 = dist.collective all_gather %y over <"t"=2> shape [2048, 64] concat 0 : tensor<2048x64xf32> -> tensor<4096x64xf32>
  %1 = nn.exp %x : (tensor<1x64xf32>) -> tensor<1x64xf32>
  %2 = nn.reduce %0 {dims = array<i64: 0>, kind = "sum"} : (tensor<4096x64xf32>) -> tensor<64xf32>
  %3 = nn.exp %x : (tensor<1x64xf32>) -> tensor<1x64xf32>
  %4 = nn.reduce %1 {dims = array<i64: 0>, kind = "sum"} : (tensor<1x64xf32>) -> tensor<64xf32>
  %5 = nn.reduce %3 {dims = array<i64: 0>, kind = "sum"} : (tensor<1x64xf32>) -> tensor<64xf32>
  return %2, %4, %5 : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}
