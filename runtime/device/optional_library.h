// Libraries that a program goes without, slower, where they are missing; found at run time.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>

namespace tessera::rt {

struct OptionalLibrary {
  const char *name, *work;                   ///< "cuBLASLt", "products"
  std::initializer_list<const char *> files; ///< the first that is there
  const char *version;                       ///< the function that tells it, a size_t
  size_t leastVersion;
  const char *leastName; ///< "CUDA 12's"
};

/// The handle that symbols are found in. Null where there is none or an older one, which is said.
void *open(const OptionalLibrary &library);
/// The function; null where it is missing, which is said.
void *find(const OptionalLibrary &library, void *handle, const char *symbol);
/// Says once in a process that the library's work is done without it, and why.
void sayWithout(const OptionalLibrary &library, const std::string &why);
/// Whether the environment switches something off: its variable is `off`.
bool isOff(const char *variable);

} // namespace tessera::rt
