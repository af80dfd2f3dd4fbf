// Operators that no program holds once its kernels are formed.
// RUN: tessera-opt %s --split-input-file --verify-diagnostics --tessera-plan-memory

module {
  dist.mesh @mesh = <[]>
  module @kernels {
  }
  func.func @infer(%x: tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.name = "x"})
      -> (tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.name = "y"}) {
    // expected-error @below {{'nn.relu' op cannot be executed; it should have been partitioned or lowered}}
    %y = nn.relu %x : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

// A product of integers is no library's.
module {
  dist.mesh @mesh = <[]>
  module @kernels {
  }
  func.func @infer(%x: tensor<8x8xi32> {dist.layout = #dist.layout<[[8], [8]]>, dist.shape = array<i64: 8, 8>, nn.name = "x"})
      -> (tensor<8x8xi32> {dist.layout = #dist.layout<[[8], [8]]>, dist.shape = array<i64: 8, 8>, nn.name = "y"}) {
    // expected-error @below {{'nn.contract' op has no library function and was not made part of a kernel}}
    %y = nn.contract %x, %x {lhs_letters = "bi", out_letters = "bo", rhs_letters = "io"} : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi32>
    return %y : tensor<8x8xi32>
  }
}

// -----

// What rests below is read below.
module {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<8xf32, #dist.layout<[[8]]>> {dist.rests = #dist.tier<host>, role = "parameter"}
  module @kernels {
  }
  func.func @infer() -> (tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.name = "y"}) {
    // expected-error @below {{reads a variable that rests below the device; dist.read_copy and a prefetch do that}}
    %w = nn.read @w : tensor<8xf32>
    return %w : tensor<8xf32>
  }
}

// -----

module {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<8xf32, #dist.layout<[[8]]>> {dist.rests = #dist.tier<host>, role = "parameter"}
  module @kernels {
  }
  func.func @infer(%x: tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.name = "x"}) {
    // expected-error @below {{assigns a variable that rests below the device; an offload and dist.assign_copy do that}}
    nn.assign @w, %x : tensor<8xf32>
    return
  }
}

// -----

// The new value arrives while the old one may still be fetched.
module {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<8xf32, #dist.layout<[[8]]>> {dist.rests = #dist.tier<host>, role = "parameter"}
  module @kernels {
  }
  func.func @infer(%x: tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.name = "x"})
      -> (tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.name = "y"}) {
    %old = dist.read_copy @w : !dist.copy<tensor<8xf32>, host>
    %down = dist.offload_start %x : tensor<8xf32> -> !dist.transfer<!dist.copy<tensor<8xf32>, host>>
    %copy = dist.offload_wait %down : !dist.transfer<!dist.copy<tensor<8xf32>, host>>
    %up = dist.prefetch_start %old : !dist.copy<tensor<8xf32>, host> -> !dist.transfer<tensor<8xf32>>
    %w = dist.prefetch_wait %up : !dist.transfer<tensor<8xf32>>
    // expected-error @below {{must take what an offload of this step has brought to the variable's place, or what the host has changed there, after the last use of its old copy}}
    dist.assign_copy @w, %copy : !dist.copy<tensor<8xf32>, host>
    return %w : tensor<8xf32>
  }
}

// -----

// The host changes what is fetched behind it.
module {
  dist.mesh @mesh = <[]>
  nn.variable @w : tensor<8xf32, #dist.layout<[[8]]>> {dist.rests = #dist.tier<host>, role = "parameter"}
  module @kernels {
  }
  func.func @infer() -> (tensor<8xf32> {dist.layout = #dist.layout<[[8]]>, dist.shape = array<i64: 8>, nn.name = "y"}) {
    %old = dist.read_copy @w : !dist.copy<tensor<8xf32>, host>
    // expected-error @below {{changes a copy that is read behind it}}
    %call = dist.host_start "square_root"(%old) changes [0] with {count = 8 : i64} : !dist.copy<tensor<8xf32>, host> -> !dist.host_call<!dist.copy<tensor<8xf32>, host>>
    %new = dist.host_wait %call : !dist.host_call<!dist.copy<tensor<8xf32>, host>> -> !dist.copy<tensor<8xf32>, host>
    // expected-note @below {{here}}
    %up = dist.prefetch_start %old : !dist.copy<tensor<8xf32>, host> -> !dist.transfer<tensor<8xf32>>
    %w = dist.prefetch_wait %up : !dist.transfer<tensor<8xf32>>
    dist.assign_copy @w, %new : !dist.copy<tensor<8xf32>, host>
    return %w : tensor<8xf32>
  }
}
