// See memory.h.
#include "runtime/program/memory.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {

CountingAllocator::~CountingAllocator() {
  for (const auto &[pointer, piece] : pieces)
    if (!piece.onHost)
      device.release(pointer, piece.bytes);
}

void *CountingAllocator::allocate(int64_t bytes, Category category) {
  Piece piece{bytes, {}, {}};
  piece.by[size_t(category)] = bytes;
  return allocate(std::move(piece));
}

void *CountingAllocator::allocateArena(const MemoryFigures &figures) {
  Piece piece{figures.peak, figures.by, {}};
  int64_t rest = figures.peak;
  for (int64_t bytes : piece.by)
    rest -= bytes;
  piece.by[size_t(Category::Activations)] += rest;
  return allocate(std::move(piece));
}

void *CountingAllocator::allocate(Piece piece) {
  if (tier == Tier::Host)
    piece.onHost = device.allocateHost(piece.bytes);
  void *pointer = piece.onHost ? piece.onHost.get() : device.allocate(piece.bytes);
  if (poison && piece.onHost) {
    std::memset(pointer, 0xff, size_t(piece.bytes));
  } else if (poison) {
    std::vector<char> ones(size_t(std::min<int64_t>(piece.bytes, 1 << 20)), char(0xff));
    for (int64_t at = 0; at < piece.bytes; at += int64_t(ones.size()))
      device.upload(static_cast<char *>(pointer) + at, ones.data(),
                    std::min(piece.bytes - at, int64_t(ones.size())));
  }
  std::lock_guard lock(mutex);
  now.peak += piece.bytes;
  for (size_t i = 0; i < numCategories; ++i)
    now.by[i] += piece.by[i];
  pieces.emplace(pointer, std::move(piece));
  if (now.peak > high.peak)
    high = now;
  return pointer;
}

void CountingAllocator::release(void *pointer) noexcept {
  std::lock_guard lock(mutex);
  auto it = pieces.find(pointer);
  if (it == pieces.end())
    return;
  if (!it->second.onHost)
    device.release(pointer, it->second.bytes);
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
