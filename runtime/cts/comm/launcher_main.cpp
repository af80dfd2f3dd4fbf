// The conformance suite as a program for a launcher; mpi_test.cpp and tcp_test.cpp start it.
// clang-format off
//   cases [MAX]   runs all cases with messages cut at MAX bytes, prints `rank R cases N hash H` and every failure
//   fail          rank 2 throws while the others wait
//   hang          all ranks wait for rank 2, which prints its process id and sleeps
//   agree         all ranks agree on an error of rank 1
//   ranks N       starts as a program of N ranks
//   send SECONDS  rank 0 of 2 sends 32 MiB and computes for so long, rank 1 prints `received after S`
//   ahead SECONDS rank 0 of 2 sends 64 MiB to rank 1, which has started to receive and computes so long; prints `sent after S`
//   threads N     starts where the process may have N threads
//   lengths N     rank 0 of 2 expects 8 bytes, rank 1 sends N
//   cancel        rank 0 of 2 gives its communication up and then receives
//   told          rank 1 of 2 fails while rank 0 waits for it, which prints what it is told
// clang-format on
#include "runtime/comm/engine.h"
#include "runtime/comm/launch.h"
#include "runtime/comm/mpi/mpi.h"
#include "runtime/cts/comm/cases.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

using namespace tessera::rt;

static int runAll(int64_t maxMessage) {
  int failed = 0;
  auto body = [&](Transport &transport) {
    cts::Outcome outcome = cts::runCases(transport, cts::casesFor(transport.size()));
    std::string text = "rank " + std::to_string(transport.rank()) + " cases " +
                       std::to_string(outcome.cases) + " hash " + std::to_string(outcome.hash) + "\n";
    for (const std::string &failure : outcome.failures)
      text += "failure: " + failure + "\n";
    std::fputs(text.c_str(), stdout);
    failed = !outcome.failures.empty();
  };
  int status = underMpi() ? runMpi(body, maxMessage) : runProcess(body);
  return status | failed;
}

static void step(Transport &transport, const std::string &mode) {
  Engine engine(transport);
  if (mode == "agree")
    engine.agree(engine.rank() == 1 ? "no such file" : "");
  CollectiveRequest request{.kind = "all_reduce", .axes = {{"x", 1, transport.size()}}, .shape = {1000}};
  Collective sum = makeCollective(request, Mesh({{"x", transport.size()}}), transport.rank());
  std::vector<float> data(1000), scratch(2000);
  engine.run(sum, data.data(), data.data(), scratch.data());
  if (transport.rank() == 2 && mode == "fail")
    throw Error("no more data");
  if (transport.rank() == 2 && mode == "hang") {
    std::printf("pid %d\n", int(getpid()));
    std::fflush(stdout);
    sleep(60);
  }
  engine.wait(engine.start(sum, data.data(), data.data(), scratch.data()));
}

/// How long a message takes to a rank that waits for it, while its sender computes.
static void send(Transport &transport, double seconds) {
  Engine engine(transport);
  using Seconds = std::chrono::duration<double>;
  Message message{1 - transport.rank(), 32 << 20, "x"};
  std::vector<char> data(size_t(message.bytes), char(transport.rank() + 1));
  engine.barrier();
  auto begin = Engine::Clock::now();
  auto passed = [&] { return Seconds(Engine::Clock::now() - begin).count(); };
  if (transport.rank() == 0) {
    Engine::Token token = engine.startSend(message, data.data());
    while (passed() < seconds) {
    }
    engine.waitSend(token);
  } else {
    engine.receive(message, data.data());
    if (data.front() != 1 || data.back() != 1)
      throw Error("the message is not what was sent");
    std::printf("received after %.4f\n", passed());
  }
  engine.barrier();
}

/// How long a message takes while its receiver computes.
static void receiveAhead(Transport &transport, double seconds) {
  Engine engine(transport);
  Message message{1 - transport.rank(), 64 << 20, "x"};
  std::vector<char> data(size_t(message.bytes), char(transport.rank() + 1));
  auto begin = Engine::Clock::now();
  auto passed = [&] { return std::chrono::duration<double>(Engine::Clock::now() - begin).count(); };
  if (transport.rank() == 0) {
    engine.waitSend(engine.startSend(message, data.data()));
    std::printf("sent after %.4f\n", passed());
  } else {
    Engine::Token token = engine.startReceive(message, data.data());
    while (passed() < seconds) {
    }
    engine.waitReceive(token);
    if (data.front() != 1 || data.back() != 1)
      throw Error("the message is not what was sent");
  }
  // Collectives and messages of one pair do not get into each other's way.
  Message one{message.peer, 4, "x"};
  float sent = 1, received = 0, sum = 1, scratch[2];
  CollectiveRequest request{.kind = "all_reduce", .axes = {{"x", 1, 2}}, .shape = {1}};
  Collective add = makeCollective(request, Mesh({{"x", 2}}), transport.rank());
  Engine::Token receive = engine.startReceive(one, &received);
  engine.run(add, &sum, &sum, scratch);
  Engine::Token send = engine.startSend(one, &sent);
  engine.waitReceive(receive);
  engine.waitSend(send);
  if (sum != 2 || received != 1)
    throw Error("the sum is ", sum, ", the message ", received);
}

/// What rank 0 of 2 cannot receive from rank 1.
static void receive(Transport &transport, const std::string &mode, int64_t number) {
  char bytes[64] = {};
  if (transport.rank() == 1) {
    if (mode == "told")
      throw Error("no more data");
    transport.wait(transport.send(0, bytes, number));
    return;
  }
  if (mode == "cancel")
    transport.cancel();
  try {
    transport.wait(transport.receive(1, bytes, 8));
  } catch (const Error &error) {
    if (mode == "told")
      std::printf("rank 0 is told: %s\n", error.what());
    throw;
  }
}

/// From now on this process may have so many threads. The limit is one of a user's, and does not bind root:
/// it becomes a user of its own.
static void limitThreads(int64_t number) {
  rlimit limit{rlim_t(number), rlim_t(number)};
  setrlimit(RLIMIT_NPROC, &limit);
  if (getuid() == 0 && setuid(uid_t(20000 + getpid() % 20000)) != 0)
    throw Error("cannot become another user");
}

int main(int argc, char **argv) {
  std::string mode = argc > 1 ? argv[1] : "";
  int64_t number = argc > 2 ? std::strtoll(argv[2], nullptr, 10) : 0;
  if (mode == "cases")
    return runAll(number ? number : maxMpiMessage);
  if (mode == "send")
    return launch(2, [&](Transport &transport) { send(transport, double(number)); });
  if (mode == "ahead")
    return launch(2, [&](Transport &transport) { receiveAhead(transport, double(number)); });
  if (mode == "lengths" || mode == "cancel" || mode == "told")
    return launch(2, [&](Transport &transport) { receive(transport, mode, number); });
  if (mode == "threads" && !underMpi()) // MPI starts threads of its own
    limitThreads(number);
  return launch(mode == "ranks" ? number : 4, [&](Transport &transport) {
    if (mode == "threads" && underMpi())
      limitThreads(number);
    step(transport, mode);
  });
}
