// Copies between tiers in exec programs: one that is sound, and what is refused.
// RUN: tessera-opt %s --split-input-file --verify-diagnostics --tessera-verify-memory

// Optimizer state comes up, is updated where it arrived, and goes down to where it rests; an activation leaves its place to another one and comes back elsewhere.
func.func @sound() attributes {exec.memory = {peak = 1024 : i64, host = {peak = 512 : i64}}} {
  %rests = exec.buffer in host {bytes = 256 : i64, category = "optimizer", offset = 0 : i64, variable = @m}
  %copy = exec.buffer in host {bytes = 256 : i64, category = "activations", offset = 256 : i64}
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  %y = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  %again = exec.buffer {bytes = 256 : i64, category = "activations", offset = 256 : i64}
  %m = exec.buffer {bytes = 256 : i64, category = "optimizer", offset = 512 : i64}
  exec.copy %rests to %m {token = 0 : i64} : !exec.buffer<host> -> !exec.buffer
  exec.input %x {element = f32, kind = "data", layout = 0, name = "x", shape = array<i64: 64>}
  exec.copy %x to %copy {token = 1 : i64} : !exec.buffer -> !exec.buffer<host>
  exec.wait 1
  exec.call "fill"(%y) scalars() {reads = array<i64>, settings = {}, writes = array<i64: 0>}
  exec.copy %copy to %again {token = 2 : i64} : !exec.buffer<host> -> !exec.buffer
  exec.wait 0
  exec.wait 2
  exec.call "sgd"(%m, %again) scalars() {reads = array<i64: 0, 1>, settings = {}, writes = array<i64: 0>}
  exec.copy %m to %rests {token = 3 : i64} : !exec.buffer -> !exec.buffer<host>
  exec.wait 3
  return
}

// -----

// 1. A wait is gone: what is under way is read.
func.func @not_waited_for() {
  %rests = exec.buffer in host {bytes = 256 : i64, category = "optimizer", offset = 0 : i64, variable = @m}
  %m = exec.buffer {bytes = 256 : i64, category = "optimizer", offset = 0 : i64}
  // expected-note @below {{which was started here}}
  exec.copy %rests to %m {token = 0 : i64} : !exec.buffer<host> -> !exec.buffer
  // expected-error @below {{reads bytes [0, 256), which 'exec.copy' with token 0 still writes}}
  exec.call "sgd"(%m) scalars() {reads = array<i64: 0>, settings = {}, writes = array<i64: 0>}
  exec.wait 0
  return
}

// -----

// 2. A prefetch that begins one operator late.
func.func @late() {
  %rests = exec.buffer in host {bytes = 256 : i64, category = "optimizer", offset = 0 : i64, variable = @m}
  %m = exec.buffer {bytes = 256 : i64, category = "optimizer", offset = 0 : i64}
  // expected-error @below {{reads bytes [0, 256), of which nothing has written [0, 256)}}
  exec.call "sgd"(%m) scalars() {reads = array<i64: 0>, settings = {}, writes = array<i64: 0>}
  exec.copy %rests to %m {token = 0 : i64} : !exec.buffer<host> -> !exec.buffer
  exec.wait 0
  return
}

// -----

// 3. A prefetch that begins while its place is another's.
func.func @early() {
  %rests = exec.buffer in host {bytes = 256 : i64, category = "optimizer", offset = 0 : i64, variable = @m}
  %m = exec.buffer {bytes = 256 : i64, category = "optimizer", offset = 0 : i64}
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 128 : i64}
  exec.input %x {element = f32, kind = "data", layout = 0, name = "x", shape = array<i64: 64>}
  // expected-note @below {{which was started here}}
  exec.copy %rests to %m {token = 0 : i64} : !exec.buffer<host> -> !exec.buffer
  // expected-error @below {{reads bytes [128, 384), which 'exec.copy' with token 0 still writes}}
  exec.output %x {element = f32, layout = 0, name = "x", shape = array<i64: 64>}
  exec.wait 0
  return
}

// -----

// 4. A buffer is used again while its value is on the way down.
func.func @reused_in_flight() {
  %copy = exec.buffer in host {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  exec.input %x {element = f32, kind = "data", layout = 0, name = "x", shape = array<i64: 64>}
  // expected-note @below {{which was started here}}
  exec.copy %x to %copy {token = 0 : i64} : !exec.buffer -> !exec.buffer<host>
  // expected-error @below {{writes bytes [0, 256), which 'exec.copy' with token 0 still reads}}
  exec.call "fill"(%x) scalars() {reads = array<i64>, settings = {}, writes = array<i64: 0>}
  exec.wait 0
  return
}

// -----

// 5. Two copies with one token.
func.func @token_twice() {
  %copy = exec.buffer in host {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  %other = exec.buffer in host {bytes = 256 : i64, category = "activations", offset = 256 : i64}
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  exec.input %x {element = f32, kind = "data", layout = 0, name = "x", shape = array<i64: 64>}
  // expected-note @below {{since here}}
  exec.copy %x to %copy {token = 0 : i64} : !exec.buffer -> !exec.buffer<host>
  // expected-error @below {{starts with token 0, which is under way}}
  exec.copy %x to %other {token = 0 : i64} : !exec.buffer -> !exec.buffer<host>
  exec.wait 0
  return
}

// -----

// 6. What comes back has been written over below; that the same bytes of the device were written is another matter.
func.func @overwritten_below() {
  %copy = exec.buffer in host {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  %other = exec.buffer in host {bytes = 256 : i64, category = "activations", offset = 128 : i64}
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  exec.input %x {element = f32, kind = "data", layout = 0, name = "x", shape = array<i64: 64>}
  exec.copy %x to %copy {token = 0 : i64} : !exec.buffer -> !exec.buffer<host>
  exec.wait 0
  // expected-note @below {{which writes here}}
  exec.copy %x to %other {token = 1 : i64} : !exec.buffer -> !exec.buffer<host>
  exec.wait 1
  // expected-error @below {{reads bytes [0, 256) of the host, of which 'exec.copy' has overwritten [128, 256) through another buffer}}
  exec.copy %copy to %x {token = 2 : i64} : !exec.buffer<host> -> !exec.buffer
  exec.wait 2
  return
}

// -----

// 7. A variable does not rest where the next step looks for it.
func.func @lies_elsewhere() {
  // expected-note @below {{which is here}}
  %rests = exec.buffer in host {bytes = 256 : i64, category = "optimizer", offset = 0 : i64, variable = @m}
  %other = exec.buffer in host {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  exec.input %x {element = f32, kind = "data", layout = 0, name = "x", shape = array<i64: 64>}
  // expected-error @below {{leaves its bytes [0, 256) in the place of variable @m, which the next step reads}}
  exec.copy %x to %other {token = 0 : i64} : !exec.buffer -> !exec.buffer<host>
  exec.wait 0
  return
}

// -----

// 8. Beyond the host's peak.
func.func @beyond() attributes {exec.memory = {peak = 1024 : i64, host = {peak = 256 : i64}}} {
  // expected-error @below {{ends at byte 512 of an arena of 256}}
  %copy = exec.buffer in host {bytes = 256 : i64, category = "activations", offset = 256 : i64}
  return
}

// -----

// 9. Programs that look for a variable in different tiers.
func.func @one() {
  // expected-note @below {{which is here}}
  %w = exec.buffer in host {bytes = 256 : i64, category = "parameters", offset = 0 : i64, variable = @w}
  return
}
func.func @other() {
  // expected-error @below {{has variable @w in the tier device, where another program has it in the tier host}}
  %w = exec.buffer {bytes = 256 : i64, category = "parameters", offset = 0 : i64, variable = @w}
  return
}

// -----

// State that rests on NVMe comes up by way of the host and goes down the same way.
func.func @sound_below() attributes {exec.memory = {peak = 256 : i64, host = {peak = 4096 : i64}, nvme = {peak = 4096 : i64}}} {
  %rests = exec.buffer in nvme {bytes = 256 : i64, category = "optimizer", offset = 0 : i64, variable = @m}
  %up = exec.buffer in host {bytes = 256 : i64, category = "optimizer", offset = 0 : i64}
  %down = exec.buffer in host {bytes = 256 : i64, category = "optimizer", offset = 0 : i64}
  %m = exec.buffer {bytes = 256 : i64, category = "optimizer", offset = 0 : i64}
  exec.copy %rests to %up {token = 0 : i64} : !exec.buffer<nvme> -> !exec.buffer<host>
  exec.wait 0
  exec.copy %up to %m {token = 1 : i64} : !exec.buffer<host> -> !exec.buffer
  exec.wait 1
  exec.call "sgd"(%m) scalars() {reads = array<i64: 0>, settings = {}, writes = array<i64: 0>}
  exec.copy %m to %down {token = 2 : i64} : !exec.buffer -> !exec.buffer<host>
  exec.wait 2
  exec.copy %down to %rests {token = 3 : i64} : !exec.buffer<host> -> !exec.buffer<nvme>
  exec.wait 3
  return
}

// -----

// What comes from NVMe goes on before it is there.
func.func @goes_on_too_early() {
  %rests = exec.buffer in nvme {bytes = 256 : i64, category = "optimizer", offset = 0 : i64, variable = @m}
  %up = exec.buffer in host {bytes = 256 : i64, category = "optimizer", offset = 0 : i64}
  %m = exec.buffer {bytes = 256 : i64, category = "optimizer", offset = 0 : i64}
  // expected-note @below {{which was started here}}
  exec.copy %rests to %up {token = 0 : i64} : !exec.buffer<nvme> -> !exec.buffer<host>
  // expected-error @below {{reads bytes [0, 256) of the host, which 'exec.copy' with token 0 still writes}}
  exec.copy %up to %m {token = 1 : i64} : !exec.buffer<host> -> !exec.buffer
  exec.wait 0
  exec.wait 1
  return
}

// -----

// An activation's copy over what the next step reads.
func.func @overwritten_below() {
  // expected-note @below {{which is here}}
  %rests = exec.buffer in nvme {bytes = 256 : i64, category = "optimizer", offset = 0 : i64, variable = @m}
  %other = exec.buffer in nvme {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  %x = exec.buffer in host {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  %d = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  exec.input %d {element = f32, kind = "data", layout = 0, name = "x", shape = array<i64: 64>}
  exec.copy %d to %x {token = 0 : i64} : !exec.buffer -> !exec.buffer<host>
  exec.wait 0
  // expected-error @below {{leaves its bytes [0, 256) in the place of variable @m, which the next step reads}}
  exec.copy %x to %other {token = 1 : i64} : !exec.buffer<host> -> !exec.buffer<nvme>
  exec.wait 1
  return
}

// -----

// An update on the host: the gradient and the norm come down, the state changes where it rests.
func.func @updated_on_the_host() attributes {exec.memory = {peak = 512 : i64, host = {peak = 1024 : i64}}} {
  %m = exec.buffer in host {bytes = 256 : i64, category = "optimizer", offset = 0 : i64, variable = @m}
  %below = exec.buffer in host {bytes = 256 : i64, category = "gradients", offset = 256 : i64}
  %norm = exec.buffer in host {bytes = 256 : i64, category = "activations", offset = 512 : i64}
  %after = exec.buffer in host {bytes = 256 : i64, category = "activations", offset = 256 : i64}
  %g = exec.buffer {bytes = 256 : i64, category = "gradients", offset = 0 : i64}
  %n = exec.buffer {bytes = 256 : i64, category = "activations", offset = 256 : i64}
  exec.call "fill"(%g) scalars() {reads = array<i64>, settings = {}, writes = array<i64: 0>}
  exec.copy %g to %below {token = 0 : i64} : !exec.buffer -> !exec.buffer<host>
  exec.call "sum_squares"(%g, %n) scalars() {reads = array<i64: 0>, settings = {}, writes = array<i64: 1>}
  exec.copy %n to %norm {token = 1 : i64} : !exec.buffer -> !exec.buffer<host>
  exec.wait 0
  exec.wait 1
  exec.host_call "sgd"(%norm, %m, %below) {reads = array<i64: 0, 1, 2>, writes = array<i64: 1>, settings = {}, token = 2 : i64}
  exec.wait 2
  exec.copy %n to %after {token = 3 : i64} : !exec.buffer -> !exec.buffer<host>
  exec.wait 3
  return
}

// -----

// The update begins before the norm is there.
func.func @before_the_norm() {
  %m = exec.buffer in host {bytes = 256 : i64, category = "optimizer", offset = 0 : i64, variable = @m}
  %norm = exec.buffer in host {bytes = 256 : i64, category = "activations", offset = 512 : i64}
  %n = exec.buffer {bytes = 256 : i64, category = "activations", offset = 256 : i64}
  exec.call "fill"(%n) scalars() {reads = array<i64>, settings = {}, writes = array<i64: 0>}
  // expected-note @below {{which was started here}}
  exec.copy %n to %norm {token = 1 : i64} : !exec.buffer -> !exec.buffer<host>
  // expected-error @below {{reads bytes [512, 768) of the host, which 'exec.copy' with token 1 still writes}}
  exec.host_call "sgd"(%norm, %m) {reads = array<i64: 0, 1>, writes = array<i64: 1>, settings = {}, token = 2 : i64}
  exec.wait 1
  exec.wait 2
  return
}

// -----

// The gradient's place on the host has another value before the update is done.
func.func @place_taken_in_flight() {
  %m = exec.buffer in host {bytes = 256 : i64, category = "optimizer", offset = 0 : i64, variable = @m}
  %below = exec.buffer in host {bytes = 256 : i64, category = "gradients", offset = 256 : i64}
  %other = exec.buffer in host {bytes = 256 : i64, category = "activations", offset = 384 : i64}
  %g = exec.buffer {bytes = 256 : i64, category = "gradients", offset = 0 : i64}
  exec.call "fill"(%g) scalars() {reads = array<i64>, settings = {}, writes = array<i64: 0>}
  exec.copy %g to %below {token = 0 : i64} : !exec.buffer -> !exec.buffer<host>
  exec.wait 0
  // expected-note @below {{which was started here}}
  exec.host_call "sgd"(%m, %below) {reads = array<i64: 0, 1>, writes = array<i64: 0>, settings = {}, token = 1 : i64}
  // expected-error @below {{writes bytes [384, 640) of the host, which 'exec.host_call' with token 1 still reads}}
  exec.copy %g to %other {token = 2 : i64} : !exec.buffer -> !exec.buffer<host>
  exec.wait 1
  exec.wait 2
  return
}

// -----

// The parameter comes up while the host changes it.
func.func @fetched_in_flight() {
  %p = exec.buffer in host {bytes = 256 : i64, category = "parameters", offset = 0 : i64, variable = @p}
  %up = exec.buffer {bytes = 256 : i64, category = "parameters", offset = 0 : i64}
  // expected-note @below {{which was started here}}
  exec.host_call "sgd"(%p) {reads = array<i64: 0>, writes = array<i64: 0>, settings = {}, token = 1 : i64}
  // expected-error @below {{reads bytes [0, 256) of the host, which 'exec.host_call' with token 1 still writes}}
  exec.copy %p to %up {token = 2 : i64} : !exec.buffer<host> -> !exec.buffer
  exec.wait 1
  exec.wait 2
  return
}

// -----

// The gradient was never sent down.
func.func @nothing_came_down() {
  %m = exec.buffer in host {bytes = 256 : i64, category = "optimizer", offset = 0 : i64, variable = @m}
  %below = exec.buffer in host {bytes = 256 : i64, category = "gradients", offset = 256 : i64}
  // expected-error @below {{reads bytes [256, 512) of the host, of which nothing has written [256, 512)}}
  exec.host_call "sgd"(%m, %below) {reads = array<i64: 0, 1>, writes = array<i64: 0>, settings = {}, token = 1 : i64}
  exec.wait 1
  return
}

// -----

func.func @update_never_waited_for() {
  %m = exec.buffer in host {bytes = 256 : i64, category = "optimizer", offset = 0 : i64, variable = @m}
  // expected-error @below {{'exec.host_call' op is never waited for}}
  exec.host_call "sgd"(%m) {reads = array<i64: 0>, writes = array<i64: 0>, settings = {}, token = 1 : i64}
  return
}

// -----

// What the host makes comes up before it is made.
func.func @fetched_unmade() {
  %p = exec.buffer in host {bytes = 256 : i64, category = "parameters", offset = 0 : i64, variable = @p}
  %half = exec.buffer in host {bytes = 128 : i64, category = "parameters", offset = 256 : i64}
  %up = exec.buffer {bytes = 128 : i64, category = "parameters", offset = 0 : i64}
  // expected-note @below {{which was started here}}
  exec.host_call "convert"(%p, %half) {reads = array<i64: 0>, writes = array<i64: 1>, settings = {}, token = 1 : i64}
  // expected-error @below {{reads bytes [256, 384) of the host, which 'exec.host_call' with token 1 still writes}}
  exec.copy %half to %up {token = 2 : i64} : !exec.buffer<host> -> !exec.buffer
  exec.wait 1
  exec.wait 2
  return
}

// -----

// The parameter is updated while it is converted.
func.func @updated_while_converted() {
  %p = exec.buffer in host {bytes = 256 : i64, category = "parameters", offset = 0 : i64, variable = @p}
  %half = exec.buffer in host {bytes = 128 : i64, category = "parameters", offset = 256 : i64}
  // expected-note @below {{which was started here}}
  exec.host_call "convert"(%p, %half) {reads = array<i64: 0>, writes = array<i64: 1>, settings = {}, token = 1 : i64}
  // expected-error @below {{writes bytes [0, 256) of the host, which 'exec.host_call' with token 1 still reads}}
  exec.host_call "sgd"(%p) {reads = array<i64: 0>, writes = array<i64: 0>, settings = {}, token = 2 : i64}
  exec.wait 1
  exec.wait 2
  return
}

// -----

// A copy in a loop that its turn does not wait for: the next one would start it again.
func.func @over_the_turn() {
  %rests = exec.buffer in host {bytes = 256 : i64, category = "parameters", offset = 0 : i64, variable = @w}
  %w = exec.buffer {bytes = 256 : i64, category = "parameters", offset = 0 : i64}
  exec.loop 2 {
    // expected-error @below {{is not waited for in its turn of the loop}}
    exec.copy %rests to %w {token = 0 : i64} : !exec.buffer<host> -> !exec.buffer
  }
  exec.wait 0
  return
}

// -----

// The first turn finds what came down before the loop; the second one what the first has brought to the same place of the host.
func.func @second_turn() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  %y = exec.buffer {bytes = 256 : i64, category = "activations", offset = 256 : i64}
  %copy = exec.buffer in host {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  %other = exec.buffer in host {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  exec.input %x {element = f32, kind = "data", layout = 0, name = "x", shape = array<i64: 64>}
  exec.copy %x to %copy {token = 0 : i64} : !exec.buffer -> !exec.buffer<host>
  exec.wait 0
  exec.loop 2 {
    // expected-error @below {{reads bytes [0, 256) of the host, of which 'exec.copy' has overwritten [0, 256) through another buffer}}
    exec.copy %copy to %y {token = 1 : i64} : !exec.buffer<host> -> !exec.buffer
    exec.wait 1
    // expected-note @below {{which writes here}}
    exec.copy %y to %other {token = 2 : i64} : !exec.buffer -> !exec.buffer<host>
    exec.wait 2
  }
  return
}

// -----

// What a turn brings up lies where the turn's own value still is: the wait of the offload before it is gone.
func.func @under_way_in_a_turn() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  %down = exec.buffer in host {bytes = 256 : i64, category = "activations", offset = 256 : i64}
  %rests = exec.buffer in host {bytes = 256 : i64, category = "parameters", offset = 0 : i64, variable = @w}
  %w = exec.buffer {bytes = 256 : i64, category = "parameters", offset = 0 : i64}
  exec.loop 2 {
    exec.call "fill"(%x) scalars() {reads = array<i64>, settings = {}, writes = array<i64: 0>}
    // expected-note @below {{which was started here}}
    exec.copy %x to %down {token = 0 : i64} : !exec.buffer -> !exec.buffer<host>
    // expected-error @below {{writes bytes [0, 256), which 'exec.copy' with token 0 still reads}}
    exec.copy %rests to %w {token = 1 : i64} : !exec.buffer<host> -> !exec.buffer
    exec.wait 0
    exec.wait 1
  }
  return
}
