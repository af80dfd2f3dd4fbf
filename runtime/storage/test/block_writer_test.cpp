// Files that are written from start to end past the cache.
#include "runtime/storage/block_writer.h"

#include "runtime/core/error.h"
#include "runtime/storage/file.h"
#include "runtime/storage/file_calls.h"
#include "test_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <string>

namespace tessera::rt {
namespace {

TEST(BlockWriter, FilesOfAnySize) {
  const TestFolder folder;
  // Around a block, and around what is collected.
  for (size_t bytes : {0, 1, 4095, 4096, 4097, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, (3 << 20) + 5000}) {
    std::string text(bytes, 0);
    for (size_t i = 0; i < bytes; ++i)
      text[i] = char(i * 7 + i / 4096);
    const std::string path = folder.file("file");
    {
      BlockWriter writer(path);
      for (size_t begin = 0, count = 1; begin < bytes; begin += count, count = count * 3 + 1)
        writer.add(text.data() + begin, std::min(count, bytes - begin));
      writer.finish();
    }
    EXPECT_EQ(readAll(path), text) << bytes;
  }
}

TEST(BlockWriter, FileSystemsThatHaveNothingBesideTheCache) {
  struct Refusing : FileCalls {
    int open(const char *path, int flags, unsigned mode) override {
      errno = EINVAL;
      return flags & O_DIRECT ? -1 : FileCalls::open(path, flags, mode);
    }
  } refusing;
  const TestFolder folder;
  FileCalls *before = replaceFileCalls(&refusing);
  {
    BlockWriter writer(folder.file("file"));
    writer.add("abc", 3);
    writer.finish();
  }
  replaceFileCalls(before);
  EXPECT_EQ(readAll(folder.file("file")), "abc");
}

// A disk may have larger blocks than ours.
TEST(BlockWriter, WritesThatAreRefusedGoThroughTheCache) {
  const TestFolder folder;
  File::createDirect(folder.file("file")).write(1, "abc", 3);
  EXPECT_EQ(readAll(folder.file("file")), std::string("\0abc", 4));
}

TEST(BlockWriter, FoldersThatAreNotThere) { EXPECT_THROW(BlockWriter("/no/such/folder/file"), Error); }

} // namespace
} // namespace tessera::rt
