// Products on a GPU: which of them are cuBLASLt's, what it finishes them with, which of its algorithms is
// taken.
#include "runtime/cts/device/cases.h"
#include "runtime/device/cuda/blas_library.h"
#include "runtime/device/cuda/product_shape.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace tessera::rt;
using namespace tessera::rt::test;

using cuda::blasProduct, cuda::GemmArguments;

namespace {

/// How many products it has done by its heuristics' first guess, the slow one.
auto slowProductsOfChecking() { return checkingFunction<int()>("tsr_check_slow_products"); }

TEST(Products, OfHalvesAreCuBLASLts) {
  ASSERT_TRUE(gpu()->blas());
  auto slowProducts = slowProductsOfChecking();
  if (!slowProducts)
    GTEST_SKIP() << "only with the checking library";
  for (const char *result : {"bf16", "f32"}) {
    int64_t resultBytes = std::string(result) == "f32" ? 4 : 2;
    Case c{
        "gemm",
        with(gemm(30, 20, 10),
             {{"dtype", "bf16"}, {"c_dtype", result}, {"bias", true}, {"activation", "relu"}}),
        {bytes(600), bytes(400), bytes(600 * resultBytes), bytes(20 * resultBytes), bytes(workspaceBytes)}};
    int before = slowProducts();
    runOn(*gpu(), c);
    EXPECT_EQ(slowProducts() - before, 1) << result;
  }
  // Terms one after the other would round each.
  json sum = with(gemm(5, 6, 4), {{"a", {1, 5}}, {"batch", {{3, 40, 24, 0}}}, {"dtype", "f16"}});
  int before = slowProducts();
  runOn(*gpu(), {"gemm", sum, {bytes(200), bytes(144), bytes(60), bytes(workspaceBytes)}});
  EXPECT_EQ(slowProducts() - before, 0);
  runOn(
      *gpu(),
      {"gemm", with(sum, {{"c_dtype", "f32"}}), {bytes(200), bytes(144), bytes(120), bytes(workspaceBytes)}});
  EXPECT_EQ(slowProducts() - before, 3);
}

/// One product, and the epilogue that it is done with by cuBLASLt.
struct Fusion {
  json attrs;
  int64_t bias, others; ///< elements of a bias, and of pre-activations or sums
  uint32_t epilogue;
};

TEST(Products, AreFinishedByCuBLASLtWhereItCan) {
  ASSERT_TRUE(gpu()->blas());
  auto epilogue = checkingFunction<uint32_t()>("tsr_check_epilogue");
  if (!epilogue)
    GTEST_SKIP() << "only with the checking library";
  using namespace cuda::blas;
  int64_t m = 16, n = 24, k = 8;
  json byColumns = {{"c", {1, m}}};
  auto activated = [&](const char *activation, const char *use, const json &more = json::object()) {
    return with(with(gemm(m, n, k), {{"activation", activation}, {"pre_activation", use}}), more);
  };
  auto summed = [&](const char *which, const json &more = json::object()) {
    return with(with(gemm(m, n, k), {{"sums", which}}), more);
  };
  json biased = {{"bias", true}};
  const Fusion fusions[] = {
      {activated("gelu_tanh", "kept"), 0, m * n, Gelu | Aux},
      {activated("gelu_tanh", "kept", byColumns), 0, m * n, Gelu | Aux},
      {activated("gelu_tanh", "kept", biased), n, m * n, Gelu | Aux | Bias},
      {activated("gelu_tanh", "given"), 0, m * n, GeluSlope | Aux},
      {activated("gelu_tanh", "given", byColumns), 0, m * n, GeluSlope | Aux},
      {summed("a"), 0, m, SumsOfSecond},
      {summed("b"), 0, n, SumsOfFirst},
      {summed("a", byColumns), 0, m, SumsOfFirst},
      {summed("b", byColumns), 0, n, SumsOfSecond},
      {summed("b", {{"activation", "relu"}}), 0, n, Relu},
      // It has no such epilogue.
      {activated("gelu_tanh", "kept", with(biased, byColumns)), n, m * n, Plain},
      {activated("gelu_tanh", "given", biased), n, m * n, Plain},
      {activated("gelu_erf", "kept"), 0, m * n, Plain},
      {activated("relu", "kept"), 0, m * n, Plain},
      {activated("silu", "given"), 0, m * n, Plain},
      // It wants pre-activations in eights.
      {activated("gelu_tanh", "kept", {{"c_offset", 4}}), 0, m * n + 4, Gelu | Aux},
      {activated("gelu_tanh", "kept", {{"c_offset", 3}}), 0, m * n + 3, Plain},
      {activated("gelu_tanh", "given", {{"c", {n + 1, 1}}}), 0, m * (n + 1), Plain},
      {activated("gelu_tanh", "kept", {{"batch", {{2, 0, 0, m * n + 4}}}}), 0, 2 * (m * n + 4), Plain},
      {activated("gelu_tanh", "kept", {{"batch", {{2, 0, 0, m * n + 8}}}}), 0, 2 * (m * n + 8), Gelu | Aux},
  };
  for (const Fusion &fusion : fusions) {
    Case c{"gemm", fusion.attrs, {floats(m * k), floats(k * n), floats(std::max(m * n, fusion.others))}};
    if (fusion.bias)
      c.buffers.push_back(floats(fusion.bias));
    c.buffers.push_back(floats(fusion.others));
    c.buffers.push_back(bytes(workspaceBytes));
    testing::internal::CaptureStderr();
    auto fused = runOn(*gpu(), c);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << fusion.attrs;
    EXPECT_EQ(epilogue(), fusion.epilogue) << fusion.attrs;
    // The checking library has no such algorithms without workspace; then it multiplies, and our own kernels
    // do the rest.
    c.attrs.erase("workspace");
    c.buffers.pop_back();
    auto plain = runOn(*gpu(), c);
    bool wantsSpace = fusion.epilogue & (Aux | SumsOfFirst | SumsOfSecond);
    EXPECT_EQ(epilogue(), wantsSpace ? uint32_t(Plain) : fusion.epilogue) << fusion.attrs;
    fused.pop_back();
    expectEqual(c, plain, fused);
  }
}

TEST(Products, AreTunedOnDemandAndTheChoiceIsKept) {
  std::string folder = testing::TempDir() + "tessera-tuned-" + std::to_string(::getpid());
  Case c{"gemm", gemm(30, 20, 10), {floats(300), floats(200), floats(600), bytes(workspaceBytes)}};
  ASSERT_TRUE(gpu()->blas());
  auto slowProducts = slowProductsOfChecking();
  if (!slowProducts)
    GTEST_SKIP() << "only with the checking library";
  /// How often the heuristics' first guess, the slow one, is taken.
  auto slowOnes = [&] {
    int before = slowProducts();
    runOn(*gpu(), c);
    return slowProducts() - before;
  };
  auto kept = [&] {
    std::string text;
    for (const auto &entry : std::filesystem::directory_iterator(folder))
      if (entry.path().filename() == "cublaslt-Checking_GPU-130000") {
        std::ifstream in(entry.path());
        std::getline(in, text, '\0');
      }
    return text;
  };
  ::setenv("TESSERA_CACHE", folder.c_str(), 1);
  EXPECT_EQ(slowOnes(), 1);
  EXPECT_FALSE(std::filesystem::exists(folder)) << "nobody has asked for it";
  ::setenv("TESSERA_CHECK_SLOW", "100", 1);
  ::setenv("TESSERA_CUBLASLT", "tune", 1);
  EXPECT_EQ(slowOnes(), 4) << "it is measured, and not taken";
  EXPECT_EQ(slowOnes(), 0) << "it is known";
  ::unsetenv("TESSERA_CUBLASLT");
  std::string first = kept();
  EXPECT_EQ(std::ranges::count(first, '\n'), 1);
  EXPECT_EQ(slowOnes(), 0) << "the choice is read";
  // What is no choice is passed over: other letters, a part of a line, another algorithm's bytes.
  std::string path = folder + "/cublaslt-Checking_GPU-130000", product = first.substr(0, first.find('\t'));
  for (const std::string &text : {std::string("\n\0\xff", 3), first.substr(0, first.size() - 9),
                                  product + "\t" + std::string(128, 'f') + "\n", product + "\t\n"}) {
    std::ofstream(path) << text;
    EXPECT_EQ(slowOnes(), 1) << text;
  }
  // And is replaced when there is tuning.
  ::setenv("TESSERA_CUBLASLT", "tune", 1);
  EXPECT_EQ(slowOnes(), 4);
  ::unsetenv("TESSERA_CUBLASLT");
  EXPECT_NE(kept().find(first), std::string::npos);
  ::unsetenv("TESSERA_CHECK_SLOW");
  ::unsetenv("TESSERA_CACHE");
  std::filesystem::remove_all(folder);
}

TEST(ProductShape, HasAsFewCallsAsItCan) {
  auto product = [](GemmArguments g) { return blasProduct(g); };
  // The gradient of a weight over [batch, sequence]: one sum.
  GemmArguments weight{};
  weight.m = 8, weight.n = 6, weight.k = 5;
  weight.aStrides[0] = 1, weight.aStrides[1] = 8;
  weight.bStrides[0] = weight.cStrides[0] = 6, weight.bStrides[1] = weight.cStrides[1] = 1;
  weight.dimensions = 1, weight.sizes[0] = 4, weight.aBatch[0] = 40, weight.bBatch[0] = 30;
  auto found = product(weight);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->offsets.size(), 1u);
  EXPECT_EQ(found->second.transposed ? found->second.columns : found->second.rows, 20);
  // A sum with a gap is one call a term.
  weight.aBatch[0] = 48;
  found = product(weight);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->terms, 4);
  // A matrix without neighbours, and one whose rows overlap, are none of cuBLASLt's.
  weight.aStrides[0] = 2;
  EXPECT_FALSE(product(weight));
  weight.aStrides[0] = 1, weight.aStrides[1] = 3;
  EXPECT_FALSE(product(weight));
}

} // namespace
