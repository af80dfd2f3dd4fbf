// See rendezvous.h. Every rank listens somewhere and tells rank 0, which tells everybody; of two others the higher rank calls the lower.
#include "runtime/comm/tcp/rendezvous.h"

#include "runtime/core/error.h"

#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace tessera::rt {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds patience{60};
constexpr uint32_t magic = 0x74737231;

/// What a caller says, and what rank 0 tells of every rank.
struct Introduction {
  uint32_t word, rank, size, port;
  sockaddr_storage address;
};

int numberFrom(const char *name, int low, int high) {
  const char *text = std::getenv(name);
  char *end = nullptr;
  long value = std::strtol(text, &end, 10);
  if (end == text || *end || value < low || value > high)
    throw Error(name, " is '", text, "', expected a number from ", low, " to ", high);
  return int(value);
}

void setPort(sockaddr_storage &address, uint32_t port) {
  if (address.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6 &>(address).sin6_port = htons(uint16_t(port));
  else
    reinterpret_cast<sockaddr_in &>(address).sin_port = htons(uint16_t(port));
}

socklen_t lengthOf(const sockaddr_storage &address) { return address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in); }

/// A listening socket, and the port it got.
Socket listenAt(int &port, int connections) {
  Socket result(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int yes = 1;
  ::setsockopt(result.descriptor(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(uint16_t(port));
  socklen_t length = sizeof address;
  if (::bind(result.descriptor(), reinterpret_cast<sockaddr *>(&address), length) != 0 || ::listen(result.descriptor(), connections) != 0)
    throw Error("rank 0 cannot listen at port ", port, ": ", std::strerror(errno), "; choose another MASTER_PORT");
  ::getsockname(result.descriptor(), reinterpret_cast<sockaddr *>(&address), &length);
  port = ntohs(address.sin_port);
  return result;
}

Socket call(const sockaddr_storage &address) {
  Socket result(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::connect(result.descriptor(), reinterpret_cast<const sockaddr *>(&address), lengthOf(address)) == 0 ? std::move(result) : Socket();
}

/// Who calls next, and what it says.
Socket answer(const Socket &listener, Introduction &theirs, Clock::time_point end, int missing) {
  pollfd poll{listener.descriptor(), POLLIN, 0};
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
  if (::poll(&poll, 1, int(std::max<int64_t>(left, 0))) <= 0)
    throw Error(missing, " ranks have not come within ", patience.count(), " seconds; start as many processes as WORLD_SIZE says");
  socklen_t length = sizeof theirs.address;
  sockaddr_storage from{};
  Socket result(::accept4(listener.descriptor(), reinterpret_cast<sockaddr *>(&from), &length, SOCK_CLOEXEC));
  result.read(&theirs, sizeof theirs);
  if (theirs.word != magic)
    throw Error("something else than a rank of this program calls at the port of the ranks; choose another MASTER_PORT");
  theirs.address = from;
  setPort(theirs.address, theirs.port);
  return result;
}

} // namespace

Socket &Socket::operator=(Socket &&other) noexcept {
  std::swap(fd, other.fd);
  return *this;
}
Socket::~Socket() {
  if (fd >= 0)
    ::close(fd);
}

void Socket::write(const void *data, size_t bytes) const {
  for (auto *at = static_cast<const char *>(data); bytes > 0;) {
    ssize_t done = ::send(fd, at, bytes, MSG_NOSIGNAL);
    if (done <= 0)
      throw Error("a rank has gone while the ranks connected: ", std::strerror(errno));
    at += done;
    bytes -= size_t(done);
  }
}

void Socket::read(void *data, size_t bytes) const {
  if (::recv(fd, data, bytes, MSG_WAITALL) != ssize_t(bytes))
    throw Error("a rank has gone while the ranks connected");
}

Rendezvous Rendezvous::fromEnvironment() {
  Rendezvous result;
  result.size = numberFrom("WORLD_SIZE", 1, 1 << 20);
  result.rank = numberFrom("RANK", 0, result.size - 1);
  result.host = std::getenv("MASTER_ADDR");
  result.port = numberFrom("MASTER_PORT", 1, 65534);
  // torchrun's own store listens at the port it tells.
  if (const char *agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE"); agent && std::string(agent) == "True")
    ++result.port;
  return result;
}

std::vector<Socket> Rendezvous::connect() const {
  auto end = Clock::now() + patience;
  std::vector<Socket> sockets{size_t(size)};
  std::vector<Introduction> all{size_t(size)};
  int ownPort = rank == 0 ? port : 0;
  Socket listener = listenAt(ownPort, size);
  Introduction mine{magic, uint32_t(rank), uint32_t(size), uint32_t(ownPort), {}};
  auto accept = [&](int missing) {
    Introduction theirs;
    Socket socket = answer(listener, theirs, end, missing);
    if (theirs.size != uint32_t(size) || theirs.rank >= uint32_t(size) || sockets[theirs.rank].descriptor() >= 0)
      throw Error("a process says that it is rank ", theirs.rank, " of ", theirs.size, ", this is rank ", rank, " of ", size,
                  ": every process needs its own RANK and the same WORLD_SIZE");
    all[theirs.rank] = theirs;
    sockets[theirs.rank] = std::move(socket);
  };
  if (rank == 0) {
    for (int missing = size - 1; missing > 0; --missing)
      accept(missing);
    for (int other = 1; other < size; ++other)
      sockets[size_t(other)].write(all.data(), all.size() * sizeof(Introduction));
  } else {
    addrinfo hints{}, *found = nullptr;
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    if (int problem = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found))
      throw Error("MASTER_ADDR '", host, "' is no host: ", ::gai_strerror(problem));
    std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
    sockaddr_storage first{};
    std::memcpy(&first, found->ai_addr, found->ai_addrlen);
    while ((sockets[0] = call(first)).descriptor() < 0) {
      if (Clock::now() > end)
        throw Error("rank 0 does not answer at ", host, ":", port, " (MASTER_ADDR, MASTER_PORT) within ", patience.count(), " seconds");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    sockets[0].write(&mine, sizeof mine);
    sockets[0].read(all.data(), all.size() * sizeof(Introduction));
    for (int lower = 1; lower < rank; ++lower) {
      if ((sockets[size_t(lower)] = call(all[size_t(lower)].address)).descriptor() < 0)
        throw Error("rank ", rank, " cannot reach rank ", lower, ": ", std::strerror(errno));
      sockets[size_t(lower)].write(&mine, sizeof mine);
    }
    for (int missing = size - 1 - rank; missing > 0; --missing)
      accept(missing);
  }
  int yes = 1;
  for (Socket &socket : sockets)
    if (socket.descriptor() >= 0)
      ::setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return sockets;
}

} // namespace tessera::rt
