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
func.func @infer(%q: !q {nn.name = "q", nn.kind = "data"}, %k: !k {nn.name = "k", nn.kind = "data"}, %v: !k {nn.name = "v", nn.kind = "data"}) -> (!q {nn.name = "o"}) {
  // expected-error@below {{'ring' has no query and key for each of 4 ranks, where there are 2 and 2; take fewer ranks}}
  %o, %lse = nn.attention %q, %k, %v {dist.pattern = #dist.pattern<"ring", ["s"]>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.5}
     : (!q, !k, !k) -> (!q, tensor<2x2x2x1xf32>)
  return %o : !q
}

// -----

dist.mesh @mesh = <["s"=4]>
!q = tensor<2x2x2x1x4xf32>
!k = tensor<2x8x2x4xf32>
func.func @infer(%q: !q {nn.name = "q", nn.kind = "data"}, %k: !k {nn.name = "k", nn.kind = "data"}, %v: !k {nn.name = "v", nn.kind = "data"}) -> (!q {nn.name = "o"}) {
  // expected-error@below {{'rsa' has no query and key for each of 4 ranks, where there are 2 and 8; take fewer ranks}}
  %o, %lse = nn.attention %q, %k, %v {dist.pattern = #dist.pattern<"rsa", ["s"]>, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0>, scale = 0.5}
     : (!q, !k, !k) -> (!q, tensor<2x2x2x1xf32>)
  return %o : !q
}
