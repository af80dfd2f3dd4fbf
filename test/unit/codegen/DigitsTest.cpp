// Math functions keep their digits where results or arguments are small, and where arguments are large.

#include "test/unit/codegen/KernelTest.h"

using namespace tessera::cpu;

namespace {
constexpr int count = 4096;

/// y = `body`, which computes %v of %a, on elements of `type` ($T in `body`).
std::string mapped(std::string body, const std::string &type) {
  std::string text = R"(
#e = affine_map<(i) -> (i)>
func.func @k(%x: tensor<4096x$T>) -> tensor<4096x$T> {
  %e = tensor.empty() : tensor<4096x$T>
  %y = linalg.generic {indexing_maps = [#e, #e], iterator_types = ["parallel"]} ins(%x : tensor<4096x$T>) outs(%e : tensor<4096x$T>) {
  ^bb0(%a: $T, %o: $T):
    %one = arith.constant 1.0 : $T
    )" + body + R"(
    linalg.yield %v : $T
  } -> tensor<4096x$T>
  return %y : tensor<4096x$T>
})";
  for (size_t at; (at = text.find("$T")) != std::string::npos;)
    text.replace(at, 2, type);
  return text;
}

/// Numbers of both signs, as many of each size from `low` to `high`.
template <typename T> void spread(Buffer<T> &x, double low, double high) {
  for (size_t i = 0; i < x.size; ++i)
    x[i] = static_cast<T>((i % 2 ? -1 : 1) * low * std::pow(high / low, (i / 2 * 2 + 0.37) / x.size));
}

struct DigitsCase {
  const char *name, *body;
  double (*reference)(double);
  double low, high, ulps;
};
class Digits : public testing::TestWithParam<DigitsCase> {};

template <typename T> void check(const DigitsCase &c, const std::string &type, double ulps) {
  TestKernel kernel(mapped(c.body, type));
  ASSERT_TRUE(kernel.ok());
  Buffer<T> x(count), y(count, NAN);
  spread(x, c.low, c.high);
  kernel.run({x.data, y.data});
  for (int i = 0; i < count; ++i) {
    double want = c.reference(x[i]);
    T rounded = static_cast<T>(want),
      unit = std::nextafter(std::abs(rounded), T(INFINITY)) - std::abs(rounded);
    if (std::isnan(want) || std::isinf(rounded))
      ASSERT_TRUE(std::isnan(want) ? std::isnan(y[i]) : y[i] == rounded)
          << c.name << "(" << x[i] << ") is " << y[i];
    else
      ASSERT_LE(std::abs(y[i] - want), ulps * unit)
          << c.name << "(" << x[i] << ") is " << y[i] << ", expected " << want;
  }
}

TEST_P(Digits, F32) { check<float>(GetParam(), "f32", GetParam().ulps); }
TEST_P(Digits, F64) {
  if (GetParam().high < 1e7) // sizes of f32
    check<double>(GetParam(), "f64", 1.5);
}

double exponentialLessOne(double x) { return std::expm1(x); }
double logarithmOfMore(double x) { return std::log1p(x); }

INSTANTIATE_TEST_SUITE_P(
    Functions, Digits,
    testing::Values(DigitsCase{"expm1", "%u = math.exp %a : $T %v = arith.subf %u, %one : $T",
                               exponentialLessOne, 1e-37, 200, 2.5},
                    DigitsCase{"log1p", "%u = arith.addf %one, %a : $T %v = math.log %u : $T",
                               logarithmOfMore, 1e-37, 0.99, 4},
                    DigitsCase{"log1p_large", "%u = arith.addf %a, %one : $T %v = math.log %u : $T",
                               logarithmOfMore, 1.1, 1e37, 3},
                    DigitsCase{"log", "%v = math.log %a : $T", std::log, 1e-44, 1e38, 2},
                    DigitsCase{"sin", "%v = math.sin %a : $T", std::sin, 1e-37, 1e6, 2},
                    DigitsCase{"cos", "%v = math.cos %a : $T", std::cos, 1e-3, 1e6, 2}),
    [](const auto &info) { return info.param.name; });
} // namespace

TEST(Digits, EndsOfTheExponential) {
  TestKernel kernel(mapped("%u = math.exp %a : $T %v = arith.subf %u, %one : $T", "f32"));
  ASSERT_TRUE(kernel.ok());
  Buffer<float> x(count, 0), y(count, 5);
  const float given[] = {INFINITY, -INFINITY, 88.7f, 89, 1e30f, -20, -1e30f, 0, -0.0f, 1e-37f, NAN};
  std::copy(std::begin(given), std::end(given), x.data);
  kernel.run({x.data, y.data});
  for (size_t i = 0; i + 1 < std::size(given); ++i)
    EXPECT_TRUE(y[i] == static_cast<float>(std::expm1(double(given[i]))) ||
                std::abs(y[i] / std::expm1(double(given[i])) - 1) < 2e-7)
        << given[i] << " " << y[i];
  EXPECT_TRUE(std::isnan(y[std::size(given) - 1]));
}

TEST(Digits, SinesOfHugeNumbersAreSines) {
  for (const char *body : {"%v = math.sin %a : $T", "%v = math.cos %a : $T"}) {
    TestKernel kernel(mapped(body, "f32"));
    ASSERT_TRUE(kernel.ok());
    Buffer<float> x(count), y(count);
    spread(x, 1e6, 3e38);
    x[0] = INFINITY, x[1] = NAN;
    kernel.run({x.data, y.data});
    for (int i = 0; i < count; ++i)
      ASSERT_TRUE(i < 2 ? std::isnan(y[i]) : std::abs(y[i]) <= 1) << x[i] << " " << y[i];
  }
}
