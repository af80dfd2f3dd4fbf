// Strided copies on a GPU: every layout byte by byte as on the CPU, and the units that they are moved in.
#include "runtime/cts/device/cases.h"
#include "runtime/device/cuda/call.h"
#include "runtime/device/cuda/copy.h"

using namespace tessera::rt;
using namespace tessera::rt::cuda;
using namespace tessera::rt::test;

namespace {

const std::pair<const char *, int64_t> types[] = {{"bool", 1}, {"bf16", 2}, {"f32", 4}, {"i64", 8}};

/// `rows` runs of `run` elements, `stride` apart in the source and `targetStride` in the target.
Case runsOf(const char *type, int64_t size, int64_t run, int64_t stride, int64_t targetStride, int64_t offset,
            std::vector<int64_t> scalars = {}) {
  constexpr int64_t outer = 3, rows = 171; // more units than a block of threads has, and no multiple of it
  json attrs = {{"shape", {outer, rows, 1, run}},
                {"source_strides", {rows * stride, stride, 7, 1}},
                {"target_strides", {rows * targetStride, targetStride, 5, 1}},
                {"source_offset", offset},
                {"target_offset", offset / 2},
                {"dtype", type}};
  int64_t room = 64 + offset;
  return {"copy_box",
          attrs,
          {bytes((outer * rows * stride + room) * size), bytes((outer * rows * targetStride + room) * size)},
          std::move(scalars)};
}

TEST(StridedCopies, OfEveryWidthAgreeWithTheCpu) {
  for (auto [type, size] : types)
    for (int64_t run : {1, 2, 3, 8, 24})
      for (int64_t stride : {run, 2 * run, run + 1, run + 8})
        for (int64_t offset : {0, 1, 2, 8})
          for (bool moved : {false, true}) {
            Case c = runsOf(type, size, run, stride, stride == 2 * run ? run : stride + 8, offset);
            if (moved)
              c.scalars = {3, 4};
            HostDevice cpu = host();
            SCOPED_TRACE(c.attrs.dump());
            expectEqual(c, runOn(*gpu(), c), runOn(cpu, c));
          }
}

TEST(StridedCopies, OfOtherShapesAgreeWithTheCpu) {
  auto expect = [](const Case &c) {
    HostDevice cpu = host();
    SCOPED_TRACE(c.attrs.dump());
    expectEqual(c, runOn(*gpu(), c), runOn(cpu, c));
  };
  for (auto [type, size] : types) {
    auto box = [&](json shape, json from, json to) {
      expect({"copy_box",
              {{"shape", shape}, {"source_strides", from}, {"target_strides", to}, {"dtype", type}},
              {bytes(4000 * size), bytes(4000 * size)}});
    };
    box(json::array(), json::array(), json::array());
    box({0, 8}, {8, 1}, {8, 1});
    box({7, 16}, {0, 1}, {16, 1}); // rows of one
    box({16, 24}, {1, 0}, {24, 1});
    box({5, 6, 7, 8}, {336, 56, 1, 7}, {336, 8, 48, 1});
    box({2, 3, 2, 3, 2, 3, 2, 8}, {1, 2, 6, 12, 36, 72, 216, 432}, {1728, 576, 288, 96, 48, 16, 8, 1});
    for (json perm : {json{0, 2, 1, 3}, json{3, 1, 0, 2}, json{2, 1, 3, 0}})
      expect({"transpose",
              {{"shape", {3, 5, 17, 8}}, {"perm", perm}, {"dtype", type}},
              {bytes(2040 * size), bytes(2040 * size)}});
  }
}

/// The widths of the launches for rows of `run`.
int32_t widthOf(int64_t bytes, int64_t run, int64_t stride, uintptr_t source = 256, uintptr_t target = 256) {
  auto launches =
      copyLaunches(mergeDimensions({{100, stride, run}, {1, 9, 9}, {run, 1, 1}}),
                   reinterpret_cast<const void *>(source), reinterpret_cast<void *>(target), bytes);
  EXPECT_EQ(launches.size(), 1u);
  EXPECT_EQ(int64_t(launches[0].count) * launches[0].width, 100 * run * bytes);
  EXPECT_EQ(launches[0].rank, run == stride || run == 1 ? 1 : 2);
  return launches[0].width;
}

TEST(StridedCopies, AreMadeInTheWidestUnitsThatFit) {
  EXPECT_EQ(widthOf(2, 768, 2304), 16) << "the queries of GPT-2";
  EXPECT_EQ(widthOf(2, 768, 768), 16);
  EXPECT_EQ(widthOf(2, 3, 3), 8) << "of 600 bytes together";
  EXPECT_EQ(widthOf(2, 3, 4), 2);
  EXPECT_EQ(widthOf(2, 2, 4), 4);
  EXPECT_EQ(widthOf(2, 4, 12), 8);
  EXPECT_EQ(widthOf(2, 8, 12), 8) << "the stride";
  EXPECT_EQ(widthOf(2, 8, 16, 258), 2) << "the source";
  EXPECT_EQ(widthOf(2, 8, 16, 256, 260), 4) << "the target";
  EXPECT_EQ(widthOf(1, 16, 48), 16);
  EXPECT_EQ(widthOf(1, 5, 48), 1);
  EXPECT_EQ(widthOf(8, 1, 2), 8);
  EXPECT_EQ(widthOf(8, 2, 4), 16);
  auto across = copyLaunches({{8, 1, 8}, {8, 8, 1}}, nullptr, nullptr, 2);
  EXPECT_EQ(across.at(0).width, 2);
}

TEST(StridedCopies, ThatOneLaunchCannotCountAreCut) {
  // Two numbers a row of three, to rows beside each other, seven at a time.
  int64_t source[41 * 3], target[41 * 2] = {};
  for (int64_t i = 0; i < 41 * 3; ++i)
    source[i] = i + 1;
  auto launches = copyLaunches(mergeDimensions({{41, 3, 2}, {2, 1, 1}}), source, target, 8, 7);
  EXPECT_GE(launches.size(), 12u);
  for (const CopyArguments &a : launches) {
    ASSERT_LE(a.count, 7u);
    ASSERT_EQ(a.width, 8);
    for (uint32_t i = 0; i < a.count; ++i) {
      int64_t from = 0, to = 0, rest = i;
      for (int dim = a.rank; dim-- > 0; rest /= a.sizes[dim].value) {
        from += rest % a.sizes[dim].value * a.sourceStrides[dim];
        to += rest % a.sizes[dim].value * a.targetStrides[dim];
      }
      static_cast<int64_t *>(a.target)[to] = static_cast<const int64_t *>(a.source)[from];
    }
  }
  for (int64_t i = 0; i < 41 * 2; ++i)
    EXPECT_EQ(target[i], source[i / 2 * 3 + i % 2]) << i;
}

TEST(StridedCopies, DivideAsDivisionDoes) {
  for (uint32_t d :
       {1u, 2u, 3u, 7u, 64u, 641u, 768u, 50257u, 65537u, 0x3fffffffu, 0x7ffffffeu, 0x7fffffffu}) {
    Divisor by = divisorOf(d);
    for (uint32_t quotient : {0u, 1u, 2u, 5u, 1000u, 0x7fffffffu / d, 0x7fffffffu / d - (d > 1)})
      for (uint64_t n : {uint64_t(quotient) * d, uint64_t(quotient) * d + d - 1, uint64_t(0x7fffffff)})
        if (n <= 0x7fffffff)
          EXPECT_EQ((uint32_t(n * by.factor >> 32) + uint32_t(n)) >> by.shift, n / d) << n << " / " << d;
  }
}

TEST(StridedCopies, OfRunsAreTheSameInNarrowAndWideNumbers) {
  auto device = gpu();
  constexpr int64_t size = 1 << 16;
  std::vector<char> wanted(size), source = contents(bytes(size), 1), got(size);
  auto *from = static_cast<char *>(device->allocate(size)), *to = static_cast<char *>(device->allocate(size));
  device->upload(from, source.data(), size);
  Handle function = device->libraryFunction("tsr_copy_runs");
  for (int32_t width : {1, 2, 4, 8, 16})
    for (int32_t narrow : {0, 1}) {
      // Runs of 5, 9 apart, to runs of 7, 8 apart, from the third and the eleventh on.
      RunsArguments a{from, to, 1501, 3, 5, 9, 11, 7, 8, width, narrow};
      std::fill(wanted.begin(), wanted.end(), 0);
      for (int64_t i = 0; i < a.count; ++i)
        std::memcpy(&wanted[size_t(((i + 11) / 7 * 8 + (i + 11) % 7) * width)],
                    &source[size_t(((i + 3) / 5 * 9 + (i + 3) % 5) * width)], size_t(width));
      device->clear(to, size);
      void *parameters[] = {&a};
      device->launch("tsr_copy_runs", function, blocksFor(a.count, elementThreads * copyEach), elementThreads,
                     parameters);
      device->download(got.data(), to, size);
      EXPECT_EQ(got, wanted) << width << " bytes, narrow " << narrow;
    }
  device->release(from, size);
  device->release(to, size);
}

} // namespace
