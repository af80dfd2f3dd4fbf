// Buffers that lie beside each other, and what counts as time. See meter.h.
#include "runtime/app/meter.h"

#include "runtime/comm/threads/threads.h"
#include "runtime/device/cpu/host_device.h"

#include <chrono>
#include <gtest/gtest.h>
#include <thread>

using namespace tessera::rt;

namespace {

HostDevice makeDevice() {
  return HostDevice(1, [](std::string_view) { return nullptr; });
}

TEST(Buffers, LieBesideEachOtherInABlock) {
  HostDevice device = makeDevice();
  Buffers buffers(device, 1 << 20);
  char *first = static_cast<char *>(buffers.add(100)), *second = static_cast<char *>(buffers.add(0)),
       *third = static_cast<char *>(buffers.add(64));
  EXPECT_EQ(second, first + 128); // each at an address that libraries like
  EXPECT_EQ(third, second + 64);
}

TEST(Buffers, ThatDoNotFitHaveABlockOfTheirOwn) {
  HostDevice device = makeDevice();
  Buffers buffers(device, 4096);
  char *small = static_cast<char *>(buffers.add(4000)), *large = static_cast<char *>(buffers.add(100000)),
       *other = static_cast<char *>(buffers.add(200));
  small[3999] = large[99999] = other[199] = 1; // all of it is there
  EXPECT_TRUE(large >= small + 4096 || large + 100000 <= small);
  EXPECT_TRUE(other >= large + 100000 || other + 200 <= large);
  EXPECT_TRUE(other >= small + 4096 || other + 200 <= small);
}

TEST(Buffers, AreWhereThoseBeforeWere) {
  HostDevice device = makeDevice();
  Buffers buffers(device, 4096);
  void *first = buffers.add(3000);
  buffers.add(3000);
  buffers.clear();
  EXPECT_EQ(buffers.add(2000), first);
  buffers.clear();
  EXPECT_EQ(buffers.add(4096), first);
}

// Half of a turn another has the processor.
TEST(Meter, CountsWhatTheThreadHasOfSharedProcessors) {
  runThreads(1, [](Transport &transport) {
    HostDevice device = makeDevice();
    Engine engine(transport);
    Meter meter(device, engine);
    auto turn = [] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      for (double until = processorSeconds() + 5e-3; processorSeconds() < until;) {
      }
    };
    EXPECT_GE(meter.measureTurns(turn, 5).seconds, 24e-3);
    meter.sharesProcessors = true;
    EXPECT_LT(meter.measureTurns(turn, 5).seconds, 10e-3);
  });
}

} // namespace
