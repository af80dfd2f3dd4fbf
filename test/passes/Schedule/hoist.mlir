// Collectives stand before work that they can be under way beside.
// RUN: tessera-opt %s --tessera-hoist-collectives | FileCheck %s

// Stored variables are gathered while what was gathered before them is computed with, as many bytes as their own: the large one starts two
// ahead, the last one one ahead.
nn.variable @p : tensor<64xf32> {role = "parameter", trained = true}
nn.variable @q : tensor<64xf32> {role = "parameter", trained = true}
nn.variable @r : tensor<128xf32> {role = "parameter", trained = true}
nn.variable @s : tensor<64xf32> {role = "parameter", trained = true}
// CHECK-LABEL: func.func @ahead
// CHECK: %[[P:.*]] = dist.collective all_gather
// CHECK: %[[HALF:.*]] = nn.cast
// CHECK: %[[Q:.*]] = dist.collective all_gather %[[HALF]]
// CHECK: %[[R:.*]] = dist.collective all_gather
// CHECK-NEXT: nn.exp %[[P]]
// CHECK-NEXT: nn.exp %[[Q]]
// CHECK-NEXT: %[[S:.*]] = dist.collective all_gather
// CHECK-NEXT: nn.exp %[[R]]
// CHECK-NEXT: nn.exp %[[S]]
func.func @ahead() -> (tensor<128xf32>, tensor<128xbf16>, tensor<256xf32>, tensor<128xf32>) {
  %p = nn.read @p : tensor<64xf32>
  %q = nn.read @q : tensor<64xf32>
  %r = nn.read @r : tensor<128xf32>
  %s = nn.read @s : tensor<64xf32>
  %0 = dist.collective all_gather %p over <"d"=2> shape [64] concat 0 : tensor<64xf32> -> tensor<128xf32>
  %1 = nn.exp %0 : (tensor<128xf32>) -> tensor<128xf32>
  %h = nn.cast %q {to = bf16} : (tensor<64xf32>) -> tensor<64xbf16>
  %2 = dist.collective all_gather %h over <"d"=2> shape [64] concat 0 : tensor<64xbf16> -> tensor<128xbf16>
  %3 = nn.exp %2 : (tensor<128xbf16>) -> tensor<128xbf16>
  %4 = dist.collective all_gather %r over <"d"=2> shape [128] concat 0 : tensor<128xf32> -> tensor<256xf32>
  %5 = nn.exp %4 : (tensor<256xf32>) -> tensor<256xf32>
  %6 = dist.collective all_gather %s over <"d"=2> shape [64] concat 0 : tensor<64xf32> -> tensor<128xf32>
  %7 = nn.exp %6 : (tensor<128xf32>) -> tensor<128xf32>
  return %1, %3, %5, %7 : tensor<128xf32>, tensor<128xbf16>, tensor<256xf32>, tensor<128xf32>
}

// Not before the variable is written, nor to another step of a pipeline.
// CHECK-LABEL: func.func @not_ahead
// CHECK: nn.exp
// CHECK: nn.assign @q
// CHECK: dist.collective all_gather
// CHECK: nn.exp
// CHECK: dist.step
// CHECK: dist.collective all_gather
// CHECK: nn.exp
func.func @not_ahead(%x: tensor<64xf32>) -> (tensor<128xf32>, tensor<128xf32>, tensor<256xf32>) {
  %p = nn.read @p : tensor<64xf32>
  %q = nn.read @q : tensor<64xf32>
  %r = nn.read @r : tensor<128xf32>
  %0 = dist.collective all_gather %p over <"d"=2> shape [64] concat 0 : tensor<64xf32> -> tensor<128xf32>
  %1 = nn.exp %0 : (tensor<128xf32>) -> tensor<128xf32>
  nn.assign @q, %x : tensor<64xf32>
  %2 = dist.collective all_gather %q over <"d"=2> shape [64] concat 0 : tensor<64xf32> -> tensor<128xf32>
  %3 = nn.exp %2 : (tensor<128xf32>) -> tensor<128xf32>
  dist.step forward chunk 0 micro 1
  %4 = dist.collective all_gather %r over <"d"=2> shape [128] concat 0 : tensor<128xf32> -> tensor<256xf32>
  %5 = nn.exp %4 : (tensor<256xf32>) -> tensor<256xf32>
  return %1, %3, %5 : tensor<128xf32>, tensor<128xf32>, tensor<256xf32>
}

// A product's result is scattered while the next product is computed, and what that one needs is gathered while the first one is. Neither is
// before its source. The fullest moment is at the end, whatever the library's workspaces are.
// CHECK-LABEL: func.func @beside
// CHECK-NEXT: %[[E:.*]] = nn.contract %arg0, %arg1
// CHECK-NEXT: %[[G:.*]] = dist.collective all_gather %[[E]]
// CHECK-NEXT: %[[Y:.*]] = nn.contract %arg0, %arg2
// CHECK-NEXT: %[[V:.*]] = nn.reshape %[[Y]]
// CHECK-NEXT: %[[R:.*]] = dist.collective reduce_scatter %[[V]]
// CHECK-NEXT: %[[Z:.*]] = nn.contract %[[G]], %arg3
// CHECK-NEXT: nn.exp
func.func @beside(%x: tensor<512x512xf32>, %a: tensor<512x64xf32>, %b: tensor<512x512xf32>, %c: tensor<64x512xf32>, %last: tensor<4096x4096xf32>)
    -> (tensor<256x2x256xf32>, tensor<1024x512xf32>, tensor<4096x4096xf32>) {
  %e = nn.contract %x, %a {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<512x512xf32>, tensor<512x64xf32>) -> tensor<512x64xf32>
  %y = nn.contract %x, %b {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %g = dist.collective all_gather %e over <"t"=2> shape [512, 64] concat 0 : tensor<512x64xf32> -> tensor<1024x64xf32>
  %z = nn.contract %g, %c {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<1024x64xf32>, tensor<64x512xf32>) -> tensor<1024x512xf32>
  %v = nn.reshape %y : (tensor<512x512xf32>) -> tensor<512x2x256xf32>
  %r = dist.collective reduce_scatter %v over <"t"=2> shape [512, 2, 256] split 0 reduce sum : tensor<512x2x256xf32> -> tensor<256x2x256xf32>
  %f = nn.exp %last : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  return %r, %z, %f : tensor<256x2x256xf32>, tensor<1024x512xf32>, tensor<4096x4096xf32>
}

// Nothing moves to another step of a pipeline.
// CHECK-LABEL: func.func @same_step
// CHECK-NEXT: nn.contract
// CHECK-NEXT: dist.step
// CHECK-NEXT: dist.collective all_gather
// CHECK-NEXT: nn.contract
func.func @same_step(%x: tensor<512x512xf32>, %b: tensor<512x64xf32>, %c: tensor<64x16xf32>, %s: tensor<256x256xf32>, %last: tensor<4096x4096xf32>)
    -> (tensor<512x16xf32>, tensor<512x256xf32>, tensor<4096x4096xf32>) {
  %y = nn.contract %x, %b {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<512x512xf32>, tensor<512x64xf32>) -> tensor<512x64xf32>
  dist.step forward chunk 0 micro 1
  %z = nn.contract %y, %c {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<512x64xf32>, tensor<64x16xf32>) -> tensor<512x16xf32>
  %g = dist.collective all_gather %s over <"t"=2> shape [256, 256] concat 0 : tensor<256x256xf32> -> tensor<512x256xf32>
  %f = nn.exp %last : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  return %z, %g, %f : tensor<512x16xf32>, tensor<512x256xf32>, tensor<4096x4096xf32>
}

// Before another collective only if it is over by then: the small one is, the large one would hold it up.
// CHECK-LABEL: func.func @others
// CHECK-NEXT: %[[SMALL:.*]] = dist.collective all_gather %arg2
// CHECK-NEXT: %[[Y:.*]] = nn.contract %arg0, %arg1
// CHECK-NEXT: dist.collective reduce_scatter %[[Y]]
// CHECK-NEXT: dist.collective all_gather %arg3
// CHECK-NEXT: nn.exp
func.func @others(%x: tensor<512x64xf32>, %b: tensor<64x1024xf32>, %s: tensor<16x16xf32>, %l: tensor<1024x2048xf32>, %last: tensor<4096x4096xf32>)
    -> (tensor<256x1024xf32>, tensor<32x16xf32>, tensor<2048x2048xf32>, tensor<4096x4096xf32>) {
  %y = nn.contract %x, %b {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<512x64xf32>, tensor<64x1024xf32>) -> tensor<512x1024xf32>
  %r = dist.collective reduce_scatter %y over <"t"=2> shape [512, 1024] split 0 reduce sum : tensor<512x1024xf32> -> tensor<256x1024xf32>
  %0 = dist.collective all_gather %s over <"t"=2> shape [16, 16] concat 0 : tensor<16x16xf32> -> tensor<32x16xf32>
  %1 = dist.collective all_gather %l over <"t"=2> shape [1024, 2048] concat 0 : tensor<1024x2048xf32> -> tensor<2048x2048xf32>
  %f = nn.exp %last : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  return %r, %0, %1, %f : tensor<256x1024xf32>, tensor<32x16xf32>, tensor<2048x2048xf32>, tensor<4096x4096xf32>
}

// No room for what is gathered where most bytes are live, although the product there needs little of them.
// CHECK-LABEL: func.func @no_room
// CHECK-NEXT: nn.contract
// CHECK-NEXT: nn.contract
// CHECK-NEXT: nn.contract
// CHECK-NEXT: dist.collective all_gather
func.func @no_room(%x: tensor<512x16xf32>, %b: tensor<16x65536xf32>, %c: tensor<16x32768xf32>, %u: tensor<512x512xf32>, %d: tensor<512x4096xf32>, %s: tensor<256x256xf32>)
    -> (tensor<512x65536xf32>, tensor<512x32768xf32>, tensor<512x4096xf32>, tensor<512x256xf32>) {
  %y = nn.contract %x, %b {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<512x16xf32>, tensor<16x65536xf32>) -> tensor<512x65536xf32>
  %z = nn.contract %x, %c {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<512x16xf32>, tensor<16x32768xf32>) -> tensor<512x32768xf32>
  %w = nn.contract %u, %d {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<512x512xf32>, tensor<512x4096xf32>) -> tensor<512x4096xf32>
  %g = dist.collective all_gather %s over <"t"=2> shape [256, 256] concat 0 : tensor<256x256xf32> -> tensor<512x256xf32>
  return %y, %z, %w, %g : tensor<512x65536xf32>, tensor<512x32768xf32>, tensor<512x4096xf32>, tensor<512x256xf32>
}

// No further than what it is beside takes as long.
// CHECK-LABEL: func.func @no_further
// CHECK-NEXT: nn.contract
// CHECK-NEXT: dist.collective all_gather
// CHECK-NEXT: nn.contract
func.func @no_further(%x: tensor<512x512xf32>, %s: tensor<16x16xf32>, %last: tensor<4096x4096xf32>) -> (tensor<512x512xf32>, tensor<32x16xf32>, tensor<4096x4096xf32>) {
  %y = nn.contract %x, %x {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %z = nn.contract %y, %x {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %g = dist.collective all_gather %s over <"t"=2> shape [16, 16] concat 0 : tensor<16x16xf32> -> tensor<32x16xf32>
  %f = nn.exp %last : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  return %z, %g, %f : tensor<512x512xf32>, tensor<32x16xf32>, tensor<4096x4096xf32>
}

// Nor beside what needs most by itself, below which no cap on the device can be, although more is live elsewhere.
// CHECK-LABEL: func.func @needs_most
// CHECK-NEXT: nn.contract
// CHECK-NEXT: dist.collective all_gather
// CHECK-NEXT: nn.contract
func.func @needs_most(%x: tensor<512x16xf32>, %b: tensor<16x65536xf32>, %c: tensor<16x32768xf32>, %s: tensor<256x256xf32>)
    -> (tensor<512x65536xf32>, tensor<512x256xf32>, tensor<512x32768xf32>) {
  %y = nn.contract %x, %b {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<512x16xf32>, tensor<16x65536xf32>) -> tensor<512x65536xf32>
  %g = dist.collective all_gather %s over <"t"=2> shape [256, 256] concat 0 : tensor<256x256xf32> -> tensor<512x256xf32>
  %z = nn.contract %x, %c {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<512x16xf32>, tensor<16x32768xf32>) -> tensor<512x32768xf32>
  return %y, %g, %z : tensor<512x65536xf32>, tensor<512x256xf32>, tensor<512x32768xf32>
}

// A message to another stage is sent otherwise too: what would hold it up stays behind it.
// CHECK-LABEL: func.func @message
// CHECK-NEXT: nn.contract
// CHECK-NEXT: dist.send_start
// CHECK-NEXT: dist.collective all_gather
// CHECK-NEXT: nn.contract
func.func @message(%x: tensor<512x512xf32>, %s: tensor<4096x2048xf32>, %last: tensor<8192x8192xf32>) -> (tensor<512x512xf32>, tensor<512x512xf32>, tensor<8192x2048xf32>, tensor<8192x8192xf32>) {
  %y = nn.contract %x, %x {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %t = dist.send_start %x to 1 channel 0 : tensor<512x512xf32> -> !dist.token<tensor<512x512xf32>>
  %z = nn.contract %x, %x {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = dist.collective all_gather %s over <"t"=2> shape [4096, 2048] concat 0 : tensor<4096x2048xf32> -> tensor<8192x2048xf32>
  %f = nn.exp %last : (tensor<8192x8192xf32>) -> tensor<8192x8192xf32>
  return %y, %z, %1, %f : tensor<512x512xf32>, tensor<512x512xf32>, tensor<8192x2048xf32>, tensor<8192x8192xf32>
}

// What becomes a variable stays behind who reads the old one.
nn.variable @whole : tensor<512x512xf32> {role = "parameter", trained = true}
// CHECK-LABEL: func.func @becomes_variable
// CHECK: nn.contract
// CHECK-NEXT: dist.collective all_gather
// CHECK-NEXT: nn.assign @whole
func.func @becomes_variable(%x: tensor<512x512xf32>, %s: tensor<256x512xf32>, %last: tensor<4096x4096xf32>) -> (tensor<512x512xf32>, tensor<4096x4096xf32>) {
  %w = nn.read @whole : tensor<512x512xf32>
  %y = nn.contract %x, %w {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %g = dist.collective all_gather %s over <"t"=2> shape [256, 512] concat 0 : tensor<256x512xf32> -> tensor<512x512xf32>
  nn.assign @whole, %g : tensor<512x512xf32>
  %f = nn.exp %last : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  return %y, %f : tensor<512x512xf32>, tensor<4096x4096xf32>
}

// Where there is room for one of two, there is none left for the other.
// CHECK-LABEL: func.func @room_for_one
// CHECK-NEXT: dist.collective all_gather %arg1
// CHECK-NEXT: nn.contract
// CHECK-NEXT: dist.collective all_gather %arg2
// CHECK-NEXT: nn.exp
func.func @room_for_one(%x: tensor<512x512xf32>, %s: tensor<2048x2048xf32>, %t: tensor<2048x2048xf32>, %last: tensor<4096x2304xf32>)
    -> (tensor<512x512xf32>, tensor<4096x2048xf32>, tensor<4096x2048xf32>, tensor<4096x2304xf32>) {
  %y = nn.contract %x, %x {lhs_letters = "bi", rhs_letters = "io", out_letters = "bo"} : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %g = dist.collective all_gather %s over <"t"=2> shape [2048, 2048] concat 0 : tensor<2048x2048xf32> -> tensor<4096x2048xf32>
  %h = dist.collective all_gather %t over <"t"=2> shape [2048, 2048] concat 0 : tensor<2048x2048xf32> -> tensor<4096x2048xf32>
  %f = nn.exp %last : (tensor<4096x2304xf32>) -> tensor<4096x2304xf32>
  return %y, %g, %h, %f : tensor<512x512xf32>, tensor<4096x2048xf32>, tensor<4096x2048xf32>, tensor<4096x2304xf32>
}
