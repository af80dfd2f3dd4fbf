// What is laid out, or marked for a pattern or a stage, as no program of a rank can be made of.
// RUN: tessera-opt %s --split-input-file --tessera-partition --verify-diagnostics

dist.mesh @mesh = <["a"=2, "b"=2]>
!x = tensor<4xf32, #dist.layout<[[4]]>>
func.func @infer(%x: !x) -> !x {
  // expected-error@below {{'nn.relu' op is neither an attention nor the gradient of one}}
  %y = nn.relu %x {dist.expand = #dist.pattern<"ring", ["a"]>} : (!x) -> !x
  return %y : !x
}

// -----

dist.mesh @mesh = <["a"=2, "b"=2]>
!x = tensor<4xf32, #dist.layout<[[4]]>>
func.func @infer(%x: !x) -> !x {
  // expected-error@below {{'nn.relu' op is neither a convolution nor the gradient of one}}
  %y = nn.relu %x {dist.expand = #dist.pattern<"spatial", ["a"]>} : (!x) -> !x
  return %y : !x
}

// -----

dist.mesh @mesh = <["a"=2, "b"=2]>
!x = tensor<4xf32, #dist.layout<[[4]]>>
func.func @infer(%x: !x) -> !x {
  // expected-error@below {{has a pattern that does not expand it}}
  %y = nn.relu %x {dist.expand = #dist.pattern<"column", ["a"]>} : (!x) -> !x
  return %y : !x
}

// -----

dist.mesh @mesh = <["a"=2]>
!x = tensor<2x3x8xf32, #dist.layout<[[2], [3], [8 : "a"=2]]>>
!w = tensor<4x3x3xf32, #dist.layout<[[4], [3], [3]]>>
!y = tensor<2x4x8xf32, #dist.layout<[[2], [4], [8]]>>
func.func @infer(%x: !x, %w: !w) -> !y {
  // expected-error@below {{has an image and a result that are split otherwise in a spatial dimension}}
  %y = nn.conv %x, %w {dist.expand = #dist.pattern<"spatial", ["a"]>, strides = array<i64: 1>, pads = array<i64: 1, 1>, dilations = array<i64: 1>, groups = 1} : (!x, !w) -> !y
  return %y : !y
}

// -----

!x = tensor<4xf32, #dist.layout<[[4]]>>
module attributes {dist.pipeline = #dist.pipeline<"pipe", "1f1b", [0, 1]>} {
  dist.mesh @mesh = <["pipe"=2]>
  func.func @infer(%x: !x {nn.name = "x", nn.kind = #nn<kind data>}) -> (!x {nn.name = "y"}) {
    %a = nn.relu %x {dist.chunk = 1 : i64, dist.work = #dist<work forward>} : (!x) -> !x
    // expected-error@below {{is part of no pipeline stage but uses a value of stage 1}}
    %b = nn.neg %a : (!x) -> !x
    %c = nn.relu %b {dist.chunk = 0 : i64, dist.work = #dist<work forward>} : (!x) -> !x
    return %c : !x
  }
}

// -----

dist.mesh @mesh = <["a"=2]>
!w = tensor<3xf32, #dist.layout<[[3 pad 4]]>>
func.func @infer() -> !w {
  // expected-error@below {{has its values in a resource, which cannot be padded or cut; write them out}}
  %w = nn.constant dense_resource<three> : tensor<3xf32> : !w
  return %w : !w
}
{-#
  dialect_resources: { builtin: { three: "0x040000000000803F0000004000004040" } }
#-}

// -----

dist.mesh @mesh = <["a"=2]>
!w = tensor<4xf32, #dist.layout<[[4 zigzag 2]]>>
func.func @infer() -> !w {
  // expected-error@below {{has its values in a resource, which cannot be put in zig-zag order; write them out}}
  %w = nn.constant dense_resource<four> : tensor<4xf32> : !w
  return %w : !w
}
{-#
  dialect_resources: { builtin: { four: "0x040000000000803F000000400000404000008040" } }
#-}

// -----

dist.mesh @mesh = <["a"=2]>
!table = tensor<8x3xf32, #dist.layout<[[2, 4 : "a"=2], [3]]>>
!ids = tensor<5xi64, #dist.layout<[[5]]>>
!y = tensor<5x3xf32, #dist.layout<[[5], [3]], partial = ["a"=2]>>
func.func @infer(%table: !table, %ids: !ids) -> !y {
  // expected-error@below {{needs a contiguous block of factor V, which is split inside; split its major part}}
  %y = nn.gather %table, %ids : (!table, !ids) -> !y
  return %y : !y
}

// -----

!all = tensor<4x3xf32, #dist.layout<[[4], [3]]>>
!part = tensor<4x3xf32, #dist.layout<[[4 : "micro"=2], [3]]>>
!term = tensor<3xf32, #dist.layout<[[3]], partial = ["micro"=2]>>
!sum = tensor<3xf32, #dist.layout<[[3]]>>
module attributes {dist.micro = 2 : i64} {
  dist.mesh @mesh = <["a"=2]>
  nn.variable @v : tensor<3xf32> {role = "buffer", trained = false}
  func.func @train(%x: !all) -> !part {
    %part = dist.reshard %x : !all -> !part
    %term = nn.reduce %part {dims = array<i64: 0>, kind = "sum"} : (!part) -> !term
    %sum = dist.reshard %term : !term -> !sum
    nn.assign @v, %sum : !sum
    // expected-error@below {{returns a value of one microbatch; only sums over all of them outlive their loop}}
    return %part : !part
  }
}
