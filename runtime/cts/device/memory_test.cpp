// Memory of a GPU: mapped where the driver has that, allocated where it has not.
#include "runtime/cts/device/cases.h"

using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

size_t freeBytes(const cuda::CudaDevice &device) {
  size_t free = 0, total = 0;
  device.api().memoryInfo(&free, &total);
  return free;
}

/// What `device` takes for 1000 bytes, which hold what is put there and are given back.
size_t takenFor1000(cuda::CudaDevice &device) {
  size_t before = freeBytes(device);
  void *memory = device.allocate(1000);
  size_t taken = before - freeBytes(device);
  std::string there(1000, 'x'), back(1000, 0);
  device.download(back.data(), memory, 1000);
  EXPECT_EQ(back, std::string(1000, 0)) << "it is zeroed";
  device.upload(memory, there.data(), 1000);
  device.download(back.data(), memory, 1000);
  EXPECT_EQ(back, there);
  device.release(memory, 1000);
  EXPECT_EQ(freeBytes(device), before);
  EXPECT_THROW(device.download(back.data(), memory, 1000), Error);
  return taken;
}

TEST(DeviceMemory, IsMappedInPiecesOfTheDriversSize) {
  if (auto driver = gpu(); !isChecking())
    GTEST_SKIP() << "only with the checking driver";
  Setting pieces("TESSERA_CHECK_GRANULARITY", "8192");
  EXPECT_EQ(takenFor1000(*gpu()), 8192u);
}

TEST(DeviceMemory, IsAllocatedWhereTheDriverMapsNone) {
  if (auto driver = gpu(); !isChecking())
    GTEST_SKIP() << "only with the checking driver";
  Setting none("TESSERA_CHECK_MAPPING", "0");
  EXPECT_EQ(takenFor1000(*gpu()), 1000u);
}

TEST(DeviceMemory, ThatIsNotThereIsSaidWithBothNumbers) {
  if (auto driver = gpu(); !isChecking())
    GTEST_SKIP() << "only with the checking driver";
  Setting little("TESSERA_CHECK_MEMORY", "10000"), pieces("TESSERA_CHECK_GRANULARITY", "8192");
  auto device = gpu();
  EXPECT_NE(messageOf([&] {
              device->allocate(10001);
            }).find("needs 10001 bytes of device memory a rank, GPU 0 has 10000 of its 10000 free"),
            std::string::npos);
  // Enough, but not in pieces of that size.
  void *memory = device->allocate(9000);
  EXPECT_EQ(freeBytes(*device), 1000u);
  device->release(memory, 9000);
  EXPECT_EQ(freeBytes(*device), 10000u);
}

TEST(DeviceMemory, OfTheHostThatCannotBePinnedIsSaidWithBothNumbers) {
  if (auto driver = gpu(); !isChecking())
    GTEST_SKIP() << "only with the checking driver";
  Setting little("TESSERA_CHECK_PINNED", "10000");
  auto device = gpu();
  HostMemory some = device->allocateHost(9000);
  std::string error = messageOf([&] { device->allocateHost(2000); });
  EXPECT_NE(error.find("cannot pin 2000 bytes of this host's memory for GPU 0; "), std::string::npos)
      << error;
  EXPECT_NE(error.find(" are free in the "), std::string::npos) << error;
  some.reset();
  EXPECT_NE(device->allocateHost(10000), nullptr);
}

} // namespace
