// See nvme_slots.h.
#include "runtime/program/nvme_slots.h"

#include "runtime/storage/folder.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <unistd.h>

namespace tessera::rt {
namespace {

struct Head {
  char magic[8] = {'t', 'e', 's', 's', 'n', 'v', 'm', '1'};
  uint64_t stamp = 0;
};

uint64_t newStamp() {
  std::random_device random;
  return (uint64_t(random()) << 32 | random()) | 1; // 0 is nobody's
}

} // namespace

NvmeSlots::NvmeSlots(const std::string &path, const Program &program, int places)
    : program(program), places(places), disk(path) {}

NvmeSlots::NvmeSlots(const std::string &path, const Program &program, int places, bool &isThere)
    : program(program), places(places), disk(path, isThere) {}

std::unique_ptr<NvmeSlots> NvmeSlots::read(const std::string &path, const Program &program, int places,
                                           uint64_t stamp) {
  bool isThere = false;
  std::unique_ptr<NvmeSlots> slots(new NvmeSlots(path, program, places, isThere));
  if (!isThere || !slots->isOf(stamp))
    return nullptr;
  slots->use();
  return slots;
}

size_t NvmeSlots::fileBytes() const {
  return size_t(nvmeHeaderBytes + places * nvmeSlotBytes(program) + nvmeRestBytes(program));
}

bool NvmeSlots::isOf(uint64_t stamp) const {
  Head there, expected;
  expected.stamp = stamp;
  return stamp != 0 && disk.bytes() == fileBytes() &&
         ::pread(disk.descriptor(), &there, sizeof(there), 0) == ssize_t(sizeof(there)) &&
         std::memcmp(&there, &expected, sizeof(there)) == 0;
}

bool NvmeSlots::find(uint64_t stamp) {
  if (!isOf(stamp))
    return false;
  use();
  return true;
}

uint64_t NvmeSlots::make() {
  disk.renew(fileBytes());
  disk.reserve(ranges(), "NVMe, in ", "--nvme DIR:SIZE names another folder, and --slots 1 takes less");
  Head head;
  head.stamp = newStamp();
  if (::pwrite(disk.descriptor(), &head, sizeof(head), 0) != ssize_t(sizeof(head)))
    disk.fail("made");
  use();
  return head.stamp;
}

void NvmeSlots::use() {
  bytesOfFile =
      std::make_shared<const NvmeFile>(folderOf(disk.name()), disk.descriptor(), int64_t(fileBytes()));
}

char *NvmeSlots::address(int64_t offset, int place) const {
  return bytesOfFile->address() + nvmeHeaderBytes + place * nvmeSlotBytes(program) + offset;
}

void NvmeSlots::copy(const VariableRange &range, int from, int to) const {
  constexpr int64_t most = int64_t(1) << 20;
  const std::unique_ptr<void, void (*)(void *)> buffer(std::aligned_alloc(nvmeBlock, most), std::free);
  for (int64_t at = range.begin; at < range.end; at += most) {
    const int64_t part = std::min(most, range.end - at);
    bytesOfFile->copy(buffer.get(), address(at, from), part);
    bytesOfFile->copy(address(at, to), buffer.get(), part);
  }
}

} // namespace tessera::rt
