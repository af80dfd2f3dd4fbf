// Elementwise kernels that run as one loop: casts, selections, math functions, updates in place, narrow
// types.

#include "test/unit/codegen/KernelTest.h"

using namespace tessera::cpu;

TEST(Flat, BroadcastScalarAndMergedChain) {
  // Two results from a chain with a value used twice: one loop, nothing in memory between.
  const int n = 7 * 11 * 13;
  TestKernel kernel(R"(
#e = affine_map<(i, j, k) -> (i, j, k)>
#s = affine_map<(i, j, k) -> ()>
func.func @k(%x: tensor<7x11x13xf32>, %y: tensor<7x11x13xf32>, %s: tensor<f32>) -> (tensor<7x11x13xf32>, tensor<7x11x13xf32>) {
  %e = tensor.empty() : tensor<7x11x13xf32>
  %a = linalg.generic {indexing_maps = [#e, #e, #e], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x, %y : tensor<7x11x13xf32>, tensor<7x11x13xf32>) outs(%e : tensor<7x11x13xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %v = arith.addf %p, %q : f32
    linalg.yield %v : f32
  } -> tensor<7x11x13xf32>
  %b = linalg.generic {indexing_maps = [#e, #s, #e], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%a, %s : tensor<7x11x13xf32>, tensor<f32>) outs(%e : tensor<7x11x13xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %v = arith.mulf %p, %q : f32
    linalg.yield %v : f32
  } -> tensor<7x11x13xf32>
  %c = linalg.generic {indexing_maps = [#e, #e, #e], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%a, %b : tensor<7x11x13xf32>, tensor<7x11x13xf32>) outs(%e : tensor<7x11x13xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %v = arith.subf %p, %q : f32
    linalg.yield %v : f32
  } -> tensor<7x11x13xf32>
  return %b, %c : tensor<7x11x13xf32>, tensor<7x11x13xf32>
})");
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().strategy, Strategy::Flat);
  EXPECT_EQ(kernel.info().extent, n);
  Buffer<float> x(n), y(n), s(1, 3), b(n, NAN), c(n, NAN);
  x.randomise(-1, 1, 1);
  y.randomise(-1, 1, 2);
  kernel.run({x.data, y.data, s.data, b.data, c.data}, {}, 7);
  for (int i = 0; i < n; ++i) {
    ASSERT_FLOAT_EQ(b[i], (x[i] + y[i]) * 3);
    ASSERT_NEAR(c[i], (x[i] + y[i]) * -2, 1e-5);
  }
}

TEST(Flat, CastsCompareAndWhere) {
  const int n = 1001;
  TestKernel kernel(fill(R"(
#e = affine_map<(i) -> (i)>
func.func @k(%i: tensor<$Nxi64>, %x: tensor<$Nxf32>, %c: tensor<$Nxi1>)
    -> (tensor<$Nxf32>, tensor<$Nxi64>, tensor<$Nxi1>, tensor<$Nxf32>) {
  %ef = tensor.empty() : tensor<$Nxf32>
  %ei = tensor.empty() : tensor<$Nxi64>
  %eb = tensor.empty() : tensor<$Nxi1>
  %r:4 = linalg.generic {indexing_maps = [#e, #e, #e, #e, #e, #e, #e], iterator_types = ["parallel"]}
    ins(%i, %x, %c : tensor<$Nxi64>, tensor<$Nxf32>, tensor<$Nxi1>)
    outs(%ef, %ei, %eb, %ef : tensor<$Nxf32>, tensor<$Nxi64>, tensor<$Nxi1>, tensor<$Nxf32>) {
  ^bb0(%a: i64, %b: f32, %d: i1, %o0: f32, %o1: i64, %o2: i1, %o3: f32):
    %f = arith.sitofp %a : i64 to f32
    %j = arith.fptosi %b : f32 to i64
    %l = arith.cmpf olt, %f, %b : f32
    %w = arith.select %d, %f, %b : f32
    linalg.yield %f, %j, %l, %w : f32, i64, i1, f32
  } -> (tensor<$Nxf32>, tensor<$Nxi64>, tensor<$Nxi1>, tensor<$Nxf32>)
  return %r#0, %r#1, %r#2, %r#3 : tensor<$Nxf32>, tensor<$Nxi64>, tensor<$Nxi1>, tensor<$Nxf32>
})",
                         {{'N', n}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().strategy, Strategy::Flat);
  Buffer<int64_t> i(n), j(n);
  Buffer<float> x(n), f(n), w(n);
  Buffer<uint8_t> c(n), l(n, 7);
  i.randomise(-1000, 1000, 1);
  x.randomise(-1000, 1000, 2);
  c.randomise(0, 2, 3);
  kernel.run({i.data, x.data, c.data, f.data, j.data, l.data, w.data});
  for (int at = 0; at < n; ++at) {
    ASSERT_EQ(f[at], float(i[at]));
    ASSERT_EQ(j[at], int64_t(x[at]));
    ASSERT_EQ(l[at], float(i[at]) < x[at] ? 1 : 0);
    ASSERT_EQ(w[at], c[at] ? float(i[at]) : x[at]);
  }
}

static const char *const adam = R"(
#e = affine_map<(i) -> (i)>
#s = affine_map<(i) -> ()>
func.func @k(%p: tensor<$Nxf32> {exec.result = 0 : i64}, %m: tensor<$Nxf32> {exec.result = 1 : i64},
             %v: tensor<$Nxf32> {exec.result = 2 : i64}, %g: tensor<$Nxf32>, %lr: tensor<f32>)
    -> (tensor<$Nxf32>, tensor<$Nxf32>, tensor<$Nxf32>) {
  %b1 = arith.constant 0.9 : f32
  %c1 = arith.constant 0.1 : f32
  %b2 = arith.constant 0.999 : f32
  %c2 = arith.constant 0.001 : f32
  %eps = arith.constant 1.0e-8 : f32
  %e = tensor.empty() : tensor<$Nxf32>
  %m1 = linalg.generic {indexing_maps = [#e, #e, #e], iterator_types = ["parallel"]}
    ins(%m, %g : tensor<$Nxf32>, tensor<$Nxf32>) outs(%e : tensor<$Nxf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %x = arith.mulf %a, %b1 : f32
    %y = arith.mulf %b, %c1 : f32
    %z = arith.addf %x, %y : f32
    linalg.yield %z : f32
  } -> tensor<$Nxf32>
  %v1 = linalg.generic {indexing_maps = [#e, #e, #e], iterator_types = ["parallel"]}
    ins(%v, %g : tensor<$Nxf32>, tensor<$Nxf32>) outs(%e : tensor<$Nxf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %x = arith.mulf %a, %b2 : f32
    %q = arith.mulf %b, %b : f32
    %y = arith.mulf %q, %c2 : f32
    %z = arith.addf %x, %y : f32
    linalg.yield %z : f32
  } -> tensor<$Nxf32>
  %p1 = linalg.generic {indexing_maps = [#e, #e, #e, #s, #e], iterator_types = ["parallel"]}
    ins(%p, %m1, %v1, %lr : tensor<$Nxf32>, tensor<$Nxf32>, tensor<$Nxf32>, tensor<f32>) outs(%e : tensor<$Nxf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %l: f32, %o: f32):
    %q = math.sqrt %c : f32
    %r = arith.addf %q, %eps : f32
    %s = arith.divf %b, %r : f32
    %t = arith.mulf %s, %l : f32
    %z = arith.subf %a, %t : f32
    linalg.yield %z : f32
  } -> tensor<$Nxf32>
  return %p1, %m1, %v1 : tensor<$Nxf32>, tensor<$Nxf32>, tensor<$Nxf32>
})";

TEST(Flat, UpdateInPlace) {
  const int n = 2345;
  TestKernel kernel(fill(adam, {{'N', n}}));
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel.info().strategy, Strategy::Flat);
  Buffer<float> p(n), m(n), v(n), g(n), lr(1, 0.01f), p0(n);
  p.randomise(-1, 1, 1);
  p0.randomise(-1, 1, 1);
  g.randomise(-1, 1, 2);
  kernel.run({p.data, m.data, v.data, g.data, lr.data}, {}, 4);
  for (int i = 0; i < n; ++i) {
    double mm = 0.1 * g[i], vv = 0.001 * g[i] * g[i];
    ASSERT_NEAR(m[i], mm, 1e-6);
    ASSERT_NEAR(v[i], vv, 1e-6);
    ASSERT_NEAR(p[i], p0[i] - 0.01 * mm / (std::sqrt(vv) + 1e-8), 1e-5);
  }
}

TEST(Speed, UpdateInPlace) {
  const int n = 8000000;
  TestKernel kernel(fill(adam, {{'N', n}}));
  ASSERT_TRUE(kernel.ok());
  Buffer<float> p(n, 1), m(n, 0), v(n, 0), g(n, 1), lr(1, 0.01f);
  reportSpeed("AdamW update 8 M", kernel, {p.data, m.data, v.data, g.data, lr.data}, size_t(n) * 28);
}

/// y = op(x) on 1003 elements of `type`.
static std::string unary(const std::string &op, const std::string &type) {
  std::string tensor = "tensor<1003x" + type + ">";
  return "#e = affine_map<(i) -> (i)>\nfunc.func @k(%x: " + tensor + ") -> " + tensor +
         " {\n  %e = tensor.empty() : " + tensor +
         "\n  %y = linalg.generic {indexing_maps = [#e, #e], iterator_types = [\"parallel\"]} ins(%x : " +
         tensor + ") outs(%e : " + tensor + ") {\n  ^bb0(%a: " + type + ", %o: " + type +
         "):\n    %v = " + op + " %a : " + type + "\n    linalg.yield %v : " + type + "\n  } -> " + tensor +
         "\n  return %y : " + tensor + "\n}";
}

struct MathCase {
  const char *op;
  double (*reference)(double);
  double low, high, tolerance; ///< relative to max(1, |y|)
};

static double rsqrt(double x) { return 1 / std::sqrt(x); }
static double roundEven(double x) { return std::nearbyint(x); }

class Math : public testing::TestWithParam<MathCase> {};

TEST_P(Math, IsAccurateAndCallsNoLibrary) {
  const MathCase &c = GetParam();
  TestKernel kernel(unary(c.op, "f32"));
  ASSERT_TRUE(kernel.ok()); // a library call would be an error
  Buffer<float> x(1003), y(1003, NAN);
  x.randomise(c.low, c.high, 1);
  kernel.run({x.data, y.data});
  for (int i = 0; i < 1003; ++i) {
    double want = c.reference(x[i]);
    ASSERT_NEAR(y[i], want, c.tolerance * std::max(1.0, std::abs(want))) << c.op << "(" << x[i] << ")";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Functions, Math,
    testing::Values(
        MathCase{"math.exp", std::exp, -80, 80, 3e-7}, MathCase{"math.log", std::log, 1e-3, 1e3, 3e-7},
        MathCase{"math.tanh", std::tanh, -9, 9, 5e-7}, MathCase{"math.erf", std::erf, -5, 5, 1e-6},
        MathCase{"math.sqrt", std::sqrt, 0, 1e4, 1e-6}, MathCase{"math.rsqrt", rsqrt, 1e-3, 1e4, 1e-6},
        MathCase{"math.sin", std::sin, -20, 20, 2e-6}, MathCase{"math.cos", std::cos, -20, 20, 2e-6},
        MathCase{"math.tan", std::tan, -1.4, 1.4, 3e-6}, MathCase{"math.exp2", std::exp2, -20, 20, 3e-6},
        MathCase{"math.log1p", std::log1p, -0.5, 100, 1e-6}, MathCase{"math.expm1", std::expm1, -2, 20, 2e-6},
        MathCase{"math.log2", std::log2, 1e-3, 1e3, 1e-6}, MathCase{"math.atan", std::atan, -9, 9, 4e-6},
        MathCase{"math.asin", std::asin, -0.99, 0.99, 3e-6},
        MathCase{"math.acos", std::acos, -0.99, 0.99, 3e-6}, MathCase{"math.sinh", std::sinh, -9, 9, 3e-6},
        MathCase{"math.cosh", std::cosh, -9, 9, 3e-6}, MathCase{"math.asinh", std::asinh, -9, 9, 6e-6},
        MathCase{"math.acosh", std::acosh, 1, 9, 1e-5}, MathCase{"math.atanh", std::atanh, -0.9, 0.9, 3e-6},
        MathCase{"math.erfc", std::erfc, -3, 3, 3e-6}, MathCase{"math.cbrt", std::cbrt, -9, 9, 1e-5},
        MathCase{"math.floor", std::floor, -9, 9, 0}, MathCase{"math.ceil", std::ceil, -9, 9, 0},
        MathCase{"math.round", std::round, -9, 9, 0}, MathCase{"math.roundeven", roundEven, -9, 9, 0},
        MathCase{"math.trunc", std::trunc, -9, 9, 0}, MathCase{"math.absf", std::fabs, -9, 9, 0}),
    [](const auto &info) { return std::string(info.param.op).substr(5); });

TEST(Flat, SpecialValuesOfExpErfTanh) {
  const float special[] = {NAN, INFINITY, -INFINITY, 0, 1e9f, -1e9f};
  for (auto [op, reference] : {std::pair<const char *, double (*)(double)>{"math.exp", std::exp},
                               {"math.erf", std::erf},
                               {"math.tanh", std::tanh}}) {
    TestKernel kernel(unary(op, "f32"));
    ASSERT_TRUE(kernel.ok());
    Buffer<float> x(1003, 0), y(1003, 5);
    std::copy(special, special + 6, x.data);
    kernel.run({x.data, y.data});
    for (int i = 0; i < 6; ++i) {
      float want = reference(special[i]);
      EXPECT_TRUE((std::isnan(want) && std::isnan(y[i])) || y[i] == want)
          << op << " " << special[i] << " " << y[i];
    }
  }
}

static float fromBf16(uint16_t v) {
  uint32_t bits = uint32_t(v) << 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
static uint16_t toBf16(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

TEST(Flat, Bf16RoundsToNearest) {
  TestKernel kernel(unary("math.exp", "bf16"));
  ASSERT_TRUE(kernel.ok());
  Buffer<uint16_t> x(1003), y(1003);
  for (int i = 0; i < 1003; ++i)
    x[i] = toBf16((i - 500) / 100.0f);
  kernel.run({x.data, y.data});
  for (int i = 0; i < 1003; ++i)
    ASSERT_NEAR(fromBf16(y[i]), std::exp(fromBf16(x[i])), std::exp(fromBf16(x[i])) / 250) << i;
}

TEST(Flat, Bf16Conversions) {
  TestKernel kernel(R"(
#e = affine_map<(i) -> (i)>
func.func @k(%x: tensor<777xf32>) -> (tensor<777xbf16>, tensor<777xf32>) {
  %eb = tensor.empty() : tensor<777xbf16>
  %ef = tensor.empty() : tensor<777xf32>
  %r:2 = linalg.generic {indexing_maps = [#e, #e, #e], iterator_types = ["parallel"]}
    ins(%x : tensor<777xf32>) outs(%eb, %ef : tensor<777xbf16>, tensor<777xf32>) {
  ^bb0(%a: f32, %o: bf16, %p: f32):
    %t = arith.truncf %a : f32 to bf16
    %f = arith.extf %t : bf16 to f32
    linalg.yield %t, %f : bf16, f32
  } -> (tensor<777xbf16>, tensor<777xf32>)
  return %r#0, %r#1 : tensor<777xbf16>, tensor<777xf32>
})");
  ASSERT_TRUE(kernel.ok());
  Buffer<float> x(777), f(777);
  Buffer<uint16_t> b(777);
  x.randomise(-100, 100, 3);
  kernel.run({x.data, b.data, f.data});
  for (int i = 0; i < 777; ++i) {
    ASSERT_EQ(b[i], toBf16(x[i]));
    ASSERT_EQ(f[i], fromBf16(b[i]));
  }
}

TEST(Flat, DoublePrecisionKeepsItsAccuracy) {
  TestKernel kernel(unary("math.exp", "f64"));
  ASSERT_TRUE(kernel.ok());
  Buffer<double> x(1003), y(1003);
  x.randomise(-10, 10, 3);
  kernel.run({x.data, y.data});
  for (int i = 0; i < 1003; ++i)
    ASSERT_NEAR(y[i], std::exp(x[i]), 1e-14 * std::exp(x[i]));
}

TEST(Flat, PowerOfTensors) {
  TestKernel kernel(R"(
#e = affine_map<(i) -> (i)>
func.func @k(%x: tensor<500xf32>, %y: tensor<500xf32>) -> tensor<500xf32> {
  %e = tensor.empty() : tensor<500xf32>
  %r = linalg.generic {indexing_maps = [#e, #e, #e], iterator_types = ["parallel"]}
    ins(%x, %y : tensor<500xf32>, tensor<500xf32>) outs(%e : tensor<500xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %v = math.powf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<500xf32>
  return %r : tensor<500xf32>
})");
  ASSERT_TRUE(kernel.ok());
  Buffer<float> x(500), y(500), z(500);
  x.randomise(0.01, 5, 1);
  y.randomise(-3, 3, 2);
  x[0] = -2, y[0] = 3;
  x[1] = -2, y[1] = 2;
  x[2] = -3, y[2] = 0;
  x[3] = 0, y[3] = 0;
  x[4] = 0, y[4] = 2;
  x[5] = 1, y[5] = 300;
  kernel.run({x.data, y.data, z.data});
  for (int i = 0; i < 500; ++i)
    ASSERT_NEAR(z[i], std::pow(x[i], y[i]), 1e-5 * std::max(1.0f, std::abs(std::pow(x[i], y[i]))))
        << x[i] << " " << y[i];
}
