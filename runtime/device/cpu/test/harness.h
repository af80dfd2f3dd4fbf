// Runs one library call in a test, on pools of one and two threads whose results must be equal to the bit.
#pragma once

#include "runtime/core/error.h"
#include "runtime/device/cpu/library.h"
#include "runtime/device/half.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <sys/mman.h>

namespace tessera::rt::cpu {

constexpr float notANumber = std::numeric_limits<float>::quiet_NaN();

/// Memory that ends at a page which may not be touched: reading or writing past the end ends the test.
class GuardedBytes {
public:
  explicit GuardedBytes(int64_t bytes) : mapped((bytes + 4095) / 4096 * 4096 + 4096), size(bytes) {
    void *memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      throw Error("no memory for a test");
    base = static_cast<char *>(memory);
    mprotect(base + mapped - 4096, 4096, PROT_NONE);
  }
  GuardedBytes(GuardedBytes &&other) noexcept : base(other.base), mapped(other.mapped), size(other.size) {
    other.base = nullptr;
  }
  ~GuardedBytes() {
    if (base)
      munmap(base, mapped);
  }
  char *data() const { return base + mapped - 4096 - size; }

private:
  char *base;
  int64_t mapped, size;
};

/// `count` numbers in [-1, 1).
inline std::vector<float> randomFloats(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(-1, 1);
  std::vector<float> values(count);
  for (float &value : values)
    value = distribution(generator);
  return values;
}

/// Values as elements of `type`, and what these are.
inline std::vector<char> elementsOf(Element type, const std::vector<float> &values) {
  std::vector<char> elements(values.size() * bytesOf(type));
  for (size_t i = 0; i < values.size(); ++i)
    writeElement(type, elements.data(), i, values[i]);
  return elements;
}
inline std::vector<float> valuesOf(Element type, const std::vector<char> &elements) {
  std::vector<float> values(elements.size() / bytesOf(type));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = readElement(type, elements.data(), i);
  return values;
}
constexpr const char *elementNames[] = {"f32", "bf16", "f16"};
/// The most that rounding to `type` adds, relative to the value.
constexpr double roundingOf(Element type) {
  return type == Element::F32 ? 0 : type == Element::BF16 ? 0x1p-8 : 0x1p-11;
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
    std::vector<GuardedBytes> copies;
    std::vector<int64_t> bytes;
    std::vector<void *> pointers;
    for (const Argument &argument : arguments) {
      copies.emplace_back(argument.bytes);
      std::copy_n(static_cast<const char *>(argument.data), argument.bytes, copies.back().data());
      bytes.push_back(argument.bytes);
    }
    for (auto &copy : copies)
      pointers.push_back(copy.data());
    const GuardedBytes workspace(scratch * threads);
    if (scratch > 0) {
      attrs["workspace"] = scratch * threads;
      std::fill_n(reinterpret_cast<float *>(workspace.data()), scratch * threads / 4, notANumber);
      bytes.push_back(scratch * threads);
      pointers.push_back(workspace.data());
    }
    const LibraryCall call = prepareCall(function, {attrs, bytes, int64_t(scalars.size()), threads});
    call({pointers.data(), scalars.data(), pool});
    for (size_t i = 0; i < copies.size(); ++i)
      if (threads == 1)
        first.emplace_back(copies[i].data(), copies[i].data() + bytes[i]);
      else
        EXPECT_TRUE(std::equal(first[i].begin(), first[i].end(), copies[i].data()))
            << function << ": argument " << i << " differs between 1 and 2 threads";
  }
  for (size_t i = 0; i < arguments.size(); ++i)
    std::copy(first[i].begin(), first[i].end(), static_cast<char *>(arguments[i].data));
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
