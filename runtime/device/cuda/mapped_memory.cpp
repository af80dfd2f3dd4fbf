// See mapped_memory.h.
#include "runtime/device/cuda/mapped_memory.h"

namespace tessera::rt::cuda {
namespace {

/// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.
constexpr int fileDescriptor = 1;

bool has(const Driver &driver, int number, int attribute) {
  int value = 0;
  return driver.deviceAttribute(&value, attribute, number) == 0 && value != 0;
}

} // namespace

bool MappedMemory::map(const MemoryKind &kind, size_t size) {
  uint64_t memory = 0;
  if (driver.create(&memory, size, &kind, 0) != 0)
    return false;
  MemoryAccess access;
  access.place = kind.place;
  if (driver.reserveAddresses(&address, size, 0, 0, 0) == 0) {
    bytes = size;
    mapped = driver.map(address, size, 0, memory, 0) == 0;
  }
  driver.releaseCreated(memory); // it stays as long as it is mapped
  return mapped && driver.setAccess(address, size, &access, 1) == 0;
}

std::unique_ptr<MappedMemory> MappedMemory::make(const Driver &driver, int number, size_t bytes) {
  if (!has(driver, number, attributeMapping) || !has(driver, number, attributeDescriptors))
    return nullptr;
  MemoryKind kind;
  kind.handles = fileDescriptor;
  kind.place.number = number;
  kind.network = has(driver, number, attributeNetwork);
  size_t unit = 0;
  if (driver.granularity(&unit, &kind, 0) != 0 || unit == 0)
    return nullptr;
  std::unique_ptr<MappedMemory> memory(new MappedMemory(driver));
  return memory->map(kind, (bytes + unit - 1) / unit * unit) ? std::move(memory) : nullptr;
}

MappedMemory::~MappedMemory() {
  if (mapped)
    driver.unmap(address, bytes);
  if (bytes > 0)
    driver.freeAddresses(address, bytes);
}

} // namespace tessera::rt::cuda
