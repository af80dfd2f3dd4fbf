// An element's update has the same bits wherever it lies, at any number of threads and on every CPU level:
// those of a reference that rounds every operation of the formula once.
#include "runtime/device/cpu/cpu.h"
#include "runtime/device/cpu/library.h"
#include "runtime/device/cpu/pool.h"
#include "runtime/device/cpu/test/update_reference.h"

#include <gtest/gtest.h>

using namespace tessera::rt;
using namespace tessera::rt::cpu;
using namespace tessera::rt::test;

namespace {

std::vector<Level> levels() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4"))
    return {Level::V3, Level::V4};
  return {Level::V3};
}

/// Runs the kernel of a level on the elements [begin, begin + n) of `from`, and leaves them in `to`.
void runKernel(Level level, const std::string &name, const UpdateNumbers &numbers, UpdateArrays &from,
               UpdateArrays &to, size_t begin, int64_t n) {
  const Kernels &k = kernels(level);
  const UpdateStep step =
      updateStep(numbers.scalars.data(), numbers.decay, numbers.isClipped() ? &numbers.norm : nullptr,
                 numbers.lossScale > 0 ? &numbers.lossScale : nullptr);
  const auto at = [&](UpdateArrays &arrays) {
    return UpdateState{&arrays.p[begin], &arrays.m[begin], &arrays.v[begin]};
  };
  const auto kernel = name == "sgd"            ? k.sgd
                      : name == "sgd_momentum" ? k.sgdMomentum
                      : name == "adam"         ? k.adam
                                               : k.adamw;
  kernel(step, at(from), &from.g[begin], at(to), n);
}

/// The same in place.
void runKernel(Level level, const std::string &name, const UpdateNumbers &numbers, UpdateArrays &arrays,
               size_t begin, int64_t n) {
  runKernel(level, name, numbers, arrays, arrays, begin, n);
}

void callWithThreads(const Optimizer &optimizer, const UpdateNumbers &numbers, UpdateArrays &arrays,
                     int threads) {
  const UpdateCall call(optimizer, numbers, arrays);
  std::vector<int64_t> bytes;
  std::vector<void *> pointers;
  for (std::vector<float> *buffer : call.buffers) {
    bytes.push_back(int64_t(buffer->size() * sizeof(float)));
    pointers.push_back(buffer->data());
  }
  Pool pool(threads);
  prepareCall(optimizer.name, {call.attrs, bytes, 0, threads})({pointers.data(), nullptr, pool});
}

} // namespace

TEST(UpdateBits, EveryPlaceAndLengthAndLevel) {
  const UpdateArrays given = anyArrays(160, 1);
  for (const Optimizer &optimizer : optimizers) {
    UpdateArrays expected = given;
    UpdateNumbers numbers;
    for (size_t i = 0; i < given.p.size(); ++i)
      updateExactly(optimizer.name, numbers, expected, i);
    for (Level level : levels())
      for (size_t offset = 0; offset <= 33; ++offset)
        for (size_t n = 1; n <= 100; ++n) {
          // What surrounds a piece stays what it was.
          UpdateArrays arrays = given, wanted = given;
          for (auto array : {&UpdateArrays::p, &UpdateArrays::m, &UpdateArrays::v})
            std::copy_n((expected.*array).begin() + offset, n, (wanted.*array).begin() + offset);
          runKernel(level, optimizer.name, numbers, arrays, offset, n);
          UpdateArrays from = given, there = given;
          runKernel(level, optimizer.name, numbers, from, there, offset, n);
          using Pair = std::pair<const UpdateArrays *, const UpdateArrays *>;
          for (auto [result, is] : {Pair(&arrays, &wanted), Pair(&there, &wanted), Pair(&from, &given)})
            ASSERT_EQ(firstDifference(*result, *is), -1)
                << optimizer.name << " on level " << kernels(level).level << ", " << n << " from " << offset;
        }
  }
}

TEST(UpdateBits, EveryNumberOfACall) {
  const UpdateArrays given = anyArrays(30011, 11);
  for (const Optimizer &optimizer : optimizers)
    for (const UpdateNumbers &numbers : someNumbers()) {
      UpdateArrays expected = given;
      for (size_t i = 0; i < given.p.size(); ++i)
        updateExactly(optimizer.name, numbers, expected, i);
      for (Level level : levels()) {
        UpdateArrays arrays = given;
        runKernel(level, optimizer.name, numbers, arrays, 0, int64_t(given.p.size()));
        int64_t i = firstDifference(arrays, expected);
        ASSERT_EQ(i, -1) << optimizer.name << " on level " << kernels(level).level << ", norm "
                         << numbers.norm << ", loss scale " << numbers.lossScale << ": p " << given.p[i]
                         << " g " << given.g[i] << " m " << given.m[i] << " v " << given.v[i] << " give "
                         << arrays.p[i] << ", not " << expected.p[i];
      }
    }
}

TEST(UpdateBits, EveryNumberOfThreads) {
  const UpdateArrays given = anyArrays(5 * 65536 + 1234, 21);
  for (const Optimizer &optimizer : optimizers)
    for (const UpdateNumbers &numbers : {someNumbers()[2], someScaledNumbers()[1], someScaledNumbers()[2]}) {
      UpdateArrays expected = given;
      for (size_t i = 0; i < given.p.size(); ++i)
        updateExactly(optimizer.name, numbers, expected, i);
      for (int threads : {1, 2, 5}) {
        UpdateArrays arrays = given;
        callWithThreads(optimizer, numbers, arrays, threads);
        ASSERT_EQ(firstDifference(arrays, expected), -1) << optimizer.name << ", " << threads << " threads";
      }
    }
}
