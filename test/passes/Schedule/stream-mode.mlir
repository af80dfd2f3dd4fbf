// When to stream is one of three words.
// RUN: tessera-opt %s --verify-diagnostics --pass-pipeline="builtin.module(func.func(tessera-stream-contractions))"

// expected-error @+1 {{has "dist.stream" = "sometimes"; expected never, always or auto}}
module attributes {dist.stream = "sometimes"} {
func.func @f() {
  return
}
}
