// The one allocator of a tier for tensors and communication. It counts by itself what is held, so that
// measured figures do not rest on the plan's.
#pragma once

#include "runtime/device/device.h"
#include "runtime/program/description.h"

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

namespace tessera::rt {

/// Counts and hands out one rank's memory of a tier, zeroed, or filled with ones (NaN in every floating type)
/// if `poison`. Safe for several threads where the device is the host.
class CountingAllocator {
public:
  /// The device must outlive this. `folder`: of the file that memory on NVMe is in.
  explicit CountingAllocator(Device &device, Tier tier, bool poison = false, std::string folder = "")
      : device(device), tier(tier), poison(poison), folder(std::move(folder)) {}
  CountingAllocator(const CountingAllocator &) = delete;
  CountingAllocator &operator=(const CountingAllocator &) = delete;
  ~CountingAllocator();

  /// Throws Error when the device has no such memory.
  void *allocate(int64_t bytes, Category category);
  /// An arena: one piece of memory whose categories at its peak are given; what they leave over counts as
  /// activations. Its first `elsewhere` bytes are counted, but lie elsewhere: what is returned is the place
  /// of the byte behind them.
  void *allocateArena(const MemoryFigures &figures, int64_t elsewhere = 0);
  /// Counts an arena that somebody else has memory for, for good.
  void count(const MemoryFigures &figures);
  void release(void *pointer) noexcept;

  /// The high-water mark so far, and what it was made of.
  MemoryFigures figures() const;

private:
  struct Piece {
    int64_t bytes;
    std::array<int64_t, numCategories> by;
    int64_t elsewhere = 0;  ///< of the bytes: counted only
    HostMemory onHost = {}; ///< of the host's tier
    int64_t allocated() const { return bytes - elsewhere; }
  };
  void *allocate(Piece piece);
  /// Under the lock.
  void add(const MemoryFigures &figures);
  void fillWithOnes(void *pointer, const Piece &piece);

  Device &device;
  const Tier tier;
  const bool poison;
  const std::string folder;
  mutable std::mutex mutex;
  std::unordered_map<void *, Piece> pieces;
  MemoryFigures now, high;
};

} // namespace tessera::rt
