// How ranks find each other over TCP: among strangers, where some are missing, and what they say where a
// connection fails. Every rank is a thread here.
#include "runtime/comm/tcp/rendezvous.h"
#include "runtime/cts/comm/launched.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace tessera::rt {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// The errors of ranks that wait for each other, by rank; empty where a rank has found the others.
std::vector<std::string> meet(int port, int size, const std::vector<int> &coming,
                              std::chrono::seconds patience) {
  std::vector<std::string> errors(coming.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < coming.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        std::vector<Socket> sockets = Rendezvous{coming[i], size, "127.0.0.1", port}.connect(patience);
        // Everybody says his number to everybody.
        for (int other = 0; other < size; ++other)
          if (other != coming[i])
            sockets[size_t(other)].write(&coming[i], sizeof(int), Clock::now() + 5s);
        for (int other = 0; other < size; ++other)
          if (int said = -1; other != coming[i]) {
            sockets[size_t(other)].read(&said, sizeof said, Clock::now() + 5s);
            EXPECT_EQ(said, other);
          }
      } catch (const RendezvousRefused &) {
        errors[i] = "refused";
      } catch (const Error &error) {
        errors[i] = error.what();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  return errors;
}

/// A client that calls until somebody answers, says something and stays until it is told to go.
class Stranger {
public:
  Stranger(int port, const std::string &says)
      : thread([this, port, says] {
          sockaddr_in address{};
          address.sin_family = AF_INET;
          address.sin_port = htons(uint16_t(port));
          address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
          int fd = -1;
          for (; !leaves; std::this_thread::sleep_for(1ms)) {
            fd = fd < 0 ? ::socket(AF_INET, SOCK_STREAM, 0) : fd;
            if (connected || ::connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0)
              continue;
            connected = true;
            (void)!::send(fd, says.data(), says.size(), MSG_NOSIGNAL);
          }
          ::close(fd);
        }) {}
  ~Stranger() {
    leaves = true;
    thread.join();
  }
  std::atomic<bool> connected = false, leaves = false;

private:
  std::thread thread;
};

TEST(Rendezvous, StrangersAtThePortAreTurnedAway) {
  int port = cts::freePort();
  Stranger silent(port, ""), browser(port, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), brief(port, "1rst");
  std::vector<std::string> errors;
  // Rank 0 alone first, until all strangers have called.
  std::thread others([&] {
    while (!silent.connected || !browser.connected || !brief.connected)
      std::this_thread::sleep_for(1ms);
    EXPECT_EQ(meet(port, 3, {1, 2}, 20s), std::vector<std::string>(2));
  });
  EXPECT_EQ(meet(port, 3, {0}, 20s), std::vector<std::string>(1));
  others.join();
}

TEST(Rendezvous, AMissingRankIsNamedOnce) {
  int port = cts::freePort();
  auto begin = Clock::now();
  std::vector<std::string> errors = meet(port, 4, {0, 1, 3}, 1s);
  EXPECT_LT(Clock::now() - begin, 5s);
  EXPECT_EQ(errors[0],
            "of 4 ranks rank 2 did not come within 1 seconds; start as many processes as WORLD_SIZE says");
  EXPECT_EQ(errors[1], "refused");
  EXPECT_EQ(errors[2], "refused");
}

TEST(Rendezvous, TwoOfOneNumberAreAnErrorOfRank0) {
  int port = cts::freePort();
  std::vector<std::string> errors = meet(port, 3, {0, 1, 1}, 20s);
  EXPECT_NE(errors[0].find("a process says that it is rank 1 of 3, this is rank 0 of 3"), std::string::npos)
      << errors[0];
  EXPECT_EQ(errors[1], "refused");
  EXPECT_EQ(errors[2], "refused");
}

TEST(Rendezvous, SomethingElseMayAnswerAtThePort) {
  int port = cts::freePort();
  Socket listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(uint16_t(port));
  ASSERT_EQ(::bind(listener.descriptor(), reinterpret_cast<sockaddr *>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(listener.descriptor(), 5), 0);
  std::thread server([&] {
    Socket client(::accept(listener.descriptor(), nullptr, nullptr));
    char request[144];
    EXPECT_GT(::recv(client.descriptor(), request, sizeof request, 0), 0);
    (void)!::send(client.descriptor(), "HTTP/1.1 400 Bad Request\r\n\r\n", 28, MSG_NOSIGNAL);
  });
  std::vector<std::string> errors = meet(port, 2, {1}, 5s);
  server.join();
  EXPECT_NE(errors[0].find("something else than rank 0 of this program answers at 127.0.0.1:"),
            std::string::npos)
      << errors[0];
  EXPECT_NE(meet(port, 2, {0}, 5s)[0].find("choose another MASTER_PORT"), std::string::npos);
}

/// Two ends of a connection, none of which blocks.
std::pair<Socket, Socket> connection() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  return {Socket(ends[0]), Socket(ends[1])};
}

/// A port of this host that is taken, and a socket that has it and does not listen.
Socket bound(sockaddr_in &address) {
  Socket result(::socket(AF_INET, SOCK_STREAM, 0));
  address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(::bind(result.descriptor(), reinterpret_cast<sockaddr *>(&address), length), 0);
  EXPECT_EQ(::getsockname(result.descriptor(), reinterpret_cast<sockaddr *>(&address), &length), 0);
  return result;
}

std::string errorOf(const std::function<void()> &act) {
  try {
    act();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

TEST(RendezvousFaults, AConnectionThatDoesNotMoveOnIsGivenUp) {
  auto [mine, theirs] = connection();
  std::vector<char> bytes(64 << 20);
  EXPECT_EQ(errorOf([&] { mine.read(bytes.data(), 1, Clock::now()); }),
            "a rank has gone while the ranks connected: it says nothing");
  EXPECT_EQ(errorOf([&] { mine.write(bytes.data(), bytes.size(), Clock::now()); }),
            "a rank has gone while the ranks connected: it does not listen");
  theirs = Socket();
  EXPECT_EQ(errorOf([&] { mine.write(bytes.data(), 1, Clock::now()); }),
            "a rank has gone while the ranks connected: Broken pipe");
}

TEST(RendezvousFaults, Rank0MayCloseTheConnection) {
  sockaddr_in address;
  Socket listener = bound(address);
  ASSERT_EQ(::listen(listener.descriptor(), 5), 0);
  std::thread server([&] {
    Socket client(::accept(listener.descriptor(), nullptr, nullptr));
    char request[144];
    EXPECT_EQ(::recv(client.descriptor(), request, sizeof request, MSG_WAITALL), ssize_t(sizeof request));
  });
  std::vector<std::string> errors = meet(ntohs(address.sin_port), 2, {1}, 20s);
  server.join();
  EXPECT_EQ(errors[0], "a rank has gone while the ranks connected: it has closed the connection");
}

TEST(RendezvousFaults, Rank0MayNotAnswer) {
  sockaddr_in address;
  Socket silent = bound(address);
  int port = ntohs(address.sin_port);
  EXPECT_EQ(meet(port, 2, {1}, 1s)[0], "rank 0 does not answer at 127.0.0.1:" + std::to_string(port) +
                                           " (MASTER_ADDR, MASTER_PORT) within 1 seconds");
}

/// What a rank says when it calls rank 0.
struct Introduction {
  uint32_t word = 0x74737232, rank = 0, size = 0, port = 0;
  sockaddr_storage address = {};
};

TEST(RendezvousFaults, ARankThatCannotBeReachedIsNamed) {
  // Rank 1 tells rank 0 a port that nobody listens at.
  sockaddr_in nowhere;
  Socket silent = bound(nowhere);
  Introduction said;
  said.rank = 1, said.size = 3, said.port = ntohs(nowhere.sin_port);
  int port = cts::freePort();
  Stranger one(port, std::string(reinterpret_cast<const char *>(&said), sizeof said));
  std::thread first([&] { Rendezvous{0, 3, "127.0.0.1", port}.connect(20s); });
  std::vector<std::string> errors = meet(port, 3, {2}, 20s);
  first.join();
  EXPECT_EQ(errors[0], "rank 2 cannot reach rank 1 at 127.0.0.1:" + std::to_string(said.port) +
                           ": Connection refused; every rank must reach every other at any port");
}

TEST(RendezvousFaults, TooFewFilesToAnswerARank) {
  int port = cts::freePort();
  Socket caller(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(uint16_t(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // Room for one more file, the port's.
  int next = ::dup(caller.descriptor());
  ::close(next);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few{rlim_t(next + 1), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::thread calls([&] {
    while (::connect(caller.descriptor(), reinterpret_cast<sockaddr *>(&address), sizeof address) != 0 &&
           errno == ECONNREFUSED)
      std::this_thread::sleep_for(1ms);
  });
  std::vector<std::string> errors = meet(port, 2, {0}, 20s);
  calls.join();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(errors[0],
            "a rank cannot be answered: Too many open files; raise the limit on open files (ulimit -n)");
}

} // namespace
} // namespace tessera::rt
