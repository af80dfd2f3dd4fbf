// What this host is called, by which ranks tell whether they share memory and processors.
#pragma once

#include <cstdlib>
#include <string>
#include <unistd.h>

namespace tessera::rt {

/// The system's name of it. A test hook: TESSERA_HOST, by which ranks of one machine take themselves for
/// those of several hosts.
inline std::string hostName() {
  if (const char *given = std::getenv("TESSERA_HOST"))
    return given;
  char host[256] = {};
  ::gethostname(host, sizeof(host) - 1);
  return host;
}

} // namespace tessera::rt
