// What the verifiers of exec refuse.
// RUN: tessera-opt %s --split-input-file --verify-diagnostics

func.func @negative() {
  // expected-error @below {{has a negative offset or size}}
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = -1 : i64}
  return
}

// -----

func.func @far() {
  // expected-error @below {{ends behind byte 2^63}}
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 9223372036854775807 : i64}
  return
}

// -----

func.func @category() {
  // expected-error @below {{has the unknown category "attic"; expected parameters, gradients, optimizer, activations, workspace or communication}}
  %x = exec.buffer {bytes = 256 : i64, category = "attic", offset = 0 : i64}
  return
}

// -----

func.func @part() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  %y = exec.part %x {bytes = 128 : i64, offset = 128 : i64}
  // expected-error @below {{has bytes [64, 192) of a buffer of 128 bytes}}
  %z = exec.part %y {bytes = 128 : i64, offset = 64 : i64}
  return
}

// -----

func.func @part_of_nothing(%x: !exec.buffer) {
  // expected-error @below {{is a part of what is no exec.buffer}}
  %y = exec.part %x {bytes = 128 : i64, offset = 0 : i64}
  return
}

// -----

func.func @place() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  // expected-error @below {{reads or writes buffer 1 of 1}}
  exec.launch @k(%x) scalars() {extent = 1 : i64, grain = 1 : i64, reads = array<i64>, writes = array<i64: 0, 1>}
  return
}

// -----

func.func @unused() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  // expected-error @below {{neither reads nor writes its buffer 1}}
  exec.call "fill"(%x, %x) scalars() {reads = array<i64>, settings = {}, writes = array<i64: 0>}
  return
}

// -----

func.func @collective() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  // expected-error @below {{has 1 buffers; expected what goes in, what comes out, and perhaps scratch}}
  exec.collective "all_reduce"(%x) {axes = 0, concat = 0 : i64, element = f32, reduce = "sum", shape = array<i64: 64>, split = 0 : i64}
  return
}

// -----

func.func @unknown_collective() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  // expected-error @below {{does 'all_send', which is no kind of collective}}
  exec.collective "all_send"(%x, %x) {axes = 0, concat = 0 : i64, element = f32, reduce = "sum", shape = array<i64: 64>, split = 0 : i64}
  return
}

// -----

func.func @own_nothing() {
  // expected-error @below {{needs a value for each rank}}
  %y = "exec.own"() : () -> tensor<4xf32>
  return
}

// -----

func.func @unknown_tier() {
  // expected-error @below {{unknown tier 'attic'; expected device, host or nvme}}
  %x = exec.buffer in attic {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  return
}

// -----

func.func @copy_within_a_tier() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  %y = exec.buffer {bytes = 256 : i64, category = "activations", offset = 256 : i64}
  // expected-error @below {{copies within a tier, from '!exec.buffer' to '!exec.buffer'}}
  exec.copy %x to %y {token = 0 : i64} : !exec.buffer -> !exec.buffer
  return
}

// -----

func.func @copy_past_the_host() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  %y = exec.buffer in nvme {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  // expected-error @below {{copies past the host, from '!exec.buffer' to '!exec.buffer<nvme>'}}
  exec.copy %x to %y {token = 0 : i64} : !exec.buffer -> !exec.buffer<nvme>
  return
}

// -----

func.func @copy_of_other_size() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  %y = exec.buffer in host {bytes = 128 : i64, category = "activations", offset = 0 : i64}
  // expected-error @below {{copies a buffer of 256 bytes to one of 128}}
  exec.copy %x to %y {token = 0 : i64} : !exec.buffer -> !exec.buffer<host>
  return
}

// -----

func.func @copy_without_token() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  %y = exec.buffer in host {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  // expected-error @below {{needs a token that is not negative}}
  exec.copy %x to %y {token = -1 : i64} : !exec.buffer -> !exec.buffer<host>
  return
}

// -----

// Kernels work on the device.
func.func @kernel_on_the_host() {
  %x = exec.buffer in host {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  // expected-error @below {{must be variadic of buffer of the device, but got '!exec.buffer<host>'}}
  "exec.launch"(%x) {kernel = @k, extent = 1 : i64, grain = 1 : i64, reads = array<i64: 0>, writes = array<i64>, operandSegmentSizes = array<i32: 1, 0>} : (!exec.buffer<host>) -> ()
  return
}

// -----

func.func @host_call_without_token() {
  %x = exec.buffer in host {bytes = 4 : i64, category = "optimizer", offset = 0 : i64}
  // expected-error @below {{needs a token that is not negative}}
  exec.host_call "sgd"(%x) {reads = array<i64: 0>, writes = array<i64: 0>, settings = {}, token = -1 : i64}
  return
}

// -----

func.func @host_call_of_the_device() {
  // expected-note @below {{prior use here}}
  %x = exec.buffer {bytes = 4 : i64, category = "optimizer", offset = 0 : i64}
  // expected-error @below {{use of value '%x' expects different type than prior uses: '!exec.buffer<host>' vs '!exec.buffer'}}
  exec.host_call "sgd"(%x) {reads = array<i64: 0>, writes = array<i64: 0>, settings = {}, token = 0 : i64}
  return
}

// -----

func.func @no_class() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  // expected-error @below {{is work of class 'idle', which is none}}
  exec.call "fill"(%x) scalars() {reads = array<i64>, writes = array<i64: 0>, settings = {}, work = "idle"}
  return
}

// -----

func.func @no_count() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  // expected-error @below {{evaluates -1.000000e+00 functions; expected 0 or more, below 2^62}}
  exec.call "fill"(%x) scalars() {reads = array<i64>, writes = array<i64: 0>, settings = {}, functions = -1.0 : f64}
  return
}

// -----

func.func @no_bytes() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  // expected-error @below {{reads -1.000000e+00 bytes; expected 0 or more, below 2^56}}
  exec.call "fill"(%x) scalars() {reads = array<i64>, writes = array<i64: 0>, settings = {}, bytes_read = -1.0 : f64}
  return
}

// -----

func.func @no_product() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  // expected-error @below {{has a product of 3 sizes; it is count, m, n, k}}
  exec.call "fill"(%x) scalars() {reads = array<i64>, writes = array<i64: 0>, settings = {}, shape = array<i64: 1, 2, 3>}
  return
}
