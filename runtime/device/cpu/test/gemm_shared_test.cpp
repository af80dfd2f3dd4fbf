// Products with shared packs against the library's blockwise ones: layouts, regions, slices, epilogues, and
// the same bits for any number of threads.
#include "runtime/device/cpu/gemm.h"
#include "runtime/device/cpu/test/harness.h"
#include "runtime/device/cpu/workspace.h"

using namespace tessera::rt;
using namespace tessera::rt::cpu;

namespace {
Product product(int64_t m, int64_t n, int64_t k, bool transposeA, bool transposeB) {
  Product p{};
  p.m = m, p.n = n, p.k = k;
  p.a = transposeA ? std::array<int64_t, 2>{1, m} : std::array<int64_t, 2>{k, 1};
  p.b = transposeB ? std::array<int64_t, 2>{1, k} : std::array<int64_t, 2>{n, 1};
  p.c = {n, 1};
  return p;
}

/// C, and behind it what of the pre-activations was written or left.
std::vector<float> compute(const ProductFn &fn, const Product &p, int64_t workspaceBytes, int threads) {
  const int64_t items = p.items(), terms = p.terms();
  const std::vector<char> a = elementsOf(p.type, randomFloats(2 * p.m * p.k * items * terms, 1)),
                          b = elementsOf(p.type, randomFloats(2 * p.n * p.k * items * terms, 2));
  const std::vector<float> bias = randomFloats(p.n, 3);
  std::vector<float> c = randomFloats(p.m * p.n * items, 5), pre = randomFloats(p.m * p.n * items, 4),
                     workspace(workspaceBytes / 4 + 64);
  Pool pool(threads);
  char *aligned = reinterpret_cast<char *>(roundUp(reinterpret_cast<int64_t>(workspace.data()), 64));
  fn({a.data(), b.data(), bias.data(), c.data(),
      p.preActivation == PreActivation::None ? nullptr : pre.data(), aligned},
     pool);
  c.insert(c.end(), pre.begin(), pre.end());
  return c;
}

void check(Product p, Element type) {
  SCOPED_TRACE(testing::Message() << p.m << "x" << p.n << "x" << p.k << " " << elementNames[int(type)]);
  p.type = type;
  const std::vector<float> expected = compute(prepareOwnProduct(p), p, ownProductBytes(1), 1);
  std::vector<float> first;
  for (int threads : {1, 2, 3}) {
    int64_t bytes = 0;
    const ProductFn fn = prepareSharedProduct(p, threads, bytes);
    ASSERT_TRUE(fn);
    EXPECT_LE(bytes, gemmWorkspaceBytes(p.m, p.n, p.k, p.items() * p.terms(), threads));
    const std::vector<float> c = compute(fn, p, bytes, threads);
    if (first.empty()) {
      first = c;
      expectClose(c, std::vector<double>(expected.begin(), expected.end()), 1e-4);
    }
    EXPECT_EQ(c, first) << threads;
  }
}

void check(const Product &p) {
  for (Element type : {Element::F32, Element::BF16, Element::F16})
    check(p, type);
}
} // namespace

TEST(SharedProduct, EveryTranspositionOddSizes) {
  for (bool a : {false, true})
    for (bool b : {false, true}) {
      check(product(205, 333, 170, a, b));
      check(product(64, 1601, 81, a, b));
      check(product(1100, 70, 1050, a, b));
    }
}

TEST(SharedProduct, NoUnitStride) {
  Product p = product(205, 200, 300, false, false);
  p.a = {2 * 300, 2};
  p.b = {2, 2 * 300};
  check(p);
}

TEST(SharedProduct, Epilogues) {
  Product p = product(130, 300, 400, false, true);
  p.accumulate = true;
  check(p);
  p.bias = true;
  for (Activation activation :
       {Activation::None, Activation::GeluTanh, Activation::GeluErf, Activation::Relu, Activation::Silu}) {
    p.activation = activation;
    check(p);
  }
  for (PreActivation use : {PreActivation::Kept, PreActivation::Given}) {
    p.preActivation = use;
    check(p);
  }
}

TEST(SharedProduct, BatchesAndSums) {
  Product p = product(100, 300, 300, false, false);
  p.batch = {{3, 100 * 300, 300 * 300, 100 * 300}};
  check(p);
  p.summed = {{2, 3 * 100 * 300, 3 * 300 * 300, 0}};
  check(p);
}

TEST(SharedProduct, LeavesSmallOnesAndStridedResultsAlone) {
  int64_t bytes = 0;
  EXPECT_FALSE(prepareSharedProduct(product(64, 64, 64, false, false), 1, bytes));
  EXPECT_FALSE(prepareSharedProduct(product(16, 5000, 5000, false, false), 1, bytes));
  Product p = product(300, 300, 300, false, false);
  p.c = {600, 2};
  EXPECT_FALSE(prepareSharedProduct(p, 1, bytes));
  p.c = {300, 1};
  p.type = p.resultType = Element::BF16;
  EXPECT_FALSE(prepareSharedProduct(p, 1, bytes));
}
