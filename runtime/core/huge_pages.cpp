// See huge_pages.h.
#include "runtime/core/huge_pages.h"

#include <cerrno>
#include <cstdint>
#include <stop_token>
#include <sys/mman.h>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>

namespace tessera::rt {
namespace {

constexpr uintptr_t hugeBytes = uintptr_t(2) << 20;
constexpr int collapse = 25; // MADV_COLLAPSE, which older headers do not have

uintptr_t nextHuge(uintptr_t address) { return (address + hugeBytes - 1) / hugeBytes * hugeBytes; }

} // namespace

void *mapAligned(int fd, size_t bytes, int protection) {
  void *reserved =
      ::mmap(nullptr, bytes + hugeBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED)
    return MAP_FAILED;
  const auto begin = reinterpret_cast<uintptr_t>(reserved), at = nextHuge(begin);
  void *mapped = ::mmap(reinterpret_cast<void *>(at), bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0);
  const int error = errno;
  // What is left of the reservation, and all of it where the file was not mapped.
  const auto page = uintptr_t(::sysconf(_SC_PAGESIZE));
  const uintptr_t all = begin + (bytes + hugeBytes + page - 1) / page * page,
                  end = mapped == MAP_FAILED ? at : at + (bytes + page - 1) / page * page;
  if (at > begin)
    ::munmap(reserved, at - begin);
  if (end < all)
    ::munmap(reinterpret_cast<void *>(end), all - end);
  errno = error;
  return mapped;
}

HugePages::HugePages(char *memory, size_t bytes) {
  const auto work = [memory, bytes](const std::stop_token &stop) {
    ::setpriority(PRIO_PROCESS, id_t(::gettid()), 10); // computing comes first; of this thread alone
    const auto end = reinterpret_cast<uintptr_t>(memory) + bytes;
    for (uintptr_t at = nextHuge(reinterpret_cast<uintptr_t>(memory));
         at + hugeBytes <= end && !stop.stop_requested(); at += hugeBytes)
      if (::madvise(reinterpret_cast<void *>(at), hugeBytes, collapse) != 0 && errno == EINVAL)
        return;
  };
  try {
    working = std::jthread(work);
  } catch (const std::system_error &) {
    return; // no more threads: small pages do as well
  }
}

} // namespace tessera::rt
