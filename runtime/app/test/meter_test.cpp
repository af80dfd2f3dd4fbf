// Buffers that lie beside each other. See meter.h.
#include "runtime/app/meter.h"

#include "runtime/device/cpu/host_device.h"

#include <gtest/gtest.h>

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

} // namespace
