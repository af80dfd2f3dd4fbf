// gemm against sums in f64: layouts, batches, sums over batch dimensions, epilogues, degenerate shapes.
#include "runtime/device/cpu/gemm.h"
#include "runtime/device/cpu/onednn_library.h"
#include "runtime/device/cpu/test/harness.h"
#include "runtime/device/cpu/workspace.h"

using namespace tessera::rt;
using namespace tessera::rt::cpu;
using nlohmann::json;

namespace {
struct Case {
  int64_t m, n, k;
  std::array<int64_t, 2> a, b, c;
  std::vector<std::array<int64_t, 4>> batch = {};
  bool accumulate = false, bias = false;
  std::string activation = "none", preActivation = "none", sums = "none";
};

double activate(const std::string &name, double x) {
  if (name == "gelu_tanh")
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  if (name == "gelu_erf")
    return 0.5 * x * (1 + std::erf(x / std::sqrt(2)));
  if (name == "relu")
    return std::max(x, 0.0);
  return name == "silu" ? x / (1 + std::exp(-x)) : x;
}

double slope(const std::string &name, double x) {
  const double step = 1e-5;
  return name == "relu" ? double(x > 0) : (activate(name, x + step) - activate(name, x - step)) / (2 * step);
}

int64_t reach(const Case &t, std::array<int64_t, 2> extents, std::array<int64_t, 2> strides, int which) {
  int64_t last = (extents[0] - 1) * strides[0] + (extents[1] - 1) * strides[1];
  for (const auto &dim : t.batch)
    last += (dim[0] - 1) * dim[which];
  return last + 1;
}

/// Calls fn(offsets) for every batch item.
template <typename Fn> void forBatch(const Case &t, size_t level, std::array<int64_t, 3> at, Fn fn) {
  if (level == t.batch.size())
    return fn(at);
  for (int64_t i = 0; i < t.batch[level][0]; ++i)
    forBatch(t, level + 1,
             {at[0] + i * t.batch[level][1], at[1] + i * t.batch[level][2], at[2] + i * t.batch[level][3]},
             fn);
}

/// A and B of `type`, all others of `resultType`.
void checkOnce(const Case &t, Element type, Element resultType) {
  SCOPED_TRACE(testing::Message() << t.m << "x" << t.n << "x" << t.k << " " << t.activation << " "
                                  << elementNames[int(type)] << " to " << elementNames[int(resultType)]);
  auto elementsA = elementsOf(type, randomFloats(t.k ? reach(t, {t.m, t.k}, t.a, 1) : 0, 1)),
       elementsB = elementsOf(type, randomFloats(t.k ? reach(t, {t.k, t.n}, t.b, 2) : 0, 2)),
       elementsC = elementsOf(resultType, randomFloats(reach(t, {t.m, t.n}, t.c, 3), 3)),
       elementsBias = elementsOf(resultType, randomFloats(t.n, 4));
  auto a = valuesOf(type, elementsA), b = valuesOf(type, elementsB), c = valuesOf(resultType, elementsC),
       bias = valuesOf(resultType, elementsBias);
  auto elementsPre = elementsOf(resultType, randomFloats(c.size(), 5)),
       elementsSums = elementsOf(resultType, randomFloats(t.sums == "a" ? t.m : t.n, 6));
  auto pre = valuesOf(resultType, elementsPre);
  std::vector<double> sums(c.size()), expected(c.begin(), c.end()), kept(pre.begin(), pre.end()),
      operandSums(t.sums == "a" ? t.m : t.n);
  std::vector<bool> written(c.size());
  forBatch(t, 0, {0, 0, 0}, [&](std::array<int64_t, 3> at) {
    for (int64_t i = 0; i < t.m; ++i)
      for (int64_t j = 0; j < t.n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < t.k; ++l)
          sum += double(a[at[0] + i * t.a[0] + l * t.a[1]]) * b[at[1] + l * t.b[0] + j * t.b[1]];
        const int64_t to = at[2] + i * t.c[0] + j * t.c[1];
        sums[to] += sum;
        written[to] = true;
        const double x = sums[to] + (t.accumulate ? c[to] : 0) + (t.bias ? bias[j] : 0);
        expected[to] =
            t.preActivation == "given" ? x * slope(t.activation, pre[to]) : activate(t.activation, x);
        kept[to] = t.preActivation == "kept" ? x : pre[to];
      }
    for (int64_t l = 0; l < t.k; ++l) {
      for (int64_t i = 0; t.sums == "a" && i < t.m; ++i)
        operandSums[i] += a[at[0] + i * t.a[0] + l * t.a[1]];
      for (int64_t j = 0; t.sums == "b" && j < t.n; ++j)
        operandSums[j] += b[at[1] + l * t.b[0] + j * t.b[1]];
    }
  });
  json attrs = {{"m", t.m},
                {"n", t.n},
                {"k", t.k},
                {"a", t.a},
                {"b", t.b},
                {"c", t.c},
                {"batch", t.batch},
                {"accumulate", t.accumulate},
                {"bias", t.bias},
                {"activation", t.activation},
                {"pre_activation", t.preActivation},
                {"sums", t.sums}};
  if (type != Element::F32)
    attrs["dtype"] = elementNames[int(type)];
  if (resultType != type)
    attrs["c_dtype"] = elementNames[int(resultType)];
  std::vector<Argument> arguments = {elementsA, elementsB, elementsC};
  if (t.bias)
    arguments.push_back(elementsBias);
  if (t.preActivation != "none")
    arguments.push_back(elementsPre);
  if (t.sums != "none")
    arguments.push_back(elementsSums);
  int64_t items = 1;
  for (const auto &dim : t.batch)
    items *= dim[0];
  callLibrary("gemm", attrs, arguments, {}, gemmWorkspaceBytes(t.m, t.n, t.k, items, 1));
  // Where C holds the sums first, it is rounded twice.
  const double tolerance = 2e-5 + (t.preActivation == "none" ? 1.01 : 2.5) * roundingOf(resultType);
  expectClose(valuesOf(resultType, elementsC), expected, tolerance);
  if (t.preActivation != "none")
    expectClose(valuesOf(resultType, elementsPre), kept, tolerance);
  if (t.sums != "none")
    expectClose(valuesOf(resultType, elementsSums), operandSums, tolerance);
}

/// With oneDNN, if it is here, and with the library's own kernels alone.
void check(const Case &t, Element type, Element resultType) {
  if (type != Element::F16) // which oneDNN is not asked for
    checkOnce(t, type, resultType);
  SCOPED_TRACE("without oneDNN");
  setenv("TESSERA_ONEDNN", "off", 1);
  checkOnce(t, type, resultType);
  unsetenv("TESSERA_ONEDNN");
}

void check(const Case &t) {
  check(t, Element::F32, Element::F32);
  for (Element type : {Element::BF16, Element::F16}) {
    check(t, type, type);
    check(t, type, Element::F32);
  }
}
} // namespace

TEST(Gemm, EveryTranspositionOddSizes) {
  for (int64_t m : {1, 5, 67})
    for (int64_t n : {1, 33, 130})
      for (int64_t k : {1, 19, 300})
        for (int layouts = 0; layouts < 8; ++layouts) {
          Case t = {m, n, k, {k, 1}, {n, 1}, {n, 1}};
          if (layouts & 1)
            t.a = {1, m};
          if (layouts & 2)
            t.b = {1, k};
          if (layouts & 4)
            t.c = {1, m};
          check(t);
        }
}

TEST(Gemm, BlocksOfRowsAndColumns) {
  check({700, 96, 40, {40, 1}, {96, 1}, {96, 1}});
  check({513, 1100, 64, {1, 513}, {1, 64}, {1100, 1}});
  check({3, 5000, 70, {70, 1}, {1, 70}, {5000, 1}});
}

TEST(Gemm, PowerOfTwoLeadingDimension) {
  check({70, 1024, 300, {300, 1}, {1024, 1}, {1024, 1}});
  check({410, 1024, 20, {20, 1}, {3072, 1}, {1024, 1}});
}

TEST(Gemm, NoUnitStride) {
  check({50, 40, 30, {90, 3}, {2, 64}, {200, 4}});
  check({50, 40, 30, {90, 3}, {2, 64}, {1, 64}});
}

TEST(Gemm, BatchesAndBroadcast) {
  check({17, 19, 23, {23, 1}, {19, 1}, {19, 1}, {{3, 17 * 23, 0, 17 * 19}}});
  check({17, 19, 23, {23, 1}, {19, 1}, {19, 1}, {{2, 0, 23 * 19, 3 * 17 * 19}, {3, 17 * 23, 0, 17 * 19}}});
  // A packed [s, heads, 3, d] operand: scores of every head by strides.
  check({20, 20, 8, {4 * 24, 1}, {1, 4 * 24}, {20, 1}, {{4, 24, 24, 400}}});
}

TEST(Gemm, SumsOverBatchDimensions) {
  check({17, 19, 23, {1, 17}, {19, 1}, {19, 1}, {{4, 17 * 23, 19 * 23, 0}}});
  Case t = {17, 19, 23, {23, 1}, {19, 1}, {19, 1}, {{3, 400, 19 * 23, 0}, {2, 1300, 2000, 17 * 19}}};
  check(t);
  t.accumulate = t.bias = true;
  t.activation = "gelu_tanh";
  check(t);
}

TEST(Gemm, Epilogues) {
  for (const char *activation : {"none", "gelu_tanh", "gelu_erf", "relu", "silu"})
    for (const char *preActivation : {"none", "kept", "given"})
      for (int flags = 0; flags < 8; ++flags) {
        Case t = {40, 70, 33, {33, 1}, {70, 1}, {70, 1}};
        if (flags & 1)
          t = {70, 300, 33, {1, 70}, {1, 33}, {1, 70}};
        t.activation = activation;
        t.preActivation = t.activation == "none" ? "none" : preActivation;
        t.bias = flags & 2;
        t.accumulate = flags & 4;
        check(t);
      }
}

TEST(Gemm, SumsOfAnOperand) {
  for (const char *sums : {"a", "b"}) {
    Case t = {40, 300, 33, {33, 1}, {300, 1}, {300, 1}};
    t.sums = sums;
    check(t);
    t.a = {1, 40}, t.b = {1, 33};
    check(t);
    t.batch = {{4, 40 * 33, 300 * 33, 0}, {2, 4 * 40 * 33, 4 * 300 * 33, 0}};
    check(t);
    t.c = {1, 40};
    check(t);
    // Some product of a model, which other code computes.
    check({768, 512, 96, {1, 768}, {512, 1}, {512, 1}, {}, false, false, "none", "none", sums});
  }
}

TEST(Gemm, NothingToSumOrWrite) {
  check({6, 7, 0, {0, 1}, {7, 1}, {7, 1}});
  Case t = {6, 7, 0, {0, 1}, {7, 1}, {7, 1}};
  t.accumulate = t.bias = true;
  check(t);
  const json attrs = {{"m", 0}, {"n", 7}, {"k", 3}, {"a", {3, 1}}, {"b", {7, 1}}, {"c", {7, 1}}};
  std::vector<float> none, b(21);
  callLibrary("gemm", attrs, {none, b, none}, {}, gemmWorkspaceBytes(1, 1, 1, 1, 1));
}

TEST(Gemm, BF16IsTheVendorsWhereTheMachineHasIt) {
  const OneDnn *library = OneDnn::get();
  if (!library)
    GTEST_SKIP() << "oneDNN is not installed on this machine";
  const auto bf16 = unsigned(dnnl_cpu_isa_avx512_core_bf16);
  if ((unsigned(library->get_effective_cpu_isa()) & bf16) != bf16)
    GTEST_SKIP() << "this machine does not multiply bf16";
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true})
      for (Element resultType : {Element::F32, Element::BF16}) {
        Product p{};
        p.m = 256, p.n = 768, p.k = 512;
        p.a = transposeA ? std::array<int64_t, 2>{1, p.m} : std::array<int64_t, 2>{p.k, 1};
        p.b = transposeB ? std::array<int64_t, 2>{1, p.k} : std::array<int64_t, 2>{p.n, 1};
        p.c = {p.n, 1};
        p.type = Element::BF16;
        p.resultType = resultType;
        int64_t bytes = 0;
        EXPECT_TRUE(prepareVendorProduct(p, 2, bytes)) << transposeA << transposeB << int(resultType);
        EXPECT_LE(bytes, gemmWorkspaceBytes(p.m, p.n, p.k, 1, 2));
        setenv("TESSERA_ONEDNN", "off", 1);
        EXPECT_FALSE(prepareVendorProduct(p, 2, bytes));
        unsetenv("TESSERA_ONEDNN");
      }
}

TEST(Gemm, RefusesWrongDescriptions) {
  json attrs = {{"m", 6}, {"n", 7}, {"k", 3}, {"a", {3, 1}}, {"b", {7, 1}}, {"c", {7, 1}}};
  std::vector<int64_t> bytes = {72, 84, 168};
  const auto message = [&](int threads = 1) -> std::string {
    try {
      prepareCall("gemm", {attrs, bytes, 0, threads});
    } catch (const Error &error) {
      return error.what();
    }
    return "";
  };
  // Our own product, which f16 has on every machine, needs room; oneDNN's need not.
  attrs["dtype"] = "f16";
  bytes = {36, 42, 84};
  EXPECT_NE(message().find("workspace"), std::string::npos);
  attrs.erase("dtype");
  bytes = {72, 84, 168};
  attrs["workspace"] = gemmWorkspaceBytes(1, 1, 1, 1, 1);
  bytes.push_back(gemmWorkspaceBytes(1, 1, 1, 1, 1));
  EXPECT_EQ(message(), "");
  bytes[1] = 80;
  EXPECT_NE(message().find("buffer 'B' (argument 1) has 80 bytes, its shape needs 84"), std::string::npos);
  bytes[1] = 84;
  attrs["k"] = int64_t(1) << 62;
  EXPECT_NE(message().find("64 bits"), std::string::npos);
  attrs["k"] = -1;
  EXPECT_NE(message().find("'k' is -1"), std::string::npos);
  attrs.erase("k");
  EXPECT_NE(message().find("'k' is missing"), std::string::npos);
  attrs["k"] = 3;
  attrs["dtype"] = "i8";
  EXPECT_NE(message().find("'dtype' is \"i8\", expected one of f32, bf16, f16"), std::string::npos);
  attrs["dtype"] = "f32";
  attrs["c_dtype"] = "f16";
  EXPECT_NE(message().find("'c_dtype' is neither f32 nor the type of A and B"), std::string::npos);
  attrs["c_dtype"] = "f32";
  attrs["pre_activation"] = "kept";
  EXPECT_NE(message().find("attribute 'pre_activation' without an activation"), std::string::npos);
  attrs["pre_activation"] = "none";
  attrs["sums"] = "a";
  attrs["batch"] = {{2, 0, 0, 42}};
  bytes[2] = 336;
  EXPECT_NE(message().find("attribute 'sums' with batch dimensions that C has"), std::string::npos);
}
