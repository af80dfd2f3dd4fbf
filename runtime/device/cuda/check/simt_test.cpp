// The simulator of a GPU's threads: who sees whose values, and what it refuses.
#include "runtime/core/error.h"
#include "runtime/device/cuda/check/simt.h"

#include <gtest/gtest.h>

using namespace tessera::rt;
using cuda::check::runGrid;

namespace {

std::string messageOf(cuda::check::Program program, uint32_t threads = 64) {
  try {
    runGrid("k", program, nullptr, 1, threads);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

uint32_t swapped[2][64];

TEST(Simulator, ShufflesAndBarriers) {
  // Each warp reverses its lanes' numbers in two steps, with a barrier in between.
  runGrid(
      "k",
      [](void **) {
        uint32_t thread = tsr_simt_thread(), value = tsr_simt_shuffle_xor(~0u, thread, 31, 31);
        tsr_simt_sync_block();
        tsr_simt_sync_warp(~0u);
        swapped[tsr_simt_block()][thread] = tsr_simt_shuffle_xor(~0u, value, 1, 31);
      },
      nullptr, 2, 64);
  for (uint32_t block = 0; block < 2; ++block)
    for (uint32_t i = 0; i < 64; ++i)
      EXPECT_EQ(swapped[block][i], i / 32 * 32 + ((i ^ 1) % 32 ^ 31)) << block << " " << i;
}

TEST(Simulator, ALaneThatIsMissing) {
  std::string message = messageOf([](void **) {
    if (tsr_simt_thread() != 40)
      tsr_simt_shuffle_xor(~0u, 0, 1, 31);
  });
  EXPECT_NE(message.find("a shuffle that thread 40 has ended without"), std::string::npos) << message;
  message = messageOf([](void **) {
    if (tsr_simt_thread() == 3)
      tsr_simt_sync_warp(~0u);
    else
      tsr_simt_shuffle_xor(~0u, 0, 1, 31);
  });
  EXPECT_NE(message.find("thread 3 does not come to: it waits at a synchronisation"), std::string::npos)
      << message;
  message = messageOf([](void **) { tsr_simt_sync_warp(~0u); }, 40);
  EXPECT_NE(message.find("which the block lacks"), std::string::npos) << message;
  message = messageOf([](void **) { tsr_simt_shuffle_xor(~0u, 0, tsr_simt_thread() == 5 ? 2 : 1, 31); });
  EXPECT_NE(message.find("another distance"), std::string::npos) << message;
  message = messageOf([](void **) { tsr_simt_sync_warp(1); });
  EXPECT_NE(message.find("mask"), std::string::npos) << message;
}

TEST(Simulator, AThreadThatMissesABarrier) {
  std::string message = messageOf([](void **) {
    if (tsr_simt_thread() != 7)
      tsr_simt_sync_block();
  });
  EXPECT_NE(message.find("thread 7: has ended while others wait at a barrier"), std::string::npos) << message;
}

} // namespace
