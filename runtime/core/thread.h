// Threads that say why they cannot be started.
#pragma once

#include "runtime/core/error.h"

#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace tessera::rt {

/// Starts a thread. Throws Error, which names it by `what`, where the system allows no more.
template <typename Body> std::thread startThread(const std::string &what, Body &&body) {
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error &error) {
    throw Error("cannot start ", what, ": ", error.code().message(),
                "; raise the limit on threads (ulimit -u, a container's pids limit)");
  }
}

} // namespace tessera::rt
