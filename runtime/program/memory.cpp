// See memory.h.
#include "runtime/program/memory.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {

CountingAllocator::~CountingAllocator() {
  for (const auto &[pointer, piece] : pieces)
    if (tier == Tier::Device)
      device.release(pointer, piece.allocated());
}

void *CountingAllocator::allocate(int64_t bytes, Category category) {
  Piece piece{bytes, {}};
  piece.by[size_t(category)] = bytes;
  return allocate(std::move(piece));
}

void *CountingAllocator::allocateArena(const MemoryFigures &figures, int64_t elsewhere) {
  Piece piece{figures.peak, figures.by, elsewhere};
  int64_t rest = figures.peak;
  for (int64_t bytes : piece.by)
    rest -= bytes;
  piece.by[size_t(Category::Activations)] += rest;
  return allocate(std::move(piece));
}

void *CountingAllocator::allocate(Piece piece) {
  if (tier == Tier::Host)
    piece.onHost = device.allocateHost(piece.allocated());
  void *pointer = tier == Tier::Device ? device.allocate(piece.allocated())
                  : tier == Tier::Host ? piece.onHost.get()
                                       : device.allocateNvme(piece.allocated(), folder);
  if (poison)
    fillWithOnes(pointer, piece);
  std::lock_guard lock(mutex);
  add({piece.bytes, piece.by});
  pieces.emplace(pointer, std::move(piece));
  return pointer;
}

void CountingAllocator::count(const MemoryFigures &figures) {
  std::lock_guard lock(mutex);
  add(figures);
}

void CountingAllocator::add(const MemoryFigures &figures) {
  now.peak += figures.peak;
  for (size_t i = 0; i < numCategories; ++i)
    now.by[i] += figures.by[i];
  if (now.peak > high.peak)
    high = now;
}

void CountingAllocator::fillWithOnes(void *pointer, const Piece &piece) {
  if (tier == Tier::Host) {
    std::memset(pointer, 0xff, size_t(piece.allocated()));
    return;
  }
  std::vector<char> ones(size_t(std::min<int64_t>(piece.allocated(), 1 << 20)), char(0xff));
  for (int64_t at = 0; at < piece.allocated(); at += int64_t(ones.size())) {
    char *to = static_cast<char *>(pointer) + at;
    int64_t part = std::min(piece.allocated() - at, int64_t(ones.size()));
    tier == Tier::Nvme ? device.copyNvme(to, ones.data(), part) : device.upload(to, ones.data(), part);
  }
}

void CountingAllocator::release(void *pointer) noexcept {
  std::lock_guard lock(mutex);
  auto it = pieces.find(pointer);
  if (it == pieces.end())
    return;
  if (tier == Tier::Device)
    device.release(pointer, it->second.allocated());
  now.peak -= it->second.bytes;
  for (size_t i = 0; i < numCategories; ++i)
    now.by[i] -= it->second.by[i];
  pieces.erase(it);
}

MemoryFigures CountingAllocator::figures() const {
  std::lock_guard lock(mutex);
  return high;
}

} // namespace tessera::rt
