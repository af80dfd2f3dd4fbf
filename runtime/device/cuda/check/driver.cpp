// Stands in for libcuda.so.1 in tests: executes the twins of kernels on the host and refuses what a GPU would fail at.
//
// - Work of a stream runs only when somebody waits for the stream, as late as a GPU may do it: a result that is read, or a source that is
//   overwritten, without waiting shows as a wrong value.
// - Device memory is closed to the host, new memory is full of NaN, and freed memory stays closed: touching any of them from outside of a
//   kernel, or a byte beyond an allocation's pages, ends the process.
// - A kernel's parameters, block size and name are checked against its PTX; threads that miss a shuffle or barrier are an error.
//
// Variables: TESSERA_CHECK_TWINS names the program's twins (tessera compile --host-twins), TESSERA_CHECK_GPUS, _MEMORY, _CAPABILITY and
// _VERSION say what machine it is.
#include "runtime/core/error.h"
#include "runtime/device/cuda/check/simt.h"
#include "runtime/device/cuda/driver.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <sys/mman.h>
#include <vector>

namespace tessera::rt::cuda::check {
namespace {

enum : Status { success = 0, invalidValue = 1, outOfMemory = 2, invalidImage = 200, invalidContext = 201, notFound = 500, launchFailed = 719 };

struct Function {
  std::string name;
  Program twin = nullptr;
  std::vector<size_t> parameterBytes;
  uint32_t maxThreads = 1024;
};

struct Module {
  std::map<std::string, std::unique_ptr<Function>> functions;
};

struct Stream {
  std::deque<std::function<void()>> work;
};

struct Allocation {
  size_t bytes, mapped;
  Handle context;
  bool live;
};

/// One machine; everything is done under its mutex.
struct Machine {
  std::mutex mutex;
  std::map<DevicePointer, Allocation> memory;
  Status failure = success; ///< sticky, as after a fault of a real GPU
  void *self = nullptr, *twins = nullptr;
};

Machine &machine() {
  static Machine instance;
  return instance;
}

thread_local Handle currentContext = nullptr;
int contexts[64];

size_t setting(const char *name, size_t standard) {
  const char *text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : standard;
}
/// Of each GPU.
size_t totalMemory() { return setting("TESSERA_CHECK_MEMORY", size_t(8) << 30); }
size_t usedMemory(Handle context) {
  size_t sum = 0;
  for (const auto &[pointer, allocation] : machine().memory)
    sum += allocation.live && allocation.context == context ? allocation.bytes : 0;
  return sum;
}

Status fail(Status status, const std::string &what) {
  std::fprintf(stderr, "checking driver: %s\n", what.c_str());
  return status;
}

/// Whether [pointer, pointer + bytes) lies in one live allocation of this thread's GPU.
bool isDeviceMemory(DevicePointer pointer, size_t bytes) {
  auto &memory = machine().memory;
  auto it = memory.upper_bound(pointer);
  if (it == memory.begin())
    return false;
  --it;
  return it->second.live && it->second.context == currentContext && pointer + bytes <= it->first + it->second.bytes;
}

void protect(int mode) {
  for (auto &[pointer, allocation] : machine().memory)
    if (allocation.live && allocation.context == currentContext)
      ::mprotect(reinterpret_cast<void *>(pointer), allocation.mapped, mode);
}

/// Runs what the stream was given.
Status drain(Stream &stream) {
  Machine &m = machine();
  protect(PROT_READ | PROT_WRITE);
  while (!stream.work.empty() && m.failure == success) {
    try {
      stream.work.front()();
    } catch (const std::exception &error) {
      m.failure = fail(launchFailed, error.what());
    }
    stream.work.pop_front();
  }
  protect(PROT_NONE);
  return m.failure;
}

/// The parameters of `.param` declarations such as `.u64 .ptr .align 64 name`, `.b64 name`, `.align 8 .b8 name[24]`.
size_t parameterBytes(const std::string &declaration) {
  size_t bits = 0, count = 1;
  for (size_t at = 0; (at = declaration.find('.', at)) != std::string::npos; ++at)
    if (std::strchr("ubsf", declaration[at + 1]) && std::isdigit(declaration[at + 2]))
      bits = std::strtoull(&declaration[at + 2], nullptr, 10);
  if (size_t bracket = declaration.find('['); bracket != std::string::npos)
    count = std::strtoull(&declaration[bracket + 1], nullptr, 10);
  return bits / 8 * count;
}

Program findTwin(const std::string &name) {
  Machine &m = machine();
  if (!m.self) {
    Dl_info info;
    ::dladdr(reinterpret_cast<void *>(&findTwin), &info);
    // The twins find the simulator here.
    m.self = ::dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    if (const char *path = std::getenv("TESSERA_CHECK_TWINS"))
      if (!(m.twins = ::dlopen(path, RTLD_NOW | RTLD_LOCAL)))
        fail(notFound, ::dlerror());
  }
  for (void *library : {m.self, m.twins})
    if (void *symbol = library ? ::dlsym(library, (name + "_twin").c_str()) : nullptr)
      return reinterpret_cast<Program>(symbol);
  return nullptr;
}

/// The entries of PTX text.
Status parse(const std::string &ptx, Module &module) {
  if (ptx.find(".version ") == std::string::npos || ptx.find(".target sm_") == std::string::npos)
    return fail(invalidImage, "the module is no PTX text");
  for (size_t at = 0; (at = ptx.find(".entry ", at)) != std::string::npos;) {
    size_t open = ptx.find('(', at), close = ptx.find(')', at), body = ptx.find('{', at);
    auto function = std::make_unique<Function>();
    function->name = ptx.substr(at + 7, open - at - 7);
    std::string declarations = ptx.substr(open + 1, close - open - 1);
    for (size_t p = 0; (p = declarations.find(".param", p)) != std::string::npos; ++p)
      function->parameterBytes.push_back(parameterBytes(declarations.substr(p + 6, declarations.find(',', p) - p - 6)));
    std::string directives = ptx.substr(close, body - close);
    if (size_t limit = directives.find(".maxntid "); limit != std::string::npos)
      function->maxThreads = uint32_t(std::strtoul(&directives[limit + 9], nullptr, 10));
    function->twin = findTwin(function->name);
    module.functions[function->name] = std::move(function);
    at = body;
  }
  return success;
}

} // namespace
} // namespace tessera::rt::cuda::check

using namespace tessera::rt;
using namespace tessera::rt::cuda;
using namespace tessera::rt::cuda::check;

/// Without a context a thread has no GPU.
#define NEEDS_CONTEXT                                                                                                  \
  std::lock_guard lock(machine().mutex);                                                                               \
  if (!currentContext)                                                                                                 \
    return fail(invalidContext, "this thread has no context");

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
Status cuDeviceGetAttribute(int *value, int attribute, int) {
  int capability = int(setting("TESSERA_CHECK_CAPABILITY", 90));
  *value = attribute == attributeMajor ? capability / 10 : attribute == attributeMinor ? capability % 10 : 0;
  return attribute == attributeMajor || attribute == attributeMinor ? success : fail(invalidValue, "an attribute that is not modelled");
}
Status cuDevicePrimaryCtxRetain(Handle *context, int device) {
  *context = &contexts[device];
  return success;
}
Status cuDevicePrimaryCtxRelease_v2(int device) {
  std::lock_guard lock(machine().mutex);
  if (size_t bytes = usedMemory(&contexts[device]))
    fail(invalidValue, "the context ends with " + std::to_string(bytes) + " bytes not freed");
  return success;
}
Status cuCtxSetCurrent(Handle context) {
  currentContext = context;
  return success;
}

Status cuMemGetInfo_v2(size_t *free, size_t *total) {
  NEEDS_CONTEXT
  *total = totalMemory();
  *free = *total - usedMemory(currentContext);
  return success;
}
Status cuMemAlloc_v2(DevicePointer *pointer, size_t bytes) {
  NEEDS_CONTEXT
  Machine &m = machine();
  if (bytes == 0 || bytes > totalMemory() - usedMemory(currentContext))
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
  m.memory[*pointer] = {bytes, mapped, currentContext, true};
  return success;
}
Status cuMemFree_v2(DevicePointer pointer) {
  NEEDS_CONTEXT
  auto it = machine().memory.find(pointer);
  if (it == machine().memory.end() || !it->second.live)
    return fail(invalidValue, "what is freed is not allocated");
  it->second.live = false; // its pages stay closed
  return success;
}

Status cuStreamCreate(Handle *stream, unsigned) {
  NEEDS_CONTEXT
  *stream = new Stream;
  return success;
}
Status cuStreamDestroy_v2(Handle stream) {
  NEEDS_CONTEXT
  delete static_cast<Stream *>(stream);
  return success;
}
Status cuStreamSynchronize(Handle stream) {
  NEEDS_CONTEXT
  return drain(*static_cast<Stream *>(stream));
}

Status cuMemsetD8Async(DevicePointer to, unsigned char value, size_t count, Handle stream) {
  NEEDS_CONTEXT
  if (!isDeviceMemory(to, count))
    return fail(invalidValue, "memory that is set lies outside of every allocation");
  static_cast<Stream *>(stream)->work.push_back([=] { std::memset(reinterpret_cast<void *>(to), value, count); });
  return success;
}
Status cuMemcpyHtoDAsync_v2(DevicePointer to, const void *from, size_t bytes, Handle stream) {
  NEEDS_CONTEXT
  if (!isDeviceMemory(to, bytes))
    return fail(invalidValue, "a copy's target lies outside of every allocation");
  static_cast<Stream *>(stream)->work.push_back([=] { std::memcpy(reinterpret_cast<void *>(to), from, bytes); });
  return success;
}
Status cuMemcpyDtoHAsync_v2(void *to, DevicePointer from, size_t bytes, Handle stream) {
  NEEDS_CONTEXT
  if (!isDeviceMemory(from, bytes))
    return fail(invalidValue, "a copy's source lies outside of every allocation");
  static_cast<Stream *>(stream)->work.push_back([=] { std::memcpy(to, reinterpret_cast<void *>(from), bytes); });
  return success;
}

Status cuModuleLoadData(Handle *module, const void *image) {
  NEEDS_CONTEXT
  auto loaded = std::make_unique<Module>();
  Status status = parse(static_cast<const char *>(image), *loaded);
  *module = status == success ? loaded.release() : nullptr;
  return status;
}
Status cuModuleUnload(Handle module) {
  NEEDS_CONTEXT
  delete static_cast<Module *>(module);
  return success;
}
Status cuModuleGetFunction(Handle *function, Handle module, const char *name) {
  NEEDS_CONTEXT
  auto &functions = static_cast<Module *>(module)->functions;
  auto it = functions.find(name);
  if (it == functions.end())
    return fail(notFound, std::string("the module has no entry '") + name + "'");
  if (!it->second->twin)
    return fail(notFound, std::string("kernel '") + name + "' has no twin; TESSERA_CHECK_TWINS names the file that tessera compile --host-twins wrote");
  *function = it->second.get();
  return success;
}

Status cuLaunchKernel(Handle handle, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY, unsigned blockZ,
                      unsigned, Handle stream, void **parameters, void **) {
  NEEDS_CONTEXT
  auto &function = *static_cast<Function *>(handle);
  if (gridX == 0 || gridY != 1 || gridZ != 1 || blockX == 0 || blockY != 1 || blockZ != 1 || blockX > function.maxThreads)
    return fail(invalidValue, "kernel '" + function.name + "' is launched with a block of " + std::to_string(blockX) + " threads, its PTX allows " +
                                  std::to_string(function.maxThreads));
  auto values = std::make_shared<std::vector<std::vector<uint64_t>>>();
  for (size_t i = 0; i < function.parameterBytes.size(); ++i) {
    values->emplace_back((function.parameterBytes[i] + 7) / 8);
    std::memcpy(values->back().data(), parameters[i], function.parameterBytes[i]);
  }
  static_cast<Stream *>(stream)->work.push_back([&function, values, gridX, blockX] {
    std::vector<void *> pointers;
    for (std::vector<uint64_t> &value : *values)
      pointers.push_back(value.data());
    runGrid(function.name, function.twin, pointers.data(), gridX, blockX);
  });
  return success;
}
}
