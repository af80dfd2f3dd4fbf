// Reductions: over rows into columns, over several dimensions, to a scalar, and products.

#include "test/unit/codegen/KernelTest.h"

using namespace tessera::cpu;

// dgamma = sum over rows of dy * xhat, dbeta = sum over rows of dy.
static const char *const gammaBeta = R"(
#rc = affine_map<(r, c) -> (r, c)>
#r = affine_map<(r, c) -> (r)>
#c = affine_map<(r, c) -> (c)>
func.func @k(%x: tensor<$Rx$Cxf32>, %mean: tensor<$Rxf32>, %rstd: tensor<$Rxf32>, %dy: tensor<$Rx$Cxf32>)
    -> (tensor<$Cxf32>, tensor<$Cxf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<$Rx$Cxf32>
  %ec = tensor.empty() : tensor<$Cxf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%ec : tensor<$Cxf32>) -> tensor<$Cxf32>
  %hat = linalg.generic {indexing_maps = [#rc, #r, #r, #rc], iterator_types = ["parallel", "parallel"]}
    ins(%x, %mean, %rstd : tensor<$Rx$Cxf32>, tensor<$Rxf32>, tensor<$Rxf32>) outs(%e : tensor<$Rx$Cxf32>) {
  ^bb0(%a: f32, %m: f32, %s: f32, %o: f32):
    %d = arith.subf %a, %m : f32
    %v = arith.mulf %d, %s : f32
    linalg.yield %v : f32
  } -> tensor<$Rx$Cxf32>
  %dg = linalg.generic {indexing_maps = [#rc, #rc, #c], iterator_types = ["reduction", "parallel"]}
    ins(%dy, %hat : tensor<$Rx$Cxf32>, tensor<$Rx$Cxf32>) outs(%zeros : tensor<$Cxf32>) {
  ^bb0(%a: f32, %h: f32, %o: f32):
    %w = arith.mulf %a, %h : f32
    %v = arith.addf %w, %o : f32
    linalg.yield %v : f32
  } -> tensor<$Cxf32>
  %db = linalg.generic {indexing_maps = [#rc, #c], iterator_types = ["reduction", "parallel"]}
    ins(%dy : tensor<$Rx$Cxf32>) outs(%zeros : tensor<$Cxf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.addf %a, %o : f32
    linalg.yield %v : f32
  } -> tensor<$Cxf32>
  return %dg, %db : tensor<$Cxf32>, tensor<$Cxf32>
})";

TEST(Columns, GammaAndBetaGradients) {
  const int rows = 31, columns = 2601; // more than two blocks, not a multiple of one
  TestKernel kernel(fill(gammaBeta, {{'R', rows}, {'C', columns}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().strategy, Strategy::Columns);
  EXPECT_EQ(kernel.info().extent, columns);
  Buffer<float> x(rows * columns), mean(rows), rstd(rows), dy(x.size), dg(columns, NAN), db(columns, NAN);
  x.randomise(-3, 7, 4);
  mean.randomise(1, 2, 5);
  rstd.randomise(0.5, 1, 6);
  dy.randomise(-1, 1, 8);
  kernel.run({x.data, mean.data, rstd.data, dy.data, dg.data, db.data}, {}, 4);
  for (int c = 0; c < columns; ++c) {
    double g = 0, b = 0;
    for (int r = 0; r < rows; ++r) {
      g += double(dy[r * columns + c]) * (x[r * columns + c] - mean[r]) * rstd[r];
      b += dy[r * columns + c];
    }
    ASSERT_NEAR(dg[c], g, 1e-4) << c;
    ASSERT_NEAR(db[c], b, 1e-5) << c;
  }
}

TEST(Speed, GammaAndBetaGradients) {
  TestKernel kernel(fill(gammaBeta, {{'R', 4096}, {'C', 768}}));
  ASSERT_TRUE(kernel.ok());
  Buffer<float> x(4096 * 768, 1), mean(4096, 0), rstd(4096, 1), dy(x.size, 1), dg(768), db(768);
  reportSpeed("layer norm backward dgamma, dbeta 4096x768", kernel,
              {x.data, mean.data, rstd.data, dy.data, dg.data, db.data}, 2 * x.size * 4);
}

// The gradients of attention with respect to queries and keys: what one sums over rows, the other keeps.
TEST(Columns, SumsOverDifferentLoopsOfOneNest) {
  const int batch = 3, outer = 5, rows = 19, columns = 20;
  TestKernel kernel(fill(R"(
#full = affine_map<(b, i, r, c) -> (b, i, r, c)>
#overRows = affine_map<(b, i, r, c) -> (b, i, c)>
#overOuter = affine_map<(b, i, r, c) -> (b, r, c)>
func.func @k(%x: tensor<$Bx$Ox$Rx$Cxf32>) -> (tensor<$Bx$Ox$Cxf32>, tensor<$Bx$Rx$Cxf32>) {
  %zero = arith.constant 0.0 : f32
  %ei = tensor.empty() : tensor<$Bx$Ox$Cxf32>
  %er = tensor.empty() : tensor<$Bx$Rx$Cxf32>
  %zi = linalg.fill ins(%zero : f32) outs(%ei : tensor<$Bx$Ox$Cxf32>) -> tensor<$Bx$Ox$Cxf32>
  %zr = linalg.fill ins(%zero : f32) outs(%er : tensor<$Bx$Rx$Cxf32>) -> tensor<$Bx$Rx$Cxf32>
  %si = linalg.generic {indexing_maps = [#full, #overRows], iterator_types = ["parallel", "parallel", "reduction", "parallel"]}
    ins(%x : tensor<$Bx$Ox$Rx$Cxf32>) outs(%zi : tensor<$Bx$Ox$Cxf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.addf %a, %o : f32
    linalg.yield %v : f32
  } -> tensor<$Bx$Ox$Cxf32>
  %sr = linalg.generic {indexing_maps = [#full, #overOuter], iterator_types = ["parallel", "reduction", "parallel", "parallel"]}
    ins(%x : tensor<$Bx$Ox$Rx$Cxf32>) outs(%zr : tensor<$Bx$Rx$Cxf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.addf %a, %o : f32
    linalg.yield %v : f32
  } -> tensor<$Bx$Rx$Cxf32>
  return %si, %sr : tensor<$Bx$Ox$Cxf32>, tensor<$Bx$Rx$Cxf32>
})",
                         {{'B', batch}, {'O', outer}, {'R', rows}, {'C', columns}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().strategy, Strategy::Rows);
  Buffer<float> x(batch * outer * rows * columns), si(batch * outer * columns, NAN),
      sr(batch * rows * columns, NAN);
  x.randomise(-1, 1, 2);
  kernel.run({x.data, si.data, sr.data});
  auto at = [&](int b, int i, int r, int c) { return x[((b * outer + i) * rows + r) * columns + c]; };
  for (int b = 0; b < batch; ++b)
    for (int c = 0; c < columns; ++c) {
      for (int i = 0; i < outer; ++i) {
        double sum = 0;
        for (int r = 0; r < rows; ++r)
          sum += at(b, i, r, c);
        ASSERT_NEAR(si[(b * outer + i) * columns + c], sum, 1e-5) << b << " " << i << " " << c;
      }
      for (int r = 0; r < rows; ++r) {
        double sum = 0;
        for (int i = 0; i < outer; ++i)
          sum += at(b, i, r, c);
        ASSERT_NEAR(sr[(b * rows + r) * columns + c], sum, 1e-5) << b << " " << r << " " << c;
      }
    }
}

TEST(Columns, MeanOverRowsKeepsAFollowingStatement) {
  // Sum over the two leading dimensions, then a division and a power of each column: temporaries of one
  // block.
  const int batch = 3, rows = 5, columns = 300;
  TestKernel kernel(fill(R"(
#full = affine_map<(b, r, c) -> (b, r, c)>
#c = affine_map<(b, r, c) -> (c)>
#i = affine_map<(c) -> (c)>
func.func @k(%x: tensor<$Bx$Rx$Cxf32>) -> tensor<$Cxf32> {
  %zero = arith.constant 0.0 : f32
  %n = arith.constant 15.0 : f32
  %ec = tensor.empty() : tensor<$Cxf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%ec : tensor<$Cxf32>) -> tensor<$Cxf32>
  %s = linalg.generic {indexing_maps = [#full, #c], iterator_types = ["reduction", "reduction", "parallel"]}
    ins(%x : tensor<$Bx$Rx$Cxf32>) outs(%zeros : tensor<$Cxf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.addf %a, %o : f32
    linalg.yield %v : f32
  } -> tensor<$Cxf32>
  %y = linalg.generic {indexing_maps = [#i, #i], iterator_types = ["parallel"]}
    ins(%s : tensor<$Cxf32>) outs(%ec : tensor<$Cxf32>) {
  ^bb0(%a: f32, %o: f32):
    %d = arith.divf %a, %n : f32
    %v = arith.mulf %d, %d : f32
    linalg.yield %v : f32
  } -> tensor<$Cxf32>
  return %y : tensor<$Cxf32>
})",
                         {{'B', batch}, {'R', rows}, {'C', columns}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().strategy, Strategy::Columns);
  Buffer<float> x(batch * rows * columns), y(columns, NAN);
  x.randomise(-1, 1, 1);
  kernel.run({x.data, y.data});
  for (int c = 0; c < columns; ++c) {
    double sum = 0;
    for (int i = 0; i < batch * rows; ++i)
      sum += x[i * columns + c];
    ASSERT_NEAR(y[c], sum / 15 * sum / 15, 1e-5) << c;
  }
}

TEST(Rows, BatchStatisticsAreRowsOfChannels) {
  const int batch = 3, channels = 17, h = 5, w = 7;
  TestKernel kernel(fill(R"(
#full = affine_map<(n, c, h, w) -> (n, c, h, w)>
#c = affine_map<(n, c, h, w) -> (c)>
func.func @k(%x: tensor<$Nx$Cx$Hx$Wxf32>) -> tensor<$Cxf32> {
  %zero = arith.constant 0.0 : f32
  %ec = tensor.empty() : tensor<$Cxf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%ec : tensor<$Cxf32>) -> tensor<$Cxf32>
  %s = linalg.generic {indexing_maps = [#full, #c], iterator_types = ["reduction", "parallel", "reduction", "reduction"]}
    ins(%x : tensor<$Nx$Cx$Hx$Wxf32>) outs(%zeros : tensor<$Cxf32>) {
  ^bb0(%a: f32, %o: f32):
    %q = arith.mulf %a, %a : f32
    %v = arith.addf %q, %o : f32
    linalg.yield %v : f32
  } -> tensor<$Cxf32>
  return %s : tensor<$Cxf32>
})",
                         {{'N', batch}, {'C', channels}, {'H', h}, {'W', w}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().strategy, Strategy::Rows);
  EXPECT_EQ(kernel.info().extent, channels);
  Buffer<float> x(batch * channels * h * w), y(channels, NAN);
  x.randomise(-1, 1, 1);
  kernel.run({x.data, y.data});
  for (int c = 0; c < channels; ++c) {
    double sum = 0;
    for (int n = 0; n < batch; ++n)
      for (int i = 0; i < h * w; ++i)
        sum += double(x[(n * channels + c) * h * w + i]) * x[(n * channels + c) * h * w + i];
    ASSERT_NEAR(y[c], sum, 1e-4) << c;
  }
}

TEST(Sequential, ReductionToAScalar) {
  const int n = 12345;
  TestKernel kernel(fill(R"(
#i = affine_map<(i) -> (i)>
#s = affine_map<(i) -> ()>
func.func @k(%x: tensor<$Nxf32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %y = linalg.generic {indexing_maps = [#i, #s], iterator_types = ["reduction"]}
    ins(%x : tensor<$Nxf32>) outs(%zeros : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %q = arith.mulf %a, %a : f32
    %v = arith.addf %q, %o : f32
    linalg.yield %v : f32
  } -> tensor<f32>
  return %y : tensor<f32>
})",
                         {{'N', n}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().strategy, Strategy::Sequential);
  EXPECT_EQ(kernel.info().extent, 1);
  EXPECT_FALSE(kernel.info().reason.empty());
  Buffer<float> x(n), y(1, NAN);
  x.randomise(-1, 1, 1);
  kernel.run({x.data, y.data});
  double sum = 0;
  for (int i = 0; i < n; ++i)
    sum += double(x[i]) * x[i];
  EXPECT_NEAR(y[0], sum, 1e-3);
}

TEST(Rows, DoublePrecisionContraction) {
  const int batch = 2, m = 7, n = 9, k = 11;
  TestKernel kernel(fill(R"(
#a = affine_map<(b, m, n, k) -> (b, m, k)>
#b = affine_map<(b, m, n, k) -> (k, n)>
#c = affine_map<(b, m, n, k) -> (b, m, n)>
func.func @k(%x: tensor<$Bx$Mx$Kxf64>, %y: tensor<$Kx$Nxf64>) -> tensor<$Bx$Mx$Nxf64> {
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<$Bx$Mx$Nxf64>
  %zeros = linalg.fill ins(%zero : f64) outs(%e : tensor<$Bx$Mx$Nxf64>) -> tensor<$Bx$Mx$Nxf64>
  %z = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%x, %y : tensor<$Bx$Mx$Kxf64>, tensor<$Kx$Nxf64>) outs(%zeros : tensor<$Bx$Mx$Nxf64>) {
  ^bb0(%p: f64, %q: f64, %o: f64):
    %u = arith.mulf %p, %q : f64
    %v = arith.addf %u, %o : f64
    linalg.yield %v : f64
  } -> tensor<$Bx$Mx$Nxf64>
  return %z : tensor<$Bx$Mx$Nxf64>
})",
                         {{'B', batch}, {'M', m}, {'N', n}, {'K', k}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_GT(kernel.info().extent, 1);
  Buffer<double> x(batch * m * k), y(k * n), z(batch * m * n, NAN);
  x.randomise(-1, 1, 1);
  y.randomise(-1, 1, 2);
  kernel.run({x.data, y.data, z.data});
  for (int i = 0; i < batch * m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int l = 0; l < k; ++l)
        sum += x[i * k + l] * y[l * n + j];
      ASSERT_NEAR(z[i * n + j], sum, 1e-14);
    }
}

TEST(Columns, NamedContractionWithReductionInTheMiddle) {
  // The weight's gradient x^T dy, where the reduced dimension leads both operands.
  TestKernel kernel(R"(
#a = affine_map<(m, n, k) -> (k, m)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @k(%x: tensor<10x6xf64>, %y: tensor<10x8xf64>) -> tensor<6x8xf64> {
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<6x8xf64>
  %zeros = linalg.fill ins(%zero : f64) outs(%e : tensor<6x8xf64>) -> tensor<6x8xf64>
  %z = linalg.contract indexing_maps = [#a, #b, #c]
    ins(%x, %y : tensor<10x6xf64>, tensor<10x8xf64>) outs(%zeros : tensor<6x8xf64>) -> tensor<6x8xf64>
  return %z : tensor<6x8xf64>
})");
  ASSERT_TRUE(kernel.ok());
  Buffer<double> x(60), y(80), z(48, NAN);
  x.randomise(-1, 1, 1);
  y.randomise(-1, 1, 2);
  kernel.run({x.data, y.data, z.data});
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 8; ++j) {
      double sum = 0;
      for (int l = 0; l < 10; ++l)
        sum += x[l * 6 + i] * y[l * 8 + j];
      ASSERT_NEAR(z[i * 8 + j], sum, 1e-14);
    }
}

TEST(Rows, ArgMaxByOneReductionWithTwoResults) {
  const int rows = 14, columns = 57;
  TestKernel kernel(fill(R"(
#rc = affine_map<(r, c) -> (r, c)>
#r = affine_map<(r, c) -> (r)>
func.func @k(%x: tensor<$Rx$Cxf32>) -> (tensor<$Rxf32>, tensor<$Rxi64>) {
  %low = arith.constant 0xFF800000 : f32
  %none = arith.constant 0 : i64
  %ef = tensor.empty() : tensor<$Rxf32>
  %ei = tensor.empty() : tensor<$Rxi64>
  %lows = linalg.fill ins(%low : f32) outs(%ef : tensor<$Rxf32>) -> tensor<$Rxf32>
  %nones = linalg.fill ins(%none : i64) outs(%ei : tensor<$Rxi64>) -> tensor<$Rxi64>
  %m:2 = linalg.generic {indexing_maps = [#rc, #r, #r], iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<$Rx$Cxf32>) outs(%lows, %nones : tensor<$Rxf32>, tensor<$Rxi64>) {
  ^bb0(%a: f32, %o: f32, %at: i64):
    %c = linalg.index 1 : index
    %i = arith.index_cast %c : index to i64
    %g = arith.cmpf ogt, %a, %o : f32
    %v = arith.select %g, %a, %o : f32
    %w = arith.select %g, %i, %at : i64
    linalg.yield %v, %w : f32, i64
  } -> (tensor<$Rxf32>, tensor<$Rxi64>)
  return %m#0, %m#1 : tensor<$Rxf32>, tensor<$Rxi64>
})",
                         {{'R', rows}, {'C', columns}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().strategy, Strategy::Rows);
  Buffer<float> x(rows * columns), y(rows);
  Buffer<int64_t> at(rows);
  x.randomise(-1, 1, 1);
  kernel.run({x.data, y.data, at.data});
  for (int r = 0; r < rows; ++r) {
    float *row = x.data + r * columns;
    ASSERT_EQ(at[r], std::max_element(row, row + columns) - row);
    ASSERT_EQ(y[r], row[at[r]]);
  }
}
