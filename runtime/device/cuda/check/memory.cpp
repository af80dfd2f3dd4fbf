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

void Memory::protect(const Context &context, int mode) {
  std::lock_guard lock(mutex);
  for (auto &[pointer, allocation] : allocations)
    if (allocation.live && allocation.context == &context)
      ::mprotect(reinterpret_cast<void *>(pointer), allocation.mapped, mode);
}

/// Of each GPU.
static Context contexts[64];

} // namespace tessera::rt::cuda::check

using namespace tessera::rt::cuda;
using namespace tessera::rt::cuda::check;

bool tsr_check_holds(const void *pointer, size_t bytes) {
  return currentContext() && memory().holds(*currentContext(), reinterpret_cast<DevicePointer>(pointer), bytes);
}
int tsr_check_gpu() { return currentContext() ? currentContext()->number : -1; }

extern "C" {

Status cuInit(unsigned) { return success; }
Status cuDriverGetVersion(int *version) {
  *version = int(setting("TESSERA_CHECK_VERSION", 13000));
  return success;
}
Status cuGetErrorName(Status status, const char **name) {
  *name = status == outOfMemory    ? "CUDA_ERROR_OUT_OF_MEMORY"
          : status == launchFailed ? "CUDA_ERROR_LAUNCH_FAILED"
          : status == notFound     ? "CUDA_ERROR_NOT_FOUND"
          : status == invalidImage ? "CUDA_ERROR_INVALID_IMAGE"
          : status == captureUnsupported ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
          : status == captureUnjoined ? "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"
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
  *value = attribute == attributeMajor ? capability / 10 : attribute == attributeMinor ? capability % 10 : 0;
  return attribute == attributeMajor || attribute == attributeMinor ? success : fail(invalidValue, "an attribute that is not modelled");
}
Status cuDevicePrimaryCtxRetain(Handle *context, int device) {
  contexts[device].number = device;
  *context = &contexts[device];
  return success;
}
Status cuDevicePrimaryCtxRelease_v2(int device) {
  if (size_t bytes = memory().used(contexts[device]))
    fail(invalidValue, "the context ends with " + std::to_string(bytes) + " bytes not freed");
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
  // The end of the allocation is the end of its pages as nearly as alignment lets it be; a closed page follows.
  size_t mapped = (bytes + 4095) / 4096 * 4096;
  auto *base = static_cast<char *>(::mmap(nullptr, mapped + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (base == MAP_FAILED)
    return outOfMemory;
  ::mprotect(base, mapped, PROT_READ | PROT_WRITE);
  std::memset(base, 0xff, mapped);
  ::mprotect(base, mapped, PROT_NONE);
  *pointer = reinterpret_cast<DevicePointer>(base);
  std::lock_guard all(memory().mutex);
  memory().allocations[*pointer] = {bytes, mapped, &context, true};
  return success;
}
Status cuMemHostAlloc(void **pointer, size_t bytes, unsigned) {
  NEEDS_CONTEXT
  *pointer = std::malloc(bytes);
  return bytes == 0 ? invalidValue : *pointer ? success : outOfMemory;
}
Status cuMemFreeHost(void *pointer) {
  NEEDS_CONTEXT
  for (Stream &stream : context.streams)
    if (!stream.work.empty())
      return fail(invalidValue, "pinned memory of the host is freed while work is under way that may copy to it");
  std::free(pointer);
  return success;
}
Status cuMemFree_v2(DevicePointer pointer) {
  NEEDS_CONTEXT
  std::lock_guard all(memory().mutex);
  auto it = memory().allocations.find(pointer);
  if (it == memory().allocations.end() || !it->second.live || it->second.context != &context)
    return fail(invalidValue, "what is freed is not allocated");
  it->second.live = false; // its pages stay closed
  return success;
}
}
