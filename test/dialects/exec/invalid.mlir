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
