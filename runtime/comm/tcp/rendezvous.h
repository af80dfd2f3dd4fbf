// How processes that know one address find each other.
#pragma once

#include "runtime/core/error.h"

#include <chrono>
#include <string>
#include <vector>

namespace tessera::rt {

/// A connected or listening socket that does not block, closed at the end.
class Socket {
public:
  using Time = std::chrono::steady_clock::time_point;

  explicit Socket(int descriptor = -1) : fd(descriptor) {}
  Socket(Socket &&other) noexcept : fd(other.fd) { other.fd = -1; }
  Socket &operator=(Socket &&other) noexcept;
  ~Socket();
  int descriptor() const { return fd; }
  explicit operator bool() const { return fd >= 0; }
  /// Everything before `end`, or an Error.
  void write(const void *data, size_t bytes, Time end) const;
  void read(void *data, size_t bytes, Time end) const;

private:
  int fd;
};

/// Rank 0 has found that the ranks do not fit together, and says why.
struct RendezvousRefused : Error {
  using Error::Error;
};

struct Rendezvous {
  int rank = 0, size = 1;
  std::string host;
  int port = 0;
  /// From the environment. Throws Error for what is no number, or no rank.
  static Rendezvous fromEnvironment();
  /// A connection to every other rank, by rank, which notices a host that is gone. All ranks call it; rank 0
  /// listens at the port, where others than ranks may call too. Throws Error where ranks have not come after
  /// `patience`.
  std::vector<Socket> connect(std::chrono::seconds patience = std::chrono::seconds(60)) const;
};

} // namespace tessera::rt
