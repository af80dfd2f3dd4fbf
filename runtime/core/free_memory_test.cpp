// Free memory by files of /proc and /sys written for the test.
#include "runtime/core/free_memory.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace tessera::rt;

namespace {

class FreeMemoryTest : public testing::Test {
protected:
  FreeMemoryTest() {
    std::string name = (std::filesystem::temp_directory_path() / "tessera-free-XXXXXX").string();
    root = mkdtemp(name.data());
    write("/proc/meminfo", "MemTotal:       2000 kB\nMemFree:         100 kB\nMemAvailable:   1000 kB\n");
  }
  ~FreeMemoryTest() override { std::filesystem::remove_all(root); }

  void write(const std::string &path, const std::string &text) const {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  }
  void expect(int64_t bytes, const std::string &where) const {
    std::optional<FreeMemory> free = freeMemory(root);
    ASSERT_TRUE(free);
    EXPECT_EQ(free->bytes, bytes);
    EXPECT_EQ(free->where, where);
  }

  std::string root;
};

TEST_F(FreeMemoryTest, WithoutGroupsIsTheMachines) { expect(1024000, "the machine"); }

TEST_F(FreeMemoryTest, OfTheSecondVersionIsWhatTheTightestGroupLeaves) {
  write("/proc/self/cgroup", "0::/jobs/7\n");
  write("/sys/fs/cgroup/jobs/7/memory.max", "max\n");
  write("/sys/fs/cgroup/jobs/7/memory.current", "300000\n");
  expect(1024000, "the machine");
  write("/sys/fs/cgroup/jobs/memory.max", "500000\n");
  write("/sys/fs/cgroup/jobs/memory.current", "450000\n");
  expect(50000, "the control group '/jobs'");
  write("/sys/fs/cgroup/jobs/memory.stat", "anon 9\nfile 7777\ninactive_file 1000\nactive_file 200\n");
  expect(51200, "the control group '/jobs'");
  write("/sys/fs/cgroup/jobs/7/memory.max", "310000\n");
  expect(10000, "the control group '/jobs/7'");
  write("/sys/fs/cgroup/jobs/7/memory.max", "200000\n");
  expect(0, "the control group '/jobs/7'");
}

TEST_F(FreeMemoryTest, OfAContainerIsItsRoots) {
  write("/proc/self/cgroup", "0::/outside/of/it\n");
  write("/sys/fs/cgroup/memory.max", "2000\n");
  write("/sys/fs/cgroup/memory.current", "500\n");
  expect(1500, "the control group '/'");
}

TEST_F(FreeMemoryTest, OfTheFirstVersionIsTheMemoryControllers) {
  write("/proc/self/cgroup", "7:cpuset:/other\n4:cpu,memory:/job\n0::/\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "5000000\n");
  write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4000\n");
  write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "3000\n");
  write("/sys/fs/cgroup/memory/job/memory.stat",
        "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 11\n");
  write("/sys/fs/cgroup/memory/other/memory.limit_in_bytes", "1\n");
  write("/sys/fs/cgroup/memory/other/memory.usage_in_bytes", "1\n");
  expect(1111, "the control group '/job'");
}

TEST_F(FreeMemoryTest, IsNotKnownWhereTheSystemDoesNotSay) { EXPECT_FALSE(freeMemory(root + "/nowhere")); }

TEST(FreeMemory, OfThisMachineIsMoreThanAPage) {
  std::optional<FreeMemory> free = freeMemory();
  ASSERT_TRUE(free);
  EXPECT_GT(free->bytes, 4096);
}

} // namespace
