// RUN: tessera-opt %s --split-input-file --tessera-verify-layouts --verify-diagnostics

!stack = tensor<2x4x8xf32, #dist.layout<[[2 : "t"=2], [4], [8]]>>
!whole = tensor<4x8xf32, #dist.layout<[[4], [8]]>>
!partial = tensor<4x8xf32, #dist.layout<[[4], [8]], partial = ["t"=2]>>

func.func @not_linear(%xs: !stack) -> !whole {
  %x = nn.reduce %xs {dims = array<i64: 0>, kind = "sum"} : (!stack) -> !partial
  // expected-error@below {{is not linear in operand 0, which is a partial sum over {"t"=2}; reduce it first}}
  %0 = nn.gelu %x {tanh = true} : (!partial) -> !partial
  %r0 = dist.reshard %0 : !partial -> !whole
  return %r0 : !whole
}

// Adding a replicated value to a partial sum would count it once a rank.
func.func @adds_a_whole_value(%xs: !stack, %y: !whole) -> !whole {
  %x = nn.reduce %xs {dims = array<i64: 0>, kind = "sum"} : (!stack) -> !partial
  // expected-error@below {{adds operand 1, a partial sum over {}, to one over {"t"=2}}}
  %0 = nn.acc %x, %y : (!partial, !whole) -> !partial
  %r0 = dist.reshard %0 : !partial -> !whole
  return %r0 : !whole
}

// A reshape passes a partial sum along, a sum of partial sums too.
func.func @passes(%xs: !stack) -> tensor<32xf32, #dist.layout<[[4, 8]]>> {
  %x = nn.reduce %xs {dims = array<i64: 0>, kind = "sum"} : (!stack) -> !partial
  %0 = nn.acc %x, %x : (!partial, !partial) -> !partial
  %1 = nn.reshape %0 : (!partial) -> tensor<32xf32, #dist.layout<[[4, 8]], partial = ["t"=2]>>
  %r0 = dist.reshard %1 : tensor<32xf32, #dist.layout<[[4, 8]], partial = ["t"=2]>> -> tensor<32xf32, #dist.layout<[[4, 8]]>>
  return %r0 : tensor<32xf32, #dist.layout<[[4, 8]]>>
}

// A product passes the partial sum of one operand along, and adds its own; a rotation that of what it turns.
func.func @linear(%dys: tensor<2x4x8xf32, #dist.layout<[[2 : "t"=2], [4], [8 : "s"=2]]>>, %w: tensor<8x8xf32, #dist.layout<[[8], [8 : "s"=2]]>>, %xs: !stack, %table: tensor<8xf32, #dist.layout<[[8]]>>)
    -> (!whole, !whole) {
  %dy = nn.reduce %dys {dims = array<i64: 0>, kind = "sum"} : (tensor<2x4x8xf32, #dist.layout<[[2 : "t"=2], [4], [8 : "s"=2]]>>) -> tensor<4x8xf32, #dist.layout<[[4], [8 : "s"=2]], partial = ["t"=2]>>
  %x = nn.reduce %xs {dims = array<i64: 0>, kind = "sum"} : (!stack) -> !partial
  %0 = nn.contract %dy, %w {lhs_letters = "bo", out_letters = "bi", rhs_letters = "io"}
     : (tensor<4x8xf32, #dist.layout<[[4], [8 : "s"=2]], partial = ["t"=2]>>, tensor<8x8xf32, #dist.layout<[[8], [8 : "s"=2]]>>)
     -> tensor<4x8xf32, #dist.layout<[[4], [8]], partial = ["s"=2 "t"=2]>>
  %1 = nn.rotary %x, %table, %table : (!partial, tensor<8xf32, #dist.layout<[[8]]>>, tensor<8xf32, #dist.layout<[[8]]>>) -> !partial
  %r0 = dist.reshard %0 : tensor<4x8xf32, #dist.layout<[[4], [8]], partial = ["s"=2 "t"=2]>> -> !whole
  %r1 = dist.reshard %1 : !partial -> !whole
  return %r0, %r1 : !whole, !whole
}

// -----

!stack = tensor<2x4x8xf32, #dist.layout<[[2 : "t"=2], [4], [8]]>>
!whole = tensor<4x8xf32, #dist.layout<[[4], [8]]>>
!partial = tensor<4x8xf32, #dist.layout<[[4], [8]], partial = ["t"=2]>>

func.func @product_of_sums(%xs: !stack, %ys: !stack)
    -> !whole {
  %x = nn.reduce %xs {dims = array<i64: 0>, kind = "sum"} : (!stack) -> !partial
  %y = nn.reduce %ys {dims = array<i64: 0>, kind = "sum"} : (!stack) -> !partial
  // expected-error@below {{is not linear in its operands together, of which more than one is a partial sum; reduce operand 1}}
  %0 = nn.mul %x, %y : (!partial, !partial) -> !partial
  %r0 = dist.reshard %0 : !partial -> !whole
  return %r0 : !whole
}

// -----

!partial = tensor<4x8xf32, #dist.layout<[[4], [8]], partial = ["t"=2]>>

func.func @table_of_sums(%x: tensor<4x8xf32, #dist.layout<[[4], [8]]>>, %tables: tensor<2x8xf32, #dist.layout<[[2 : "t"=2], [8]]>>)
    -> tensor<4x8xf32, #dist.layout<[[4], [8]]>> {
  %table = nn.reduce %tables {dims = array<i64: 0>, kind = "sum"} : (tensor<2x8xf32, #dist.layout<[[2 : "t"=2], [8]]>>) -> tensor<8xf32, #dist.layout<[[8]], partial = ["t"=2]>>
  // expected-error@below {{is not linear in operand 1, which is a partial sum over {"t"=2}; reduce it first}}
  %0 = nn.div %x, %table : (tensor<4x8xf32, #dist.layout<[[4], [8]]>>, tensor<8xf32, #dist.layout<[[8]], partial = ["t"=2]>>) -> !partial
  %r0 = dist.reshard %0 : !partial -> tensor<4x8xf32, #dist.layout<[[4], [8]]>>
  return %r0 : tensor<4x8xf32, #dist.layout<[[4], [8]]>>
}

// -----

// Pieces of flat storage: the sum of squares over them is one over whoever has the others; a product cannot be computed on them.
!flat = tensor<8x8xf32, #dist.layout<[[8], [8 : "t"=2]], flat = ["d"=2]>>
func.func @sums_pieces(%x: !flat) -> tensor<f32, #dist.layout<[]>> {
  %0 = nn.sum_squares %x : (!flat) -> tensor<f32, #dist.layout<[], partial = ["d"=2 "t"=2]>>
  %r0 = dist.reshard %0 : tensor<f32, #dist.layout<[], partial = ["d"=2 "t"=2]>> -> tensor<f32, #dist.layout<[]>>
  return %r0 : tensor<f32, #dist.layout<[]>>
}
func.func @forgets_pieces(%x: !flat) -> tensor<f32, #dist.layout<[]>> {
  // expected-error@below {{result 0 is laid out as a partial sum over {"t"=2} but is one over {"d"=2 "t"=2}}}
  %0 = nn.sum_squares %x : (!flat) -> tensor<f32, #dist.layout<[], partial = ["t"=2]>>
  %r0 = dist.reshard %0 : tensor<f32, #dist.layout<[], partial = ["t"=2]>> -> tensor<f32, #dist.layout<[]>>
  return %r0 : tensor<f32, #dist.layout<[]>>
}
func.func @product_of_pieces(%x: tensor<4x8xf32, #dist.layout<[[4], [8]]>>, %w: !flat) -> tensor<4x8xf32, #dist.layout<[[4], [8 : "t"=2]]>> {
  // expected-error@below {{computes on pieces of flat storage over {"d"=2}, but operand 0 has its dimensions otherwise}}
  %0 = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"}
     : (tensor<4x8xf32, #dist.layout<[[4], [8]]>>, !flat) -> tensor<4x8xf32, #dist.layout<[[4], [8 : "t"=2]]>>
  return %0 : tensor<4x8xf32, #dist.layout<[[4], [8 : "t"=2]]>>
}
func.func @pieces_and_blocks(%x: !flat, %y: tensor<8x8xf32, #dist.layout<[[8], [8 : "t"=2]]>>) -> !flat {
  // expected-error@below {{operand 1 is stored flat over {} and another over {"d"=2}}}
  %0 = nn.add %x, %y : (!flat, tensor<8x8xf32, #dist.layout<[[8], [8 : "t"=2]]>>) -> !flat
  return %0 : !flat
}

// -----

func.func @forgotten_sum(%x: tensor<4x8xf32, #dist.layout<[[4], [8 : "t"=2]]>>, %w: tensor<8x8xf32, #dist.layout<[[8 : "t"=2], [8]]>>)
    -> tensor<4x8xf32, #dist.layout<[[4], [8]]>> {
  // expected-error@below {{result 0 is laid out as a partial sum over {} but is one over {"t"=2}}}
  %0 = nn.contract %x, %w {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"}
     : (tensor<4x8xf32, #dist.layout<[[4], [8 : "t"=2]]>>, tensor<8x8xf32, #dist.layout<[[8 : "t"=2], [8]]>>) -> tensor<4x8xf32, #dist.layout<[[4], [8]]>>
  return %0 : tensor<4x8xf32, #dist.layout<[[4], [8]]>>
}

func.func @invented_sum(%x: tensor<4x8xf32, #dist.layout<[[4], [8]]>>) -> tensor<4x8xf32, #dist.layout<[[4], [8]]>> {
  // expected-error@below {{result 0 is laid out as a partial sum over {"t"=2} but is one over {}}}
  %0 = nn.exp %x : (tensor<4x8xf32, #dist.layout<[[4], [8]]>>) -> tensor<4x8xf32, #dist.layout<[[4], [8]], partial = ["t"=2]>>
  %r0 = dist.reshard %0 : tensor<4x8xf32, #dist.layout<[[4], [8]], partial = ["t"=2]>> -> tensor<4x8xf32, #dist.layout<[[4], [8]]>>
  return %r0 : tensor<4x8xf32, #dist.layout<[[4], [8]]>>
}

// -----

func.func @unsplit(%x: tensor<4x8xf32, #dist.layout<[[4], [8 : "t"=2]]>>) -> tensor<4x8xf32, #dist.layout<[[4], [8 : "t"=2]]>> {
  // expected-error@below {{operand 0 dimension 1 is split over {"t"=2} but factor b must be whole}}
  %0 = nn.softmax %x : (tensor<4x8xf32, #dist.layout<[[4], [8 : "t"=2]]>>) -> tensor<4x8xf32, #dist.layout<[[4], [8 : "t"=2]]>>
  return %0 : tensor<4x8xf32, #dist.layout<[[4], [8 : "t"=2]]>>
}

// -----

func.func @operands_apart(%x: tensor<4x8xf32, #dist.layout<[[4 : "t"=2], [8]]>>, %y: tensor<4x8xf32, #dist.layout<[[4], [8]]>>)
    -> tensor<4x8xf32, #dist.layout<[[4 : "t"=2], [8]]>> {
  // expected-error@below {{operand 1 dimension 0 is laid out otherwise than another along factor a of ([a,b], [a,b])->([a,b])}}
  %0 = nn.add %x, %y : (tensor<4x8xf32, #dist.layout<[[4 : "t"=2], [8]]>>, tensor<4x8xf32, #dist.layout<[[4], [8]]>>) -> tensor<4x8xf32, #dist.layout<[[4 : "t"=2], [8]]>>
  return %0 : tensor<4x8xf32, #dist.layout<[[4 : "t"=2], [8]]>>
}

// Padding is part of it: positions would not meet.
func.func @padded_apart(%x: tensor<3x8xf32, #dist.layout<[[3 pad 4 : "t"=2], [8]]>>, %y: tensor<3x8xf32, #dist.layout<[[3 pad 6 : "t"=2], [8]]>>)
    -> tensor<3x8xf32, #dist.layout<[[3 pad 4 : "t"=2], [8]]>> {
  // expected-error@below {{operand 1 dimension 0 is laid out otherwise than another along factor a of ([a,b], [a,b])->([a,b])}}
  %0 = nn.add %x, %y : (tensor<3x8xf32, #dist.layout<[[3 pad 4 : "t"=2], [8]]>>, tensor<3x8xf32, #dist.layout<[[3 pad 6 : "t"=2], [8]]>>) -> tensor<3x8xf32, #dist.layout<[[3 pad 4 : "t"=2], [8]]>>
  return %0 : tensor<3x8xf32, #dist.layout<[[3 pad 4 : "t"=2], [8]]>>
}

func.func @result_apart(%x: tensor<4x8xf32, #dist.layout<[[4 : "t"=2], [8]]>>) -> tensor<4x8xf32, #dist.layout<[[4], [8 : "t"=2]]>> {
  // expected-error@below {{result 0 dimension 0 is laid out otherwise than another along factor a of ([a,b])->([a,b])}}
  %0 = nn.exp %x : (tensor<4x8xf32, #dist.layout<[[4 : "t"=2], [8]]>>) -> tensor<4x8xf32, #dist.layout<[[4], [8 : "t"=2]]>>
  return %0 : tensor<4x8xf32, #dist.layout<[[4], [8 : "t"=2]]>>
}

// -----

!stack = tensor<2x4x8xf32, #dist.layout<[[2 : "t"=2], [4], [8]]>>
!partial = tensor<4x8xf32, #dist.layout<[[4], [8]], partial = ["t"=2]>>

func.func @reshape_moves(%x: tensor<4x8xf32, #dist.layout<[[4], [8 : "t"=2]]>>) -> tensor<32xf32, #dist.layout<[[32 : "t"=2]]>> {
  // expected-error@below {{would move data: it goes from [[4], [8 : "t"=2]] to [[32 : "t"=2]]}}
  %0 = nn.reshape %x : (tensor<4x8xf32, #dist.layout<[[4], [8 : "t"=2]]>>) -> tensor<32xf32, #dist.layout<[[32 : "t"=2]]>>
  return %0 : tensor<32xf32, #dist.layout<[[32 : "t"=2]]>>
}

func.func @reshape_forgets_a_sum(%xs: !stack) -> tensor<32xf32, #dist.layout<[[32]]>> {
  %x = nn.reduce %xs {dims = array<i64: 0>, kind = "sum"} : (!stack) -> !partial
  // expected-error@below {{result 0 is laid out as a partial sum over {} but is one over {"t"=2}}}
  %0 = nn.reshape %x : (!partial) -> tensor<32xf32, #dist.layout<[[32]]>>
  return %0 : tensor<32xf32, #dist.layout<[[32]]>>
}

// Whole atoms may be regrouped, and dimensions of extent 1 come and go.
func.func @reshape_regroups(%x: tensor<4x6x5xf32, #dist.layout<[[4], [6], [5 pad 6 : "t"=2]]>>)
    -> tensor<8x3x1x5xf32, #dist.layout<[[8], [3], [], [5 pad 6 : "t"=2]]>> {
  %0 = nn.reshape %x : (tensor<4x6x5xf32, #dist.layout<[[4], [6], [5 pad 6 : "t"=2]]>>) -> tensor<8x3x1x5xf32, #dist.layout<[[8], [3], [], [5 pad 6 : "t"=2]]>>
  return %0 : tensor<8x3x1x5xf32, #dist.layout<[[8], [3], [], [5 pad 6 : "t"=2]]>>
}
