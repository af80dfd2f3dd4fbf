// See memory.h.
#include "runtime/program/memory.h"

#include "runtime/core/error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace tessera::rt {

CountingAllocator::~CountingAllocator() {
  for (const auto &[pointer, piece] : pieces)
    ::munmap(pointer, size_t(std::max<int64_t>(piece.bytes, 1)));
}

void *CountingAllocator::allocate(int64_t bytes, Category category) {
  Piece piece{bytes, {}};
  piece.by[size_t(category)] = bytes;
  return allocate(piece);
}

void *CountingAllocator::allocateArena(const MemoryFigures &figures) {
  Piece piece{figures.peak, figures.by};
  int64_t rest = figures.peak;
  for (int64_t bytes : piece.by)
    rest -= bytes;
  piece.by[size_t(Category::Activations)] += rest;
  return allocate(piece);
}

void *CountingAllocator::allocate(const Piece &piece) {
  // An empty arena is a valid one: it gets a page that nobody touches.
  void *pointer = ::mmap(nullptr, size_t(std::max<int64_t>(piece.bytes, 1)), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pointer == MAP_FAILED)
    throw Error("cannot allocate " + std::to_string(piece.bytes) + " bytes of memory: " + std::strerror(errno));
  ::madvise(pointer, size_t(std::max<int64_t>(piece.bytes, 1)), MADV_HUGEPAGE);
  if (poison)
    std::memset(pointer, 0xff, size_t(piece.bytes));
  std::lock_guard lock(mutex);
  pieces.emplace(pointer, piece);
  now.peak += piece.bytes;
  for (size_t i = 0; i < numCategories; ++i)
    now.by[i] += piece.by[i];
  if (now.peak > high.peak)
    high = now;
  return pointer;
}

void CountingAllocator::release(void *pointer) noexcept {
  std::lock_guard lock(mutex);
  auto it = pieces.find(pointer);
  if (it == pieces.end())
    return;
  ::munmap(pointer, size_t(std::max<int64_t>(it->second.bytes, 1)));
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
