// The file below the host's memory: what goes there comes back, however it lies, and nothing is left.
#include "runtime/core/error.h"
#include "runtime/core/tier.h"
#include "runtime/device/cpu/host_device.h"
#include "runtime/device/nvme_file.h"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <numeric>

using namespace tessera::rt;

namespace {

class Nvme : public testing::Test {
protected:
  Nvme() { EXPECT_NE(::mkdtemp(folder.data()), nullptr); }
  ~Nvme() override { std::filesystem::remove_all(folder); }
  std::string folder = "/tmp/tessera-nvme-XXXXXX";
};

TEST_F(Nvme, BeginsAsZerosAndHasNoName) {
  NvmeFile file(folder, 5000);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::vector<char> bytes(5000, 'x');
  file.copy(bytes.data(), file.address(), 5000);
  EXPECT_EQ(bytes, std::vector<char>(5000));
}

/// Whole blocks go past the cache, what is left over through it; both see what the other wrote.
TEST_F(Nvme, KeepsWhatIsWritten) {
  constexpr int64_t size = 5 * nvmeBlock;
  NvmeFile file(folder, size);
  std::unique_ptr<char, decltype(&std::free)> aligned(
      static_cast<char *>(std::aligned_alloc(nvmeBlock, size_t(size))), std::free);
  std::vector<char> model(size, 0);
  unsigned random = 1;
  for (int turn = 0; turn < 200; ++turn) {
    auto next = [&](int64_t below) {
      random = random * 1664525u + 1013904223u;
      return int64_t(random >> 8) % below;
    };
    int64_t at = turn % 2 ? next(size) : next(5) * nvmeBlock, bytes = 1 + next(size - at);
    for (int64_t i = 0; i < bytes; ++i)
      model[size_t(at + i)] = aligned.get()[i] = char(next(256));
    file.copy(file.address() + at, aligned.get(), bytes);
    std::vector<char> all(size);
    file.copy(all.data(), file.address(), size);
    ASSERT_EQ(all, model) << turn;
    file.copy(aligned.get(), file.address(), size);
    ASSERT_TRUE(std::equal(model.begin(), model.end(), aligned.get())) << turn;
  }
}

TEST_F(Nvme, TooLittleRoomIsSaidAtOnce) {
  try {
    NvmeFile file(folder, int64_t(1) << 60);
    FAIL() << "there is no such disk";
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("1152921504606846976 bytes on NVMe, in '" + folder),
              std::string::npos)
        << error.what();
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_THROW(NvmeFile(folder + "/missing", 1), Error);
}

TEST_F(Nvme, CopiesOfADeviceAreCountedByDirection) {
  HostDevice device(1, [](std::string_view) { return nullptr; });
  char *below = device.allocateNvme(3 * nvmeBlock, folder);
  HostMemory host = device.allocateHost(2 * nvmeBlock);
  std::iota(host.get(), host.get() + 2 * nvmeBlock, char(0));
  std::unique_ptr<SideWork> down =
      device.prepareCopy(below + nvmeBlock, host.get(), nvmeBlock + 7, Direction::NvmeWrite);
  std::unique_ptr<SideWork> up =
      device.prepareCopy(host.get() + nvmeBlock, below + nvmeBlock, 7, Direction::NvmeRead);
  down->start();
  down->wait();
  up->start();
  up->wait();
  EXPECT_TRUE(std::equal(host.get(), host.get() + 7, host.get() + nvmeBlock));
  EXPECT_EQ(device.moved().nvmeWrite, nvmeBlock + 7);
  EXPECT_EQ(device.moved().nvmeRead, 7);
  EXPECT_EQ(device.moved().hostToDevice, 0);
}

} // namespace
