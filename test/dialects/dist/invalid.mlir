// RUN: tessera-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{axis "a" is declared twice in the mesh}}
dist.mesh @m = <["a"=2, "a"=4]>
// -----
// expected-error@+1 {{axis "micro" is reserved for microbatches}}
dist.mesh @m = <["micro"=2]>
// -----
// expected-error@+1 {{axis "a" has size 0; expected at least 1}}
dist.mesh @m = <["a"=0]>
// -----
// expected-error@+1 {{an axis of the mesh has an empty name}}
dist.mesh @m = <[""=2]>
// -----
// expected-error@+1 {{axis "a" is declared as a sub-axis}}
dist.mesh @m = <["a":(2)2]>
// -----
// expected-error@+1 {{the mesh has more than 65536 ranks, the most that programs are made for}}
dist.mesh @m = <["a"=65536, "b"=65536]>
// -----
// expected-error@+1 {{axis "a" needs a size, as in "a"=4 or "a":(2)2}}
dist.mesh @m = <["a"]>
// -----
// expected-error@+1 {{axis "a":(2)2 is named twice}}
func.func private @f() attributes {x = #dist.axes<"a"=4 "a":(2)2>}
// -----
// expected-error@+1 {{axis "a":(0)2 must have a size and a start from 1 to 2^31}}
func.func private @f() attributes {x = #dist.axes<"a":(0)2>}
// -----
// expected-error@+1 {{an axis has an empty name}}
func.func private @f() attributes {x = #dist.axes<""=2>}
// -----
// expected-error@+1 {{the name of a pattern is empty}}
func.func private @f() attributes {x = #dist.pattern<"", []>}

// Layouts.
// -----
// expected-error@+1 {{an axis of the layout has an empty name}}
func.func private @f(tensor<4xf32, #dist.layout<[[4 : ""=2]]>>)
// -----
// expected-error@+1 {{axis "a"=1 of the layout must have a size of at least 2}}
func.func private @f(tensor<4xf32, #dist.layout<[[4 : "a"=1]]>>)
// -----
// expected-error@+1 {{axis "a":(4294967296)4294967296 of the layout has more than 2^31 ranks}}
func.func private @f(tensor<4xf32, #dist.layout<[[4 : "a":(4294967296)4294967296]]>>)
// -----
// expected-error@+1 {{axis "a":(2)2 occurs twice in the layout (also as "a"=4)}}
func.func private @f(tensor<4x4xf32, #dist.layout<[[4 : "a"=4], [4 : "a":(2)2]]>>)
// -----
// expected-error@+1 {{axis "a"=2 occurs twice in the layout}}
func.func private @f(tensor<4xf32, #dist.layout<[[4 : "a"=2]], partial = ["a"=2]>>)
// -----
// expected-error@+1 {{an atom has size -4}}
func.func private @f(tensor<4xf32, #dist.layout<[[-4]]>>)
// -----
// expected-error@+1 {{an atom of size 4 is padded to 3, which is less}}
func.func private @f(tensor<4xf32, #dist.layout<[[4 pad 3]]>>)
// -----
// expected-error@+1 {{an atom of size 5 padded to 5 cannot be cut into the 2 blocks of "a"=2; pad it to a multiple}}
func.func private @f(tensor<5xf32, #dist.layout<[[5 : "a"=2]]>>)
// -----
// expected-error@+1 {{the layout has more than 2^63 elements}}
func.func private @f(tensor<4xf32, #dist.layout<[[4 pad 9223372036854775800, 9223372036854775800]]>>)
// -----
// expected-error@+1 {{an atom is split into more than 2^63 blocks}}
func.func private @f(tensor<4xf32, #dist.layout<[[4 : "a"=2147483648 "b"=2147483648 "c"=2147483648]]>>)
// -----
// expected-error@+1 {{the layout has 1 dimensions, the tensor 2}}
func.func private @f(tensor<4x4xf32, #dist.layout<[[4]]>>)
// -----
// expected-error@+1 {{dimension 1 of the tensor has extent 7, but the atoms of the layout multiply to 6}}
func.func private @f(tensor<4x7xf32, #dist.layout<[[4], [2, 3]]>>)
// -----
// expected-error@+1 {{axis "a"=2 occurs twice in the layout}}
func.func private @f(tensor<4xf32, #dist.layout<[[4 : "a"=2]], flat = ["a"=2]>>)
// -----
// expected-error@+1 {{unknown property 'colour' of a layout}}
func.func private @f(tensor<4xf32, #dist.layout<[[4]], colour = tape>>)

// Reshards.
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{needs a layout on both types}}
  %0 = dist.reshard %x : tensor<4xf32> -> tensor<4xf32, #dist.layout<[[4 : "a"=2]]>>
  return
}
// -----
func.func @f(%x: tensor<4xf32, #dist.layout<[[4]]>>) {
  // expected-error@+1 {{only the layout may change}}
  %0 = dist.reshard %x : tensor<4xf32, #dist.layout<[[4]]>> -> tensor<4xf16, #dist.layout<[[4]]>>
  return
}
// -----
func.func @f(%x: tensor<4xf32, #dist.layout<[[4]]>>) {
  // expected-error@+1 {{has layouts of different atoms or padding; both belong to the dimension and cannot be resharded}}
  %0 = dist.reshard %x : tensor<4xf32, #dist.layout<[[4]]>> -> tensor<4xf32, #dist.layout<[[4 pad 6]]>>
  return
}
// -----
func.func @f(%x: tensor<4xf32, #dist.layout<[[4]], partial = ["b":(2)2]>>) {
  // expected-error@+1 {{would make a value partial over "b"=2, which it is not}}
  %0 = dist.reshard %x : tensor<4xf32, #dist.layout<[[4]], partial = ["b":(2)2]>>
     -> tensor<4xf32, #dist.layout<[[4]], partial = ["b"=4]>>
  return
}
// -----
func.func @f(%x: tensor<4xf32, #dist.layout<[[4]], partial = ["b"=2]>>) {
  // expected-error@+1 {{has partial axes that do not nest: "b"=2 and "b"=3}}
  %0 = dist.reshard %x : tensor<4xf32, #dist.layout<[[4]], partial = ["b"=2]>>
     -> tensor<4xf32, #dist.layout<[[4]], partial = ["b"=3]>>
  return
}

// Local operators.
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{splits atom 1 of a shape of 1 atoms}}
  %0 = dist.slice %x over <"a"=2> shape [4] split 1 : tensor<4xf32> -> tensor<2xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{cannot split an atom of 4 into 3 blocks}}
  %0 = dist.slice %x over <"a"=3> shape [4] split 0 : tensor<4xf32> -> tensor<2xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{has a shape [8] that does not factor the source}}
  %0 = dist.slice %x over <"a"=2> shape [8] split 0 : tensor<4xf32> -> tensor<4xf32>
  return
}
// -----
func.func @f(%x: tensor<4x6xf32>) {
  // expected-error@+1 {{yields atoms [4, 3, 1], which do not make up the result 'tensor<2x6xf32>'}}
  %0 = dist.slice %x over <"a"=2> shape [4, 3, 2] split 2 : tensor<4x6xf32> -> tensor<2x6xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{changes the element type from 'f32' to 'f16'}}
  %0 = dist.slice %x over <"a"=2> shape [4] split 0 : tensor<4xf32> -> tensor<2xf16>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{has an atom of extent -4 in its shape}}
  %0 = dist.slice %x over <"a"=2> shape [-4, -1] split 0 : tensor<4xf32> -> tensor<2xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32, #dist.layout<[[4]]>>) {
  // expected-error@+1 {{operand #0 must be tensor of static shape without layout}}
  %0 = dist.slice %x over <"a"=2> shape [4] split 0 : tensor<4xf32, #dist.layout<[[4]]>> -> tensor<2xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{has a shape of 1 extents; expected [outer, n, inner]}}
  %0 = dist.mask_padding %x over <"a"=2> shape [4] size 7 value 0.0 : f32 : tensor<4xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{has a shape [1, 3, 1] that does not factor the source}}
  %0 = dist.mask_padding %x over <"a"=2> shape [1, 3, 1] size 5 value 0.0 : f32 : tensor<4xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{has size 9, but the blocks hold 8 positions}}
  %0 = dist.mask_padding %x over <"a"=2> shape [1, 4, 1] size 9 value 0.0 : f32 : tensor<4xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{writes a 'i32' into 'tensor<4xf32>'}}
  %0 = dist.mask_padding %x over <"a"=2> shape [1, 4, 1] size 7 value 0 : i32 : tensor<4xf32>
  return
}
// -----
func.func @f() {
  // expected-error@+1 {{has a block of 0; expected at least 1}}
  %0 = dist.block_start over <"a"=2> block 0 : i64
  return
}
// -----
func.func @f() {
  // expected-error@+1 {{has size 5 and padded 5; expected size <= padded, a multiple of 2}}
  %0 = dist.logical_index over <"a"=2> size 5 padded 5 : tensor<3xi64>
  return
}
// -----
func.func @f() {
  // expected-error@+1 {{has 4 results; a rank holds 3 positions}}
  %0 = dist.logical_index over <"a"=2> size 5 padded 6 : tensor<4xi64>
  return
}

// Collectives.
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{needs at least one axis to run over}}
  %0 = dist.collective all_reduce %x over <> shape [4] : tensor<4xf32> -> tensor<4xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{cannot run over "micro"}}
  %0 = dist.collective all_reduce %x over <"micro"=2> shape [4] : tensor<4xf32> -> tensor<4xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{all_reduce has no 'split'}}
  %0 = dist.collective all_reduce %x over <"a"=2> shape [4] split 0 : tensor<4xf32> -> tensor<4xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{all_gather needs 'concat'}}
  %0 = dist.collective all_gather %x over <"a"=2> shape [4] : tensor<4xf32> -> tensor<8xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{all_gather has no 'reduce'}}
  %0 = dist.collective all_gather %x over <"a"=2> shape [4] concat 0 reduce sum : tensor<4xf32> -> tensor<8xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{broadcast needs 'root'}}
  %0 = dist.collective broadcast %x over <"a"=2> shape [4] : tensor<4xf32> -> tensor<4xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{has root 2 in a group of 2 ranks}}
  %0 = dist.collective reduce %x over <"a"=2> shape [4] root 2 : tensor<4xf32> -> tensor<4xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{joins along atom 1 of a shape of 1 atoms}}
  %0 = dist.collective all_gather %x over <"a"=2> shape [4] concat 1 : tensor<4xf32> -> tensor<8xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{splits and joins the same atom 0}}
  %0 = dist.collective all_to_all %x over <"a"=2> shape [4] split 0 concat 0 : tensor<4xf32> -> tensor<4xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{yields atoms [8], which do not make up the result 'tensor<4xf32>'}}
  %0 = dist.collective all_gather %x over <"a"=2> shape [4] concat 0 : tensor<4xf32> -> tensor<4xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{yields more than 2^63 elements}}
  %0 = dist.collective all_gather %x over <"a"=2147483648 "b"=2147483648> shape [4] concat 0
     : tensor<4xf32> -> tensor<4xf32>
  return
}
// -----
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{permute needs the layouts 'from' and 'to'}}
  %0 = dist.collective permute %x over <"a"=2> shape [2] : tensor<2xf32> -> tensor<2xf32>
  return
}
// -----
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{permute must keep the atoms and the number of elements}}
  %0 = dist.collective permute %x over <"a"=2> shape [2] from <[[4 : "a"=2]]> to <[[4]]>
     : tensor<2xf32> -> tensor<4xf32>
  return
}
// -----
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{has a shape [1, 2], but the layout 'from' has local atoms [2]}}
  %0 = dist.collective permute %x over <"a"=2> shape [1, 2] from <[[4 : "a"=2]]> to <[[4 : "b"=2]]>
     : tensor<2xf32> -> tensor<2xf32>
  return
}
// -----
func.func @f(%x: tensor<2x1xf32>) {
  // expected-error@+1 {{has types whose shapes are not the local shapes of its layouts}}
  %0 = dist.collective permute %x over <"a"=2> shape [2] from <[[4 : "a"=2]]> to <[[4 : "b"=2]]>
     : tensor<2x1xf32> -> tensor<2x1xf32>
  return
}
// -----
func.func @f(%x: tensor<2xf32>) {
  // expected-error@+1 {{changes the element type from 'f32' to 'f16'}}
  %0 = dist.collective permute %x over <"a"=2> shape [2] from <[[4 : "a"=2]]> to <[[4 : "b"=2]]>
     : tensor<2xf32> -> tensor<2xf16>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{needs exactly one dist.collective_wait of its token}}
  %0 = dist.collective_start all_reduce %x over <"a"=2> shape [4] : tensor<4xf32> -> !dist.token<tensor<4xf32>>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{yields atoms [4], which do not make up the result 'tensor<8xf32>'}}
  %0 = dist.collective_start all_reduce %x over <"a"=2> shape [4] : tensor<4xf32> -> !dist.token<tensor<8xf32>>
  %1 = dist.collective_wait %0 : !dist.token<tensor<8xf32>>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{has stage -1 and channel 0; both count from 0}}
  dist.send %x to -1 channel 0 : tensor<4xf32>
  return
}
// -----
func.func @f() {
  // expected-error@+1 {{has stage 0 and channel -1; both count from 0}}
  %0 = dist.recv from 0 channel -1 : tensor<4xf32>
  return
}

// Flat storage.
// -----
func.func @f(%x: tensor<4x5xf32>) {
  // expected-error@+1 {{expected a vector of at least 20 elements of the same type}}
  %0 = dist.flatten %x : tensor<4x5xf32> -> tensor<19xf32>
  return
}
// -----
func.func @f(%x: tensor<20xf32>) {
  // expected-error@+1 {{expected a vector of at least 21 elements of the same type}}
  %0 = dist.unflatten %x : tensor<20xf32> -> tensor<3x7xf32>
  return
}
// -----
func.func @f(%x: tensor<8xf32>) {
  // expected-error@+1 {{has a shape [1, 4, 5] that does not factor the source}}
  %0 = dist.mask_padding %x over <"tensor"=2> shape [1, 4, 5] size 7 value 0.0 : f32 piece <"data"=3> : tensor<8xf32>
  return
}

// Loops.
// -----
func.func @f() {
  // expected-error@+1 {{runs 0 times; expected at least 1}}
  dist.loop times 0 {
    dist.yield
  }
  return
}
// -----
func.func @f() {
  // expected-error@+1 {{begins with microbatch -1; expected 0 or more}}
  dist.loop from -1 times 2 {
    dist.yield
  }
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{must end in a dist.yield of 1 values of the types it carries}}
  %0 = dist.loop times 2 iter_args(%a = %x : tensor<4xf32>) {
    dist.yield
  }
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{has initial values, carried values and results of different types}}
  %0 = "dist.loop"(%x) <{times = 2 : i64}> ({
  ^bb0(%a: tensor<5xf32>):
    dist.yield %a : tensor<5xf32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return
}
// -----
func.func @f(%x: tensor<3xf32>, %y: tensor<2x8xf32>) {
  // expected-error@+1 {{has a pack of type 'tensor<19xf32>'; its values make up 'tensor<32xf32>'}}
  %0 = dist.pack %x, %y : tensor<3xf32>, tensor<2x8xf32> -> tensor<19xf32>
  return
}
// -----
func.func @f(%x: tensor<16xf32>, %y: tensor<8xf64>) {
  // expected-error@+1 {{packs 'tensor<8xf64>' with values of element type 'f32'}}
  %0 = dist.pack %x, %y : tensor<16xf32>, tensor<8xf64> -> tensor<32xf32>
  return
}
// -----
func.func @f(%x: tensor<16xf32>) {
  // expected-error@+1 {{has no values}}
  "dist.unpack"(%x) : (tensor<16xf32>) -> ()
  return
}

// -----

func.func @pack_blocks(%x: tensor<3xf32>, %y: tensor<2x8xf32>) {
  // expected-error@+1 {{cannot cut 'tensor<3xf32>' into 2 equal blocks}}
  %0 = dist.pack %x, %y {blocks = 2} : tensor<3xf32>, tensor<2x8xf32> -> tensor<32xf32>
  return
}

// -----

func.func @pack_of_no_blocks(%x: tensor<16xf32>) {
  // expected-error@+1 {{has 0 blocks, expected at least one}}
  %0 = dist.pack %x {blocks = 0} : tensor<16xf32> -> tensor<16xf32>
  return
}

// -----

// expected-error@+1 {{has dist.micro = 0 : i64; expected a number of microbatches, from 1 to 2^20}}
module attributes {dist.micro = 0 : i64} {
}

// -----

// expected-error@+1 {{a pipeline has the stages [0, -1]; expected each chunk's, of as many as there are chunks at most}}
module attributes {dist.pipeline = #dist.pipeline<"pipe", "gpipe", [0, -1]>} {
}

// -----

module attributes {dist.pipeline = #dist.pipeline<"pipe", "gpipe", [0, 1]>} {
  func.func @chunk(%x: tensor<3xf32>) -> tensor<3xf32> {
    // expected-error@+1 {{has dist.chunk = 2 : i64; the pipeline has chunks 0 to 1}}
    %0 = dist.accumulate %x {dist.chunk = 2 : i64, dist.work = #dist<work forward>} : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}

// -----
func.func @shift_with_layouts(%x: tensor<2xf32>) {
  // expected-error@+1 {{permute has either the layouts 'from' and 'to' or a shift}}
  %0 = dist.collective permute %x over <"a"=2> shape [2] from <[[4 : "a"=2]]> to <[[4 : "a"=2]]> shift 1 : tensor<2xf32> -> tensor<2xf32>
  return
}

// -----
func.func @shift_of_type(%x: tensor<2xf32>) {
  // expected-error@+1 {{a shift keeps the type of what it moves}}
  %0 = dist.collective permute %x over <"a"=2> shape [2] shift 1 : tensor<2xf32> -> tensor<3xf32>
  return
}

// -----
func.func @permute_microbatches(%x: tensor<2xf32>) {
  // expected-error@+1 {{cannot permute blocks of "micro": microbatches are iterations of a loop, not ranks}}
  %0 = dist.collective permute %x over <"a"=2> shape [2] from <[[4 : "micro"=2]]> to <[[4 : "a"=2]]> : tensor<2xf32> -> tensor<2xf32>
  return
}

// -----
// expected-error@+1 {{an atom of size 6 padded to 6 cannot be cut into the 2 x 2 chunks of its zig-zag order}}
func.func private @zigzag(tensor<6xf32, #dist.layout<[[6 zigzag 2 : "a"=2]]>>)

// -----
// expected-error@+1 {{flat storage has more than 2^63 pieces or elements}}
func.func private @pieces(tensor<4xf32, #dist.layout<[[4]], flat = ["a"=2147483648 "b"=2147483648 "c"=2147483648]>>)
// -----
// expected-error@+1 {{the machine's bytes is 0.000000e+00; expected a number above 0}}
module attributes {dist.machine = #dist.machine<bytes = 0.0>} {}
// -----
// expected-error@+1 {{a machine has no 'rate'; it has flops, half_flops, f16_flops, bytes, per, kernel_launch, stream, row, gather, kernel_update, functions, shapes, launch, slice, link, host, disk, update and links}}
module attributes {dist.machine = #dist.machine<rate = 1.0>} {}
// -----
// expected-error@+1 {{expected a class of work and a type, such as product f32}}
module attributes {dist.machine = #dist.machine<shapes = [rows f32 1.0 by 2.0 by 3.0 by 4.0 = 1.0e9]>} {}
// -----
// expected-error@+1 {{the machine's rate of a shape is 0.000000e+00; expected a number above 0}}
module attributes {dist.machine = #dist.machine<shapes = [product f32 1.0 by 2.0 by 0.0 by 4.0 = 1.0e9]>} {}
// -----
// expected-error@+1 {{expected per = thread or per = device}}
module attributes {dist.machine = #dist.machine<per = core>} {}
// -----
// expected-error@+1 {{has dist.machine = "a100"; expected a machine, as in #dist.machine<flops = 1.3e11>}}
module attributes {dist.machine = "a100"} {}
// -----
// expected-error@+2 {{failed to parse Dist_CollectiveKindAttr parameter}}
// expected-error@+1 {{expected a kind of collective: all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, permute}}
func.func private @f() attributes {x = #dist.kind<all_sort>}

// -----

func.func @slice_shift(%x: tensor<4xf32>) {
  // expected-error@+1 {{has a shift along 2 axes; expected 1, one each}}
  %0 = dist.slice %x over <"a"=2> shape [4] split 0 {shift = array<i64: 1, 1>} : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

func.func @block_start_shift() {
  // expected-error@+1 {{has a shift along 1 axes; expected 2, one each}}
  %0 = dist.block_start over <"a"=2 "b"=2> block 2 {shift = array<i64: 1>} : i64
  return
}

// -----

func.func @valid_shift() {
  // expected-error@+1 {{has a shift along 0 axes; expected 1, one each}}
  %0 = dist.valid over <"a"=2> block 2 size 3 {shift = array<i64>} : i64
  return
}
