// Modules, kernels and launches of the checking driver.
#include "runtime/device/cuda/check/machine.h"
#include "runtime/device/cuda/check/simt.h"

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <vector>

namespace tessera::rt::cuda::check {
namespace {

struct Function {
  std::string name;
  Program twin = nullptr;
  std::vector<size_t> parameterBytes;
  uint32_t maxThreads = 1024;
};

struct Module {
  std::map<std::string, std::unique_ptr<Function>> functions;
};

/// The parameters of `.param` declarations such as `.u64 .ptr .align 64 name`, `.b64 name`, `.align 8 .b8
/// name[24]`.
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
  static std::mutex mutex;
  static void *self = nullptr, *twins = nullptr;
  std::lock_guard lock(mutex);
  if (!self) {
    Dl_info info;
    ::dladdr(reinterpret_cast<void *>(&findTwin), &info);
    // The twins find the simulator here.
    self = ::dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    if (const char *path = std::getenv("TESSERA_CHECK_TWINS"))
      if (!(twins = ::dlopen(path, RTLD_NOW | RTLD_LOCAL)))
        fail(notFound, ::dlerror());
  }
  for (void *library : {self, twins})
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
      function->parameterBytes.push_back(
          parameterBytes(declarations.substr(p + 6, declarations.find(',', p) - p - 6)));
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

extern "C" {

Status cuModuleLoadData(Handle *module, const void *image) {
  NEEDS_CONTEXT
  if (memory().free(context) < moduleBytes())
    return outOfMemory;
  ++context.modules;
  auto loaded = std::make_unique<Module>();
  Status status = parse(static_cast<const char *>(image), *loaded);
  *module = status == success ? loaded.release() : nullptr;
  return status;
}
Status cuModuleUnload(Handle module) {
  NEEDS_CONTEXT
  --context.modules;
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
    return fail(
        notFound,
        std::string("kernel '") + name +
            "' has no twin; TESSERA_CHECK_TWINS names the file that tessera compile --host-twins wrote");
  *function = it->second.get();
  return success;
}

Status cuLaunchKernel(Handle handle, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                      unsigned blockY, unsigned blockZ, unsigned, Handle stream, void **parameters, void **) {
  NEEDS_CONTEXT
  auto &function = *static_cast<Function *>(handle);
  if (gridX == 0 || gridY != 1 || gridZ != 1 || blockX == 0 || blockY != 1 || blockZ != 1 ||
      blockX > function.maxThreads)
    return fail(invalidValue, "kernel '" + function.name + "' is launched with a block of " +
                                  std::to_string(blockX) + " threads, its PTX allows " +
                                  std::to_string(function.maxThreads));
  auto values = std::make_shared<std::vector<std::vector<uint64_t>>>();
  for (size_t i = 0; i < function.parameterBytes.size(); ++i) {
    values->emplace_back((function.parameterBytes[i] + 7) / 8);
    std::memcpy(values->back().data(), parameters[i], function.parameterBytes[i]);
  }
  push(*static_cast<Stream *>(stream), [&function, values, gridX, blockX] {
    std::vector<void *> pointers;
    for (std::vector<uint64_t> &value : *values)
      pointers.push_back(value.data());
    // Twins keep a block's shared memory in one place.
    static std::mutex block;
    std::lock_guard lock(block);
    runGrid(function.name, function.twin, pointers.data(), gridX, blockX);
  });
  return success;
}
}
