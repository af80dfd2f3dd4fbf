// See slots.h.
#include "runtime/program/slots.h"

#include "runtime/core/error.h"
#include "runtime/core/huge_pages.h"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <linux/limits.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace tessera::rt {
namespace {

constexpr char magic[8] = {'t', 'e', 's', 's', 's', 'l', 't', '3'};
constexpr size_t identityBytes = 64;

} // namespace

/// What a place holds. `done` is a step's number and one; 0 while it is written.
struct Slots::Said {
  std::atomic<int64_t> done;
  int64_t textBytes;
  char text[(slotHeaderBytes - slotPage) / mostPlaces - 128];
};

struct Slots::Header {
  char magic[8];
  char identity[identityBytes];
  int64_t places;
  /// The file on NVMe that this one is of use with; empty: none.
  uint64_t stamp;
  char onNvme[PATH_MAX];
  Said said[mostPlaces];

  bool isOf(const std::string &name) const;
  std::string pathOnNvme() const { return {onNvme, ::strnlen(onNvme, sizeof(onNvme))}; }
};

bool Slots::Header::isOf(const std::string &name) const {
  char expected[identityBytes] = {};
  name.copy(expected, identityBytes);
  return std::memcmp(magic, rt::magic, sizeof(magic)) == 0 &&
         std::memcmp(identity, expected, identityBytes) == 0;
}

Slots::Slots(const std::string &path, const std::string &identity, const Program &program, int places,
             const std::string &onNvme, bool onHost)
    : program(program), onHost(onHost), slotPlan(program, onHost), count(places),
      inMemory(std::make_unique<SlotFile>(path)) {
  static_assert(sizeof(Header) <= size_t(slotHeaderBytes) && std::atomic<int64_t>::is_always_lock_free);
  open(identity, onNvme);
  if (onHost) // else its pages stay where they are for the device
    huge.emplace(memory, fileBytes());
}

// There are gaps between the ranges, which have no memory, and shall have none.
Slots::Slots(const std::string &path, const std::string &identity, const Program &program, int places,
             const std::vector<VariableRange> &only)
    : program(program), onHost(true), slotPlan(program), count(places), only(only),
      inMemory(std::make_unique<SlotFile>(path)) {
  open(identity, "");
}

Slots::Slots(const std::string &path, const Program &program, ToRead)
    : program(program), onHost(true), slotPlan(program) {
  bool isThere = false;
  inMemory = std::make_unique<SlotFile>(path, isThere);
  if (!isThere)
    inMemory.reset();
}

Slots::~Slots() {
  huge.reset();
  if (memory)
    ::munmap(memory, fileBytes());
}

std::unique_ptr<const Slots> Slots::read(const std::string &path, const std::string &identity,
                                         const Program &program) {
  std::unique_ptr<Slots> slots(new Slots(path, program, ToRead()));
  const auto start = std::make_unique<Header>();
  constexpr size_t known = offsetof(Header, said);
  if (!slots->inMemory || ::pread(slots->inMemory->descriptor(), start.get(), known, 0) != ssize_t(known) ||
      !start->isOf(identity) || start->places < 1 || start->places > mostPlaces)
    return nullptr;
  slots->count = int(start->places);
  if (slots->inMemory->bytes() != slots->fileBytes() || !slots->map(false))
    return nullptr;
  if (nvmeSlotBytes(program) > 0) {
    slots->onDisk = NvmeSlots::read(start->pathOnNvme(), program, slots->count, start->stamp);
    if (!slots->onDisk)
      return nullptr;
  }
  return slots;
}

Slots::Header *Slots::map(bool toWrite) {
  void *place = mapAligned(inMemory->descriptor(), fileBytes(), toWrite ? PROT_READ | PROT_WRITE : PROT_READ);
  if (place == MAP_FAILED)
    return nullptr;
  memory = static_cast<char *>(place);
  return reinterpret_cast<Header *>(memory);
}

void Slots::open(const std::string &identity, const std::string &onNvme) {
  try {
    if (!find(identity, onNvme))
      make(identity, onNvme);
  } catch (...) {
    if (memory)
      ::munmap(std::exchange(memory, nullptr), fileBytes());
    // What another run has there stays.
    if (onNvme.empty() || onDisk || inMemory->bytes() == 0)
      remove();
    throw;
  }
}

bool Slots::find(const std::string &identity, const std::string &onNvme) {
  if (!onNvme.empty())
    onDisk = std::make_unique<NvmeSlots>(onNvme, program, count);
  forgetOnNvme(onNvme);
  if (inMemory->bytes() != fileBytes())
    return false;
  // Whoever made it may have been killed before it had all its memory.
  reserve();
  const Header *header = map(true);
  if (!header)
    inMemory->fail("mapped");
  if (header->isOf(identity) && header->places == count && header->pathOnNvme() == onNvme &&
      (!onDisk || onDisk->find(header->stamp)))
    return true;
  ::munmap(std::exchange(memory, nullptr), fileBytes());
  return false;
}

void Slots::make(const std::string &identity, const std::string &onNvme) {
  // Nothing of what was there is of use; what is new is zero.
  inMemory->renew(fileBytes());
  reserve();
  Header *header = map(true);
  if (!header)
    inMemory->fail("mapped");
  if (onDisk)
    header->stamp = onDisk->make();
  onNvme.copy(header->onNvme, sizeof(header->onNvme));
  identity.copy(header->identity, identityBytes);
  header->places = count;
  std::memcpy(header->magic, magic, sizeof(magic));
}

void Slots::forgetOnNvme(const std::string &except) const {
  const auto start = std::make_unique<Header>();
  constexpr size_t known = offsetof(Header, said);
  if (::pread(inMemory->descriptor(), start.get(), known, 0) != ssize_t(known) ||
      std::memcmp(start->magic, magic, sizeof(magic)) != 0)
    return;
  const std::filesystem::path there = start->pathOnNvme();
  if (there.empty() || there == except)
    return;
  ::unlink(there.c_str());
  ::rmdir(there.parent_path().c_str()); // by the last
}

FileRanges Slots::ranges() const {
  return only ? copiesFileRanges(program, count, *only) : slotsFileRanges(program, count);
}

void Slots::reserve() const {
  inMemory->reserve(ranges(), "", "give another folder by --slots-in DIR, or --slots 1");
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
    throw Error("slots '", file(), "' have no room for what is said of step ", step);
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

void Slots::begin() {
  // The state that this step begins with goes to its place during it. Of what the step itself leaves in slots
  // nothing may be in a place that is whole.
  const int64_t next = slotPlan.isLate() && !slotPlan.isMixed() ? now : now + 1;
  if (next != whole)
    said(next).done.store(0, std::memory_order_seq_cst);
}

void Slots::copyAhead() {
  const int from = current();
  for (const VariableRange &range : slotPlan.copied())
    if (range.tier == Tier::Nvme)
      onDisk->copy(range, from, next(from));
    else
      std::memcpy(address(range.tier, range.begin, next(from)), address(range.tier, range.begin, from),
                  size_t(range.end - range.begin));
}

void Slots::commit(const std::string &text) {
  if (slotPlan.isLate())
    late = text;
  else
    say(now + 1, text);
  ++now;
}

void Slots::saved() {
  if (whole == now)
    return;
  say(now, late);
  whole = now;
}

std::vector<std::pair<char *, int64_t>> Slots::pieces() const {
  std::vector<std::pair<char *, int64_t>> all;
  for (const auto &[begin, end] : ranges())
    if (!all.empty() && all.back().first + all.back().second == memory + begin)
      all.back().second += end - begin;
    else
      all.emplace_back(memory + begin, end - begin);
  return all;
}

void *Slots::address(Tier tier, int64_t offset, int place) const {
  if (tier == Tier::Nvme)
    return onDisk->address(offset, place);
  return memory + slotHeaderBytes + place * slotBytes(program) + startInSlot(program, tier) + offset;
}

const void *Slots::read(const VariableRange &range, int place, std::vector<char> &buffer) const {
  const void *there = address(range.tier, range.begin, place);
  if (range.tier != Tier::Nvme)
    return there;
  buffer.resize(size_t(range.end - range.begin));
  onDisk->file()->copy(buffer.data(), there, int64_t(buffer.size()));
  return buffer.data();
}

void Slots::remove() {
  inMemory->remove();
  if (onDisk)
    onDisk->remove();
}

} // namespace tessera::rt
