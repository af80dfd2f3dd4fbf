// See tcp.h. Sockets do not block; whoever waits moves all messages on. A message is a header and its bytes;
// one that comes before its receive is posted is kept, where another is waited for from the same rank.
#include "runtime/comm/tcp/tcp.h"

#include "runtime/comm/agreed_error.h"
#include "runtime/comm/tcp/rendezvous.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <netinet/in.h> // IWYU pragma: keep
#include <netinet/tcp.h>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

namespace tessera::rt {
namespace {

/// Beside Transport::Tag: the sender has failed, and says why elsewhere; it ends because another has; it is
/// done.
enum : int64_t { Failed = 100, Quits = 101, Done = 102 };

using Clock = Transport::Clock;

/// A host that has acknowledged nothing for so long, and this many repetitions, is taken for lost.
constexpr uint32_t silentMilliseconds = 15000, silentRepetitions = 3;

/// Thrown where another rank has failed and has said why.
struct PeerFailed : Error {
  explicit PeerFailed(int rank) : Error("rank ", rank, " has failed") {}
};

/// Thrown where another rank has gone without a word; others may see it at the same time.
struct PeerLost : Error {
  using Error::Error;
};

struct Header {
  int64_t tag, bytes;
};
struct Outgoing {
  Header header;
  const char *data;
  Transport::Request request;
};
struct Incoming {
  int64_t tag, bytes;
  char *data;
  Transport::Request request;
};
struct Kept {
  int64_t tag;
  std::vector<char> data;
  bool whole = false;
};

struct RequestState {
  bool used = false;
  int peer = 0;
  std::optional<Clock::time_point> complete;
};

struct Peer {
  Socket socket;
  std::deque<Outgoing> out;
  int64_t written = 0; ///< of the first, with its header
  std::deque<Incoming> in;
  std::list<Kept> kept;
  Kept *keeping = nullptr; ///< the current message
  Header header{};
  int64_t read = 0; ///< of the current message, with its header
  Incoming current{};
  bool done = false;
};

class TcpTransport : public Transport {
public:
  TcpTransport(const Rendezvous &rendezvous, std::chrono::seconds patience)
      : self(rendezvous.rank), ranks(rendezvous.size), peers(size_t(rendezvous.size)) {
    std::vector<Socket> sockets = rendezvous.connect(patience);
    for (int i = 0; i < ranks; ++i)
      peers[size_t(i)].socket = std::move(sockets[size_t(i)]);
  }

  int rank() const override { return self; }
  int size() const override { return ranks; }
  Clock::time_point wait(Request request) override {
    RequestState &state = requests[size_t(request)];
    Watch::Wait patience(watch(), state.peer);
    while (!state.complete) {
      throwIfCancelled();
      move(100);
      if (!state.complete)
        patience.check();
    }
    state.used = false;
    return *std::exchange(state.complete, std::nullopt);
  }
  bool needsProgress() const override { return true; }
  bool progress() override {
    throwIfCancelled();
    move(0);
    return std::any_of(peers.begin(), peers.end(), [](const Peer &peer) {
      return !peer.out.empty() || !peer.in.empty() || peer.read > 0;
    });
  }
  void abort(const std::string &text) override {
    say(ranks == 1 ? text : concat("rank ", self, " of ", ranks, ": ", text));
  }
  /// All ranks of a host lose another host at the same time: the lowest of them says so.
  void abortLost(const std::string &text) { abortTogether(concat("rank ", self, " of ", ranks, ": ", text)); }
  /// Several ranks notice at the same time that another one is late, too.
  void abortLate(const std::string &text) {
    abortTogether(text);
    watch().endStopped();
  }
  void abortTogether(const std::string &text) {
    sayEverybody(Failed);
    forgetMessages();
    for (auto end = Clock::now() + std::chrono::milliseconds(300); Clock::now() < end;)
      try {
        move(50, Reads::All);
      } catch (const Error &) {
        if (speaker < self)
          return quit(Quits);
      }
    say(text);
  }
  /// The memory that messages were posted with is gone: nothing more is sent of them, and what still comes
  /// goes into memory of its own.
  void forgetMessages() {
    for (Peer &peer : peers) {
      peer.out.clear();
      peer.in.clear();
      if (peer.read < int64_t(sizeof(Header)) || peer.current.request < 0)
        continue;
      peer.keeping =
          &peer.kept.emplace_back(Kept{peer.header.tag, std::vector<char>(size_t(peer.header.bytes))});
      peer.current = {peer.header.tag, peer.header.bytes, peer.keeping->data.data(), -1};
    }
  }
  /// Tells everybody that this rank ends, also where it does so because another has: who only loses a
  /// connection would call that an error.
  void quit(int64_t word) noexcept {
    sayEverybody(word);
    // What is closed with bytes unread takes back what it has said.
    auto end = Clock::now() + std::chrono::seconds(1);
    for (Peer &peer : peers)
      ::shutdown(peer.socket.descriptor(), SHUT_WR);
    for (Peer &peer : peers)
      for (char sink[4096]; peer.socket && Clock::now() < end;) {
        pollfd poll{peer.socket.descriptor(), POLLIN, 0};
        if (::poll(&poll, 1, 100) < 0 || ((poll.revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL)) &&
                                          ::recv(peer.socket.descriptor(), sink, sizeof sink, 0) <= 0))
          break;
      }
  }
  void cancel() override { cancelled = true; }
  void check() override { move(0, Reads::All); }

  /// The word to all, as far as they still listen.
  void sayEverybody(int64_t word) noexcept {
    Header header{word, 0};
    for (int i = 0; i < ranks; ++i)
      if (i != self && (word != Done || peers[size_t(i)].out.empty()))
        (void)!::send(peers[size_t(i)].socket.descriptor(), &header, sizeof header, MSG_NOSIGNAL);
  }
  /// Returns when all ranks have said that they are done.
  void finish() {
    sayEverybody(Done);
    auto end = Clock::now() + std::chrono::seconds(20);
    auto missing = [&] {
      for (int i = 0; i < ranks; ++i)
        if (i != self && !peers[size_t(i)].done)
          return true;
      return false;
    };
    while (missing() && Clock::now() < end)
      move(100, Reads::All);
  }

protected:
  Request postSend(int to, const void *data, int64_t bytes, Tag tag) override {
    Request request = newRequest(to);
    Peer &peer = peers[size_t(to)];
    peer.out.push_back({{tag, bytes}, static_cast<const char *>(data), request});
    if (peer.out.size() == 1)
      write(to);
    return request;
  }
  Request postReceive(int from, void *data, int64_t bytes, Tag tag) override {
    Request request = newRequest(from);
    Peer &peer = peers[size_t(from)];
    Incoming incoming{tag, bytes, static_cast<char *>(data), request};
    for (auto it = peer.kept.begin(); it != peer.kept.end(); ++it)
      if (it->tag == tag) {
        checkBytes(from, incoming, int64_t(it->data.size()));
        Watch::Wait patience(watch(), from);
        while (!it->whole) {
          throwIfCancelled();
          move(100);
          if (!it->whole)
            patience.check();
        }
        std::memcpy(data, it->data.data(), it->data.size());
        requests[size_t(request)].complete = Clock::now();
        peer.kept.erase(it);
        return request;
      }
    peer.in.push_back(incoming);
    return request;
  }

private:
  void say(const std::string &text) {
    std::fprintf(stderr, "error: %s\n", text.c_str());
    std::fflush(nullptr);
    quit(Failed);
  }
  Request newRequest(int peer) {
    throwIfCancelled();
    size_t request = 0;
    while (request < requests.size() && requests[request].used)
      ++request;
    if (request == requests.size())
      requests.emplace_back();
    requests[request] = {true, peer, {}};
    return Request(request);
  }
  void throwIfCancelled() {
    watch().rethrow();
    if (failed >= 0)
      throw PeerFailed(failed);
    if (!loss.empty())
      throw PeerLost(loss);
    if (cancelled)
      throw Error("communication of rank ", self, " was given up");
  }
  void checkBytes(int from, const Incoming &incoming, int64_t bytes) const {
    if (incoming.bytes != bytes)
      throw Error("rank ", self, " expects ", incoming.bytes, " bytes, rank ", from, " sends ", bytes,
                  ": they execute different programs");
  }
  /// `error`: what the system says, or 0 where the connection was closed.
  [[noreturn]] void lost(int rank, int error) {
    peers[size_t(rank)].done = true;
    bool closed = error == 0 || error == ECONNRESET || error == EPIPE;
    loss = concat("rank ", rank, saysLost, closed ? "" : ": ", closed ? "" : std::strerror(error));
    throw PeerLost(loss);
  }

  enum class Reads { Posted, All };
  /// Moves messages on, and waits so long for one that can be moved; reads what a receive is posted for, or
  /// whatever comes.
  void move(int milliseconds, Reads reads = Reads::Posted) {
    std::vector<pollfd> polls;
    std::vector<int> who;
    for (int i = 0; i < ranks; ++i) {
      Peer &peer = peers[size_t(i)];
      if (i == self || peer.done)
        continue;
      bool expects = reads == Reads::All || !peer.in.empty() || peer.read > 0;
      polls.push_back({peer.socket.descriptor(),
                       short(POLLRDHUP | (expects ? POLLIN : 0) | (peer.out.empty() ? 0 : POLLOUT)), 0});
      who.push_back(i);
    }
    ::poll(polls.data(), polls.size(), milliseconds);
    checkHosts();
    for (size_t k = 0; k < polls.size(); ++k) {
      if (polls[k].revents & POLLOUT)
        write(who[k]);
      if (polls[k].revents & (POLLIN | POLLRDHUP | POLLHUP | POLLERR))
        read(who[k]);
    }
  }

  /// Whether all hosts still acknowledge what is sent to them. The system itself repeats that for a quarter
  /// of an hour, and keepalive looks at idle connections only. TCP_USER_TIMEOUT is no way: it also ends a
  /// connection whose receiver computes for long with its window full.
  void checkHosts() {
    if (Clock::now() < nextCheck)
      return;
    nextCheck = Clock::now() + std::chrono::seconds(1);
    for (int i = 0; i < ranks; ++i) {
      tcp_info info{};
      socklen_t length = sizeof info;
      if (i == self || peers[size_t(i)].done ||
          ::getsockopt(peers[size_t(i)].socket.descriptor(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0)
        continue;
      if (info.tcpi_retransmits + info.tcpi_probes >= silentRepetitions &&
          info.tcpi_last_ack_recv > silentMilliseconds)
        lost(i, ETIMEDOUT);
    }
  }

  void write(int to) {
    Peer &peer = peers[size_t(to)];
    while (!peer.out.empty()) {
      Outgoing &out = peer.out.front();
      constexpr auto head = int64_t(sizeof(Header));
      bool inHeader = peer.written < head;
      const char *from = inHeader ? reinterpret_cast<const char *>(&out.header) + peer.written
                                  : out.data + (peer.written - head);
      int64_t left = (inHeader ? head : head + out.header.bytes) - peer.written;
      ssize_t done = left > 0 ? ::send(peer.socket.descriptor(), from, size_t(left), MSG_NOSIGNAL) : 0;
      if (done < 0 && (errno == EAGAIN || errno == EINTR))
        return;
      if (done < 0)
        lost(to, errno);
      peer.written += done;
      if (peer.written < head + out.header.bytes)
        continue;
      requests[size_t(out.request)].complete = Clock::now();
      peer.out.pop_front();
      peer.written = 0;
    }
  }

  /// Where the message goes whose header has come.
  void place(int from) {
    Peer &peer = peers[size_t(from)];
    for (auto it = peer.in.begin(); it != peer.in.end(); ++it)
      if (it->tag == peer.header.tag) {
        checkBytes(from, *it, peer.header.bytes);
        peer.current = *it;
        peer.in.erase(it);
        return;
      }
    peer.keeping =
        &peer.kept.emplace_back(Kept{peer.header.tag, std::vector<char>(size_t(peer.header.bytes))});
    peer.current = {peer.header.tag, peer.header.bytes, peer.keeping->data.data(), -1};
  }

  void read(int from) {
    Peer &peer = peers[size_t(from)];
    constexpr auto head = int64_t(sizeof(Header));
    while (!peer.done) {
      bool inHeader = peer.read < head;
      char *to = inHeader ? reinterpret_cast<char *>(&peer.header) + peer.read
                          : peer.current.data + (peer.read - head);
      int64_t left = (inHeader ? head : head + peer.header.bytes) - peer.read;
      ssize_t done = left > 0 ? ::recv(peer.socket.descriptor(), to, size_t(left), 0) : 0;
      if (done < 0 && (errno == EAGAIN || errno == EINTR))
        return;
      if (done < 0 || (done == 0 && left > 0))
        lost(from, done < 0 ? errno : 0);
      peer.read += done;
      if (inHeader && peer.read == head) {
        peer.done = peer.header.tag >= Failed;
        if (!peer.done)
          place(from);
        if (peer.header.tag == Failed)
          speaker = std::min(speaker, from);
        if (peer.header.tag == Failed || peer.header.tag == Quits) {
          failed = from;
          throw PeerFailed(from);
        }
      }
      if (peer.done || peer.read < head + peer.header.bytes)
        continue;
      peer.read = 0;
      if (peer.current.request >= 0)
        requests[size_t(peer.current.request)].complete = Clock::now();
      else
        peer.keeping->whole = true;
      if (peer.in.empty())
        return;
    }
  }

  const int self, ranks;
  std::vector<Peer> peers;
  std::deque<RequestState> requests;
  std::atomic<bool> cancelled{false};
  int failed = -1;       ///< a rank that has said so
  int speaker = INT_MAX; ///< the lowest that has failed by itself
  std::string loss;      ///< what is to be said of one that has not
  Clock::time_point nextCheck;
};

} // namespace

bool underTcp() {
  for (const char *name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    if (!std::getenv(name))
      return false;
  return true;
}

int runTcp(const std::function<void(Transport &)> &body, std::chrono::seconds patience) {
  std::optional<TcpTransport> connected;
  try {
    connected.emplace(Rendezvous::fromEnvironment(), patience);
  } catch (const RendezvousRefused &) {
    return 1; // rank 0 says why
  }
  TcpTransport &transport = *connected;
  int status = 0;
  try {
    body(transport);
    transport.finish();
  } catch (const AgreedError &error) {
    if (transport.rank() == 0)
      std::fprintf(stderr, "error: %s\n", error.what());
    status = 1;
    try {
      transport.finish();
    } catch (const std::exception &unsaid) {
      (void)unsaid; // all that there is to say has been said
    }
  } catch (const PeerFailed &) {
    transport.quit(Quits);
    transport.watch().endStopped();
    status = 1;
  } catch (const PeerLate &error) {
    transport.abortLate(error.what());
    status = 1;
  } catch (const PeerLost &error) {
    transport.abortLost(error.what());
    status = 1;
  } catch (const std::exception &error) {
    transport.abort(error.what());
    status = 1;
  }
  return status;
}

} // namespace tessera::rt
