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
