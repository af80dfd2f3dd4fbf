#include "runtime/machine/machine.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

using namespace tessera::rt;

namespace {

Workload product(double m, double n, double k, double count = 1) {
  Workload work;
  work.kind = WorkClass::Product;
  work.shape = {count, m, n, k};
  work.flops = 2 * count * m * n * k;
  work.bytes = 1e6;
  return work;
}

TEST(Surface, HasTheMeasuredRatesAndIsFlatBeyondThem) {
  Surface surface;
  surface.add({1, 16, 1024, 1024}, 1e10);
  EXPECT_DOUBLE_EQ(surface.at({3, 7, 9, 11}), 1e10) << "one point is one figure";
  surface.add({1, 1024, 1024, 1024}, 8e10);
  surface.add({1, 1024, 64, 1024}, 2e10);
  EXPECT_DOUBLE_EQ(surface.at({1, 16, 1024, 1024}), 1e10);
  EXPECT_DOUBLE_EQ(surface.at({1, 1024, 64, 1024}), 2e10);
  EXPECT_DOUBLE_EQ(surface.at({1, 1 << 20, 1024, 1024}), 8e10) << "as the largest m";
  EXPECT_DOUBLE_EQ(surface.at({64, 1, 1024, 1}), 1e10) << "as the smallest m, the only count and k";
  EXPECT_EQ(surface.most(), 8e10);
}

TEST(Surface, MeetsPowersOfSizesAnywhere) {
  Surface surface;
  auto rate = [](double m, double n) { return 1e9 * std::pow(m, 0.75) * std::pow(n, 0.25); };
  for (auto [m, n] : {std::pair{1.0, 64.0}, {32.0, 4096.0}, {1024.0, 100.0}, {700.0, 3000.0}, {5.0, 900.0}})
    surface.add({1, m, n, 512}, rate(m, n));
  for (auto [m, n] : {std::pair{17.0, 333.0}, {300.0, 1000.0}, {900.0, 150.0}})
    EXPECT_NEAR(surface.at({1, m, n, 512}) / rate(m, n), 1, 1e-3) << m << " x " << n;
  // No rate is beyond the measured ones.
  EXPECT_LE(surface.at({1, 1024, 4096, 512}), surface.most());
}

TEST(Surface, BendsAsTheRooflineDoes) {
  constexpr double most = 8e14, bandwidth = 3e12, least = 1e-6;
  auto rate = [](double m, double n, double k) {
    const double flops = 2 * m * n * k;
    return flops / (flops / most + 2 * (m * k + k * n + m * n) / bandwidth + least);
  };
  Surface kernels, products(2, bandwidth);
  for (double m : {16, 256, 4096, 65536})
    for (double n : {64, 1024, 16384})
      for (double k : {64, 1024, 16384})
        for (Surface *surface : {&kernels, &products})
          surface->add({1, m, n, k}, rate(m, n, k));
  double worst = 0;
  for (auto [m, n, k] :
       {std::array{1000.0, 768.0, 3000.0}, {30000.0, 300.0, 300.0}, {60.0, 5000.0, 5000.0}}) {
    EXPECT_NEAR(products.at({1, m, n, k}) / rate(m, n, k), 1, 0.03) << m << " x " << n << " x " << k;
    worst = std::max(worst, std::abs(kernels.at({1, m, n, k}) / rate(m, n, k) - 1));
  }
  EXPECT_GT(worst, 0.1) << "which a plane misses";
  EXPECT_LE(products.at({1, 1 << 20, 1 << 20, 1 << 20}), products.most());
}

// The nearest point within may be a measured one: what counts is its part of the roofline, not its rate, as
// beside it.
TEST(Surface, HasTheRooflineBeyondItsPoints) {
  Surface products(4, 1e10);
  for (double m : {16, 128})
    for (double k : {16, 128})
      products.add({32, m, 128, k}, 1e11 * std::sqrt(m * k) / 128);
  const ProductShape corner = {32, 16, 128, 16}, beyond = {32, 16, 128, 4},
                     beside = {32, 16, 128 * 1.0001, 4};
  EXPECT_LT(products.at(beyond), 0.6 * products.at(corner)) << "it moves as much for a quarter of the work";
  EXPECT_NEAR(products.at(beside) / products.at(beyond), 1, 1e-3);
}

// As many images as have about so many positions together: their number and their size tell the same.
TEST(Surface, IsWithinThePartsOfTheRooflineThatWereMeasured) {
  Surface surface(4, 1e11);
  surface.add({128, 16, 16, 144}, 5e9);
  surface.add({10, 196, 16, 144}, 1.2e10);
  surface.add({2, 1024, 16, 144}, 9e9);
  for (auto [count, m] : {std::pair{128, 1024}, {100, 1000}, {32, 512}, {64, 16}}) {
    EXPECT_GT(surface.at({double(count), double(m), 16, 144}), 2e9) << count << " of " << m;
    EXPECT_LT(surface.at({double(count), double(m), 16, 144}), 1.3e10) << count << " of " << m;
  }
}

TEST(Rates, ArithmeticHasTheRateOfItsShapeElseOneForAll) {
  Rates rates;
  rates.f32 = 1e11;
  rates.bf16 = 2e11;
  rates.bandwidth = 1e10;
  Workload work = product(16, 1000, 1000);
  const double flops = work.flops;
  EXPECT_DOUBLE_EQ(rates.seconds(work, 4), flops / 1e11 + 1e-4);
  rates.setPoints({{WorkClass::Product, DType::F32, {1, 16, 1000, 1000}, 4e10},
                   {WorkClass::Product, DType::F32, {1, 1000, 1000, 1000}, 3e11}});
  EXPECT_DOUBLE_EQ(rates.seconds(work, 4), flops / 4e10) << "which was measured with all that it reads";
  work.type = DType::BF16;
  EXPECT_DOUBLE_EQ(rates.seconds(work, 4), flops / 2e11 + 1e-4) << "of another type";
  work.type = DType::F32;
  work.kind = WorkClass::ConvolutionBackward;
  EXPECT_DOUBLE_EQ(rates.seconds(work, 4), flops / 4e10) << "a convolution is computed as a product";
  work.kind = WorkClass::Attention;
  EXPECT_DOUBLE_EQ(rates.seconds(work, 4), flops / 1e11 + 1e-4);
  rates.perThread = true;
  work.kind = WorkClass::Product;
  EXPECT_DOUBLE_EQ(rates.seconds(work, 4), flops / 4e10 / 4);
  work.shape = {};
  EXPECT_DOUBLE_EQ(rates.seconds(work, 4), (flops / 1e11 + 1e-4) / 4) << "a shape that nobody knows";
  EXPECT_DOUBLE_EQ(rates.leastSeconds(3e11, DType::F32, 2), 0.5) << "by the highest rate of all";
  EXPECT_DOUBLE_EQ(rates.leastSeconds(4e11, DType::BF16, 2), 1);
}

TEST(Rates, KernelsHaveTheBytesAndTheFunctionsOfTheirClass) {
  Rates rates;
  rates.f32 = 1e9;
  rates.bandwidth = 1e9;
  rates.perThread = true;
  Workload work;
  work.bytes = 1e6;
  work.functions = 1e5;
  work.flops = 1e6;
  EXPECT_DOUBLE_EQ(rates.seconds(work, 1), 2e-3);
  rates.functions = 1e8;
  EXPECT_DOUBLE_EQ(rates.seconds(work, 1), 3e-3);
  rates.kernels[size_t(WorkClass::Row)] = 5e8;
  EXPECT_DOUBLE_EQ(rates.seconds(work, 1), 3e-3) << "of another class";
  work.kind = WorkClass::Row;
  EXPECT_DOUBLE_EQ(rates.seconds(work, 1), 3e-3) << "operations are within the rate of the class";
  EXPECT_DOUBLE_EQ(rates.seconds(work, 2), 1.5e-3);
  work.tasks = 1;
  EXPECT_DOUBLE_EQ(rates.seconds(work, 2), 3e-3) << "threads beyond the pieces have nothing to do";
  rates.setPoints({{WorkClass::Row, DType::F32, kernelShape(1e4), 4e9},
                   {WorkClass::Row, DType::F32, kernelShape(1e6), 1e9},
                   {WorkClass::Stream, DType::F32, kernelShape(1e6), 9e9}});
  work.functions = 0;
  EXPECT_DOUBLE_EQ(rates.seconds(work, 1), 1e-3) << "by its size";
  work.bytes = 1e5;
  EXPECT_NEAR(rates.seconds(work, 1), 5e-5, 1e-9);
  work.bytes = 1e6;
  rates.setPoints({});
  work.functions = 1e5;
  rates.launch = 1e-3;
  EXPECT_DOUBLE_EQ(rates.seconds(work, 2), 4e-3);
}

TEST(Rates, RanksOfAHostShareItsMemory) {
  Machine machine;
  machine.rates.f32 = 1e9;
  machine.rates.bandwidth = 1e9;
  machine.rates.perThread = true;
  machine.levels = {{4, 1e-6, 1e9}, {16, 1e-6, 1e9}};
  Workload moves;
  moves.bytes = 1e6;
  auto seconds = [&](int64_t ranks, int64_t threads) {
    return machine.ratesOf(ranks, threads).seconds(moves, threads);
  };
  EXPECT_DOUBLE_EQ(seconds(16, 2), 5e-4) << "nothing is shared unless it is said";
  machine.hostBandwidth = 3e9;
  EXPECT_DOUBLE_EQ(seconds(1, 2), 5e-4);
  EXPECT_DOUBLE_EQ(seconds(1, 4), 1e-3 / 3);
  EXPECT_DOUBLE_EQ(seconds(2, 1), 1e-3);
  EXPECT_DOUBLE_EQ(seconds(16, 1), 4e-3 / 3);
  machine.cores = 3.5;
  EXPECT_DOUBLE_EQ(seconds(16, 1), 3.5e-3 / 3) << "no more move at a time";
  EXPECT_DOUBLE_EQ(seconds(3, 1), 1e-3);
  machine.cores = 0;
  machine.rates.kernels[size_t(WorkClass::Stream)] = 4e9;
  EXPECT_DOUBLE_EQ(seconds(16, 1), 2.5e-4) << "faster than the memory: it is in caches";
  machine.rates.kernels[size_t(WorkClass::Stream)] = 0;
  moves.bytes = 0;
  moves.flops = 1e6;
  EXPECT_DOUBLE_EQ(seconds(4, 2), 5e-4) << "arithmetic does not wait for memory";
}

TEST(Rates, AFigureForAllStandsForFinerOnesThatAreNotBesideIt) {
  MachineFile own;
  own.bandwidth = 1e9;
  own.stream = 2e9;
  own.points = {{WorkClass::Product, DType::F32, {1, 1, 1, 1}, 5e9},
                {WorkClass::Product, DType::BF16, {1, 1, 1, 1}, 6e9},
                {WorkClass::Attention, DType::BF16, {1, 1, 1, 1}, 7e9}};
  MachineFile given;
  given.bandwidth = 3e9;
  given.row = 4e9;
  given.productsF32 = 8e9;
  given.points = {{WorkClass::Product, DType::BF16, {1, 2, 2, 2}, 9e9}};
  Rates rates;
  setRates(own, rates);
  setRates(given, rates);
  EXPECT_EQ(rates.kernels[size_t(WorkClass::Stream)], 0);
  EXPECT_EQ(rates.kernels[size_t(WorkClass::Row)], 4e9);
  ASSERT_EQ(rates.points().size(), 2u);
  EXPECT_EQ(rates.points()[0].kind, WorkClass::Attention);
  EXPECT_EQ(rates.points()[1].rate, 9e9);
}

} // namespace
