// Huge pages for files in shared memory, which Linux does not give them by itself.
#pragma once

#include <cstddef>
#include <thread>

namespace tessera::rt {

/// Maps all of a file, for all who map it, from where huge pages can begin. Returns MAP_FAILED with errno as
/// mmap does.
void *mapAligned(int fd, size_t bytes, int protection);

/// Puts huge pages in the place of small ones below memory that is mapped and there, beside whoever uses it:
/// some 2 seconds a GB. Where the system cannot (Linux before 6.1, other files), nothing changes.
class HugePages {
public:
  HugePages(char *memory, size_t bytes);

private:
  std::jthread working; ///< ends early when this does
};

} // namespace tessera::rt
