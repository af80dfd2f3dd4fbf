// Memory that files in shared memory have, in huge pages where the system can.
#include "runtime/core/huge_pages.h"

#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <optional>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace tessera::rt {
namespace {

TEST(HugePages, WhatIsWrittenStays) {
  constexpr size_t bytes = (size_t(5) << 20) + 100;
  const int fd = memfd_create("huge pages", 0);
  ASSERT_EQ(ftruncate(fd, bytes), 0);
  void *mapped = mapAligned(fd, bytes, PROT_READ | PROT_WRITE);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(mapped) % (size_t(2) << 20), 0U);
  auto *memory = static_cast<unsigned char *>(mapped);
  for (size_t i = 0; i < bytes; ++i)
    memory[i] = static_cast<unsigned char>(i % 251);
  std::optional<HugePages> pages(std::in_place, static_cast<char *>(mapped), bytes);
  constexpr int turns = 20;
  for (int turn = 0; turn < turns; ++turn) // beside the thread that moves them
    for (size_t i = 0; i < bytes; ++i)
      memory[i] = static_cast<unsigned char>((memory[i] + 1) % 251);
  pages.reset();
  for (size_t i = 0; i < bytes; ++i)
    ASSERT_EQ(memory[i], (i + turns) % 251) << i;
  munmap(mapped, bytes);
  close(fd);
}

TEST(HugePages, WhatCannotBeMapped) { EXPECT_EQ(mapAligned(-1, 4096, PROT_READ), MAP_FAILED); }

} // namespace
} // namespace tessera::rt
