// Kernels on the simulator of a GPU's threads: rows of odd and of large lengths, sums by shuffles,
// temporaries in shared memory, columns, wide loads; and what ptxas says of them.

#include "test/unit/cuda/CudaKernelTest.h"

#include <bit>

using namespace tessera;
using cpu::Buffer, cpu::fill;

/// Softmax with an additive mask of columns: a maximum, a sum and a row of temporaries.
static const char *const softmax = R"(
#rc = affine_map<(r, c) -> (r, c)>
#c = affine_map<(r, c) -> (c)>
#r = affine_map<(r, c) -> (r)>
func.func @k(%x: tensor<$Rx$Cxf32>, %m: tensor<$Cxf32>) -> tensor<$Rx$Cxf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<$Rx$Cxf32>
  %er = tensor.empty() : tensor<$Rxf32>
  %s = linalg.generic {indexing_maps = [#rc, #c, #rc], iterator_types = ["parallel", "parallel"]}
    ins(%x, %m : tensor<$Rx$Cxf32>, tensor<$Cxf32>) outs(%e : tensor<$Rx$Cxf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.addf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<$Rx$Cxf32>
  %lows = linalg.fill ins(%low : f32) outs(%er : tensor<$Rxf32>) -> tensor<$Rxf32>
  %max = linalg.generic {indexing_maps = [#rc, #r], iterator_types = ["parallel", "reduction"]}
    ins(%s : tensor<$Rx$Cxf32>) outs(%lows : tensor<$Rxf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.maximumf %a, %o : f32
    linalg.yield %v : f32
  } -> tensor<$Rxf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%er : tensor<$Rxf32>) -> tensor<$Rxf32>
  %p, %sum = linalg.generic {indexing_maps = [#rc, #r, #rc, #r], iterator_types = ["parallel", "reduction"]}
    ins(%s, %max : tensor<$Rx$Cxf32>, tensor<$Rxf32>) outs(%e, %zeros : tensor<$Rx$Cxf32>, tensor<$Rxf32>) {
  ^bb0(%a: f32, %h: f32, %o: f32, %t: f32):
    %d = arith.subf %a, %h : f32
    %v = math.exp %d : f32
    %w = arith.addf %t, %v : f32
    linalg.yield %v, %w : f32, f32
  } -> (tensor<$Rx$Cxf32>, tensor<$Rxf32>)
  %y = linalg.generic {indexing_maps = [#rc, #r, #rc], iterator_types = ["parallel", "parallel"]}
    ins(%p, %sum : tensor<$Rx$Cxf32>, tensor<$Rxf32>) outs(%e : tensor<$Rx$Cxf32>) {
  ^bb0(%a: f32, %t: f32, %o: f32):
    %v = arith.divf %a, %t : f32
    linalg.yield %v : f32
  } -> tensor<$Rx$Cxf32>
  return %y : tensor<$Rx$Cxf32>
})";

/// Of rows of $E: their sums, and what is less than their maximum, times a number of each row.
static const char *const rowsOf = R"(
#rc = affine_map<(r, c) -> (r, c)>
#r = affine_map<(r, c) -> (r)>
func.func @k(%h: tensor<$Rx$Cx$E>) -> (tensor<$Rxf32>, tensor<$Rx$Cx$E>) {
  %x = arith.extf %h : tensor<$Rx$Cx$E> to tensor<$Rx$Cxf32>
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<$Rx$Cxf32>
  %er = tensor.empty() : tensor<$Rxf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%er : tensor<$Rxf32>) -> tensor<$Rxf32>
  %lows = linalg.fill ins(%low : f32) outs(%er : tensor<$Rxf32>) -> tensor<$Rxf32>
  %sum = linalg.generic {indexing_maps = [#rc, #r], iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<$Rx$Cxf32>) outs(%zeros : tensor<$Rxf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.addf %a, %o : f32
    linalg.yield %v : f32
  } -> tensor<$Rxf32>
  %max = linalg.generic {indexing_maps = [#rc, #r], iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<$Rx$Cxf32>) outs(%lows : tensor<$Rxf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.maximumf %a, %o : f32
    linalg.yield %v : f32
  } -> tensor<$Rxf32>
  %y = linalg.generic {indexing_maps = [#rc, #r, #rc], iterator_types = ["parallel", "parallel"]}
    ins(%x, %max : tensor<$Rx$Cxf32>, tensor<$Rxf32>) outs(%e : tensor<$Rx$Cxf32>) {
  ^bb0(%a: f32, %m: f32, %o: f32):
    %v = arith.subf %m, %a : f32
    linalg.yield %v : f32
  } -> tensor<$Rx$Cxf32>
  %t = arith.truncf %y : tensor<$Rx$Cxf32> to tensor<$Rx$Cx$E>
  return %sum, %t : tensor<$Rxf32>, tensor<$Rx$Cx$E>
})";

/// bias + GELU, the same by rows.
static const char *const gelu = R"(
func.func @k(%x: tensor<$Nxf32>, %b: tensor<$Nxf32>) -> tensor<$Nxf32> {
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %s = arith.constant 0.707106781 : f32
  %e = tensor.empty() : tensor<$Nxf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n) -> (n)>, affine_map<(n) -> (n)>, affine_map<(n) -> (n)>], iterator_types = ["parallel"]}
    ins(%x, %b : tensor<$Nxf32>, tensor<$Nxf32>) outs(%e : tensor<$Nxf32>) {
  ^bb0(%a: f32, %bias: f32, %o: f32):
    %v = arith.addf %a, %bias : f32
    %t = arith.mulf %v, %s : f32
    %f = math.erf %t : f32
    %g = arith.addf %f, %one : f32
    %h = arith.mulf %v, %half : f32
    %i = arith.mulf %h, %g : f32
    linalg.yield %i : f32
  } -> tensor<$Nxf32>
  return %y : tensor<$Nxf32>
})";

/// The sum of each column, and of everything.
static const char *const columnSums = R"(
func.func @k(%x: tensor<$Rx$Cxf32>) -> tensor<$Cxf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<$Cxf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<$Cxf32>) -> tensor<$Cxf32>
  %y = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (c)>], iterator_types = ["reduction", "parallel"]}
    ins(%x : tensor<$Rx$Cxf32>) outs(%z : tensor<$Cxf32>) {
  ^bb0(%a: f32, %o: f32):
    %v = arith.addf %a, %o : f32
    linalg.yield %v : f32
  } -> tensor<$Cxf32>
  return %y : tensor<$Cxf32>
})";

static const char *const totalSum = R"(
func.func @k(%x: tensor<$Nxf16>) -> tensor<f16> {
  %zero = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<f16>
  %z = linalg.fill ins(%zero : f16) outs(%e : tensor<f16>) -> tensor<f16>
  %y = linalg.generic {indexing_maps = [affine_map<(n) -> (n)>, affine_map<(n) -> ()>], iterator_types = ["reduction"]}
    ins(%x : tensor<$Nxf16>) outs(%z : tensor<f16>) {
  ^bb0(%a: f16, %o: f16):
    %v = arith.maximumf %a, %o : f16
    linalg.yield %v : f16
  } -> tensor<f16>
  return %y : tensor<f16>
})";

/// x^2 + x of $E's, in f32.
static const char *const polynomial = R"(
func.func @k(%h: tensor<$Nx$E>) -> tensor<$Nx$E> {
  %x = arith.extf %h : tensor<$Nx$E> to tensor<$Nxf32>
  %e = tensor.empty() : tensor<$Nxf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n) -> (n)>, affine_map<(n) -> (n)>], iterator_types = ["parallel"]}
    ins(%x : tensor<$Nxf32>) outs(%e : tensor<$Nxf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.mulf %a, %a : f32
    %v = arith.addf %s, %a : f32
    linalg.yield %v : f32
  } -> tensor<$Nxf32>
  %r = arith.truncf %y : tensor<$Nxf32> to tensor<$Nx$E>
  return %r : tensor<$Nx$E>
})";

static std::string ofType(std::string text, const std::string &element) {
  for (size_t at; (at = text.find("$E")) != std::string::npos;)
    text.replace(at, 2, element);
  return text;
}

/// The sum of `count` arrays of 64.
static std::string sumOfMany(int count) {
  std::string parameters, maps, names, types, arguments, sum = "%v0";
  for (int i = 0; i < count; ++i) {
    std::string number = std::to_string(i), comma = i ? ", " : "";
    parameters += comma + "%x" + number + ": tensor<64xf32>";
    names += comma + "%x" + number;
    types += comma + "tensor<64xf32>";
    arguments += "%v" + number + ": f32, ";
    maps += "affine_map<(n) -> (n)>, ";
  }
  std::string text = "func.func @k(" + parameters +
                     ") -> tensor<64xf32> {\n%e = tensor.empty() : tensor<64xf32>\n" +
                     "%y = linalg.generic {indexing_maps = [" + maps +
                     "affine_map<(n) -> (n)>], iterator_types = [\"parallel\"]} ins(" + names + " : " +
                     types + ") outs(%e : tensor<64xf32>) {\n^bb0(" + arguments + "%o: f32):\n";
  for (int i = 1; i < count; ++i) {
    std::string next = "%s" + std::to_string(i);
    text += next + " = arith.addf " + sum + ", %v" + std::to_string(i) + " : f32\n";
    sum = next;
  }
  return text + "linalg.yield " + sum + " : f32\n} -> tensor<64xf32>\nreturn %y : tensor<64xf32>\n}";
}

class CudaRows : public testing::TestWithParam<int> {};

TEST_P(CudaRows, SoftmaxSharesItsRowsAmongLanes) {
  const int rows = 6, columns = GetParam();
  cuda::TestKernel kernel(fill(softmax, {{'R', rows}, {'C', columns}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_TRUE(kernel.kernel.launch.warpPerUnit);
  EXPECT_NE(kernel.ptx().find("shfl.sync.bfly"), std::string::npos);
  Buffer<float> x(rows * columns), mask(columns), y(x.size, NAN);
  x.randomise(-9, 9, 3);
  for (int j = 1; j < columns; j += 7)
    mask[j] = -INFINITY;
  kernel.run({x.data, mask.data, y.data});
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    for (int j = 0; j < columns; ++j)
      sum += std::exp(double(x[r * columns + j]) + mask[j]);
    for (int j = 0; j < columns; ++j)
      ASSERT_NEAR(y[r * columns + j], std::exp(double(x[r * columns + j]) + mask[j]) / sum, 1e-6)
          << r << " " << j;
  }
}
INSTANTIATE_TEST_SUITE_P(Lengths, CudaRows, testing::Values(33, 512, 4099));

/// How often a text has `what`.
static int occurrences(const std::string &text, const std::string &what) {
  int count = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size())
    ++count;
  return count;
}

TEST(Cuda, LanesTakeNeighboursOfAlignedRows) {
  // Lengths that are eights, fours, twos and none of these, fewer than lanes and many.
  for (int columns : {1, 31, 32, 63, 64, 96, 100, 254, 255, 256, 260, 768, 1000, 1023, 2056}) {
    const int rows = 5;
    cuda::TestKernel kernel(ofType(fill(rowsOf, {{'R', rows}, {'C', columns}}), "bf16"));
    ASSERT_TRUE(kernel.ok());
    if (columns > 1)
      EXPECT_TRUE(kernel.kernel.launch.warpPerUnit) << columns;
    Buffer<uint16_t> x(rows * columns), y(x.size);
    Buffer<float> sum(rows, NAN);
    // Whole numbers, which are exact.
    auto number = [](size_t i) { return float(int(i * 37 % 101) - 50); };
    for (size_t i = 0; i < x.size; ++i)
      x[i] = uint16_t(std::bit_cast<uint32_t>(number(i)) >> 16);
    kernel.run({x.data, sum.data, y.data});
    for (int r = 0; r < rows; ++r) {
      float total = 0, highest = -100;
      for (int c = 0; c < columns; ++c) {
        total += number(size_t(r * columns + c));
        highest = std::max(highest, number(size_t(r * columns + c)));
      }
      EXPECT_EQ(sum[r], total) << r << " of " << columns;
      for (int c = 0; c < columns; ++c)
        ASSERT_EQ(y[r * columns + c],
                  std::bit_cast<uint32_t>(highest - number(size_t(r * columns + c))) >> 16)
            << r << " " << c << " of " << columns;
    }
  }
}

TEST(Cuda, LanesLoadSixteenBytesOrSeveralTimes) {
  auto ptx = [](int columns, const char *element) {
    cuda::TestKernel kernel(ofType(fill(rowsOf, {{'R', 500}, {'C', columns}}), element));
    EXPECT_TRUE(kernel.ok());
    return kernel.ptx();
  };
  std::string aligned = ptx(768, "bf16"), odd = ptx(50257, "bf16");
  EXPECT_GE(occurrences(aligned, "ld.global.nc.v4.b32"), 1) << aligned;
  EXPECT_GE(occurrences(aligned, "st.global.v4.b32"), 1) << aligned;
  EXPECT_EQ(occurrences(aligned, "ld.global.nc.b16"), 0) << aligned;
  EXPECT_EQ(occurrences(odd, ".v4"), 0) << "rows that begin anywhere";
  EXPECT_GE(occurrences(odd, "ld.global.nc.b16"), 8) << odd;
  for (const std::string &text : {aligned, odd})
    if (std::optional<std::string> said = cuda::assemble(text, "sm_80"))
      EXPECT_NE(said->find(" 0 bytes spill stores, 0 bytes spill loads"), std::string::npos) << *said;
}

TEST(Cuda, RowsTooLongForSharedMemoryAreOfOneThread) {
  cuda::TestKernel kernel(fill(softmax, {{'R', 20}, {'C', 20000}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_FALSE(kernel.kernel.launch.warpPerUnit);
}

TEST(Cuda, ElementsAreLoadedFourAtATime) {
  const int n = 4 * 257;
  cuda::TestKernel kernel(fill(gelu, {{'N', n}})), odd(fill(gelu, {{'N', n - 1}}));
  ASSERT_TRUE(kernel.ok() && odd.ok());
  EXPECT_NE(kernel.ptx().find("ld.global.nc.v4"), std::string::npos) << kernel.ptx();
  EXPECT_EQ(odd.ptx().find(".v4"), std::string::npos);
  for (cuda::TestKernel *k : {&kernel, &odd}) {
    Buffer<float> x(n), b(n), y(n, NAN);
    x.randomise(-5, 5, 1);
    b.randomise(-1, 1, 2);
    k->run({x.data, b.data, y.data});
    for (int i = 0; i < n - (k == &odd); ++i) {
      double v = x[i] + b[i];
      ASSERT_NEAR(y[i], 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))), 2e-6) << i;
    }
    EXPECT_EQ(std::isnan(y[n - 1]), k == &odd);
  }
}

TEST(Cuda, HalvesAreRoundedInPairs) {
  const int n = 4 * 257;
  for (std::string element : {"bf16", "f16"}) {
    cuda::TestKernel kernel(ofType(fill(polynomial, {{'N', n}}), element));
    ASSERT_TRUE(kernel.ok());
    EXPECT_NE(kernel.ptx().find("cvt.rn." + element + "x2.f32"), std::string::npos) << kernel.ptx();
    EXPECT_EQ(kernel.ptx().find("cvt.rn." + element + ".f32"), std::string::npos) << kernel.ptx();
    EXPECT_NE(kernel.ptx().find("st.global.v2.b32"), std::string::npos) << kernel.ptx();
    // 1.5 to 3.75, infinity stays.
    Buffer<uint16_t> x(n, element == "f16" ? 0x3e00 : 0x3fc0), y(n);
    x[5] = element == "f16" ? 0x7c00 : 0x7f80;
    kernel.run({x.data, y.data});
    for (int i = 0; i < n; ++i)
      ASSERT_EQ(y[i], i == 5 ? x[5] : element == "f16" ? 0x4380 : 0x4070) << i;
  }
}

class CudaColumns : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(CudaColumns, AreAddedUp) {
  auto [rows, columns] = GetParam();
  cuda::TestKernel kernel(fill(columnSums, {{'R', rows}, {'C', columns}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.kernel.launch.sharesColumns, rows >= 128 && columns % 16 == 0);
  Buffer<float> x(rows * columns), y(columns, NAN);
  x.randomise(-1, 1, 5);
  kernel.run({x.data, y.data});
  for (int c = 0; c < columns; ++c) {
    double sum = 0;
    for (int r = 0; r < rows; ++r)
      sum += x[r * columns + c];
    ASSERT_NEAR(y[c], sum, 2e-5) << c;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaColumns,
                         testing::Values(std::pair(77, 300), std::pair(1000, 300), std::pair(1000, 48),
                                         std::pair(128, 16)));

TEST(Cuda, SumOfEverythingInSixteenBits) {
  const int n = 1000;
  cuda::TestKernel kernel(fill(totalSum, {{'N', n}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_TRUE(kernel.kernel.launch.warpPerUnit);
  Buffer<uint16_t> x(n, 0x3c00), y(1);
  x[777] = 0x4500; // 5
  kernel.run({x.data, y.data});
  EXPECT_EQ(y[0], 0x4500);
}

/// PTX has no remainder, and LLVM's x - y trunc(x / y) is one for small quotients alone.
TEST(Cuda, RemaindersAreExact) {
  const float special[] = {0,     -0.0f, 1,      -1,     0.3f,   -0.3f,    41,        1e8f,
                           -1e8f, 3e38f, 1e-45f, 4e-45f, 1e-38f, INFINITY, -INFINITY, NAN};
  const int edges = std::size(special), n = 4096;
  cuda::TestKernel kernel(fill(R"(
func.func @k(%x: tensor<$Nxf32>, %y: tensor<$Nxf32>) -> tensor<$Nxf32> {
  %e = tensor.empty() : tensor<$Nxf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n) -> (n)>, affine_map<(n) -> (n)>, affine_map<(n) -> (n)>], iterator_types = ["parallel"]}
    ins(%x, %y : tensor<$Nxf32>, tensor<$Nxf32>) outs(%e : tensor<$Nxf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = arith.remf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<$Nxf32>
  return %r : tensor<$Nxf32>
})",
                               {{'N', n}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.ptx().find("div."),
            std::string::npos); // the host has a remainder, so its twin does not tell
  Buffer<float> x(n), y(n), r(n);
  x.randomise(-1e6, 1e6, 1);
  y.randomise(-3, 3, 2);
  for (int i = 0; i < edges * edges; ++i) {
    x[i] = special[i / edges];
    y[i] = special[i % edges];
  }
  kernel.run({x.data, y.data, r.data});
  for (int i = 0; i < n; ++i) {
    float want = std::fmod(x[i], y[i]);
    ASSERT_TRUE(std::isnan(want) ? std::isnan(r[i])
                                 : r[i] == want && std::signbit(r[i]) == std::signbit(want))
        << x[i] << " mod " << y[i] << " is " << want << ", not " << r[i];
  }
}

TEST(Cuda, FunctionsOfTheCLibraryAreRefused) {
  // Of some LLVM has an intrinsic.
  for (std::string name : {"erf", "exp", "log", "tan", "cbrt"}) {
    std::string text = fill(gelu, {{'N', 64}});
    for (auto [from, to] : {std::pair<std::string, std::string>("f32", "f64"), {"math.erf", "math." + name}})
      for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
    mlir::DialectRegistry registry;
    cpu::registerKernelDialects(registry);
    mlir::MLIRContext context(registry);
    std::string message;
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
      message = diagnostic.str();
      return mlir::success();
    });
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(failed(cuda::compileKernels({{*module, ""}})));
    EXPECT_EQ(message, "kernel 'k' cannot be compiled: it calls the function '" + name +
                           "', which there is none of on a GPU; compute in f32, or compile it with --target "
                           "cpu");
  }
}

TEST(Cuda, EntriesKnowTheirUnits) {
  // The loops are the same.
  cuda::TestKernel few(fill(gelu, {{'N', 1000}})), many(fill(gelu, {{'N', 4000}}));
  ASSERT_TRUE(few.ok() && many.ok());
  EXPECT_NE(few.kernel.symbol, many.kernel.symbol);
  EXPECT_NE(few.ptx(), many.ptx());
}

TEST(Cuda, EveryChipAssemblesWithoutSpills) {
  for (llvm::StringRef chip : {"sm_80", "sm_90"})
    for (const std::string &text :
         {fill(softmax, {{'R', 4096}, {'C', 1024}}), fill(gelu, {{'N', 1 << 20}}),
          fill(columnSums, {{'R', 4096}, {'C', 768}}), fill(totalSum, {{'N', 100000}}), sumOfMany(600)}) {
      cuda::TestKernel kernel(text, chip.data());
      ASSERT_TRUE(kernel.ok());
      std::optional<std::string> said = cuda::assemble(kernel.ptx(), chip.str());
      if (!said)
        GTEST_SKIP() << "no ptxas in PATH or /usr/local/cuda/bin: PTX is not assembled";
      EXPECT_TRUE(llvm::StringRef(*said).starts_with("status 0\n")) << *said << kernel.ptx();
      EXPECT_NE(said->find(" 0 bytes spill stores, 0 bytes spill loads"), std::string::npos) << *said;
    }
}
