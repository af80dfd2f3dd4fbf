// What is refused of an exec program, and what is not.
// RUN: tessera-opt %s --split-input-file --verify-diagnostics --tessera-verify-memory

// A program with a pack of two, whose gap nobody writes, a variable that is updated where it lies, a loop that adds up, and a collective under way.
func.func @sound() attributes {exec.memory = {peak = 4096 : i64}} {
  %w = exec.buffer {bytes = 256 : i64, category = "parameters", offset = 0 : i64, variable = @w}
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 256 : i64}
  %pack = exec.buffer {bytes = 576 : i64, category = "activations", offset = 512 : i64}
  %a = exec.part %pack {bytes = 12 : i64, offset = 0 : i64}
  %b = exec.part %pack {bytes = 256 : i64, offset = 320 : i64}
  %sum = exec.buffer {bytes = 576 : i64, category = "communication", offset = 1280 : i64}
  %acc = exec.buffer {bytes = 256 : i64, category = "activations", offset = 2048 : i64}
  // Lies where %x was.
  %y = exec.buffer {bytes = 128 : i64, category = "activations", offset = 384 : i64}
  exec.input %x {element = f32, kind = "data", layout = 0, name = "x", shape = array<i64: 64>}
  exec.launch @k(%x, %a) scalars() {extent = 1 : i64, grain = 1 : i64, reads = array<i64: 0>, writes = array<i64: 1>}
  exec.launch @k(%x, %b) scalars() {extent = 1 : i64, grain = 1 : i64, reads = array<i64: 0>, writes = array<i64: 1>}
  exec.collective "all_reduce"(%pack, %sum) {axes = 0, concat = 0 : i64, element = f32, reduce = "sum", shape = array<i64: 144>, split = 0 : i64, token = 0 : i64}
  exec.call "fill"(%acc) scalars() {reads = array<i64>, settings = {}, writes = array<i64: 0>}
  exec.loop 3 {
    exec.launch @k(%b, %y) scalars() {extent = 1 : i64, grain = 1 : i64, reads = array<i64: 0>, writes = array<i64: 1>}
    exec.launch @k(%acc, %y) scalars() {extent = 1 : i64, grain = 1 : i64, reads = array<i64: 0, 1>, writes = array<i64: 0>}
  }
  exec.wait 0
  exec.call "sgd"(%w, %sum, %acc) scalars() {reads = array<i64: 0, 1, 2>, settings = {}, writes = array<i64: 0>}
  exec.output %acc {element = f32, layout = 0, name = "y", shape = array<i64: 64>}
  return
}
// Its variable lies where the other program has it.
func.func @also() {
  %w = exec.buffer {bytes = 256 : i64, category = "parameters", offset = 0 : i64, variable = @w}
  exec.output %w {element = f32, layout = 0, name = "y", shape = array<i64: 64>}
  return
}

// -----

// 1. Two live buffers overlap.
func.func @overlap() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  %y = exec.buffer {bytes = 256 : i64, category = "activations", offset = 192 : i64}
  exec.input %x {element = f32, kind = "data", layout = 0, name = "x", shape = array<i64: 64>}
  // expected-note @below {{which writes here}}
  exec.call "fill"(%y) scalars() {reads = array<i64>, settings = {}, writes = array<i64: 0>}
  // expected-error @below {{reads bytes [0, 256), of which 'exec.call' has overwritten [192, 256) through another buffer}}
  exec.output %x {element = f32, layout = 0, name = "y", shape = array<i64: 64>}
  return
}

// -----

// 2. Read before it is written.
func.func @unwritten() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 256 : i64}
  %y = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  // expected-error @below {{'exec.launch' op reads bytes [256, 512), of which nothing has written [256, 512)}}
  exec.launch @k(%x, %y) scalars() {extent = 1 : i64, grain = 1 : i64, reads = array<i64: 0>, writes = array<i64: 1>}
  exec.input %x {element = f32, kind = "data", layout = 0, name = "x", shape = array<i64: 64>}
  return
}

// -----

// 3. A part that nobody has written.
func.func @half_a_pack() {
  %pack = exec.buffer {bytes = 512 : i64, category = "activations", offset = 0 : i64}
  %a = exec.part %pack {bytes = 256 : i64, offset = 0 : i64}
  %b = exec.part %pack {bytes = 256 : i64, offset = 256 : i64}
  exec.call "fill"(%a) scalars() {reads = array<i64>, settings = {}, writes = array<i64: 0>}
  // expected-error @below {{reads bytes [0, 512), of which nothing has written [256, 512)}}
  exec.output %pack {element = f32, layout = 0, name = "y", shape = array<i64: 128>}
  return
}

// -----

// 4. What one turn of a loop reads, the turn before has overwritten.
func.func @second_turn() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  %y = exec.buffer {bytes = 256 : i64, category = "activations", offset = 256 : i64}
  %z = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  exec.input %x {element = f32, kind = "data", layout = 0, name = "x", shape = array<i64: 64>}
  exec.loop 2 {
    // expected-error @below {{reads bytes [0, 256), of which 'exec.call' has overwritten [0, 256) through another buffer}}
    exec.launch @k(%x, %y) scalars() {extent = 1 : i64, grain = 1 : i64, reads = array<i64: 0>, writes = array<i64: 1>}
    // expected-note @below {{which writes here}}
    exec.call "fill"(%z) scalars() {reads = array<i64>, settings = {}, writes = array<i64: 0>}
  }
  return
}

// -----

// 5. The result of a collective is read while it is under way.
func.func @too_early() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  %y = exec.buffer {bytes = 256 : i64, category = "activations", offset = 256 : i64}
  exec.input %x {element = f32, kind = "data", layout = 0, name = "x", shape = array<i64: 64>}
  // expected-note @below {{which was started here}}
  exec.collective "all_reduce"(%x, %y) {axes = 0, concat = 0 : i64, element = f32, reduce = "sum", shape = array<i64: 64>, split = 0 : i64, token = 7 : i64}
  // expected-error @below {{reads bytes [256, 512), which 'exec.collective' with token 7 still writes}}
  exec.output %y {element = f32, layout = 0, name = "y", shape = array<i64: 64>}
  exec.wait 7
  return
}

// -----

// 6. What a message carries is overwritten before it has left.
func.func @sent() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  exec.input %x {element = f32, kind = "data", layout = 0, name = "x", shape = array<i64: 64>}
  // expected-note @below {{which was started here}}
  exec.send %x to 1 channel 0 {bytes = 256 : i64, token = 0 : i64}
  // expected-error @below {{'exec.recv' op writes bytes [0, 256), which 'exec.send' with token 0 still reads}}
  exec.recv %x from 1 channel 1 {bytes = 256 : i64}
  exec.wait 0
  return
}

// -----

// 7. Tokens that do not pair.
func.func @never_waited() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  exec.input %x {element = f32, kind = "data", layout = 0, name = "x", shape = array<i64: 64>}
  // expected-error @below {{'exec.send' op is never waited for}}
  exec.send %x to 1 channel 0 {bytes = 256 : i64, token = 0 : i64}
  return
}

// -----

func.func @never_started() {
  // expected-error @below {{waits for token 3, with which nothing was started}}
  exec.wait 3
  return
}

// -----

func.func @twice() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  exec.input %x {element = f32, kind = "data", layout = 0, name = "x", shape = array<i64: 64>}
  // expected-note @below {{since here}}
  exec.send %x to 1 channel 0 {bytes = 256 : i64, token = 0 : i64}
  // expected-error @below {{starts with token 0, which is under way}}
  exec.send %x to 1 channel 1 {bytes = 256 : i64, token = 0 : i64}
  exec.wait 0
  return
}

// -----

func.func @over_the_turn() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  exec.input %x {element = f32, kind = "data", layout = 0, name = "x", shape = array<i64: 64>}
  exec.loop 2 {
    // expected-error @below {{is not waited for in its turn of the loop}}
    exec.send %x to 1 channel 0 {bytes = 256 : i64, token = 0 : i64}
  }
  exec.wait 0
  return
}

// -----

// 8. A variable that the next step does not find.
func.func @lost() {
  // expected-note @below {{which is here}}
  %w = exec.buffer {bytes = 256 : i64, category = "parameters", offset = 0 : i64, variable = @w}
  %x = exec.buffer {bytes = 128 : i64, category = "activations", offset = 0 : i64}
  // expected-error @below {{leaves its bytes [0, 128) in the place of variable @w, which the next step reads}}
  exec.call "fill"(%x) scalars() {reads = array<i64>, settings = {}, writes = array<i64: 0>}
  return
}

// -----

// 9. A variable that another program has elsewhere.
func.func @infer() {
  // expected-note @below {{which is here}}
  %w = exec.buffer {bytes = 256 : i64, category = "parameters", offset = 0 : i64, variable = @w}
  return
}
func.func @train() {
  // expected-error @below {{has variable @w at byte 256, where another program has it at 0}}
  %w = exec.buffer {bytes = 256 : i64, category = "parameters", offset = 256 : i64, variable = @w}
  return
}

// -----

// Stages have variables of their own.
func.func @stage0() attributes {dist.stage = 0 : i64} {
  %w = exec.buffer {bytes = 256 : i64, category = "parameters", offset = 0 : i64, variable = @w}
  return
}
func.func @stage1() attributes {dist.stage = 1 : i64} {
  %w = exec.buffer {bytes = 256 : i64, category = "parameters", offset = 256 : i64, variable = @w}
  return
}

// -----

// 10. Two variables in one place.
func.func @variables() {
  // expected-note @below {{which is here}}
  %v = exec.buffer {bytes = 256 : i64, category = "parameters", offset = 0 : i64, variable = @v}
  // expected-error @below {{of variable @w overlaps that of @v}}
  %w = exec.buffer {bytes = 256 : i64, category = "parameters", offset = 128 : i64, variable = @w}
  return
}

// -----

// 11. Beyond the promised peak.
func.func @beyond() attributes {exec.memory = {peak = 256 : i64}} {
  // expected-error @below {{ends at byte 512 of an arena of 256}}
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 256 : i64}
  return
}

// -----

// 12. A result over an operand that the kernel still reads.
func.func @over_an_operand() {
  %x = exec.buffer {bytes = 256 : i64, category = "activations", offset = 0 : i64}
  %y = exec.buffer {bytes = 256 : i64, category = "activations", offset = 128 : i64}
  exec.input %x {element = f32, kind = "data", layout = 0, name = "x", shape = array<i64: 64>}
  // expected-error @below {{writes bytes [128, 384) over its own buffer at bytes [0, 256)}}
  exec.launch @k(%x, %y) scalars() {extent = 1 : i64, grain = 1 : i64, reads = array<i64: 0>, writes = array<i64: 1>}
  return
}

// -----

// 13. A buffer from nowhere.
func.func @nowhere(%x: !exec.buffer) {
  // expected-error @below {{takes a buffer that no exec.buffer makes}}
  exec.output %x {element = f32, layout = 0, name = "y", shape = array<i64: 64>}
  return
}

// -----

// A number that is no input's.
func.func @no_scalar() {
  exec.input {element = i64, kind = "data", layout = 0, name = "position", shape = array<i64>}
  // expected-error@+1 {{reads "position", which is no input of kind scalar}}
  %0 = exec.scalar "position" : i64
  return
}
