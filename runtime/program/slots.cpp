// See slots.h.
#include "runtime/program/slots.h"

#include "runtime/core/error.h"
#include "runtime/storage/folder.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tessera::rt {
namespace {

constexpr char magic[8] = {'t', 'e', 's', 's', 's', 'l', 't', '1'};
constexpr size_t identityBytes = 64;

} // namespace

/// What a slot holds. `done` is a step's number and one; 0 while it is written.
struct Slots::Said {
  std::atomic<int64_t> done;
  int64_t textBytes;
  char text[slotHeaderBytes / 2 - 256];
};

struct Slots::Header {
  char magic[8];
  char identity[identityBytes];
  Said said[2];

  bool isOf(const std::string &name) const;
};

bool Slots::Header::isOf(const std::string &name) const {
  char expected[identityBytes] = {};
  name.copy(expected, identityBytes);
  return std::memcmp(magic, rt::magic, sizeof(magic)) == 0 &&
         std::memcmp(identity, expected, identityBytes) == 0;
}

bool Slots::isThere(const std::string &path, const std::string &identity, const Program &program) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0)
    return false;
  struct stat status = {};
  char start[offsetof(Header, said)];
  const bool is = ::fstat(fd, &status) == 0 && status.st_uid == ::geteuid() &&
                  int64_t(status.st_size) == slotHeaderBytes + 2 * slotBytes(program) &&
                  ::pread(fd, start, sizeof(start), 0) == ssize_t(sizeof(start)) &&
                  reinterpret_cast<const Header *>(start)->isOf(identity);
  ::close(fd);
  return is;
}

Slots::Slots(const std::string &path, const std::string &identity, const Program &program)
    : path(path), program(program), slotPlan(program) {
  static_assert(sizeof(Header) <= size_t(slotHeaderBytes) && std::atomic<int64_t>::is_always_lock_free);
  try {
    open(identity);
  } catch (...) {
    ::close(fd);
    throw;
  }
}

Slots::~Slots() {
  if (memory)
    ::munmap(memory, size_t(slotHeaderBytes + 2 * slotBytes(program)));
  ::close(fd);
}

void Slots::open(const std::string &identity) {
  const auto fail = [&](const char *what) {
    throw Error("slots '", path, "' cannot be ", what, ": ", std::strerror(errno));
  };
  const size_t size = size_t(slotHeaderBytes + 2 * slotBytes(program));
  fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0)
    fail("opened");
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0)
    throw Error("slots '", path, "' are another run's, which is under way");
  struct stat status = {};
  if (::fstat(fd, &status) != 0 || status.st_uid != ::geteuid())
    throw Error("slots '", path, "' are another user's");
  Header *header = nullptr;
  const auto map = [&] {
    void *place = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (place == MAP_FAILED)
      fail("mapped");
    memory = static_cast<char *>(place);
    header = reinterpret_cast<Header *>(memory);
  };
  if (size_t(status.st_size) == size) {
    // Whoever made it may have been killed before it had all its memory.
    reserve();
    map();
    if (header->isOf(identity))
      return;
    ::munmap(std::exchange(memory, nullptr), size);
  }
  // Nothing of what was there is of use; what is new is zero.
  if (::ftruncate(fd, 0) != 0 || ::ftruncate(fd, off_t(size)) != 0)
    fail("made");
  reserve();
  map();
  identity.copy(header->identity, identityBytes);
  std::memcpy(header->magic, magic, sizeof(magic));
}

void Slots::reserve() {
  reserved = 0;
  const int64_t needed = slotsFileBytes(program);
  const auto take = [&](int64_t begin, int64_t end) {
    reserved += end - begin;
    int status = end > begin ? ::posix_fallocate(fd, begin, end - begin) : 0;
    if (status == 0)
      return;
    const uint64_t free = freeBytes(folderOf(path));
    remove(); // it holds nothing of use, and memory
    throw Error("two slots take ", needed, " bytes of '", folderOf(path), "', where ", free, " are left (",
                std::strerror(status), "); give another folder by --slots-in DIR, or --slots 1");
  };
  take(0, slotHeaderBytes + slotBytes(program));
  const int64_t second = slotHeaderBytes + slotBytes(program);
  PerTier<int64_t> end;
  for (const VariableRange &range : slotPlan.changed()) {
    const VariableRange pages = wholePages(range);
    const int64_t start = second + startInSlot(program, range.tier);
    take(start + std::max(pages.begin, end[range.tier]), start + pages.end);
    end[range.tier] = pages.end;
  }
}

Slots::Said &Slots::said(int64_t step) const { return reinterpret_cast<Header *>(memory)->said[step % 2]; }

std::vector<Slots::Step> Slots::steps() const {
  std::vector<Step> steps;
  for (int slot : {0, 1}) {
    const Said &there = said(slot);
    const int64_t step = there.done.load(std::memory_order_acquire) - 1, bytes = there.textBytes;
    if (step >= 0 && step % 2 == slot && bytes >= 0 && bytes <= int64_t(sizeof(there.text)))
      steps.push_back({step, std::string(there.text, size_t(bytes))});
  }
  return steps;
}

void Slots::say(int64_t step, const std::string &text) {
  Said &there = said(step);
  if (text.size() > sizeof(there.text))
    throw Error("slots '", path, "' have no room for what is said of step ", step);
  there.done.store(0, std::memory_order_release);
  std::memcpy(there.text, text.data(), text.size());
  there.textBytes = int64_t(text.size());
  there.done.store(step + 1, std::memory_order_release);
}

void Slots::fill(int64_t step) {
  for (int slot : {0, 1})
    said(slot).done.store(0, std::memory_order_seq_cst);
  now = step;
}

void Slots::begin() {
  said(now + 1).done.store(0, std::memory_order_seq_cst);
  const int from = current();
  for (const VariableRange &range : slotPlan.copied())
    std::memcpy(address(range.tier, range.begin, 1 - from), address(range.tier, range.begin, from),
                size_t(range.end - range.begin));
}

void Slots::commit(const std::string &text) {
  say(now + 1, text);
  ++now;
}

void *Slots::address(Tier tier, int64_t offset, int slot) const {
  return memory + slotHeaderBytes + slot * slotBytes(program) + startInSlot(program, tier) + offset;
}

void Slots::remove() { ::unlink(path.c_str()); }

} // namespace tessera::rt
