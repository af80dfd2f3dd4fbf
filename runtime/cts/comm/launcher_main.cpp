// The conformance suite as a program for a launcher; mpi_test.cpp and tcp_test.cpp start it.
//   cases [MAX]   runs all cases with messages cut at MAX bytes, prints `rank R cases N hash H` and every
//   failure fail          rank 2 throws while the others wait hang          all ranks wait for rank 2, which
//   prints its process id and sleeps agree         all ranks agree on an error of rank 1 ranks N       starts
//   as a program of N ranks
#include "runtime/comm/engine.h"
#include "runtime/comm/launch.h"
#include "runtime/comm/mpi/mpi.h"
#include "runtime/cts/comm/cases.h"

#include <cstdio>
#include <cstdlib>
#include <string>
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

int main(int argc, char **argv) {
  std::string mode = argc > 1 ? argv[1] : "";
  int64_t number = argc > 2 ? std::atoll(argv[2]) : 0;
  if (mode == "cases")
    return runAll(number ? number : maxMpiMessage);
  return launch(mode == "ranks" ? number : 4, [&](Transport &transport) { step(transport, mode); });
}
