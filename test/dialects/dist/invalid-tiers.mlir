// What the verifiers of copies and transfers refuse.
// RUN: tessera-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{a copy is in a tier below the device, not in device}}
func.func private @on_the_device(!dist.copy<tensor<4xf32>, device>)

// -----

// expected-error @below {{unknown tier 'attic'; expected device, host or nvme}}
// expected-error @below {{failed to parse Dist_CopyType parameter 'tier'}}
func.func private @nowhere(!dist.copy<tensor<4xf32>, attic>)

// -----

// expected-error @below {{a copy is of what a rank holds, a tensor of static shape without layout, not of 'tensor<?xf32>'}}
func.func private @unknown_size(!dist.copy<tensor<?xf32>, host>)

// -----

func.func @no_variable() {
  // expected-error @below {{names no variable: @w}}
  %w = dist.read_copy @w : !dist.copy<tensor<4xf32>, host>
  return
}

// -----

nn.variable @w : tensor<4xf32> {role = "parameter"}
func.func @rests_elsewhere() {
  // expected-error @below {{wants @w in the tier host; it rests in device}}
  %w = dist.read_copy @w : !dist.copy<tensor<4xf32>, host>
  return
}

// -----

nn.variable @w : tensor<4xf32> {dist.rests = #dist.tier<host>, role = "parameter"}
func.func @other_type() {
  // expected-error @below {{is not of what a rank holds of @w, 'tensor<4xf32>'}}
  %w = dist.read_copy @w : !dist.copy<tensor<8xf32>, host>
  return
}

// -----

nn.variable @w : tensor<4xf32> {dist.rests = #dist.tier<host>, role = "parameter"}
func.func @assigns_other_type(%copy: !dist.copy<tensor<8xf32>, host>) {
  // expected-error @below {{is not of what a rank holds of @w, 'tensor<4xf32>'}}
  dist.assign_copy @w, %copy : !dist.copy<tensor<8xf32>, host>
  return
}

// -----

func.func @arrives_as_another(%x: tensor<4xf32>) {
  // expected-error @below {{'dist.offload_start' op of 'tensor<4xf32>' cannot arrive as 'tensor<4xf32>'}}
  %t = dist.offload_start %x : tensor<4xf32> -> !dist.transfer<tensor<4xf32>>
  return
}

// -----

func.func @comes_back_as_another(%x: !dist.copy<tensor<4xf32>, host>) {
  // expected-error @below {{'dist.prefetch_start' op of '!dist.copy<tensor<4xf32>, host>' cannot arrive as 'tensor<8xf32>'}}
  %t = dist.prefetch_start %x : !dist.copy<tensor<4xf32>, host> -> !dist.transfer<tensor<8xf32>>
  return
}

// -----

func.func @past_the_host(%x: tensor<4xf32>) {
  // expected-error @below {{cannot arrive as '!dist.copy<tensor<4xf32>, nvme>'}}
  %t = dist.offload_start %x : tensor<4xf32> -> !dist.transfer<!dist.copy<tensor<4xf32>, nvme>>
  return
}

// -----

func.func @straight_up(%x: !dist.copy<tensor<4xf32>, nvme>) {
  // expected-error @below {{'dist.prefetch_start' op of '!dist.copy<tensor<4xf32>, nvme>' cannot arrive as 'tensor<4xf32>'}}
  %t = dist.prefetch_start %x : !dist.copy<tensor<4xf32>, nvme> -> !dist.transfer<tensor<4xf32>>
  return
}

// -----

func.func @never_arrives(%x: !dist.copy<tensor<4xf32>, host>) {
  // expected-error @below {{needs exactly one dist.prefetch_wait of its transfer}}
  %t = dist.prefetch_start %x : !dist.copy<tensor<4xf32>, host> -> !dist.transfer<tensor<4xf32>>
  return
}

// -----

// What is below cannot be computed with.
func.func @absent(%x: !dist.copy<tensor<4xf32>, host>) {
  // expected-error @below {{must be}}
  %y = "nn.relu"(%x) : (!dist.copy<tensor<4xf32>, host>) -> tensor<4xf32>
  return
}

// -----

// expected-error @below {{dist.rests}}
nn.variable @w : tensor<4xf32> {dist.rests = #dist.tier<device>, role = "parameter"}

// -----

// expected-error @below {{dist.device_memory}}
module attributes {dist.device_memory = 0 : i64} {
}

// -----

// expected-error @below {{dist.offload}}
module attributes {dist.offload = ["weights"]} {
}

// -----

// expected-error @below {{dist.place}}
module attributes {dist.place = [{match = ["*"]}]} {
}

// -----

// expected-error @below {{expected a list of places, each with match and tier}}
module attributes {dist.place = [{match = ["*"], tier = #dist.tier<host>, what = "weights"}]} {
}

// -----

// expected-error @below {{dist.place}}
module attributes {dist.place = [{match = ["w"], tier = #dist.tier<host>, moves = [array<i64: 0, 1>]}]} {
}

// -----

func.func @not_on_the_host(%p: !dist.copy<tensor<4xf32>, nvme>) {
  // expected-error @below {{takes a copy in the tier nvme; the host computes with its own}}
  %call = dist.host_start "square_root"(%p) changes [0] with {} : !dist.copy<tensor<4xf32>, nvme> -> !dist.host_call<!dist.copy<tensor<4xf32>, nvme>>
  return
}

// -----

func.func @changes_what_it_has_not(%p: !dist.copy<tensor<4xf32>, host>) {
  // expected-error @below {{changes [1], which are not places of its 1 sources, rising}}
  %call = dist.host_start "square_root"(%p) changes [1] with {} : !dist.copy<tensor<4xf32>, host> -> !dist.host_call<!dist.copy<tensor<4xf32>, host>>
  return
}

// -----

func.func @yields_another_type(%p: !dist.copy<tensor<4xf32>, host>) {
  // expected-error @below {{has a result of other types than those of the sources that it changes}}
  %call = dist.host_start "square_root"(%p) changes [0] with {} : !dist.copy<tensor<4xf32>, host> -> !dist.host_call<!dist.copy<tensor<8xf32>, host>>
  return
}

// -----

func.func @never_waited_for(%p: !dist.copy<tensor<4xf32>, host>) {
  // expected-error @below {{needs exactly one dist.host_wait of its call}}
  %call = dist.host_start "square_root"(%p) changes [0] with {} : !dist.copy<tensor<4xf32>, host> -> !dist.host_call<!dist.copy<tensor<4xf32>, host>>
  return
}

// -----

func.func @becomes_another_type(%p: !dist.copy<tensor<4xf32>, host>) {
  %call = dist.host_start "square_root"(%p) changes [0] with {} : !dist.copy<tensor<4xf32>, host> -> !dist.host_call<!dist.copy<tensor<4xf32>, host>>
  // expected-error @below {{yields other types than those that the function changes}}
  %new = dist.host_wait %call : !dist.host_call<!dist.copy<tensor<4xf32>, host>> -> !dist.copy<tensor<8xf32>, host>
  return
}

// -----

func.func @makes_it_elsewhere(%p: !dist.copy<tensor<4xf32>, host>) {
  // expected-error @below {{makes 'tensor<4xbf16>', which is no copy in the host's memory}}
  %call = dist.host_start "convert"(%p) changes [] with {} : !dist.copy<tensor<4xf32>, host> -> !dist.host_call<tensor<4xbf16>>
  return
}

// -----

func.func @makes_what_it_does_not_say(%p: !dist.copy<tensor<4xf32>, host>) {
  %call = dist.host_start "convert"(%p) changes [] with {} : !dist.copy<tensor<4xf32>, host> -> !dist.host_call<!dist.copy<tensor<4xbf16>, host>>
  // expected-error @below {{yields other types than those that the function changes and makes}}
  %half = dist.host_wait %call : !dist.host_call<!dist.copy<tensor<4xbf16>, host>> -> !dist.copy<tensor<4xf16>, host>
  return
}

// -----

nn.variable @w : tensor<4xf32> {dist.rests = #dist.tier<host>, role = "parameter"}
func.func @carries_a_variable() {
  %w = dist.read_copy @w : !dist.copy<tensor<4xf32>, host>
  // expected-error @below {{changes the copy that it begins with, which is a variable's or used elsewhere}}
  %sum = dist.loop times 2 iter_args(%c = %w : !dist.copy<tensor<4xf32>, host>) {
    dist.yield %c : !dist.copy<tensor<4xf32>, host>
  }
  return
}

// -----

func.func @carries_on_another() {
  %call = dist.host_start "fill"() changes [] with {count = 4 : i64} -> !dist.host_call<!dist.copy<tensor<4xf32>, host>>
  %zeros = dist.host_wait %call : !dist.host_call<!dist.copy<tensor<4xf32>, host>> -> !dist.copy<tensor<4xf32>, host>
  // expected-error @below {{carries on a copy that no offload of its body brings for that alone}}
  %sum = dist.loop times 2 iter_args(%c = %zeros : !dist.copy<tensor<4xf32>, host>) {
    %other = dist.host_start "fill"() changes [] with {count = 4 : i64} -> !dist.host_call<!dist.copy<tensor<4xf32>, host>>
    %next = dist.host_wait %other : !dist.host_call<!dist.copy<tensor<4xf32>, host>> -> !dist.copy<tensor<4xf32>, host>
    dist.yield %next : !dist.copy<tensor<4xf32>, host>
  }
  return
}

// -----

func.func @overwrites_what_is_read() {
  %call = dist.host_start "fill"() changes [] with {count = 4 : i64} -> !dist.host_call<!dist.copy<tensor<4xf32>, host>>
  %zeros = dist.host_wait %call : !dist.host_call<!dist.copy<tensor<4xf32>, host>> -> !dist.copy<tensor<4xf32>, host>
  %sum = dist.loop times 2 iter_args(%c = %zeros : !dist.copy<tensor<4xf32>, host>) {
    %up = dist.prefetch_start %c : !dist.copy<tensor<4xf32>, host> -> !dist.transfer<tensor<4xf32>>
    %here = dist.prefetch_wait %up : !dist.transfer<tensor<4xf32>>
    // expected-error @below {{brings a copy over the one before, which is read until behind it}}
    %down = dist.offload_start %here : tensor<4xf32> -> !dist.transfer<!dist.copy<tensor<4xf32>, host>>
    %again = dist.prefetch_start %c : !dist.copy<tensor<4xf32>, host> -> !dist.transfer<tensor<4xf32>>
    %there = dist.prefetch_wait %again : !dist.transfer<tensor<4xf32>>
    %next = dist.offload_wait %down : !dist.transfer<!dist.copy<tensor<4xf32>, host>>
    dist.yield %next : !dist.copy<tensor<4xf32>, host>
  }
  return
}
