// How processes that know one address find each other.
#pragma once

#include <string>
#include <vector>

namespace tessera::rt {

/// A connected socket, closed at the end.
class Socket {
public:
  explicit Socket(int descriptor = -1) : fd(descriptor) {}
  Socket(Socket &&other) noexcept : fd(other.fd) { other.fd = -1; }
  Socket &operator=(Socket &&other) noexcept;
  ~Socket();
  int descriptor() const { return fd; }
  /// Everything or an Error; before the socket stops blocking.
  void write(const void *data, size_t bytes) const;
  void read(void *data, size_t bytes) const;

private:
  int fd;
};

struct Rendezvous {
  int rank = 0, size = 1;
  std::string host;
  int port = 0;
  /// From the environment. Throws Error for what is no number, or no rank.
  static Rendezvous fromEnvironment();
  /// A connection to every other rank, by rank. All ranks call it; rank 0 listens at the port. Throws Error after a minute.
  std::vector<Socket> connect() const;
};

} // namespace tessera::rt
