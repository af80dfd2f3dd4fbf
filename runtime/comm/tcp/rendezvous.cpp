// See rendezvous.h. Every rank listens somewhere and tells rank 0, which tells everybody; of two others the
// higher rank calls the lower.
#include "runtime/comm/tcp/rendezvous.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/tcp.h>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace tessera::rt {
namespace {

using Clock = std::chrono::steady_clock;
using Time = Socket::Time;
/// Beginnings of what a rank says when it calls, and of rank 0's answer: the ranks follow, or it has said
/// what is wrong.
constexpr uint32_t magic = 0x74737232, refusal = 0x74737233;
/// A caller says who it is within this time.
constexpr std::chrono::seconds introductionTime{5};
constexpr size_t maxCallers = 256;

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

socklen_t lengthOf(const sockaddr_storage &address) {
  return address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

std::string textOf(const sockaddr_storage &address) {
  char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
  ::getnameinfo(reinterpret_cast<const sockaddr *>(&address), lengthOf(address), host, sizeof host, port,
                sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  return std::string(host) + ":" + port;
}

/// Waits for events of sockets, until `end`; returns whether there are any.
bool await(std::vector<pollfd> &polls, Time end) {
  auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
  return ::poll(polls.data(), polls.size(), int(std::max<int64_t>(left, 0))) > 0;
}
bool await(const Socket &socket, short events, Time end) {
  std::vector<pollfd> polls{{socket.descriptor(), events, 0}};
  return await(polls, end);
}

/// A listening socket, and the port it got.
Socket listenAt(int &port, int connections) {
  Socket result(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int yes = 1;
  ::setsockopt(result.descriptor(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(uint16_t(port));
  socklen_t length = sizeof address;
  if (::bind(result.descriptor(), reinterpret_cast<sockaddr *>(&address), length) != 0 ||
      ::listen(result.descriptor(), connections) != 0)
    throw Error("rank 0 cannot listen at port ", port, ": ", std::strerror(errno),
                "; choose another MASTER_PORT");
  ::getsockname(result.descriptor(), reinterpret_cast<sockaddr *>(&address), &length);
  port = ntohs(address.sin_port);
  return result;
}

/// A connection, or none with errno set.
Socket call(const sockaddr_storage &address, Time end) {
  Socket result(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(result.descriptor(), reinterpret_cast<const sockaddr *>(&address), lengthOf(address)) == 0)
    return result;
  if (errno != EINPROGRESS)
    return Socket();
  int error = ETIMEDOUT;
  socklen_t length = sizeof error;
  if (await(result, POLLOUT, end))
    ::getsockopt(result.descriptor(), SOL_SOCKET, SO_ERROR, &error, &length);
  errno = error;
  return error == 0 ? std::move(result) : Socket();
}

/// Who calls at a port. Ports are open to everybody: who says nothing in time, or something else than a rank
/// would, is turned away.
class Callers {
public:
  /// `link`: a connection whose end means that the ranks do not come together any more; or none.
  Callers(const Socket &listener, const Socket &link) : listener(listener), link(link) {}

  /// The next rank that says who it is; none at the end of the time.
  std::optional<std::pair<Socket, Introduction>> next(Time end) {
    while (Clock::now() < end) {
      std::vector<pollfd> polls{{listener.descriptor(), POLLIN, 0}, {link.descriptor(), POLLRDHUP, 0}};
      Time until = end;
      for (const Caller &caller : callers) {
        polls.push_back({caller.socket.descriptor(), POLLIN, 0});
        until = std::min(until, caller.end);
      }
      await(polls, until);
      if (polls[1].revents)
        throw RendezvousRefused("rank 0 has ended while the ranks connected");
      for (size_t i = callers.size(); i-- > 0;) {
        bool gone = Clock::now() >= callers[i].end || (polls[i + 2].revents && !hear(callers[i]));
        if (!gone && callers[i].bytes < sizeof(Introduction))
          continue;
        Caller caller = std::move(callers[i]);
        callers.erase(callers.begin() + ptrdiff_t(i));
        if (!gone)
          return std::pair(std::move(caller.socket), caller.said);
        ++strangers;
      }
      if (polls[0].revents)
        admit();
    }
    return std::nullopt;
  }

  /// How many were turned away.
  int64_t strangers = 0;

private:
  struct Caller {
    Socket socket;
    Time end;
    Introduction said;
    size_t bytes;
    sockaddr_storage from;
  };

  void admit() {
    Caller caller{Socket(), Clock::now() + introductionTime, {}, 0, {}};
    socklen_t length = sizeof caller.from;
    caller.socket = Socket(::accept4(listener.descriptor(), reinterpret_cast<sockaddr *>(&caller.from),
                                     &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
    bool full = callers.size() == maxCallers || (!caller.socket && (errno == EMFILE || errno == ENFILE));
    if (full && callers.empty())
      throw Error("a rank cannot be answered: ", std::strerror(errno),
                  "; raise the limit on open files (ulimit -n)");
    if (full)
      callers.erase(callers.begin());
    if (caller.socket)
      callers.push_back(std::move(caller));
  }

  /// Takes what a caller says; false where it is no rank.
  static bool hear(Caller &caller) {
    ssize_t got = ::recv(caller.socket.descriptor(), reinterpret_cast<char *>(&caller.said) + caller.bytes,
                         sizeof caller.said - caller.bytes, 0);
    if (got <= 0)
      return got < 0 && (errno == EAGAIN || errno == EINTR);
    caller.bytes += size_t(got);
    if (caller.bytes >= sizeof magic && caller.said.word != magic)
      return false;
    if (caller.bytes < sizeof caller.said)
      return true;
    uint32_t port = caller.said.port;
    caller.said.address = caller.from;
    setPort(caller.said.address, port);
    return true;
  }

  const Socket &listener, &link;
  std::vector<Caller> callers;
};

/// Something goes wrong with a connection that is being made.
[[noreturn]] void gone(const char *why) { throw Error("a rank has gone while the ranks connected: ", why); }

bool isLoopback(const sockaddr_storage &address) {
  return address.ss_family == AF_INET &&
         ntohl(reinterpret_cast<const sockaddr_in &>(address).sin_addr.s_addr) >> 24 == 127;
}

/// A connection tells when its other host is gone, though nothing is sent: after 5 + 3 x 5 seconds.
void watch(const Socket &socket) {
  auto set = [&](int level, int option, int value) {
    ::setsockopt(socket.descriptor(), level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
}

/// The ranks as they come together.
class Meeting {
public:
  Meeting(const Rendezvous &how, std::chrono::seconds patience)
      : how(how), patience(patience), port(how.rank == 0 ? how.port : 0), listener(listenAt(port, how.size)),
        sockets(size_t(how.size)), all(size_t(how.size)) {}

  std::vector<Socket> connect() {
    how.rank == 0 ? lead() : follow();
    for (const Socket &socket : sockets)
      if (socket)
        watch(socket);
    return std::move(sockets);
  }

private:
  void lead() {
    try {
      acceptFrom(1);
    } catch (const Error &) {
      for (const Socket &socket : sockets)
        refuse(socket);
      throw;
    }
    for (int other = 1; other < how.size; ++other) {
      Time end = Clock::now() + patience;
      sockets[size_t(other)].write(&magic, sizeof magic, end);
      sockets[size_t(other)].write(all.data(), all.size() * sizeof(Introduction), end);
    }
  }

  void follow() {
    sockaddr_storage first = findFirst();
    sockets[0] = callFirst(first);
    Introduction mine{magic, uint32_t(how.rank), uint32_t(how.size), uint32_t(port), {}};
    // Rank 0 has been there before this call, so it gives up earlier.
    Time end = Clock::now() + patience + std::chrono::seconds(5);
    sockets[0].write(&mine, sizeof mine, end);
    uint32_t word = 0;
    sockets[0].read(&word, sizeof word, end);
    if (word == refusal)
      throw RendezvousRefused("rank 0 has ended while the ranks connected");
    if (word != magic)
      throw Error("something else than rank 0 of this program answers at ", textOf(first),
                  " (MASTER_ADDR, MASTER_PORT)");
    sockets[0].read(all.data(), all.size() * sizeof(Introduction), end);
    for (int lower = 1; lower < how.rank; ++lower) {
      Introduction &other = all[size_t(lower)];
      // Who has called rank 0 by a loopback address is on its host.
      if (isLoopback(other.address) && !isLoopback(first))
        other.address = first;
      setPort(other.address, other.port);
      Socket &socket = sockets[size_t(lower)] = call(other.address, Clock::now() + std::chrono::seconds(20));
      if (!socket)
        throw Error("rank ", how.rank, " cannot reach rank ", lower, " at ", textOf(other.address), ": ",
                    std::strerror(errno), "; every rank must reach every other at any port");
      socket.write(&mine, sizeof mine, end);
    }
    acceptFrom(how.rank + 1);
  }

  sockaddr_storage findFirst() const {
    addrinfo hints{}, *found = nullptr;
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    if (int problem = ::getaddrinfo(how.host.c_str(), std::to_string(how.port).c_str(), &hints, &found))
      throw Error("MASTER_ADDR '", how.host, "' is no host: ", ::gai_strerror(problem));
    std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
    sockaddr_storage first{};
    std::memcpy(&first, found->ai_addr, found->ai_addrlen);
    return first;
  }

  Socket callFirst(const sockaddr_storage &first) const {
    for (Time end = Clock::now() + patience; Clock::now() < end;
         std::this_thread::sleep_for(std::chrono::milliseconds(50)))
      if (Socket result = call(first, end))
        return result;
    throw Error("rank 0 does not answer at ", how.host, ":", how.port, " (MASTER_ADDR, MASTER_PORT) within ",
                patience.count(), " seconds");
  }

  /// Waits until the ranks from `lowest` on have called.
  void acceptFrom(int lowest) {
    Callers callers(listener, sockets[0]);
    Time end = Clock::now() + patience;
    for (int left = how.size - lowest; left > 0; --left) {
      auto caller = callers.next(end);
      if (!caller)
        throw Error("of ", how.size, " ranks ", missing(lowest), " did not come within ", patience.count(),
                    " seconds; start as many processes as WORLD_SIZE says",
                    callers.strangers ? " (others have called, which are no ranks)" : "");
      auto &[socket, theirs] = *caller;
      if (theirs.size != uint32_t(how.size) || theirs.rank < uint32_t(lowest) ||
          theirs.rank >= uint32_t(how.size) || sockets[theirs.rank]) {
        refuse(socket);
        throw Error("a process says that it is rank ", theirs.rank, " of ", theirs.size, ", this is rank ",
                    how.rank, " of ", how.size, ": every process needs its own RANK and the same WORLD_SIZE");
      }
      all[theirs.rank] = theirs;
      sockets[theirs.rank] = std::move(socket);
    }
  }

  std::string missing(int lowest) const {
    std::string text;
    for (int other = lowest; other < how.size; ++other)
      if (!sockets[size_t(other)])
        text += (text.empty() ? "rank " : ", ") + std::to_string(other);
    return text;
  }

  static void refuse(const Socket &socket) {
    if (socket)
      (void)!::send(socket.descriptor(), &refusal, sizeof refusal, MSG_NOSIGNAL);
  }

  const Rendezvous &how;
  const std::chrono::seconds patience;
  int port;
  Socket listener;
  std::vector<Socket> sockets;
  std::vector<Introduction> all;
};

} // namespace

Socket &Socket::operator=(Socket &&other) noexcept {
  std::swap(fd, other.fd);
  return *this;
}
Socket::~Socket() {
  if (fd >= 0)
    ::close(fd);
}

void Socket::write(const void *data, size_t bytes, Time end) const {
  for (auto *at = static_cast<const char *>(data); bytes > 0;) {
    ssize_t done = ::send(fd, at, bytes, MSG_NOSIGNAL);
    if (done < 0 && errno != EAGAIN && errno != EINTR)
      gone(std::strerror(errno));
    if (done < 0 && !await(*this, POLLOUT, end))
      gone("it does not listen");
    at += std::max<ssize_t>(done, 0);
    bytes -= size_t(std::max<ssize_t>(done, 0));
  }
}

void Socket::read(void *data, size_t bytes, Time end) const {
  for (auto *at = static_cast<char *>(data); bytes > 0;) {
    ssize_t done = ::recv(fd, at, bytes, 0);
    if (done == 0)
      gone("it has closed the connection");
    if (done < 0 && errno != EAGAIN && errno != EINTR)
      gone(std::strerror(errno));
    if (done < 0 && !await(*this, POLLIN, end))
      gone("it says nothing");
    at += std::max<ssize_t>(done, 0);
    bytes -= size_t(std::max<ssize_t>(done, 0));
  }
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

std::vector<Socket> Rendezvous::connect(std::chrono::seconds patience) const {
  return Meeting(*this, patience).connect();
}

} // namespace tessera::rt
