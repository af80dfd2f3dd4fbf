// What is laid down by hand and cannot be.
// RUN: tessera-opt %s --split-input-file --tessera-propagate --verify-diagnostics

dist.mesh @mesh = <["t"=2]>
// expected-error@below {{dist.split names axis "t" twice; an axis splits one dimension of a value}}
func.func @twice(%x: tensor<4x8xf32> {nn.name = "x", dist.split = [["t"], ["t"]]}) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}

// -----

dist.mesh @mesh = <["t"=2]>
// expected-error@below {{no axis "u" in the mesh; it has: "t"=2}}
func.func @unknown(%x: tensor<4x8xf32> {nn.name = "x", dist.split = [["u"], []]}) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}

// -----

// A ring with more ranks than tokens would have ranks without a block of their own.
dist.mesh @mesh = <["s"=4]>
!q = tensor<2x2x2x1x4xf32>
!k = tensor<2x2x2x4xf32>
func.func @infer(%q: !q {nn.name = "q", nn.kind = #nn<kind data>}, %k: !k {nn.name = "k", nn.kind = #nn<kind data>}, %v: !k {nn.name = "v", nn.kind = #nn<kind data>}) -> (!q {nn.name = "o"}) {
  // expected-error@below {{'ring' has no query and key for each of 4 ranks, where there are 2 and 2; take fewer ranks}}
  %o, %lse = nn.attention %q, %k, %v {dist.pattern = #dist.pattern<"ring", ["s"]>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.5}
     : (!q, !k, !k) -> (!q, tensor<2x2x2x1xf32>)
  return %o : !q
}

// -----

dist.mesh @mesh = <["s"=4]>
!q = tensor<2x2x2x1x4xf32>
!k = tensor<2x8x2x4xf32>
func.func @infer(%q: !q {nn.name = "q", nn.kind = #nn<kind data>}, %k: !k {nn.name = "k", nn.kind = #nn<kind data>}, %v: !k {nn.name = "v", nn.kind = #nn<kind data>}) -> (!q {nn.name = "o"}) {
  // expected-error@below {{'rsa' has no query and key for each of 4 ranks, where there are 2 and 8; take fewer ranks}}
  %o, %lse = nn.attention %q, %k, %v {dist.pattern = #dist.pattern<"rsa", ["s"]>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.5}
     : (!q, !k, !k) -> (!q, tensor<2x2x2x1xf32>)
  return %o : !q
}

// -----

dist.mesh @mesh = <["s"=2]>
!q = tensor<2x2x2x1x4xf32>
!k = tensor<2x4x2x4xf32>
func.func @infer(%q: !q {nn.name = "q", nn.kind = #nn<kind data>}, %k: !k {nn.name = "k", nn.kind = #nn<kind data>}, %v: !k {nn.name = "v", nn.kind = #nn<kind data>}) -> (!q {nn.name = "o"}) {
  // expected-error@below {{'ring' needs as many queries as keys in a causal attention, and there are 2 and 4; 'rsa' or 'ulysses' would do}}
  %o, %lse = nn.attention %q, %k, %v {dist.pattern = #dist.pattern<"ring", ["s"]>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.5, causal = true}
     : (!q, !k, !k) -> (!q, tensor<2x2x2x1xf32>)
  return %o : !q
}

// -----

dist.mesh @mesh = <["t"=2]>
func.func @infer(%x: tensor<4xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<f32> {nn.name = "y"}) {
  // expected-error@below {{'data' splits the first dimension of an operator's result, and this one has none}}
  %y = nn.reduce %x {dist.pattern = #dist.pattern<"data", ["t"]>, dims = array<i64: 0>, kind = "sum"} : (tensor<4xf32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

dist.mesh @mesh = <["t"=2]>
func.func @infer(%x: tensor<4xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<4xf32> {nn.name = "y"}) {
  // expected-error@below {{'data' splits the first dimension of an operator's result, and this operator needs it whole; split what its operands are made of}}
  %y = nn.softmax %x {dist.pattern = #dist.pattern<"data", ["t"]>} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

dist.mesh @mesh = <["a"=2, "b"=2]>
func.func @infer(%x: tensor<2x3x8xf32> {nn.name = "x", nn.kind = #nn<kind data>}, %w: tensor<4x3x3xf32> {nn.name = "w", nn.kind = #nn<kind data>}) -> (tensor<2x4x6xf32> {nn.name = "y"}) {
  // expected-error@below {{'spatial' was given 2 axes for a convolution of 1 dimensions; name one axis for each dimension that is to be split}}
  %y = nn.conv %x, %w {dist.pattern = #dist.pattern<"spatial", ["a", "b"]>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1} : (tensor<2x3x8xf32>, tensor<4x3x3xf32>) -> tensor<2x4x6xf32>
  return %y : tensor<2x4x6xf32>
}

// -----

// expected-error@below {{has no dist.mesh; run tessera-assign first}}
module {
  func.func @infer(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

dist.mesh @mesh = <["t"=2]>
func.func @infer(%x: tensor<4xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<4xf32> {nn.name = "y"}) {
  // expected-error@below {{is the cotangent of an unknown value, #nn.value<"nothing", 0>}}
  %y = nn.acc %x {nn.cotangent_of = #nn.value<"nothing", 0>} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

dist.mesh @mesh = <["t"=2]>
func.func @infer(%x: tensor<4xf32> {nn.name = "x", nn.kind = #nn<kind data>}) -> (tensor<4xf32> {nn.name = "y"}) {
  // expected-error@below {{is not an operator that propagation understands}}
  %y = arith.negf %x : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Nothing to lay out is no error.
dist.mesh @mesh = <["t"=2]>
