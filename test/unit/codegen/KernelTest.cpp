// Kernels of every kind of schedule against reference loops, on odd sizes and split ranges.

#include "test/unit/codegen/KernelTest.h"

using namespace tessera::cpu;

static double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }

static std::string biasGelu(int rows, int columns) {
  std::string x = "tensor<" + std::to_string(rows) + "x" + std::to_string(columns) + "xf32>";
  std::string b = "tensor<" + std::to_string(columns) + "xf32>";
  return R"(
#rc = affine_map<(r, c) -> (r, c)>
#c = affine_map<(r, c) -> (c)>
func.func @k(%x: )" + x + ", %b: " + b + ") -> " + x + R"( {
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %s = arith.constant 0.707106781 : f32
  %e = tensor.empty() : )" + x + R"(
  %y = linalg.generic {indexing_maps = [#rc, #c, #rc], iterator_types = ["parallel", "parallel"]}
    ins(%x, %b : )" + x + ", " + b + ") outs(%e : " + x + R"() {
  ^bb0(%a: f32, %bias: f32, %o: f32):
    %v = arith.addf %a, %bias : f32
    linalg.yield %v : f32
  } -> )" + x + R"(
  %z = linalg.generic {indexing_maps = [#rc, #rc], iterator_types = ["parallel", "parallel"]}
    ins(%y : )" + x + ") outs(%e : " + x + R"() {
  ^bb0(%v: f32, %o: f32):
    %t = arith.mulf %v, %s : f32
    %f = math.erf %t : f32
    %g = arith.addf %f, %one : f32
    %h = arith.mulf %v, %half : f32
    %i = arith.mulf %h, %g : f32
    linalg.yield %i : f32
  } -> )" + x + R"(
  return %z : )" + x + R"(
})";
}

TEST(Kernel, BiasGeluRunsByRows) {
  const int rows = 37, columns = 131;
  TestKernel kernel(biasGelu(rows, columns));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().strategy, Strategy::Rows);
  EXPECT_EQ(kernel.info().extent, rows);
  Buffer<float> x(rows * columns), b(columns), y(rows * columns, NAN);
  x.randomise(-5, 5, 1);
  b.randomise(-1, 1, 2);
  kernel.run({x.data, b.data, y.data});
  for (int i = 0; i < rows * columns; ++i)
    ASSERT_NEAR(y[i], gelu(x[i] + b[i % columns]), 2e-6) << i;
}

TEST(Kernel, BiasGeluSpeed) {
  TestKernel kernel(biasGelu(1024, 3072));
  ASSERT_TRUE(kernel.ok());
  Buffer<float> x(1024 * 3072), b(3072), y(1024 * 3072);
  x.randomise(-5, 5, 1);
  reportSpeed("bias + GELU(erf) 1024x3072", kernel, {x.data, b.data, y.data}, 2 * x.size * sizeof(float));
}
