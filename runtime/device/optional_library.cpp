// See optional_library.h.
#include "runtime/device/optional_library.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <set>

namespace tessera::rt {

void *open(const OptionalLibrary &library) {
  void *handle = nullptr;
  for (const char *name : library.files)
    if (!handle)
      handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    std::string names;
    for (const char *name : library.files)
      names += (names.empty() ? "" : " or ") + std::string(name);
    sayWithout(library, "there is no " + names + " on this machine");
    return nullptr;
  }
  auto *version = reinterpret_cast<size_t (*)()>(::dlsym(handle, library.version));
  if (version && version() >= library.leastVersion)
    return handle;
  sayWithout(library, std::string("the one on this machine is older than ") + library.leastName);
  return nullptr;
}

void *find(const OptionalLibrary &library, void *handle, const char *symbol) {
  void *function = ::dlsym(handle, symbol);
  if (!function)
    sayWithout(library, std::string("the one on this machine lacks the function ") + symbol);
  return function;
}

void sayWithout(const OptionalLibrary &library, const std::string &why) {
  static std::mutex mutex;
  static std::set<std::string> said;
  std::lock_guard lock(mutex);
  if (said.insert(library.name).second)
    std::fprintf(stderr, "note: %s are done without %s, slower: %s\n", library.work, library.name,
                 why.c_str());
}

bool isOff(const char *variable) {
  const char *wish = std::getenv(variable);
  return wish && !std::strcmp(wish, "off");
}

} // namespace tessera::rt
