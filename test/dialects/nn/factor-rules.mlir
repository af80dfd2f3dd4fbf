// RUN: tessera-opt %s --tessera-print-factor-rules -o /dev/null | FileCheck %s

func.func @elementwise(%x: tensor<2x4x8xf32>, %b: tensor<8xf32>, %c: tensor<4x1xf32>) {
  // CHECK: nn.add: ([a,b,c], [c])->([a,b,c])
  %0 = nn.add %x, %b : (tensor<2x4x8xf32>, tensor<8xf32>) -> tensor<2x4x8xf32>
  // CHECK-NEXT: nn.mul: ([a,b,c], [b,1])->([a,b,c])
  %1 = nn.mul %x, %c : (tensor<2x4x8xf32>, tensor<4x1xf32>) -> tensor<2x4x8xf32>
  return
}

func.func @shape(%x: tensor<2x4x8xf32>, %y: tensor<2x3x8xf32>) {
  // CHECK-NEXT: nn.reshape: reshape
  %0 = nn.reshape %x : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
  // CHECK-NEXT: nn.transpose: ([a,b,c])->([c,a,b])
  %1 = nn.transpose %x {perm = array<i64: 2, 0, 1>} : (tensor<2x4x8xf32>) -> tensor<8x2x4xf32>
  // CHECK-NEXT: nn.broadcast: ([b,c,d])->([a,b,c,d])
  %2 = nn.broadcast %x {dims = array<i64: 1, 2, 3>} : (tensor<2x4x8xf32>) -> tensor<5x2x4x8xf32>
  // CHECK-NEXT: nn.slice: ([a,b,c])->([a,e,c]) unsplit={b, e}
  %3 = nn.slice %x {starts = array<i64: 0, 1, 0>, sizes = array<i64: 2, 2, 8>, steps = array<i64: 1, 1, 1>} : (tensor<2x4x8xf32>) -> tensor<2x2x8xf32>
  // CHECK-NEXT: nn.pad: ([a,b,c])->([a,e,c]) unsplit={b, e}
  %4 = nn.pad %x {low = array<i64: 0, 1, 0>, high = array<i64: 0, 0, 0>, interior = array<i64: 0, 0, 0>} : (tensor<2x4x8xf32>) -> tensor<2x5x8xf32>
  // CHECK-NEXT: nn.concat: ([a,d,c], [a,e,c])->([a,b,c]) unsplit={d, e, b}
  %5 = nn.concat %x, %y {dim = 1} : (tensor<2x4x8xf32>, tensor<2x3x8xf32>) -> tensor<2x7x8xf32>
  return
}

func.func @insert(%x: tensor<2x4x8xf32>, %y: tensor<2x3x8xf32>,
                  %at: tensor<i64> {nn.kind = #nn<kind scalar>, nn.range = array<i64: 0, 2>}) {
  // CHECK-NEXT: nn.insert_slice: ([a,b,c], [a,d,c], [])->([a,b,c]) unsplit={b, d}
  %0 = nn.insert_slice %x, %y, %at {dim = 1 : i64} : (tensor<2x4x8xf32>, tensor<2x3x8xf32>, tensor<i64>) -> tensor<2x4x8xf32>
  return
}

func.func @reduce(%x: tensor<2x4x8xf32>) {
  // CHECK-NEXT: nn.reduce: ([a,b,c])->([c]) reduction={a, b} neutral(0,a)=-0 neutral(0,b)=-0
  %0 = nn.reduce %x {dims = array<i64: 0, 1>, kind = "sum"} : (tensor<2x4x8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: nn.reduce: ([a,b,c])->([a,b]) cooperative={c} neutral(0,c)=-inf
  %1 = nn.reduce %x {dims = array<i64: 2>, kind = "max"} : (tensor<2x4x8xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: nn.reduce: ([a,b,c])->([a,b]) unsplit={c} neutral(0,c)=inf
  %2 = nn.reduce %x {dims = array<i64: 2>, kind = "min"} : (tensor<2x4x8xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: nn.sum_squares: ([a,b,c])->([]) reduction={a, b, c} neutral(0,a)=0 neutral(0,b)=0 neutral(0,c)=0
  %3 = nn.sum_squares %x : (tensor<2x4x8xf32>) -> tensor<f32>
  return
}

func.func @contract(%x: tensor<2x4x8xf32>, %w: tensor<8x6xf32>) {
  // CHECK-NEXT: nn.contract: ([b,s,i], [i,o])->([b,s,o]) reduction={i} neutral(0,i)=0 neutral(1,i)=0
  %0 = nn.contract %x, %w {lhs_letters = "bsi", rhs_letters = "io", out_letters = "bso"} : (tensor<2x4x8xf32>, tensor<8x6xf32>) -> tensor<2x4x6xf32>
  return
}

func.func @normalize(%x: tensor<2x4x8xf32>, %g: tensor<8xf32>, %cos: tensor<4x8xf32>) {
  // CHECK-NEXT: nn.softmax: ([a,b,c])->([a,b,c]) unsplit={c} neutral(0,c)=-inf
  %0 = nn.softmax %x : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  // CHECK-NEXT: nn.layer_norm: ([a,b,c], [c], [c])->([a,b,c], [a,b], [a,b]) cooperative={c} neutral(0,c)=0
  %y:3 = nn.layer_norm %x, %g, %g {eps = 1.0e-5} : (tensor<2x4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  // CHECK-NEXT: nn.layer_norm_grad: ([a,b,c], [a,b,c], [a,b], [a,b], [c])->([a,b,c]) cooperative={c} neutral(0,c)=0 neutral(1,c)=0 neutral(4,c)=0
  %1 = nn.layer_norm_grad %x, %x, %y#1, %y#2, %g : (tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<8xf32>) -> tensor<2x4x8xf32>
  // CHECK-NEXT: nn.layer_norm_grad_affine: ([a,b,c], [a,b,c], [a,b], [a,b])->([c], [c]) reduction={a, b} neutral(0,a)=0 neutral(0,b)=0 neutral(1,a)=0 neutral(1,b)=0 neutral(2,a)=0 neutral(2,b)=0 neutral(3,a)=0 neutral(3,b)=0
  %2:2 = nn.layer_norm_grad_affine %x, %x, %y#1, %y#2 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  // CHECK-NEXT: nn.rms_norm: ([a,b,c], [c])->([a,b,c], [a,b]) cooperative={c} neutral(0,c)=0
  %3:2 = nn.rms_norm %x, %g {eps = 1.0e-5} : (tensor<2x4x8xf32>, tensor<8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4xf32>)
  // CHECK-NEXT: nn.rotary: ([a,b,c], [b,c], [b,c])->([a,b,c]) unsplit={c}
  %4 = nn.rotary %x, %cos, %cos : (tensor<2x4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<2x4x8xf32>
  return
}

func.func @attention(%q: tensor<2x4x3x2x8xf32>, %k: tensor<2x6x3x8xf32>, %bias: tensor<1x1x1x4x6xf32>) {
  // CHECK-NEXT: nn.attention: ([b,s,m,g,d], [b,t,m,d], [b,t,m,e], [1,1,1,s,t])->([b,s,m,g,e], [b,s,m,g]) unsplit={d, t, e} neutral(0,d)=0 neutral(1,d)=0
  %0:2 = nn.attention %q, %k, %k, %bias {scale = 0.5, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : (tensor<2x4x3x2x8xf32>, tensor<2x6x3x8xf32>, tensor<2x6x3x8xf32>, tensor<1x1x1x4x6xf32>) -> (tensor<2x4x3x2x8xf32>, tensor<2x4x3x2xf32>)
  // CHECK-NEXT: nn.attention_grad: ([b,s,m,g,d], [b,t,m,d], [b,t,m,e], [b,s,m,g,e], [b,s,m,g], [b,s,m,g,e])->([b,s,m,g,d], [b,t,m,d], [b,t,m,e]) unsplit={d, t, e} neutral(0,s)=0 neutral(0,g)=0 neutral(0,d)=0 neutral(1,d)=0 neutral(2,e)=0 neutral(3,s)=0 neutral(3,g)=0 neutral(3,e)=0 neutral(4,s)=0 neutral(4,g)=0 neutral(5,s)=0 neutral(5,g)=0 neutral(5,e)=0
  %1:3 = nn.attention_grad %q, %k, %k, %0#0, %0#1, %q {scale = 0.5, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 1, 1, 0, 0>} : (tensor<2x4x3x2x8xf32>, tensor<2x6x3x8xf32>, tensor<2x6x3x8xf32>, tensor<2x4x3x2x8xf32>, tensor<2x4x3x2xf32>, tensor<2x4x3x2x8xf32>) -> (tensor<2x4x3x2x8xf32>, tensor<2x6x3x8xf32>, tensor<2x6x3x8xf32>)
  return
}

func.func @random(%x: tensor<2x4xf32>, %key: tensor<i64>) {
  // CHECK-NEXT: nn.dropout: ([a,b], [])->([a,b])
  %0 = nn.dropout %x, %key {ratio = 0.5, id = 0 : i64} : (tensor<2x4xf32>, tensor<i64>) -> tensor<2x4xf32>
  // CHECK-NEXT: nn.random: ([])->([a,b])
  %1 = nn.random %key {distribution = "normal", id = 0 : i64} : (tensor<i64>) -> tensor<2x4xf32>
  return
}

func.func @gather(%t: tensor<16x8xf32>, %ids: tensor<2x4xi64>, %u: tensor<2x4x8xf32>) {
  // CHECK-NEXT: nn.gather: ([V,c], [a,b])->([a,b,c]) reduction={V}
  %0 = nn.gather %t, %ids : (tensor<16x8xf32>, tensor<2x4xi64>) -> tensor<2x4x8xf32>
  // CHECK-NEXT: nn.scatter_add: ([a,b], [a,b,c])->([V,c]) reduction={a, b} neutral(0,a)=-1 neutral(0,b)=-1
  %1 = nn.scatter_add %ids, %u : (tensor<2x4xi64>, tensor<2x4x8xf32>) -> tensor<16x8xf32>
  return
}

func.func @loss(%l: tensor<2x4x16xf32>, %labels: tensor<2x4xi64>, %s: tensor<f32>) {
  // CHECK-NEXT: nn.cross_entropy: ([a,b,V], [a,b])->([], [a,b]) cooperative={V} neutral(0,V)=-inf neutral(1,a)=-100 neutral(1,b)=-100
  %0:2 = nn.cross_entropy %l, %labels : (tensor<2x4x16xf32>, tensor<2x4xi64>) -> (tensor<f32>, tensor<2x4xf32>)
  // CHECK-NEXT: nn.cross_entropy_grad: ([a,b,V], [a,b], [a,b], [])->([a,b,V])
  %1 = nn.cross_entropy_grad %l, %labels, %0#1, %s : (tensor<2x4x16xf32>, tensor<2x4xi64>, tensor<2x4xf32>, tensor<f32>) -> tensor<2x4x16xf32>
  // CHECK-NEXT: nn.count_valid: ([a,b])->([]) reduction={a, b} neutral(0,a)=-100 neutral(0,b)=-100
  %2 = nn.count_valid %labels : (tensor<2x4xi64>) -> tensor<f32>
  return
}

func.func @conv(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %d: tensor<6x1x3x3xf32>, %y: tensor<2x6x8x8xf32>, %b: tensor<4xf32>) {
  // CHECK-NEXT: nn.conv: ([n,c,a,b], [o,c,d,e])->([n,o,f,g]) reduction={c} unsplit={a, b, d, e, f, g} neutral(0,c)=0 neutral(0,a)=0 neutral(0,b)=0 neutral(1,c)=0 neutral(1,d)=0 neutral(1,e)=0
  %0 = nn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x8x8xf32>
  // With a bias no part of the sum over c may be computed apart.
  // CHECK-NEXT: nn.conv: ([n,c,a,b], [o,c,d,e], [o])->([n,o,f,g]) unsplit={c, a, b, d, e, f, g}
  %2 = nn.conv %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<2x4x8x8xf32>
  // CHECK-NEXT: nn.conv: ([n,C,a,b], [o,c,d,e])->([n,o,f,g]) unsplit={C, a, b, o, c, d, e, f, g} neutral(0,C)=0 neutral(0,a)=0 neutral(0,b)=0 neutral(1,c)=0 neutral(1,d)=0 neutral(1,e)=0
  %1 = nn.conv %y, %d {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 6} : (tensor<2x6x8x8xf32>, tensor<6x1x3x3xf32>) -> tensor<2x6x8x8xf32>
  return
}

func.func @pool(%x: tensor<2x3x8xf32>) {
  // CHECK-NEXT: nn.max_pool: ([n,c,a])->([n,c,b], [n,c,b]) unsplit={a, b}
  %0:2 = nn.max_pool %x {window = array<i64: 2>, strides = array<i64: 2>, pads = array<i64: 0, 0>, dilations = array<i64: 1>} : (tensor<2x3x8xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xi32>)
  // CHECK-NEXT: nn.max_pool_grad: ([n,c,b], [n,c,b])->([n,c,a]) unsplit={b, a}
  %1 = nn.max_pool_grad %0#1, %0#0 {window = array<i64: 2>, strides = array<i64: 2>, pads = array<i64: 0, 0>, dilations = array<i64: 1>} : (tensor<2x3x4xi32>, tensor<2x3x4xf32>) -> tensor<2x3x8xf32>
  return
}

func.func @values() {
  // CHECK-NEXT: nn.constant: ()->([a,b])
  %0 = nn.constant dense<1.0> : tensor<2x3xf32> : tensor<2x3xf32>
  // CHECK-NEXT: nn.constant: ()->([a]) unsplit={a}
  %1 = nn.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  // CHECK-NEXT: nn.iota: ()->([a,b])
  %2 = nn.iota {dim = 1} : () -> tensor<2x3xi64>
  return
}

func.func @update(%p: tensor<2x3xf32>, %n: tensor<f32>, %s: tensor<8xf32>, %d: tensor<4xf32>) {
  // CHECK-NEXT: nn.update: ([a,b], [a,b], [a,b], [], [c], [d])->([a,b], [a,b]) unsplit={c, d}
  %0:2 = nn.update %p, %p, %p, %n, %s, %d {kind = "sgd_momentum", index = 0} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<8xf32>, tensor<4xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  return
}

func.func @experts(%x: tensor<5x6xf32>, %ids: tensor<5x2xi64>, %weights: tensor<5x2xf32>) {
  // CHECK-NEXT: nn.dispatch: ([a,h], [a,k], [a,k])->([e,a,h]) reduction={k} neutral(1,k)=-1 neutral(2,k)=0
  %0 = nn.dispatch %x, %ids, %weights : (tensor<5x6xf32>, tensor<5x2xi64>, tensor<5x2xf32>) -> tensor<4x5x6xf32>
  // CHECK-NEXT: nn.combine: ([e,a,h], [a,k], [a,k])->([a,h]) reduction={e, k} neutral(0,e)=0 neutral(1,k)=-1 neutral(2,k)=0
  %1 = nn.combine %0, %ids, %weights : (tensor<4x5x6xf32>, tensor<5x2xi64>, tensor<5x2xf32>) -> tensor<5x6xf32>
  // CHECK-NEXT: nn.expert_dot: ([a,h], [e,a,h], [a,k])->([a,k]) reduction={h, e} neutral(0,h)=0 neutral(1,e)=0 neutral(1,h)=0
  %2 = nn.expert_dot %x, %0, %ids : (tensor<5x6xf32>, tensor<4x5x6xf32>, tensor<5x2xi64>) -> tensor<5x2xf32>
  return
}

// With a capacity rows of the batch are apart, and tokens of one are summed over.
func.func @places(%x: tensor<3x5x6xf32>, %ids: tensor<3x5x2xi64>, %weights: tensor<3x5x2xf32>, %order: tensor<5x2xi64>) {
  // CHECK-NEXT: nn.expert_places: ([a,s,k], [s,k], [a,u,l], [u,l])->([a,s,k]) unsplit={u, l} neutral(2,u)=-1 neutral(2,l)=-1 neutral(3,u)=-1 neutral(3,l)=-1
  %0 = nn.expert_places %ids, %order, %ids, %order {capacity = 2} : (tensor<3x5x2xi64>, tensor<5x2xi64>, tensor<3x5x2xi64>, tensor<5x2xi64>) -> tensor<3x5x2xi64>
  // CHECK-NEXT: nn.dispatch: ([a,b,h], [a,b,k], [a,b,k])->([e,a,c,h]) reduction={b, k} unsplit={c} neutral(0,b)=0 neutral(1,b)=-1 neutral(1,k)=-1 neutral(2,b)=0 neutral(2,k)=0
  %1 = nn.dispatch %x, %0, %weights {capacity = 2} : (tensor<3x5x6xf32>, tensor<3x5x2xi64>, tensor<3x5x2xf32>) -> tensor<4x3x2x6xf32>
  // CHECK-NEXT: nn.combine: ([e,a,c,h], [a,b,k], [a,b,k])->([a,b,h]) reduction={e, k} unsplit={c}
  %2 = nn.combine %1, %0, %weights {capacity = 2} : (tensor<4x3x2x6xf32>, tensor<3x5x2xi64>, tensor<3x5x2xf32>) -> tensor<3x5x6xf32>
  // CHECK-NEXT: nn.expert_dot: ([a,b,h], [e,a,c,h], [a,b,k])->([a,b,k]) reduction={h, e} unsplit={c}
  %3 = nn.expert_dot %x, %1, %0 {capacity = 2} : (tensor<3x5x6xf32>, tensor<4x3x2x6xf32>, tensor<3x5x2xi64>) -> tensor<3x5x2xf32>
  return
}
