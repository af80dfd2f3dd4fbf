// GPUs, contexts and device memory of the checking driver (machine.h has what they are).
#include "runtime/device/cuda/check/machine.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace tessera::rt::cuda::check {

Memory &memory() {
  static Memory instance;
  return instance;
}

Context *&currentContext() {
  thread_local Context *current = nullptr;
  return current;
}

size_t setting(const char *name, size_t standard) {
  const char *text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : standard;
}

Status fail(Status status, const std::string &what) {
  std::fprintf(stderr, "checking driver: %s\n", what.c_str());
  return status;
}

static size_t totalMemory() { return setting("TESSERA_CHECK_MEMORY", size_t(8) << 30); }

size_t Memory::used(const Context &context) {
  std::lock_guard lock(mutex);
  size_t sum = 0;
  for (const auto &[pointer, allocation] : allocations)
    sum += allocation.live && allocation.context == &context ? allocation.bytes : 0;
  return sum + context.modules * moduleBytes();
}

size_t Memory::free(const Context &context) { return totalMemory() - std::min(totalMemory(), used(context)); }

bool Memory::holds(const Context &context, DevicePointer pointer, size_t bytes) {
  std::lock_guard lock(mutex);
  auto it = allocations.upper_bound(pointer);
  if (it == allocations.begin())
    return false;
  --it;
  return it->second.live && it->second.context == &context && pointer + bytes <= it->first + it->second.bytes;
}

bool Memory::isPinned(const void *pointer, size_t bytes) {
  std::lock_guard lock(mutex);
  auto it = pinned.upper_bound(uintptr_t(pointer));
  if (it == pinned.begin())
    return false;
  --it;
  return uintptr_t(pointer) + bytes <= it->first + it->second;
}

void Memory::protect(const Context &context, int mode) {
  std::lock_guard lock(mutex);
  for (auto &[pointer, allocation] : allocations)
    if (allocation.live && allocation.context == &context)
      ::mprotect(reinterpret_cast<void *>(pointer), allocation.mapped, mode);
}

/// Of each GPU.
static Context contexts[64];

/// What memory is created and mapped in. A GPU's is 2 MiB; here little memory is to be filled exactly.
static size_t granularity() { return setting("TESSERA_CHECK_GRANULARITY", 256); }

static size_t pages(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

/// Addresses for `bytes`, closed. The end of an allocation is the end of its pages as nearly as alignment
/// lets it be; a closed page follows.
static bool closedPages(DevicePointer *pointer, size_t bytes) {
  void *base =
      ::mmap(nullptr, pages(bytes) + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  *pointer = reinterpret_cast<DevicePointer>(base);
  return base != MAP_FAILED;
}

/// New memory is NaN.
static void fill(DevicePointer pointer, size_t bytes) {
  void *base = reinterpret_cast<void *>(pointer);
  ::mprotect(base, pages(bytes), PROT_READ | PROT_WRITE);
  std::memset(base, 0xff, pages(bytes));
  ::mprotect(base, pages(bytes), PROT_NONE);
}

} // namespace tessera::rt::cuda::check

using namespace tessera::rt::cuda;
using namespace tessera::rt::cuda::check;

bool tsr_check_holds(const void *pointer, size_t bytes) {
  return currentContext() &&
         memory().holds(*currentContext(), reinterpret_cast<DevicePointer>(pointer), bytes);
}
int tsr_check_gpu() { return currentContext() ? currentContext()->number : -1; }

extern "C" {

Status cuInit(unsigned) { return success; }
Status cuDriverGetVersion(int *version) {
  *version = int(setting("TESSERA_CHECK_VERSION", 13000));
  return success;
}
Status cuGetErrorName(Status status, const char **name) {
  *name = status == outOfMemory          ? "CUDA_ERROR_OUT_OF_MEMORY"
          : status == launchFailed       ? "CUDA_ERROR_LAUNCH_FAILED"
          : status == notFound           ? "CUDA_ERROR_NOT_FOUND"
          : status == invalidImage       ? "CUDA_ERROR_INVALID_IMAGE"
          : status == captureUnsupported ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
          : status == captureUnjoined    ? "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"
                                         : "CUDA_ERROR_INVALID_VALUE";
  return success;
}
Status cuDeviceGetCount(int *count) {
  *count = int(setting("TESSERA_CHECK_GPUS", 1));
  return success;
}
Status cuDeviceGet(int *device, int number) {
  *device = number;
  return number >= 0 && size_t(number) < setting("TESSERA_CHECK_GPUS", 1) ? success : invalidValue;
}
Status cuDeviceGetName(char *name, int length, int) {
  std::snprintf(name, size_t(length), "Checking GPU");
  return success;
}
Status cuDeviceGetAttribute(int *value, int attribute, int) {
  int capability = int(setting("TESSERA_CHECK_CAPABILITY", 90));
  switch (attribute) {
  case attributeMajor:
    *value = capability / 10;
    return success;
  case attributeMinor:
    *value = capability % 10;
    return success;
  case attributeMapping:
  case attributeDescriptors:
  case attributeNetwork:
    *value = int(setting("TESSERA_CHECK_MAPPING", 1));
    return success;
  default:
    return fail(invalidValue, "an attribute that is not modelled");
  }
}
Status cuDevicePrimaryCtxRetain(Handle *context, int device) {
  contexts[device].number = device;
  *context = &contexts[device];
  return success;
}
Status cuDevicePrimaryCtxRelease_v2(int device) {
  if (size_t bytes = memory().used(contexts[device]))
    fail(invalidValue, "the context ends with " + std::to_string(bytes) + " bytes not freed");
  std::lock_guard all(memory().mutex);
  for (const auto &[handle, created] : memory().created)
    if (created.context == &contexts[device])
      fail(invalidValue, "the context ends with memory that was created and not released");
  contexts[device].failure = success;
  return success;
}
Status cuCtxSetCurrent(Handle context) {
  currentContext() = static_cast<Context *>(context);
  return success;
}

Status cuMemGetInfo_v2(size_t *free, size_t *total) {
  NEEDS_CONTEXT
  *total = totalMemory();
  *free = memory().free(context);
  return success;
}
Status cuMemAlloc_v2(DevicePointer *pointer, size_t bytes) {
  NEEDS_CONTEXT
  if (bytes == 0 || bytes > memory().free(context))
    return bytes == 0 ? invalidValue : outOfMemory;
  if (!closedPages(pointer, bytes))
    return outOfMemory;
  fill(*pointer, bytes);
  std::lock_guard all(memory().mutex);
  memory().allocations[*pointer] = {bytes, pages(bytes), &context, true};
  return success;
}

Status cuMemGetAllocationGranularity(size_t *bytes, const MemoryKind *, int) {
  *bytes = granularity();
  return success;
}
Status cuMemCreate(uint64_t *handle, size_t bytes, const MemoryKind *kind, unsigned long long) {
  NEEDS_CONTEXT
  if (bytes == 0 || bytes % granularity() != 0 || kind->type != 1 || kind->place.type != 1 ||
      kind->place.number != context.number)
    return fail(invalidValue, "memory of a kind or size that this GPU does not have");
  if (bytes > memory().free(context))
    return outOfMemory;
  std::lock_guard all(memory().mutex);
  memory().created[ *handle = ++memory().handles] = {bytes, &context};
  return success;
}
Status cuMemRelease(uint64_t handle) {
  std::lock_guard all(memory().mutex);
  return memory().created.erase(handle) ? success : fail(invalidValue, "what is released is not there");
}
Status cuMemAddressReserve(DevicePointer *pointer, size_t bytes, size_t, DevicePointer, unsigned long long) {
  if (bytes == 0 || bytes % granularity() != 0 || !closedPages(pointer, bytes))
    return fail(invalidValue, "addresses for " + std::to_string(bytes) + " bytes");
  std::lock_guard all(memory().mutex);
  memory().reserved[*pointer] = bytes;
  return success;
}
Status cuMemAddressFree(DevicePointer pointer, size_t bytes) {
  std::lock_guard all(memory().mutex);
  auto it = memory().reserved.find(pointer);
  auto mapped = memory().allocations.find(pointer);
  if (it == memory().reserved.end() || it->second != bytes ||
      (mapped != memory().allocations.end() && mapped->second.bytes != 0))
    return fail(invalidValue, "addresses that are not reserved, or still mapped, are freed");
  memory().reserved.erase(it); // their pages stay closed
  return success;
}
Status cuMemMap(DevicePointer pointer, size_t bytes, size_t offset, uint64_t handle, unsigned long long) {
  NEEDS_CONTEXT
  std::lock_guard all(memory().mutex);
  auto reserved = memory().reserved.find(pointer);
  auto created = memory().created.find(handle);
  if (offset != 0 || reserved == memory().reserved.end() || created == memory().created.end() ||
      reserved->second != bytes || created->second.bytes != bytes)
    return fail(invalidValue, "memory and addresses that do not fit each other are mapped");
  // Nobody has access yet.
  memory().allocations[pointer] = {bytes, pages(bytes), &context, false, true};
  return success;
}
Status cuMemSetAccess(DevicePointer pointer, size_t bytes, const MemoryAccess *access, size_t count) {
  NEEDS_CONTEXT
  std::lock_guard all(memory().mutex);
  auto it = memory().allocations.find(pointer);
  if (it == memory().allocations.end() || !it->second.byAddress || it->second.bytes != bytes || count != 1 ||
      access->place.number != context.number || access->flags != 3)
    return fail(invalidValue, "access to what is not mapped");
  fill(pointer, bytes);
  it->second.live = true;
  return success;
}
Status cuMemUnmap(DevicePointer pointer, size_t bytes) {
  NEEDS_CONTEXT
  std::lock_guard all(memory().mutex);
  auto it = memory().allocations.find(pointer);
  if (it == memory().allocations.end() || !it->second.byAddress || it->second.bytes != bytes)
    return fail(invalidValue, "what is unmapped is not mapped");
  it->second.live = false;
  it->second.bytes = 0;
  return success;
}
Status cuMemHostAlloc(void **pointer, size_t bytes, unsigned) {
  NEEDS_CONTEXT
  if (bytes == 0)
    return invalidValue;
  std::lock_guard all(memory().mutex);
  size_t sum = bytes;
  for (auto [address, other] : memory().pinned)
    sum += other;
  *pointer =
      sum > setting("TESSERA_CHECK_PINNED", SIZE_MAX) ? nullptr : std::aligned_alloc(4096, pages(bytes));
  if (!*pointer)
    return outOfMemory;
  memory().pinned[uintptr_t(*pointer)] = bytes;
  return success;
}
Status cuMemFreeHost(void *pointer) {
  NEEDS_CONTEXT
  for (Stream &stream : context.streams)
    if (!stream.work.empty())
      return fail(invalidValue,
                  "pinned memory of the host is freed while work is under way that may copy to it");
  std::lock_guard all(memory().mutex);
  if (memory().registered.contains(uintptr_t(pointer)) || memory().pinned.erase(uintptr_t(pointer)) == 0)
    return fail(invalidValue, "memory of the host is freed that is not pinned");
  std::free(pointer);
  return success;
}
Status cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned) {
  NEEDS_CONTEXT
  std::lock_guard all(memory().mutex);
  size_t sum = bytes;
  for (auto [address, other] : memory().pinned)
    sum += other;
  const auto begin = uintptr_t(pointer);
  auto next = memory().pinned.lower_bound(begin);
  const bool overlaps =
      (next != memory().pinned.end() && next->first < begin + bytes) ||
      (next != memory().pinned.begin() && std::prev(next)->first + std::prev(next)->second > begin);
  if (bytes == 0 || begin % 4096 != 0 || bytes % 4096 != 0 || overlaps)
    return fail(invalidValue, "memory of the host is registered that is no whole pages, or pinned already");
  if (sum > setting("TESSERA_CHECK_PINNED", SIZE_MAX))
    return outOfMemory;
  memory().pinned[begin] = bytes;
  memory().registered.insert(begin);
  return success;
}
Status cuMemHostUnregister(void *pointer) {
  NEEDS_CONTEXT
  for (Stream &stream : context.streams)
    if (!stream.work.empty())
      return fail(invalidValue,
                  "memory of the host is unregistered while work is under way that may copy to it");
  std::lock_guard all(memory().mutex);
  if (memory().registered.erase(uintptr_t(pointer)) == 0)
    return fail(invalidValue, "memory of the host is unregistered that was not registered");
  memory().pinned.erase(uintptr_t(pointer));
  return success;
}
Status cuMemFree_v2(DevicePointer pointer) {
  NEEDS_CONTEXT
  std::lock_guard all(memory().mutex);
  auto it = memory().allocations.find(pointer);
  if (it == memory().allocations.end() || !it->second.live || it->second.byAddress ||
      it->second.context != &context)
    return fail(invalidValue, "what is freed is not allocated");
  it->second.live = false; // its pages stay closed
  return success;
}
}
