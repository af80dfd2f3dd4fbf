// Memory of a GPU by its virtual addresses: reserved, then mapped. What is made so can be given to other
// GPUs, processes and the network, which NCCL does with buffers that are registered with it.
#pragma once

#include "runtime/device/cuda/driver.h"

#include <memory>

namespace tessera::rt::cuda {

class MappedMemory {
public:
  /// At least `bytes` of GPU `number`; null where the driver has no such memory, or not as much.
  static std::unique_ptr<MappedMemory> make(const Driver &driver, int number, size_t bytes);
  ~MappedMemory();
  MappedMemory(const MappedMemory &) = delete;
  MappedMemory &operator=(const MappedMemory &) = delete;

  DevicePointer pointer() const { return address; }

private:
  explicit MappedMemory(const Driver &driver) : driver(driver) {}
  bool map(const MemoryKind &kind, size_t size);

  const Driver &driver;
  DevicePointer address = 0;
  size_t bytes = 0;
  bool mapped = false;
};

} // namespace tessera::rt::cuda
