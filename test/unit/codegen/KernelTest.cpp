// Kernels with one loop over elements and with row loops, against reference loops on odd sizes and split
// ranges.

#include "test/unit/codegen/KernelTest.h"

using namespace tessera::cpu;

static const char *const biasGelu = R"(
#rc = affine_map<(r, c) -> (r, c)>
#c = affine_map<(r, c) -> (c)>
func.func @k(%x: tensor<$Rx$Cxf32>, %b: tensor<$Cxf32>) -> tensor<$Rx$Cxf32> {
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %s = arith.constant 0.707106781 : f32
  %e = tensor.empty() : tensor<$Rx$Cxf32>
  %y = linalg.generic {indexing_maps = [#rc, #c, #rc], iterator_types = ["parallel", "parallel"]}
    ins(%x, %b : tensor<$Rx$Cxf32>, tensor<$Cxf32>) outs(%e : tensor<$Rx$Cxf32>) {
  ^bb0(%a: f32, %bias: f32, %o: f32):
    %v = arith.addf %a, %bias : f32
    linalg.yield %v : f32
  } -> tensor<$Rx$Cxf32>
  %z = linalg.generic {indexing_maps = [#rc, #rc], iterator_types = ["parallel", "parallel"]}
    ins(%y : tensor<$Rx$Cxf32>) outs(%e : tensor<$Rx$Cxf32>) {
  ^bb0(%v: f32, %o: f32):
    %t = arith.mulf %v, %s : f32
    %f = math.erf %t : f32
    %g = arith.addf %f, %one : f32
    %h = arith.mulf %v, %half : f32
    %i = arith.mulf %h, %g : f32
    linalg.yield %i : f32
  } -> tensor<$Rx$Cxf32>
  return %z : tensor<$Rx$Cxf32>
})";

TEST(Rows, BiasGelu) {
  const int rows = 37, columns = 131;
  TestKernel kernel(fill(biasGelu, {{'R', rows}, {'C', columns}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().strategy, Strategy::Rows);
  EXPECT_EQ(kernel.info().extent, rows);
  Buffer<float> x(rows * columns), b(columns), y(rows * columns, NAN);
  x.randomise(-5, 5, 1);
  b.randomise(-1, 1, 2);
  kernel.run({x.data, b.data, y.data});
  for (int i = 0; i < rows * columns; ++i) {
    double v = x[i] + b[i % columns];
    ASSERT_NEAR(y[i], 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))), 2e-6) << i;
  }
}

TEST(Speed, BiasGelu) {
  const int rows = 1024, columns = 3072;
  TestKernel kernel(fill(biasGelu, {{'R', rows}, {'C', columns}}));
  ASSERT_TRUE(kernel.ok());
  Buffer<float> x(rows * columns), b(columns), y(rows * columns);
  x.randomise(-5, 5, 1);
  reportSpeed("bias + GELU(erf) 1024x3072", kernel, {x.data, b.data, y.data}, 2 * x.size * sizeof(float));
}

// Softmax over the last dimension with an additive mask shared by batch and head.
static const char *const softmax = R"(
#full = affine_map<(b, h, q, k) -> (b, h, q, k)>
#mask = affine_map<(b, h, q, k) -> (q, k)>
#row = affine_map<(b, h, q, k) -> (b, h, q)>
func.func @k(%x: tensor<$Bx$Hx$Qx$Kxf32>, %m: tensor<$Qx$Kxf32>) -> tensor<$Bx$Hx$Qx$Kxf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<$Bx$Hx$Qx$Kxf32>
  %er = tensor.empty() : tensor<$Bx$Hx$Qxf32>
  %s = linalg.generic {indexing_maps = [#full, #mask, #full], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x, %m : tensor<$Bx$Hx$Qx$Kxf32>, tensor<$Qx$Kxf32>) outs(%e : tensor<$Bx$Hx$Qx$Kxf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %v = arith.addf %a, %c : f32
    linalg.yield %v : f32
  } -> tensor<$Bx$Hx$Qx$Kxf32>
  %lows = linalg.fill ins(%low : f32) outs(%er : tensor<$Bx$Hx$Qxf32>) -> tensor<$Bx$Hx$Qxf32>
  %max = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%s : tensor<$Bx$Hx$Qx$Kxf32>) outs(%lows : tensor<$Bx$Hx$Qxf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.maximumf %a, %o : f32
    linalg.yield %v : f32
  } -> tensor<$Bx$Hx$Qxf32>
  %p = linalg.generic {indexing_maps = [#full, #row, #full], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%s, %max : tensor<$Bx$Hx$Qx$Kxf32>, tensor<$Bx$Hx$Qxf32>) outs(%e : tensor<$Bx$Hx$Qx$Kxf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %d = arith.subf %a, %c : f32
    %v = math.exp %d : f32
    linalg.yield %v : f32
  } -> tensor<$Bx$Hx$Qx$Kxf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%er : tensor<$Bx$Hx$Qxf32>) -> tensor<$Bx$Hx$Qxf32>
  %sum = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%p : tensor<$Bx$Hx$Qx$Kxf32>) outs(%zeros : tensor<$Bx$Hx$Qxf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.addf %a, %o : f32
    linalg.yield %v : f32
  } -> tensor<$Bx$Hx$Qxf32>
  %y = linalg.generic {indexing_maps = [#full, #row, #full], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%p, %sum : tensor<$Bx$Hx$Qx$Kxf32>, tensor<$Bx$Hx$Qxf32>) outs(%e : tensor<$Bx$Hx$Qx$Kxf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %v = arith.divf %a, %c : f32
    linalg.yield %v : f32
  } -> tensor<$Bx$Hx$Qx$Kxf32>
  return %y : tensor<$Bx$Hx$Qx$Kxf32>
})";

TEST(Rows, Softmax) {
  const int batch = 2, heads = 3, q = 19, k = 133;
  TestKernel kernel(fill(softmax, {{'B', batch}, {'H', heads}, {'Q', q}, {'K', k}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().extent, batch * heads * q);
  Buffer<float> x(batch * heads * q * k), mask(q * k), y(x.size, NAN);
  x.randomise(-9, 9, 3);
  for (int i = 0; i < q; ++i)
    for (int j = 0; j < k; ++j)
      mask[i * k + j] = j > i + 5 ? -INFINITY : 0;
  kernel.run({x.data, mask.data, y.data}, {}, 5);
  for (int row = 0; row < batch * heads * q; ++row) {
    double sum = 0;
    auto value = [&](int j) { return double(x[row * k + j]) + mask[row % q * k + j]; };
    for (int j = 0; j < k; ++j)
      sum += std::exp(value(j));
    for (int j = 0; j < k; ++j)
      ASSERT_NEAR(y[row * k + j], std::exp(value(j)) / sum, 1e-6) << row << " " << j;
  }
}

TEST(Rows, BothLevelsAgree) {
  std::string text = fill(softmax, {{'B', 2}, {'H', 2}, {'Q', 5}, {'K', 77}});
  TestKernel low(text, {{CpuLevel::V3}}), host(text);
  ASSERT_TRUE(low.ok() && host.ok());
  Buffer<float> x(2 * 2 * 5 * 77), mask(5 * 77, 0), y(x.size, NAN), z(x.size, 0);
  x.randomise(-9, 9, 3);
  low.run({x.data, mask.data, y.data});
  host.run({x.data, mask.data, z.data});
  for (size_t i = 0; i < x.size; ++i)
    ASSERT_NEAR(y[i], z[i], 1e-6);
}

TEST(Speed, Softmax) {
  TestKernel kernel(fill(softmax, {{'B', 4}, {'H', 4}, {'Q', 256}, {'K', 1024}}));
  ASSERT_TRUE(kernel.ok());
  Buffer<float> x(4 * 4 * 256 * 1024), mask(256 * 1024, 0), y(x.size);
  x.randomise(-9, 9, 3);
  reportSpeed("masked softmax 4096x1024", kernel, {x.data, mask.data, y.data}, 2 * x.size * sizeof(float));
}

// Layer norm with its mean and reciprocal deviation as results.
static const char *const layerNorm = R"(
#rc = affine_map<(r, c) -> (r, c)>
#r = affine_map<(r, c) -> (r)>
#c = affine_map<(r, c) -> (c)>
#i = affine_map<(r) -> (r)>
func.func @k(%x: tensor<$Rx$Cxf32>, %g: tensor<$Cxf32>, %b: tensor<$Cxf32>)
    -> (tensor<$Rx$Cxf32>, tensor<$Rxf32>, tensor<$Rxf32>) {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant $C.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %e = tensor.empty() : tensor<$Rx$Cxf32>
  %er = tensor.empty() : tensor<$Rxf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%er : tensor<$Rxf32>) -> tensor<$Rxf32>
  %sum = linalg.generic {indexing_maps = [#rc, #r], iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<$Rx$Cxf32>) outs(%zeros : tensor<$Rxf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.addf %a, %o : f32
    linalg.yield %v : f32
  } -> tensor<$Rxf32>
  %mean = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]}
    ins(%sum : tensor<$Rxf32>) outs(%er : tensor<$Rxf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.divf %a, %n : f32
    linalg.yield %v : f32
  } -> tensor<$Rxf32>
  %var = linalg.generic {indexing_maps = [#rc, #r, #r], iterator_types = ["parallel", "reduction"]}
    ins(%x, %mean : tensor<$Rx$Cxf32>, tensor<$Rxf32>) outs(%zeros : tensor<$Rxf32>) {
  ^bb0(%a: f32, %m: f32, %o: f32):
    %d = arith.subf %a, %m : f32
    %q = arith.mulf %d, %d : f32
    %v = arith.addf %q, %o : f32
    linalg.yield %v : f32
  } -> tensor<$Rxf32>
  %rstd = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]}
    ins(%var : tensor<$Rxf32>) outs(%er : tensor<$Rxf32>) {
  ^bb0(%a: f32, %o: f32):
    %d = arith.divf %a, %n : f32
    %s = arith.addf %d, %eps : f32
    %v = math.rsqrt %s : f32
    linalg.yield %v : f32
  } -> tensor<$Rxf32>
  %y = linalg.generic {indexing_maps = [#rc, #r, #r, #c, #c, #rc], iterator_types = ["parallel", "parallel"]}
    ins(%x, %mean, %rstd, %g, %b : tensor<$Rx$Cxf32>, tensor<$Rxf32>, tensor<$Rxf32>, tensor<$Cxf32>, tensor<$Cxf32>)
    outs(%e : tensor<$Rx$Cxf32>) {
  ^bb0(%a: f32, %m: f32, %s: f32, %gamma: f32, %beta: f32, %o: f32):
    %d = arith.subf %a, %m : f32
    %h = arith.mulf %d, %s : f32
    %t = arith.mulf %h, %gamma : f32
    %v = arith.addf %t, %beta : f32
    linalg.yield %v : f32
  } -> tensor<$Rx$Cxf32>
  return %y, %mean, %rstd : tensor<$Rx$Cxf32>, tensor<$Rxf32>, tensor<$Rxf32>
})";

TEST(Rows, LayerNorm) {
  const int rows = 23, columns = 97;
  TestKernel kernel(fill(layerNorm, {{'R', rows}, {'C', columns}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().strategy, Strategy::Rows);
  Buffer<float> x(rows * columns), g(columns), b(columns), y(x.size, NAN), mean(rows, NAN), rstd(rows, NAN);
  x.randomise(-3, 7, 4);
  g.randomise(0.5, 2, 5);
  b.randomise(-1, 1, 6);
  kernel.run({x.data, g.data, b.data, y.data, mean.data, rstd.data});
  for (int r = 0; r < rows; ++r) {
    double m = 0, v = 0;
    for (int c = 0; c < columns; ++c)
      m += x[r * columns + c] / double(columns);
    for (int c = 0; c < columns; ++c)
      v += (x[r * columns + c] - m) * (x[r * columns + c] - m) / columns;
    double s = 1 / std::sqrt(v + 1e-5);
    ASSERT_NEAR(mean[r], m, 1e-5);
    ASSERT_NEAR(rstd[r], s, 1e-5);
    for (int c = 0; c < columns; ++c)
      ASSERT_NEAR(y[r * columns + c], (x[r * columns + c] - m) * s * g[c] + b[c], 1e-5) << r << " " << c;
  }
}

TEST(Speed, LayerNorm) {
  TestKernel kernel(fill(layerNorm, {{'R', 4096}, {'C', 768}}));
  ASSERT_TRUE(kernel.ok());
  Buffer<float> x(4096 * 768), g(768, 1), b(768, 0), y(x.size), mean(4096), rstd(4096);
  x.randomise(-3, 7, 4);
  reportSpeed("layer norm 4096x768", kernel, {x.data, g.data, b.data, y.data, mean.data, rstd.data},
              2 * x.size * 4);
}

// dx = rstd * (dy*g - mean(dy*g) - xhat * mean(dy*g*xhat))
static const char *const layerNormBackward = R"(
#rc = affine_map<(r, c) -> (r, c)>
#r = affine_map<(r, c) -> (r)>
#c = affine_map<(r, c) -> (c)>
func.func @k(%x: tensor<$Rx$Cxf32>, %mean: tensor<$Rxf32>, %rstd: tensor<$Rxf32>, %g: tensor<$Cxf32>,
             %dy: tensor<$Rx$Cxf32>) -> tensor<$Rx$Cxf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant $C.0 : f32
  %e = tensor.empty() : tensor<$Rx$Cxf32>
  %er = tensor.empty() : tensor<$Rxf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%er : tensor<$Rxf32>) -> tensor<$Rxf32>
  %hat = linalg.generic {indexing_maps = [#rc, #r, #r, #rc], iterator_types = ["parallel", "parallel"]}
    ins(%x, %mean, %rstd : tensor<$Rx$Cxf32>, tensor<$Rxf32>, tensor<$Rxf32>) outs(%e : tensor<$Rx$Cxf32>) {
  ^bb0(%a: f32, %m: f32, %s: f32, %o: f32):
    %d = arith.subf %a, %m : f32
    %v = arith.mulf %d, %s : f32
    linalg.yield %v : f32
  } -> tensor<$Rx$Cxf32>
  %dg = linalg.generic {indexing_maps = [#rc, #c, #rc], iterator_types = ["parallel", "parallel"]}
    ins(%dy, %g : tensor<$Rx$Cxf32>, tensor<$Cxf32>) outs(%e : tensor<$Rx$Cxf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.mulf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<$Rx$Cxf32>
  %sums:2 = linalg.generic {indexing_maps = [#rc, #rc, #r, #r], iterator_types = ["parallel", "reduction"]}
    ins(%dg, %hat : tensor<$Rx$Cxf32>, tensor<$Rx$Cxf32>) outs(%zeros, %zeros : tensor<$Rxf32>, tensor<$Rxf32>) {
  ^bb0(%a: f32, %h: f32, %o: f32, %p: f32):
    %v = arith.addf %a, %o : f32
    %w = arith.mulf %a, %h : f32
    %z = arith.addf %w, %p : f32
    linalg.yield %v, %z : f32, f32
  } -> (tensor<$Rxf32>, tensor<$Rxf32>)
  %dx = linalg.generic {indexing_maps = [#rc, #rc, #r, #r, #r, #rc], iterator_types = ["parallel", "parallel"]}
    ins(%dg, %hat, %sums#0, %sums#1, %rstd : tensor<$Rx$Cxf32>, tensor<$Rx$Cxf32>, tensor<$Rxf32>, tensor<$Rxf32>, tensor<$Rxf32>)
    outs(%e : tensor<$Rx$Cxf32>) {
  ^bb0(%a: f32, %h: f32, %s: f32, %t: f32, %q: f32, %o: f32):
    %ms = arith.divf %s, %n : f32
    %mt = arith.divf %t, %n : f32
    %u = arith.mulf %h, %mt : f32
    %v = arith.subf %a, %ms : f32
    %w = arith.subf %v, %u : f32
    %z = arith.mulf %w, %q : f32
    linalg.yield %z : f32
  } -> tensor<$Rx$Cxf32>
  return %dx : tensor<$Rx$Cxf32>
})";

TEST(Rows, LayerNormBackward) {
  const int rows = 21, columns = 75;
  TestKernel kernel(fill(layerNormBackward, {{'R', rows}, {'C', columns}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().strategy, Strategy::Rows);
  Buffer<float> x(rows * columns), mean(rows), rstd(rows), g(columns), dy(x.size), dx(x.size, NAN);
  x.randomise(-3, 7, 4);
  mean.randomise(1, 2, 5);
  rstd.randomise(0.5, 1, 6);
  g.randomise(0.5, 2, 7);
  dy.randomise(-1, 1, 8);
  kernel.run({x.data, mean.data, rstd.data, g.data, dy.data, dx.data}, {}, 4);
  for (int r = 0; r < rows; ++r) {
    double s = 0, t = 0;
    auto hat = [&](int c) { return (double(x[r * columns + c]) - mean[r]) * rstd[r]; };
    auto dg = [&](int c) { return double(dy[r * columns + c]) * g[c]; };
    for (int c = 0; c < columns; ++c) {
      s += dg(c) / columns;
      t += dg(c) * hat(c) / columns;
    }
    for (int c = 0; c < columns; ++c)
      ASSERT_NEAR(dx[r * columns + c], rstd[r] * (dg(c) - s - hat(c) * t), 2e-5) << r << " " << c;
  }
}

TEST(Speed, LayerNormBackward) {
  TestKernel kernel(fill(layerNormBackward, {{'R', 4096}, {'C', 768}}));
  ASSERT_TRUE(kernel.ok());
  Buffer<float> x(4096 * 768, 1), mean(4096), rstd(4096), g(768, 1), dy(x.size, 1), dx(x.size);
  reportSpeed("layer norm backward dx 4096x768", kernel,
              {x.data, mean.data, rstd.data, g.data, dy.data, dx.data}, 3 * x.size * 4);
}

TEST(Rows, CausalMaskFromRunTimePositions) {
  // The rank's block of queries starts at %start; only %valid keys are real.
  const int q = 13, k = 41;
  TestKernel kernel(fill(R"(
#qk = affine_map<(q, k) -> (q, k)>
func.func @k(%x: tensor<$Qx$Kxf32>, %start: i64, %valid: i64) -> tensor<$Qx$Kxf32> {
  %low = arith.constant -1.0e9 : f32
  %s = arith.trunci %start : i64 to i32
  %n = arith.trunci %valid : i64 to i32
  %e = tensor.empty() : tensor<$Qx$Kxf32>
  %y = linalg.generic {indexing_maps = [#qk, #qk], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<$Qx$Kxf32>) outs(%e : tensor<$Qx$Kxf32>) {
  ^bb0(%a: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %i32 = arith.index_cast %i : index to i32
    %j32 = arith.index_cast %j : index to i32
    %row = arith.addi %i32, %s : i32
    %below = arith.cmpi sle, %j32, %row : i32
    %inside = arith.cmpi slt, %j32, %n : i32
    %keep = arith.andi %below, %inside : i1
    %v = arith.select %keep, %a, %low : f32
    linalg.yield %v : f32
  } -> tensor<$Qx$Kxf32>
  return %y : tensor<$Qx$Kxf32>
})",
                         {{'Q', q}, {'K', k}}));
  ASSERT_TRUE(kernel.ok());
  Buffer<float> x(q * k), y(q * k, NAN);
  x.randomise(-1, 1, 9);
  kernel.run({x.data, y.data}, {7, 15});
  for (int i = 0; i < q; ++i)
    for (int j = 0; j < k; ++j)
      ASSERT_EQ(y[i * k + j], j <= i + 7 && j < 15 ? x[i * k + j] : -1e9f) << i << " " << j;
}

TEST(Rows, GatherWithBodyReads) {
  const int tokens = 29, vocabulary = 11, width = 35;
  TestKernel kernel(fill(R"(
#t = affine_map<(t, d) -> (t)>
#td = affine_map<(t, d) -> (t, d)>
func.func @k(%ids: tensor<$Txi64>, %table: tensor<$Vx$Dxf32>) -> tensor<$Tx$Dxf32> {
  %e = tensor.empty() : tensor<$Tx$Dxf32>
  %y = linalg.generic {indexing_maps = [#t, #td], iterator_types = ["parallel", "parallel"]}
    ins(%ids : tensor<$Txi64>) outs(%e : tensor<$Tx$Dxf32>) {
  ^bb0(%id: i64, %o: f32):
    %row = arith.index_cast %id : i64 to index
    %d = linalg.index 1 : index
    %v = tensor.extract %table[%row, %d] : tensor<$Vx$Dxf32>
    linalg.yield %v : f32
  } -> tensor<$Tx$Dxf32>
  return %y : tensor<$Tx$Dxf32>
})",
                         {{'T', tokens}, {'V', vocabulary}, {'D', width}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().strategy, Strategy::Rows);
  Buffer<int64_t> ids(tokens);
  Buffer<float> table(vocabulary * width), y(tokens * width, NAN);
  ids.randomise(0, vocabulary, 1);
  table.randomise(-1, 1, 2);
  kernel.run({ids.data, table.data, y.data});
  for (int t = 0; t < tokens; ++t)
    for (int d = 0; d < width; ++d)
      ASSERT_EQ(y[t * width + d], table[ids[t] * width + d]);
}

TEST(Rows, InvariantStatementsRunOncePerRange) {
  const int rows = 9, columns = 33; // gamma + 1 has no row
  TestKernel kernel(fill(R"(
#rc = affine_map<(r, c) -> (r, c)>
#c = affine_map<(r, c) -> (c)>
#i = affine_map<(c) -> (c)>
func.func @k(%x: tensor<$Rx$Cxf32>, %g: tensor<$Cxf32>) -> tensor<$Rx$Cxf32> {
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<$Rx$Cxf32>
  %ec = tensor.empty() : tensor<$Cxf32>
  %h = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]}
    ins(%g : tensor<$Cxf32>) outs(%ec : tensor<$Cxf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.addf %a, %one : f32
    linalg.yield %v : f32
  } -> tensor<$Cxf32>
  %y = linalg.generic {indexing_maps = [#rc, #c, #rc], iterator_types = ["parallel", "parallel"]}
    ins(%x, %h : tensor<$Rx$Cxf32>, tensor<$Cxf32>) outs(%e : tensor<$Rx$Cxf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.mulf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<$Rx$Cxf32>
  return %y : tensor<$Rx$Cxf32>
})",
                         {{'R', rows}, {'C', columns}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().extent, rows);
  Buffer<float> x(rows * columns), g(columns), y(x.size, NAN);
  x.randomise(-1, 1, 1);
  g.randomise(-1, 1, 2);
  kernel.run({x.data, g.data, y.data});
  for (int i = 0; i < rows * columns; ++i)
    ASSERT_EQ(y[i], x[i] * (g[i % columns] + 1));
}
