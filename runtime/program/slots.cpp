// See slots.h.
#include "runtime/program/slots.h"

#include "runtime/core/error.h"
#include "runtime/core/huge_pages.h"
#include "runtime/storage/folder.h"

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

constexpr char magic[8] = {'t', 'e', 's', 's', 's', 'l', 't', '2'};
constexpr size_t identityBytes = 64;
constexpr int mostPlaces = 3;

} // namespace

/// What a place holds. `done` is a step's number and one; 0 while it is written.
struct Slots::Said {
  std::atomic<int64_t> done;
  int64_t textBytes;
  char text[slotHeaderBytes / mostPlaces - 128];
};

struct Slots::Header {
  char magic[8];
  char identity[identityBytes];
  int64_t places;
  Said said[mostPlaces];

  bool isOf(const std::string &name) const;
};

bool Slots::Header::isOf(const std::string &name) const {
  char expected[identityBytes] = {};
  name.copy(expected, identityBytes);
  return std::memcmp(magic, rt::magic, sizeof(magic)) == 0 &&
         std::memcmp(identity, expected, identityBytes) == 0;
}

Slots::Slots(const std::string &path, const std::string &identity, const Program &program, int places,
             std::optional<std::vector<VariableRange>> only)
    : path(path), program(program), slotPlan(program), count(places), only(std::move(only)) {
  static_assert(sizeof(Header) <= size_t(slotHeaderBytes) && std::atomic<int64_t>::is_always_lock_free);
  try {
    open(identity);
    if (!this->only) // whose gaps have no memory, and shall have none
      huge.emplace(memory, fileBytes());
  } catch (...) {
    ::close(fd);
    throw;
  }
}

Slots::Slots(const std::string &path, const Program &program, ToRead)
    : path(path), program(program), slotPlan(program) {}

Slots::~Slots() {
  huge.reset();
  if (memory)
    ::munmap(memory, fileBytes());
  ::close(fd);
}

std::unique_ptr<const Slots> Slots::read(const std::string &path, const std::string &identity,
                                         const Program &program) {
  std::unique_ptr<Slots> slots(new Slots(path, program, ToRead()));
  slots->fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  struct stat status = {};
  Header start = {};
  constexpr size_t known = offsetof(Header, said);
  if (slots->fd < 0 || ::fstat(slots->fd, &status) != 0 || status.st_uid != ::geteuid() ||
      ::pread(slots->fd, &start, known, 0) != ssize_t(known) || !start.isOf(identity) || start.places < 1 ||
      start.places > mostPlaces)
    return nullptr;
  slots->count = int(start.places);
  if (size_t(status.st_size) != slots->fileBytes() || !slots->map(false))
    return nullptr;
  return slots;
}

Slots::Header *Slots::map(bool toWrite) {
  void *place = mapAligned(fd, fileBytes(), toWrite ? PROT_READ | PROT_WRITE : PROT_READ);
  if (place == MAP_FAILED)
    return nullptr;
  memory = static_cast<char *>(place);
  return reinterpret_cast<Header *>(memory);
}

void Slots::open(const std::string &identity) {
  const auto fail = [&](const char *what) {
    throw Error("slots '", path, "' cannot be ", what, ": ", std::strerror(errno));
  };
  fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0)
    fail("opened");
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0)
    throw Error("slots '", path, "' are another run's, which is under way");
  struct stat status = {};
  if (::fstat(fd, &status) != 0 || status.st_uid != ::geteuid())
    throw Error("slots '", path, "' are another user's");
  if (size_t(status.st_size) == fileBytes()) {
    // Whoever made it may have been killed before it had all its memory.
    reserve();
    Header *header = map(true);
    if (!header)
      fail("mapped");
    if (header->isOf(identity) && header->places == count)
      return;
    ::munmap(std::exchange(memory, nullptr), fileBytes());
  }
  // Nothing of what was there is of use; what is new is zero.
  if (::ftruncate(fd, 0) != 0 || ::ftruncate(fd, off_t(fileBytes())) != 0)
    fail("made");
  reserve();
  Header *header = map(true);
  if (!header)
    fail("mapped");
  identity.copy(header->identity, identityBytes);
  header->places = count;
  std::memcpy(header->magic, magic, sizeof(magic));
}

void Slots::reserve() {
  const FileRanges ranges = only ? copiesFileRanges(program, count, *only) : slotsFileRanges(program, count);
  reserved = bytesOf(ranges);
  for (const auto &[begin, end] : ranges) {
    const int status = ::posix_fallocate(fd, begin, end - begin);
    if (status == 0)
      continue;
    const uint64_t free = freeBytes(folderOf(path));
    remove(); // it holds nothing of use, and memory
    throw Error("slots take ", reserved, " bytes of '", folderOf(path), "', where ", free, " are left (",
                std::strerror(status), "); give another folder by --slots-in DIR, or --slots 1");
  }
}

Slots::Said &Slots::said(int64_t step) const {
  return reinterpret_cast<Header *>(memory)->said[placeOf(step)];
}

std::vector<Slots::Step> Slots::steps() const {
  std::vector<Step> steps;
  for (int place = 0; place < count; ++place) {
    const Said &there = said(place);
    const int64_t step = there.done.load(std::memory_order_acquire) - 1, bytes = there.textBytes;
    if (step >= 0 && placeOf(step) == place && bytes >= 0 && bytes <= int64_t(sizeof(there.text)))
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
  for (int place = 0; place < count; ++place)
    said(place).done.store(0, std::memory_order_seq_cst);
  now = step;
}

void Slots::begin() { said(now + 1).done.store(0, std::memory_order_seq_cst); }

void Slots::copyAhead() {
  const int from = current();
  for (const VariableRange &range : slotPlan.copied())
    std::memcpy(address(range.tier, range.begin, next(from)), address(range.tier, range.begin, from),
                size_t(range.end - range.begin));
}

void Slots::commit(const std::string &text) {
  say(now + 1, text);
  ++now;
}

void *Slots::address(Tier tier, int64_t offset, int place) const {
  return memory + slotHeaderBytes + place * slotBytes(program) + startInSlot(program, tier) + offset;
}

void Slots::remove() { ::unlink(path.c_str()); }

} // namespace tessera::rt
