// Kernels that move data: transposes, slices, concatenation, padding, reshapes inside and at the edges.

#include "test/unit/codegen/KernelTest.h"

using namespace tessera::cpu;

static const char *const headTranspose = R"(
#in = affine_map<(b, h, s, d) -> (b, s, h, d)>
#out = affine_map<(b, h, s, d) -> (b, h, s, d)>
func.func @k(%x: tensor<$Bx$Sx$Hx$Dxf32>) -> tensor<$Bx$Hx$Sx$Dxf32> {
  %e = tensor.empty() : tensor<$Bx$Hx$Sx$Dxf32>
  %y = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x : tensor<$Bx$Sx$Hx$Dxf32>) outs(%e : tensor<$Bx$Hx$Sx$Dxf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<$Bx$Hx$Sx$Dxf32>
  return %y : tensor<$Bx$Hx$Sx$Dxf32>
})";

TEST(Layout, HeadTranspose) {
  const int b = 2, s = 15, h = 3, d = 21;
  TestKernel kernel(fill(headTranspose, {{'B', b}, {'S', s}, {'H', h}, {'D', d}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().strategy, Strategy::Rows);
  Buffer<float> x(b * s * h * d), y(x.size, NAN);
  x.randomise(-1, 1, 1);
  kernel.run({x.data, y.data}, {}, 4);
  for (int i = 0; i < b; ++i)
    for (int j = 0; j < s; ++j)
      for (int k = 0; k < h; ++k)
        for (int l = 0; l < d; ++l)
          ASSERT_EQ(y[((i * h + k) * s + j) * d + l], x[((i * s + j) * h + k) * d + l]);
}

TEST(Speed, HeadTranspose) {
  TestKernel kernel(fill(headTranspose, {{'B', 8}, {'S', 1024}, {'H', 12}, {'D', 64}}));
  ASSERT_TRUE(kernel.ok());
  Buffer<float> x(8 * 1024 * 12 * 64, 1), y(x.size);
  reportSpeed("transpose [8,1024,12,64] to [8,12,1024,64]", kernel, {x.data, y.data}, 2 * x.size * 4);
}

TEST(Layout, NamedTransposeMovesTheInnerDimension) {
  const int m = 37, n = 53;
  TestKernel kernel(fill(R"(
func.func @k(%x: tensor<$Mx$Nxf32>) -> tensor<$Nx$Mxf32> {
  %e = tensor.empty() : tensor<$Nx$Mxf32>
  %y = linalg.transpose ins(%x : tensor<$Mx$Nxf32>) outs(%e : tensor<$Nx$Mxf32>) permutation = [1, 0]
  return %y : tensor<$Nx$Mxf32>
})",
                         {{'M', m}, {'N', n}}));
  ASSERT_TRUE(kernel.ok());
  Buffer<float> x(m * n), y(m * n, NAN);
  x.randomise(-1, 1, 1);
  kernel.run({x.data, y.data});
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j)
      ASSERT_EQ(y[j * m + i], x[i * n + j]);
}

TEST(Layout, SlicesOfArgumentsWithRunTimeStart) {
  // A third of a packed [r, 3, c] by a static slice, and rows from a run-time start on.
  const int r = 12, c = 19;
  TestKernel kernel(fill(R"(
#e = affine_map<(r, c) -> (r, c)>
func.func @k(%x: tensor<$Rx3x$Cxf32>, %s: index) -> (tensor<$Rx$Cxf32>, tensor<4x3x$Cxf32>) {
  %0 = tensor.extract_slice %x[0, 1, 0] [$R, 1, $C] [1, 1, 1] : tensor<$Rx3x$Cxf32> to tensor<$Rx$Cxf32>
  %e = tensor.empty() : tensor<$Rx$Cxf32>
  %y = linalg.generic {indexing_maps = [#e, #e], iterator_types = ["parallel", "parallel"]}
    ins(%0 : tensor<$Rx$Cxf32>) outs(%e : tensor<$Rx$Cxf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.negf %a : f32
    linalg.yield %v : f32
  } -> tensor<$Rx$Cxf32>
  %z = tensor.extract_slice %x[%s, 0, 0] [4, 3, $C] [1, 1, 1] : tensor<$Rx3x$Cxf32> to tensor<4x3x$Cxf32>
  return %y, %z : tensor<$Rx$Cxf32>, tensor<4x3x$Cxf32>
})",
                         {{'R', r}, {'C', c}}));
  ASSERT_TRUE(kernel.ok());
  Buffer<float> x(r * 3 * c), y(r * c, NAN), z(4 * 3 * c, NAN);
  x.randomise(-1, 1, 1);
  kernel.run({x.data, y.data, z.data}, {5});
  for (int i = 0; i < r; ++i)
    for (int j = 0; j < c; ++j)
      ASSERT_EQ(y[i * c + j], -x[(i * 3 + 1) * c + j]);
  for (int i = 0; i < 4 * 3 * c; ++i)
    ASSERT_EQ(z[i], x[5 * 3 * c + i]);
}

TEST(Layout, ConcatenationRunsByRows) {
  const int r = 25, a = 7, b = 12;
  TestKernel kernel(R"(
#e = affine_map<(r, c) -> (r, c)>
func.func @k(%x: tensor<25x7xf32>, %y: tensor<25x12xf32>) -> tensor<25x19xf32> {
  %e = tensor.empty() : tensor<25x7xf32>
  %n = linalg.generic {indexing_maps = [#e, #e], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<25x7xf32>) outs(%e : tensor<25x7xf32>) {
  ^bb0(%p: f32, %o: f32):
    %v = arith.negf %p : f32
    linalg.yield %v : f32
  } -> tensor<25x7xf32>
  %z = tensor.concat dim(1) %n, %y : (tensor<25x7xf32>, tensor<25x12xf32>) -> tensor<25x19xf32>
  return %z : tensor<25x19xf32>
})");
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().extent, r);
  Buffer<float> x(r * a), y(r * b), z(r * (a + b), NAN);
  x.randomise(-1, 1, 1);
  y.randomise(-1, 1, 2);
  kernel.run({x.data, y.data, z.data});
  for (int i = 0; i < r; ++i)
    for (int j = 0; j < a + b; ++j)
      ASSERT_EQ(z[i * (a + b) + j], j < a ? -x[i * a + j] : y[i * b + j - a]);
}

TEST(Layout, ConcatenationOfLeadingDimension) {
  TestKernel kernel(R"(
func.func @k(%x: tensor<4x9xf32>, %y: tensor<6x9xf32>) -> tensor<10x9xf32> {
  %z = tensor.concat dim(0) %x, %y : (tensor<4x9xf32>, tensor<6x9xf32>) -> tensor<10x9xf32>
  return %z : tensor<10x9xf32>
})");
  ASSERT_TRUE(kernel.ok());
  Buffer<float> x(36), y(54), z(90, NAN);
  x.randomise(-1, 1, 1);
  y.randomise(-1, 1, 2);
  kernel.run({x.data, y.data, z.data});
  for (int i = 0; i < 90; ++i)
    ASSERT_EQ(z[i], i < 36 ? x[i] : y[i - 36]);
}

TEST(Layout, PaddingAndInsertion) {
  TestKernel kernel(R"(
func.func @k(%x: tensor<5x6xf32>, %y: tensor<2x3xf32>) -> (tensor<8x9xf32>, tensor<5x6xf32>) {
  %v = arith.constant 2.5 : f32
  %p = tensor.pad %x low[1, 2] high[2, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %v : f32
  } : tensor<5x6xf32> to tensor<8x9xf32>
  %z = tensor.insert_slice %y into %x[1, 2] [2, 3] [1, 1] : tensor<2x3xf32> into tensor<5x6xf32>
  return %p, %z : tensor<8x9xf32>, tensor<5x6xf32>
})");
  ASSERT_TRUE(kernel.ok());
  Buffer<float> x(30), y(6), p(72, NAN), z(30, NAN);
  x.randomise(-1, 1, 1);
  y.randomise(-1, 1, 2);
  kernel.run({x.data, y.data, p.data, z.data});
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 9; ++j)
      ASSERT_EQ(p[i * 9 + j], i >= 1 && i < 6 && j >= 2 && j < 8 ? x[(i - 1) * 6 + j - 2] : 2.5f);
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 6; ++j)
      ASSERT_EQ(z[i * 6 + j], i >= 1 && i < 3 && j >= 2 && j < 5 ? y[(i - 1) * 3 + j - 2] : x[i * 6 + j]);
}

TEST(Layout, ReshapesAtTheEdgesDoNotHinder) {
  // [b*s, h*d] -> [b, s, h, d] -> scaled, transposed -> [b, h, s, d] -> [b*h, s*d]
  const int b = 2, s = 7, h = 3, d = 5;
  TestKernel kernel(R"(
#in = affine_map<(b, h, s, d) -> (b, s, h, d)>
#out = affine_map<(b, h, s, d) -> (b, h, s, d)>
func.func @k(%x: tensor<14x15xf32>) -> tensor<6x35xf32> {
  %two = arith.constant 2.0 : f32
  %x4 = tensor.expand_shape %x [[0, 1], [2, 3]] output_shape [2, 7, 3, 5] : tensor<14x15xf32> into tensor<2x7x3x5xf32>
  %e = tensor.empty() : tensor<2x3x7x5xf32>
  %y = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x4 : tensor<2x7x3x5xf32>) outs(%e : tensor<2x3x7x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.mulf %a, %two : f32
    linalg.yield %v : f32
  } -> tensor<2x3x7x5xf32>
  %z = tensor.collapse_shape %y [[0, 1], [2, 3]] : tensor<2x3x7x5xf32> into tensor<6x35xf32>
  return %z : tensor<6x35xf32>
})");
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().strategy, Strategy::Rows);
  EXPECT_GT(kernel.info().extent, 1);
  Buffer<float> x(b * s * h * d), y(x.size, NAN);
  x.randomise(-1, 1, 1);
  kernel.run({x.data, y.data});
  for (int i = 0; i < b; ++i)
    for (int j = 0; j < s; ++j)
      for (int k = 0; k < h; ++k)
        for (int l = 0; l < d; ++l)
          ASSERT_EQ(y[((i * h + k) * s + j) * d + l], 2 * x[((i * s + j) * h + k) * d + l]);
}

TEST(Layout, ReshapeBetweenStatementsOfOtherShapes) {
  // Softmax-free but awkward: row sums of [6, 10], used as [2, 3] by a statement over [2, 3, 4].
  TestKernel kernel(R"(
#rc = affine_map<(r, c) -> (r, c)>
#r = affine_map<(r, c) -> (r)>
#abc = affine_map<(a, b, c) -> (a, b, c)>
#ab = affine_map<(a, b, c) -> (a, b)>
func.func @k(%x: tensor<6x10xf32>, %y: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %zero = arith.constant 0.0 : f32
  %er = tensor.empty() : tensor<6xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%er : tensor<6xf32>) -> tensor<6xf32>
  %s = linalg.generic {indexing_maps = [#rc, #r], iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<6x10xf32>) outs(%zeros : tensor<6xf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.addf %a, %o : f32
    linalg.yield %v : f32
  } -> tensor<6xf32>
  %t = tensor.expand_shape %s [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
  %e = tensor.empty() : tensor<2x3x4xf32>
  %z = linalg.generic {indexing_maps = [#abc, #ab, #abc], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%y, %t : tensor<2x3x4xf32>, tensor<2x3xf32>) outs(%e : tensor<2x3x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.addf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<2x3x4xf32>
  return %z : tensor<2x3x4xf32>
})");
  ASSERT_TRUE(kernel.ok());
  Buffer<float> x(60), y(24), z(24, NAN);
  x.randomise(-1, 1, 1);
  y.randomise(-1, 1, 2);
  kernel.run({x.data, y.data, z.data});
  for (int i = 0; i < 24; ++i) {
    double sum = 0;
    for (int j = 0; j < 10; ++j)
      sum += x[i / 4 * 10 + j];
    ASSERT_NEAR(z[i], y[i] + sum, 1e-5);
  }
}

TEST(Layout, LargeTemporariesTakeAWorkspace) {
  // A transposed intermediate is read across all rows, so the kernel is sequential and its value too large
  // for the stack.
  const int n = 600;
  TestKernel kernel(fill(R"(
#e = affine_map<(i, j) -> (i, j)>
#t = affine_map<(i, j) -> (j, i)>
func.func @k(%x: tensor<$Nx$Nxf32>) -> tensor<$Nx$Nxf32> {
  %e = tensor.empty() : tensor<$Nx$Nxf32>
  %y = linalg.generic {indexing_maps = [#e, #e], iterator_types = ["parallel", "parallel"]}
    ins(%x : tensor<$Nx$Nxf32>) outs(%e : tensor<$Nx$Nxf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.mulf %a, %a : f32
    linalg.yield %v : f32
  } -> tensor<$Nx$Nxf32>
  %z = linalg.generic {indexing_maps = [#e, #t, #e], iterator_types = ["parallel", "parallel"]}
    ins(%y, %y : tensor<$Nx$Nxf32>, tensor<$Nx$Nxf32>) outs(%e : tensor<$Nx$Nxf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.subf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<$Nx$Nxf32>
  return %z : tensor<$Nx$Nxf32>
})",
                         {{'N', n}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().strategy, Strategy::Sequential);
  EXPECT_EQ(kernel.info().workspace, n * n * 4);
  Buffer<float> x(n * n), z(n * n, NAN);
  x.randomise(-1, 1, 1);
  kernel.run({x.data, z.data});
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      ASSERT_NEAR(z[i * n + j], x[i * n + j] * x[i * n + j] - x[j * n + i] * x[j * n + i], 1e-6);
}

TEST(Layout, ConstantsAndReturnedArguments) {
  TestKernel kernel(R"(
#rc = affine_map<(r, c) -> (r, c)>
#c = affine_map<(r, c) -> (c)>
func.func @k(%x: tensor<5x3xf32>) -> (tensor<5x3xf32>, tensor<5x3xf32>, tensor<2xi64>) {
  %w = arith.constant dense<[1.0, 2.0, 4.0]> : tensor<3xf32>
  %i = arith.constant dense<7> : tensor<2xi64>
  %e = tensor.empty() : tensor<5x3xf32>
  %y = linalg.generic {indexing_maps = [#rc, #c, #rc], iterator_types = ["parallel", "parallel"]}
    ins(%x, %w : tensor<5x3xf32>, tensor<3xf32>) outs(%e : tensor<5x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.mulf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<5x3xf32>
  return %y, %x, %i : tensor<5x3xf32>, tensor<5x3xf32>, tensor<2xi64>
})");
  ASSERT_TRUE(kernel.ok());
  Buffer<float> x(15), y(15, NAN), z(15, NAN);
  Buffer<int64_t> i(2);
  x.randomise(-1, 1, 1);
  kernel.run({x.data, y.data, z.data, i.data});
  for (int at = 0; at < 15; ++at) {
    ASSERT_EQ(y[at], x[at] * (1 << at % 3));
    ASSERT_EQ(z[at], x[at]);
  }
  EXPECT_EQ(i[0], 7);
  EXPECT_EQ(i[1], 7);
}

TEST(Sequential, ScatterAddByALoopOverTensors) {
  const int count = 30, width = 9, rows = 7;
  TestKernel kernel(R"(
#h = affine_map<(h) -> (h)>
func.func @k(%ids: tensor<5x6xi64>, %x: tensor<5x6x9xf64>) -> tensor<7x9xf64> {
  %shape1 = arith.constant dense<30> : tensor<1xi64>
  %shape2 = arith.constant dense<[30, 9]> : tensor<2xi64>
  %i = tensor.reshape %ids(%shape1) : (tensor<5x6xi64>, tensor<1xi64>) -> tensor<30xi64>
  %u = tensor.reshape %x(%shape2) : (tensor<5x6x9xf64>, tensor<2xi64>) -> tensor<30x9xf64>
  %zero = arith.constant 0.0 : f64
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 30 : index
  %e = tensor.empty() : tensor<7x9xf64>
  %z = linalg.fill ins(%zero : f64) outs(%e : tensor<7x9xf64>) -> tensor<7x9xf64>
  %r = scf.for %t = %c0 to %n step %c1 iter_args(%table = %z) -> tensor<7x9xf64> {
    %id = tensor.extract %i[%t] : tensor<30xi64>
    %at = arith.index_cast %id : i64 to index
    %new = tensor.extract_slice %u[%t, 0] [1, 9] [1, 1] : tensor<30x9xf64> to tensor<9xf64>
    %old = tensor.extract_slice %table[%at, 0] [1, 9] [1, 1] : tensor<7x9xf64> to tensor<9xf64>
    %sum = linalg.generic {indexing_maps = [#h, #h], iterator_types = ["parallel"]}
      ins(%new : tensor<9xf64>) outs(%old : tensor<9xf64>) {
    ^bb0(%a: f64, %b: f64):
      %v = arith.addf %a, %b : f64
      linalg.yield %v : f64
    } -> tensor<9xf64>
    %next = tensor.insert_slice %sum into %table[%at, 0] [1, 9] [1, 1] : tensor<9xf64> into tensor<7x9xf64>
    scf.yield %next : tensor<7x9xf64>
  }
  return %r : tensor<7x9xf64>
})");
  ASSERT_TRUE(kernel.ok());
  Buffer<int64_t> ids(count);
  Buffer<double> x(count * width), y(rows * width, NAN);
  ids.randomise(0, rows, 1);
  x.randomise(-1, 1, 2);
  kernel.run({ids.data, x.data, y.data});
  std::vector<double> want(rows * width, 0);
  for (int t = 0; t < count; ++t)
    for (int d = 0; d < width; ++d)
      want[ids[t] * width + d] += x[t * width + d];
  for (int i = 0; i < rows * width; ++i)
    ASSERT_NEAR(y[i], want[i], 1e-14);
}

TEST(Layout, ChainedInsertionsWriteOneBuffer) {
  // A concatenation written as insertions into an empty tensor runs by rows and needs no temporary.
  TestKernel kernel(R"(
func.func @k(%x: tensor<25x7xf32>, %y: tensor<25x12xf32>) -> tensor<25x19xf32> {
  %e = tensor.empty() : tensor<25x19xf32>
  %a = tensor.insert_slice %x into %e[0, 0] [25, 7] [1, 1] : tensor<25x7xf32> into tensor<25x19xf32>
  %b = tensor.insert_slice %y into %a[0, 7] [25, 12] [1, 1] : tensor<25x12xf32> into tensor<25x19xf32>
  return %b : tensor<25x19xf32>
})");
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().extent, 25);
  Buffer<float> x(25 * 7), y(25 * 12), z(25 * 19, NAN);
  x.randomise(-1, 1, 1);
  y.randomise(-1, 1, 2);
  kernel.run({x.data, y.data, z.data});
  for (int i = 0; i < 25; ++i)
    for (int j = 0; j < 19; ++j)
      ASSERT_EQ(z[i * 19 + j], j < 7 ? x[i * 7 + j] : y[i * 12 + j - 7]);
}

TEST(Columns, ReductionLoopsInnermostAreReordered) {
  // The same column sum with its reduction loop written last: streamed all the same.
  TestKernel kernel(R"(
#x = affine_map<(c, r) -> (r, c)>
#c = affine_map<(c, r) -> (c)>
func.func @k(%x: tensor<41x301xf32>) -> tensor<301xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<301xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<301xf32>) -> tensor<301xf32>
  %s = linalg.generic {indexing_maps = [#x, #c], iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<41x301xf32>) outs(%z : tensor<301xf32>) {
  ^bb0(%a: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i32
    %f = arith.sitofp %j : i32 to f32
    %p = arith.mulf %a, %f : f32
    %v = arith.addf %p, %o : f32
    linalg.yield %v : f32
  } -> tensor<301xf32>
  return %s : tensor<301xf32>
})");
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().strategy, Strategy::Columns);
  Buffer<float> x(41 * 301), y(301, NAN);
  x.randomise(-1, 1, 1);
  kernel.run({x.data, y.data});
  for (int c = 0; c < 301; ++c) {
    double sum = 0;
    for (int r = 0; r < 41; ++r)
      sum += double(x[r * 301 + c]) * c;
    ASSERT_NEAR(y[c], sum, 1e-3) << c;
  }
}
