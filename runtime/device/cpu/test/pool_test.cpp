// The thread pool: coverage of ranges, nesting, exceptions, reuse.
#include "runtime/core/error.h"
#include "runtime/device/cpu/pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

using namespace tessera::rt;

TEST(Pool, CoversEveryIndexOnceAtMultiplesOfTheGrain) {
  for (int threads : {1, 2, 5}) {
    Pool pool(threads);
    for (int64_t n : {0, 1, 7, 1000, 4097})
      for (int64_t grain : {1, 3, 64, 10000}) {
        std::vector<std::atomic<int>> seen(n);
        pool.parallelFor(n, grain, [&](int64_t begin, int64_t end, int worker) {
          EXPECT_EQ(begin % grain, 0);
          EXPECT_LT(worker, threads);
          for (int64_t i = begin; i < end; ++i)
            ++seen[i];
        });
        for (const auto &count : seen)
          ASSERT_EQ(count, 1) << n << " by " << grain << " on " << threads;
      }
  }
}

TEST(Pool, RunsNestedLoopsInlineUnderTheSameWorker) {
  Pool pool(3);
  std::atomic<int> total = 0;
  pool.parallelFor(8, 1, [&](int64_t begin, int64_t end, int outer) {
    for (int64_t i = begin; i < end; ++i)
      pool.parallelFor(10, 1, [&](int64_t b, int64_t e, int inner) {
        EXPECT_EQ(inner, outer);
        total += int(e - b);
      });
  });
  EXPECT_EQ(total, 80);
}

TEST(Pool, RethrowsAndStaysUsable) {
  Pool pool(2);
  const auto fail = [&] {
    pool.parallelFor(100, 1, [](int64_t begin, int64_t, int) {
      if (begin >= 40)
        throw std::runtime_error("broken");
    });
  };
  EXPECT_THROW(fail(), std::runtime_error);
  std::atomic<int64_t> sum = 0;
  pool.parallelFor(100, 1, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
  EXPECT_EQ(sum, 100);
}

TEST(Pool, SurvivesManyShortLoops) {
  Pool pool(2);
  std::atomic<int64_t> sum = 0;
  for (int i = 0; i < 2000; ++i)
    pool.parallelFor(4, 1, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
  EXPECT_EQ(sum, 8000);
}

TEST(Pool, CountsWhatItsWorkersAdd) {
  Pool pool(2);
  const auto helpOf = [&](int64_t sleeps) {
    const double before = pool.helpSeconds();
    pool.parallelFor(2, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        if (i < sleeps)
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
    });
    return pool.helpSeconds() - before;
  };
  helpOf(2);
  // Two threads at once add the time of one; of a single piece of work nothing is gained, whoever does it.
  EXPECT_GT(helpOf(2), 0.02);
  EXPECT_LT(helpOf(1), 0.02);
}

TEST(Pool, RefusesNoThreads) {
  try {
    Pool pool(0);
    FAIL();
  } catch (const Error &error) {
    EXPECT_STREQ(error.what(), "a thread pool needs at least 1 thread, got 0");
  }
}
