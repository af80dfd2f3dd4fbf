// Runs one library call in a test, on pools of one and two threads whose results must be equal to the bit.
#pragma once

#include "runtime/core/error.h"
#include "runtime/device/cpu/library.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>

namespace tessera::rt::cpu {

constexpr float notANumber = std::numeric_limits<float>::quiet_NaN();

/// `count` numbers in [-1, 1).
inline std::vector<float> randomFloats(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(-1, 1);
  std::vector<float> values(count);
  for (float &value : values)
    value = distribution(generator);
  return values;
}

/// A buffer argument: the bytes of a vector, copied in before and out after the last run.
struct Argument {
  void *data;
  int64_t bytes;
  template <typename T>
  Argument(std::vector<T> &values) : data(values.data()), bytes(values.size() * sizeof(T)) {}
};

/// Prepares and runs `function` with 1 and 2 threads, each time on fresh copies of the arguments followed by
/// `scratch` bytes of workspace per thread, filled with NaN; the results are written back.
inline void callLibrary(const char *function, nlohmann::json attrs, std::vector<Argument> arguments,
                        std::vector<int64_t> scalars = {}, int64_t scratch = 0) {
  std::vector<std::vector<char>> first;
  for (int threads : {1, 2}) {
    Pool pool(threads);
    std::vector<std::vector<char>> copies;
    std::vector<int64_t> bytes;
    std::vector<void *> pointers;
    for (const Argument &argument : arguments) {
      const char *data = static_cast<const char *>(argument.data);
      copies.emplace_back(data, data + argument.bytes);
      bytes.push_back(argument.bytes);
    }
    for (auto &copy : copies)
      pointers.push_back(copy.data());
    std::unique_ptr<void, decltype(&std::free)> workspace(nullptr, &std::free);
    if (scratch > 0) {
      attrs["workspace"] = scratch * threads;
      workspace.reset(std::aligned_alloc(256, scratch * threads));
      std::fill_n(static_cast<float *>(workspace.get()), scratch * threads / 4, notANumber);
      bytes.push_back(scratch * threads);
      pointers.push_back(workspace.get());
    }
    const LibraryCall call = prepareCall(function, {attrs, bytes, int64_t(scalars.size()), threads});
    call({pointers.data(), scalars.data(), pool});
    if (threads == 1)
      first = copies;
    else
      for (size_t i = 0; i < copies.size(); ++i)
        EXPECT_EQ(std::memcmp(first[i].data(), copies[i].data(), copies[i].size()), 0)
            << function << ": argument " << i << " differs between 1 and 2 threads";
  }
  for (size_t i = 0; i < arguments.size(); ++i)
    std::memcpy(arguments[i].data, first[i].data(), first[i].size());
}

/// Every element within `tolerance` of the expected one, relative to the largest expected magnitude; -inf
/// must match.
template <typename Expected>
void expectClose(const std::vector<float> &actual, const std::vector<Expected> &expected,
                 double tolerance = 1e-5) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 1e-30;
  for (Expected value : expected)
    if (std::isfinite(value))
      largest = std::max(largest, std::abs(double(value)));
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i])
      continue;
    // Negated, so that NaN fails.
    ASSERT_FALSE(!(std::abs(actual[i] - double(expected[i])) <= tolerance * largest))
        << "element " << i << " is " << actual[i] << ", expected " << expected[i];
  }
}

} // namespace tessera::rt::cpu
