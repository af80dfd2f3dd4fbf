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
