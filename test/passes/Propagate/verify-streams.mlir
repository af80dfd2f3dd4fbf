// What a pattern expands is checked at its ends by what the pattern declares.
// RUN: tessera-opt %s --split-input-file --tessera-verify-layouts --verify-diagnostics

dist.mesh @mesh = <["s"=2, "u"=2]>

#rows = #dist.layout<[[2], [8 : "s"=2], [2], [], [4]]>
#keys = #dist.layout<[[2], [8 : "s"=2], [2], [4]]>
!q = tensor<2x8x2x1x4xf32, #rows>
!k = tensor<2x8x2x4xf32, #keys>
!lse = tensor<2x8x2x1xf32, #dist.layout<[[2], [8 : "s"=2], [2], []]>>
!bias = tensor<1x1x1x8x8xf32, #dist.layout<[[], [], [], [8 : "s"=2], [8]]>>

func.func @ring(%q: !q, %k: !k, %v: !k, %bias: !bias) -> (!q, !lse) {
  %o, %lse = nn.attention %q, %k, %v, %bias {dist.expand = #dist.pattern<"ring", ["s"]>, nn.id = "attention_0", operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>, scale = 0.5}
     : (!q, !k, !k, !bias) -> (!q, !lse)
  %dq, %dk, %dv = nn.attention_grad %q, %k, %v, %bias, %o, %lse, %o {dist.expand = #dist.pattern<"ring", ["s"]>, nn.grad_of = #nn.grad_of<"attention_0", [0, 1, 2, 3, 4, 5, 6]>,
      operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0>, scale = 0.5} : (!q, !k, !k, !bias, !q, !lse, !q) -> (!q, !k, !k)
  return %dq, %lse : !q, !lse
}
func.func @no_pattern(%x: !k) -> !k {
  // expected-error@below {{names a pattern "rings", which does not exist; --list-patterns lists those that do}}
  %0 = nn.gelu %x {dist.expand = #dist.pattern<"rings", ["s"]>, tanh = true} : (!k) -> !k
  return %0 : !k
}
func.func @no_axis(%x: !k) -> !k {
  // expected-error@below {{no axis "t" in the mesh; it has: "s"=2 "u"=2}}
  %0 = nn.gelu %x {dist.expand = #dist.pattern<"ring", ["t"]>, tanh = true} : (!k) -> !k
  return %0 : !k
}
func.func @axes(%x: !k) -> !k {
  // expected-error@below {{pattern "ring" takes 1 axis names and was given 2}}
  %0 = nn.gelu %x {dist.expand = #dist.pattern<"ring", ["s", "u"]>, tanh = true} : (!k) -> !k
  return %0 : !k
}
func.func @other_operator(%x: !k) -> !k {
  // expected-error@below {{'ring' passes the keys of an attention round, and this operator is none}}
  %0 = nn.gelu %x {dist.expand = #dist.pattern<"ring", ["s"]>, tanh = true} : (!k) -> !k
  return %0 : !k
}
func.func @nothing_moves(%x: !k, %w: tensor<4x4xf32, #dist.layout<[[4], [4]]>>) -> tensor<2x8x2x4xf32, #keys> {
  // expected-error@below {{is to be expanded by pattern "data", in which nothing moves here}}
  %0 = nn.gelu %x {dist.expand = #dist.pattern<"data", ["s"]>, tanh = true} : (!k) -> !k
  return %0 : !k
}
func.func @whole_keys(%q: !q, %k: tensor<2x8x2x4xf32, #dist.layout<[[2], [8], [2], [4]]>>, %v: !k) -> !q {
  // expected-error@below {{operand 1 dimension 1 is split over {}, where pattern "ring" has it over {"s"=2}}}
  %o, %lse = nn.attention %q, %k, %v {dist.expand = #dist.pattern<"ring", ["s"]>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.5}
     : (!q, tensor<2x8x2x4xf32, #dist.layout<[[2], [8], [2], [4]]>>, !k) -> (!q, !lse)
  return %o : !q
}
func.func @whole_statistics(%q: !q, %k: !k, %v: !k) -> !q {
  // expected-error@below {{result 1 dimension 1 is split over {}, where pattern "ring" has it over {"s"=2}}}
  %o, %lse = nn.attention %q, %k, %v {dist.expand = #dist.pattern<"ring", ["s"]>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.5}
     : (!q, !k, !k) -> (!q, tensor<2x8x2x1xf32, #dist.layout<[[2], [8], [2], []]>>)
  return %o : !q
}
func.func @heads_apart(%q: tensor<2x8x2x1x4xf32, #dist.layout<[[2], [8 : "s"=2], [2 : "u"=2], [], [4]]>>, %k: !k, %v: !k)
    -> tensor<2x8x2x1x4xf32, #dist.layout<[[2], [8 : "s"=2], [2 : "u"=2], [], [4]]>> {
  // expected-error@below {{operand 1 dimension 2 is laid out otherwise than another along factor}}
  %o, %lse = nn.attention %q, %k, %v {dist.expand = #dist.pattern<"ring", ["s"]>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.5}
     : (tensor<2x8x2x1x4xf32, #dist.layout<[[2], [8 : "s"=2], [2 : "u"=2], [], [4]]>>, !k, !k)
     -> (tensor<2x8x2x1x4xf32, #dist.layout<[[2], [8 : "s"=2], [2 : "u"=2], [], [4]]>>, tensor<2x8x2x1xf32, #dist.layout<[[2], [8 : "s"=2], [2 : "u"=2], []]>>)
  return %o : tensor<2x8x2x1x4xf32, #dist.layout<[[2], [8 : "s"=2], [2 : "u"=2], [], [4]]>>
}
!row = tensor<1x1x1x8x8xf32, #dist.layout<[[1 pad 2 : "u"=2], [], [], [8 : "s"=2], [8]]>>
func.func @one_for_all_rows(%q: !q, %k: !k, %v: !k, %bias: !row) -> !q {
  // expected-error@below {{operand 3 dimension 0 is split over {"u"=2} and runs along no factor}}
  %o, %lse = nn.attention %q, %k, %v, %bias {dist.expand = #dist.pattern<"ring", ["s"]>, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>, scale = 0.5}
     : (!q, !k, !k, !row) -> (!q, !lse)
  return %o : !q
}
!sum = tensor<2x8x2x4xf32, #dist.layout<[[2], [8 : "s"=2], [2], [4]], partial = ["u"=2]>>
!stack = tensor<2x2x8x2x4xf32, #dist.layout<[[2 : "u"=2], [2], [8 : "s"=2], [2], [4]]>>
func.func @sum(%q: !q, %ks: !stack, %v: !k) -> !q {
  %k = nn.reduce %ks {dims = array<i64: 0>, kind = "sum"} : (!stack) -> !sum
  // expected-error@below {{is not linear in operand 1, which is a partial sum over {"u"=2}; reduce it first}}
  %o, %lse = nn.attention %q, %k, %v {dist.expand = #dist.pattern<"ring", ["s"]>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.5}
     : (!q, !sum, !k) -> (!q, !lse)
  return %o : !q
}
func.func @invented_sum(%q: !q, %k: !k, %v: !k) -> !q {
  // expected-error@below {{result 0 is laid out as a partial sum over {"u"=2} but is one over {}}}
  %o, %lse = nn.attention %q, %k, %v {dist.expand = #dist.pattern<"ring", ["s"]>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.5}
     : (!q, !k, !k) -> (tensor<2x8x2x1x4xf32, #dist.layout<[[2], [8 : "s"=2], [2], [], [4]], partial = ["u"=2]>>, !lse)
  %1 = dist.reshard %o : tensor<2x8x2x1x4xf32, #dist.layout<[[2], [8 : "s"=2], [2], [], [4]], partial = ["u"=2]>> -> !q
  return %1 : !q
}
func.func @flat(%q: !q, %k: tensor<2x8x2x4xf32, #dist.layout<[[2], [8 : "s"=2], [2], [4]], flat = ["u"=2]>>, %v: !k) -> !q {
  // expected-error@below {{operand 1 is stored flat over {"u"=2}, which pattern "ring" does not expand}}
  %o, %lse = nn.attention %q, %k, %v {dist.expand = #dist.pattern<"ring", ["s"]>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.5}
     : (!q, tensor<2x8x2x4xf32, #dist.layout<[[2], [8 : "s"=2], [2], [4]], flat = ["u"=2]>>, !k) -> (!q, !lse)
  return %o : !q
}
func.func @zigzag(%q: tensor<2x8x2x1x4xf32, #dist.layout<[[2], [8 zigzag 2 : "s"=2], [2], [], [4]]>>, %k: !k, %v: !k)
    -> tensor<2x8x2x1x4xf32, #dist.layout<[[2], [8 zigzag 2 : "s"=2], [2], [], [4]]>> {
  // expected-error@below {{operand 0 dimension 1 is in zig-zag order of 2 ranks, where pattern "rsa" takes none}}
  %o, %lse = nn.attention %q, %k, %v {causal = true, dist.expand = #dist.pattern<"rsa", ["s"]>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.5}
     : (tensor<2x8x2x1x4xf32, #dist.layout<[[2], [8 zigzag 2 : "s"=2], [2], [], [4]]>>, !k, !k)
     -> (tensor<2x8x2x1x4xf32, #dist.layout<[[2], [8 zigzag 2 : "s"=2], [2], [], [4]]>>, tensor<2x8x2x1xf32, #dist.layout<[[2], [8 zigzag 2 : "s"=2], [2], []]>>)
  return %o : tensor<2x8x2x1x4xf32, #dist.layout<[[2], [8 zigzag 2 : "s"=2], [2], [], [4]]>>
}
func.func @no_forward(%q: !q, %k: !k, %v: !k, %lse: !lse) -> !q {
  // expected-error@below {{is the gradient of an operator "attention_7" that is not there}}
  %dq, %dk, %dv = nn.attention_grad %q, %k, %v, %q, %lse, %q {dist.expand = #dist.pattern<"ring", ["s"]>, nn.grad_of = #nn.grad_of<"attention_7", [0, 1, 2, 3, 4, 5, 6]>,
      operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 0, 0>, scale = 0.5} : (!q, !k, !k, !q, !lse, !q) -> (!q, !k, !k)
  return %dq : !q
}

// -----

!k = tensor<2x8xf32, #dist.layout<[[2], [8 : "s"=2]]>>
func.func @no_mesh(%x: !k) -> !k {
  // expected-error@below {{is expanded by a pattern in a program without a dist.mesh}}
  %0 = nn.gelu %x {dist.expand = #dist.pattern<"ring", ["s"]>, tanh = true} : (!k) -> !k
  return %0 : !k
}

// -----

dist.mesh @mesh = <["s"=2]>

// Rows of images: those of the weights' gradient are summed over what splits them.
!image = tensor<1x2x8x8xf32, #dist.layout<[[], [2], [8 : "s"=2], [8]]>>
!w = tensor<2x2x3x3xf32, #dist.layout<[[2], [2], [3], [3]]>>
!dw = tensor<2x2x3x3xf32, #dist.layout<[[2], [2], [3], [3]], partial = ["s"=2]>>
func.func @spatial(%x: !image, %w: !w) -> !w {
  %y = nn.conv %x, %w {dilations = array<i64: 1, 1>, dist.expand = #dist.pattern<"spatial", ["s"]>, groups = 1 : i64, nn.id = "conv_0", pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>}
     : (!image, !w) -> !image
  %dw = nn.conv_grad_weights %x, %y {dilations = array<i64: 1, 1>, dist.expand = #dist.pattern<"spatial", ["s"]>, groups = 1 : i64, nn.grad_of = #nn.grad_of<"conv_0", [0, 1, 2, 3, 4, 7, 8, 5, 6]>,
     pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>} : (!image, !image) -> !dw
  %0 = dist.reshard %dw : !dw -> !w
  // expected-error@below {{result 0 is laid out as a partial sum over {} but is one over {"s"=2}}}
  %1 = nn.conv_grad_weights %x, %y {dilations = array<i64: 1, 1>, dist.expand = #dist.pattern<"spatial", ["s"]>, groups = 1 : i64, nn.grad_of = #nn.grad_of<"conv_0", [0, 1, 2, 3, 4, 7, 8, 5, 6]>,
     pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>} : (!image, !image) -> !w
  return %0 : !w
}
