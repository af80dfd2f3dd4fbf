// What this host is called, by which ranks tell whether they share memory and processors; and since when it
// runs.
#pragma once

#include <cstdlib>
#include <fstream>
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

/// Another one after each start of the system; empty where the system has none.
inline std::string bootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

} // namespace tessera::rt
