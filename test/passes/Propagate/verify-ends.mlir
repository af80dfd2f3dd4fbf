// Where programs meet files and each other: variables, arguments, results, and the mesh.
// RUN: tessera-opt %s --split-input-file --tessera-verify-layouts --verify-diagnostics

!whole = tensor<4x8xf32, #dist.layout<[[4], [8]]>>
!partial = tensor<4x8xf32, #dist.layout<[[4], [8]], partial = ["t"=2]>>
!rows = tensor<4x8xf32, #dist.layout<[[4 : "t"=2], [8]]>>

nn.variable @w : !whole {role = "parameter"}
nn.variable @rows : !rows {role = "parameter"}
nn.variable @plain : tensor<4x8xf32> {role = "parameter"}
// expected-error@below {{variable @sum is a partial sum over {"t"=2}, which nobody adds up; reduce it first}}
nn.variable @sum : !partial {role = "parameter"}
// expected-error@below {{variable @step is split over microbatches, which it outlives}}
nn.variable @step : tensor<4x8xf32, #dist.layout<[[4 : "micro"=2], [8]]>> {role = "parameter"}

func.func @fits(%x: !whole) -> !rows {
  %0 = nn.read @plain : !whole
  nn.assign @w, %x : !whole
  %1 = nn.read @rows : !rows
  return %1 : !rows
}
func.func @reads_a_sum() -> !whole {
  // expected-error@below {{reads variable @w as [[4], [8]], partial = ["t"=2], which is stored as [[4], [8]]; a dist.reshard takes it from one to the other}}
  %0 = nn.read @w : !partial
  %1 = dist.reshard %0 : !partial -> !whole
  return %1 : !whole
}
func.func @reads_other_blocks() -> !rows {
  // expected-error@below {{reads variable @w as [[4 : "t"=2], [8]], which is stored as [[4], [8]]}}
  %0 = nn.read @w : !rows
  return %0 : !rows
}
func.func @assigns_a_sum(%x: !rows, %y: !whole) {
  %0 = nn.reduce %x {dims = array<i64: 0>, kind = "sum"} : (!rows) -> tensor<8xf32, #dist.layout<[[8]], partial = ["t"=2]>>
  %1 = nn.mul %y, %0 : (!whole, tensor<8xf32, #dist.layout<[[8]], partial = ["t"=2]>>) -> !partial
  // expected-error@below {{assigns variable @w as [[4], [8]], partial = ["t"=2], which is stored as [[4], [8]]}}
  nn.assign @w, %1 : !partial
  return
}
func.func @returns_a_sum(%x: !rows) -> tensor<8xf32, #dist.layout<[[8]], partial = ["t"=2]>> {
  %0 = nn.reduce %x {dims = array<i64: 0>, kind = "sum"} : (!rows) -> tensor<8xf32, #dist.layout<[[8]], partial = ["t"=2]>>
  // expected-error@below {{result 0 is a partial sum over {"t"=2}, which nobody adds up; reduce it first}}
  return %0 : tensor<8xf32, #dist.layout<[[8]], partial = ["t"=2]>>
}
// expected-error@below {{argument 0 is a partial sum over {"t"=2}, which nobody adds up; reduce it first}}
func.func @takes_a_sum(%x: !partial) -> !whole {
  %0 = dist.reshard %x : !partial -> !whole
  return %0 : !whole
}

// -----

dist.mesh @mesh = <["t"=4]>
// expected-error@below {{argument 0 is laid out over "u"=2: no axis "u" in the mesh; it has: "t"=4}}
func.func @no_axis(%x: tensor<4xf32, #dist.layout<[[4 : "u"=2]]>>) {
  return
}
func.func @part_of_an_axis(%x: tensor<4xf32, #dist.layout<[[4 : "t"=2]]>>) {
  return
}
// expected-error@below {{argument 0 is laid out over "t"=3: sub-axis "t"=3 does not divide axis "t" of size 4}}
func.func @no_part(%x: tensor<3xf32, #dist.layout<[[3 : "t"=3]]>>) {
  return
}
func.func @microbatches(%x: tensor<4xf32, #dist.layout<[[4]]>>) {
  // expected-error@below {{result 0 is laid out over "micro"=2: the program has 1 microbatches}}
  %0 = dist.reshard %x : tensor<4xf32, #dist.layout<[[4]]>> -> tensor<4xf32, #dist.layout<[[4 : "micro"=2]]>>
  return
}

// -----

func.func @local(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error@below {{does not belong into a program on whole tensors, before partition}}
  %0 = dist.collective all_reduce %x over <"t"=2> shape [4, 8] reduce sum : tensor<4x8xf32> -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// A division of integers truncates: it is not linear.
!partial = tensor<4xi64, #dist.layout<[[4]], partial = ["t"=2]>>
func.func @divides(%x: tensor<8x4xi64, #dist.layout<[[8 : "t"=2], [4]]>>, %y: tensor<4xi64, #dist.layout<[[4]]>>) -> tensor<4xi64, #dist.layout<[[4]]>> {
  %0 = nn.reduce %x {dims = array<i64: 0>, kind = "sum"} : (tensor<8x4xi64, #dist.layout<[[8 : "t"=2], [4]]>>) -> !partial
  // expected-error@below {{is not linear in operand 0, which is a partial sum over {"t"=2}; reduce it first}}
  %1 = nn.div %0, %y : (!partial, tensor<4xi64, #dist.layout<[[4]]>>) -> !partial
  %2 = dist.reshard %1 : !partial -> tensor<4xi64, #dist.layout<[[4]]>>
  return %2 : tensor<4xi64, #dist.layout<[[4]]>>
}

// -----

!zigzag = tensor<8xf32, #dist.layout<[[8 zigzag 2 : "t"=2]]>>
func.func @out_of_order(%x: !zigzag) -> tensor<4xf32, #dist.layout<[[4]]>> {
  %0 = nn.exp %x : (!zigzag) -> !zigzag
  %1 = dist.reshard %0 : !zigzag -> tensor<8xf32, #dist.layout<[[8 zigzag 2]]>>
  // expected-error@below {{operand 0 dimension 0 is in zig-zag order of 2 ranks but}}
  %2 = nn.slice %1 {starts = array<i64: 0>, sizes = array<i64: 4>, steps = array<i64: 1>} : (tensor<8xf32, #dist.layout<[[8 zigzag 2]]>>) -> tensor<4xf32, #dist.layout<[[4]]>>
  return %2 : tensor<4xf32, #dist.layout<[[4]]>>
}

// -----

!split = tensor<4x8xf32, #dist.layout<[[4], [8 : "t"=2]]>>
// Elements of a slice run along no factor of what they are cut from.
func.func @no_factor(%x: tensor<4x8xf32, #dist.layout<[[4], [8 : "t"=2]]>>) -> tensor<4x4xf32, #dist.layout<[[4], [4]]>> {
  // expected-error@below {{operand 0 dimension 1 is split over {"t"=2} but}}
  %0 = nn.slice %x {starts = array<i64: 0, 0>, sizes = array<i64: 4, 4>, steps = array<i64: 1, 1>} : (!split) -> tensor<4x4xf32, #dist.layout<[[4], [4]]>>
  return %0 : tensor<4x4xf32, #dist.layout<[[4], [4]]>>
}
