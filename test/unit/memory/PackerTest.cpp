// The packer: buffers that live together are apart, and the peak is close to what no packing can be below.
#include "passes/Memory/Packer.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <ctime>
#include <random>

using tessera::pack;
using tessera::PackBuffer;
using tessera::Packing;

namespace {

constexpr int64_t kAlignment = 256;

int64_t aligned(int64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

/// The largest sum of aligned bytes live at one position, by sweeping over the ends of lives.
int64_t largestLiveSum(const std::vector<PackBuffer> &buffers) {
  std::vector<std::pair<int64_t, int64_t>> events;
  for (const PackBuffer &b : buffers)
    if (b.end > b.start) {
      events.push_back({b.start, aligned(b.bytes)});
      events.push_back({b.end, -aligned(b.bytes)});
    }
  std::sort(events.begin(), events.end()); // at one position, ends come first: they are negative
  int64_t live = 0, most = 0;
  for (auto [at, change] : events)
    most = std::max(most, live += change);
  return most;
}

void expectValid(const std::vector<PackBuffer> &buffers, const Packing &packing) {
  ASSERT_EQ(packing.offsets.size(), buffers.size());
  int64_t peak = 0;
  std::vector<size_t> byOffset;
  for (size_t i = 0; i < buffers.size(); ++i) {
    ASSERT_GE(packing.offsets[i], 0);
    ASSERT_EQ(packing.offsets[i] % kAlignment, 0);
    if (buffers[i].bytes == 0 || buffers[i].end <= buffers[i].start)
      continue;
    peak = std::max(peak, packing.offsets[i] + aligned(buffers[i].bytes));
    byOffset.push_back(i);
  }
  EXPECT_EQ(packing.peak, peak);
  std::sort(byOffset.begin(), byOffset.end(),
            [&](size_t a, size_t b) { return packing.offsets[a] < packing.offsets[b]; });
  for (size_t k = 0; k < byOffset.size(); ++k) {
    size_t i = byOffset[k];
    for (size_t l = k + 1; l < byOffset.size(); ++l) {
      size_t j = byOffset[l];
      if (packing.offsets[j] >= packing.offsets[i] + buffers[i].bytes)
        break;
      bool together = buffers[i].start < buffers[j].end && buffers[j].start < buffers[i].end;
      ASSERT_FALSE(together) << "buffers " << i << " and " << j << " overlap";
    }
  }
  EXPECT_EQ(packing.bound, largestLiveSum(buffers));
  EXPECT_GE(packing.peak, packing.bound);
}

/// What a transformer's training step allocates: a block keeps some activations until its backward, in
/// reverse order, has used them; temporaries live for an operator or two; gradients from their making to the
/// end, where the updates are.
std::vector<PackBuffer> transformerStep(int layers, int64_t tokens, int64_t hidden, int64_t vocabulary,
                                        bool overlapped, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<PackBuffer> buffers;
  int64_t activation = tokens * hidden * 4, at = 0;
  int64_t forward = 12, backward = 20, end = layers * (forward + backward) + 16;
  auto add = [&](int64_t start, int64_t stop, int64_t bytes) { buffers.push_back({start, stop, bytes}); };
  auto backwardOf = [&](int layer) { return layers * forward + 8 + (layers - 1 - layer) * backward; };
  for (int layer = 0; layer < layers; ++layer, at += forward) {
    int64_t back = backwardOf(layer);
    add(at, back + 19, activation);     // the residual, read by the norm's gradient
    add(at + 1, back + 18, activation); // normalised
    add(at + 1, back + 19, tokens * 4); // mean and rstd
    add(at + 1, back + 19, tokens * 4);
    add(at + 2, back + 15, 3 * activation);                 // qkv
    add(at + 3, back + 14, activation);                     // attention
    add(at + 3, back + 15, tokens * 4 * 16);                // logarithms of sums
    add(at + 3, at + 4, int64_t(random() % 64 + 1) * 4096); // workspace
    add(at + 4, at + 5 + overlapped, activation);
    add(at + 5, back + 12, activation);    // the residual
    add(at + 6, back + 10, activation);    // normalised
    add(at + 7, back + 7, 4 * activation); // before the activation
    add(at + 8, back + 6, 4 * activation); // after it
    add(at + 9, at + 10 + overlapped, activation);
    add(back, back + 6, activation); // cotangents
    add(back + 5, back + 8, 4 * activation);
    add(back + 7, back + 10, 4 * activation);
    add(back + 10, back + 13 + overlapped, activation);
    add(back + 13, back + 15, activation);
    add(back + 14, back + 17, 3 * activation);
    add(back + 17, back + 20, activation);
    add(back + 6, end, 4 * hidden * hidden * 4); // gradients
    add(back + 9, end, 4 * hidden * hidden * 4);
    add(back + 14, end, hidden * hidden * 4);
    add(back + 17, end, 3 * hidden * hidden * 4);
    for (int i = 0; i < 8; ++i)
      add(back + 10 + i, end, hidden * 4);
  }
  add(at, at + 6, tokens * vocabulary * 4); // logits and their gradient
  add(at + 4, at + 7, tokens * vocabulary * 4);
  add(at + 6, end, vocabulary * hidden * 4);
  return buffers;
}

TEST(Packer, NothingTakesNothing) {
  Packing packing = pack({});
  EXPECT_EQ(packing.peak, 0);
  EXPECT_TRUE(packing.offsets.empty());
}

TEST(Packer, EmptyBuffersAndEmptyLivesAreAllowed) {
  std::vector<PackBuffer> buffers = {{0, 4, 0}, {2, 2, 512}, {0, 4, 100}, {1, 3, 300}};
  Packing packing = pack(buffers);
  EXPECT_EQ(packing.bound, 256 + 512);
  expectValid(buffers, packing);
}

TEST(Packer, BuffersOneAfterAnotherShareTheirBytes) {
  std::vector<PackBuffer> buffers = {{0, 1, 1024}, {1, 2, 1024}, {2, 3, 1024}};
  EXPECT_EQ(pack(buffers).peak, 1024);
}

TEST(Packer, SizesAreAligned) {
  std::vector<PackBuffer> buffers = {{0, 2, 1}, {0, 2, 257}};
  EXPECT_EQ(pack(buffers).peak, 256 + 512);
}

struct Step {
  int layers;
  int64_t tokens, hidden, vocabulary;
};

class TransformerSteps : public testing::TestWithParam<Step> {};

TEST_P(TransformerSteps, PeakIsWithinTwoPercentOfTheBound) {
  Step step = GetParam();
  for (bool overlapped : {false, true}) {
    auto buffers = transformerStep(step.layers, step.tokens, step.hidden, step.vocabulary, overlapped, 1);
    Packing packing = pack(buffers);
    expectValid(buffers, packing);
    EXPECT_LE(double(packing.peak), 1.02 * double(packing.bound))
        << step.layers << " layers, overlapped " << overlapped;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, TransformerSteps,
                         testing::Values(Step{1, 128, 64, 160}, Step{2, 128, 64, 160},
                                         Step{4, 1024, 128, 256}, Step{6, 512, 384, 65},
                                         Step{12, 1024, 768, 50257}, Step{24, 2048, 1024, 32000},
                                         Step{48, 1024, 1600, 50257}));

TEST(Packer, RandomLivesStayApart) {
  std::minstd_rand random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<PackBuffer> buffers(random() % 60 + 1);
    for (PackBuffer &b : buffers) {
      b.start = random() % 40;
      b.end = b.start + random() % 12;
      b.bytes = random() % 5000;
    }
    expectValid(buffers, pack(buffers));
  }
}

TEST(Packer, SameInputSamePacking) {
  auto buffers = transformerStep(4, 1024, 128, 256, true, 3);
  EXPECT_EQ(pack(buffers).offsets, pack(buffers).offsets);
}

TEST(Packer, TenThousandBuffersInASecond) {
  auto buffers = transformerStep(320, 256, 256, 1000, true, 5);
  ASSERT_GE(buffers.size(), 10000u);
  std::clock_t cpu = std::clock();
  Packing packing = pack(buffers);
  double seconds = double(std::clock() - cpu) / CLOCKS_PER_SEC; // of this process, not of a busy machine
#if __has_feature(address_sanitizer)
  seconds /= 20; // every access is checked
#endif
  EXPECT_LT(seconds, 1.0);
  expectValid(buffers, packing);
  EXPECT_LE(double(packing.peak), 1.02 * double(packing.bound));
}

} // namespace
