// What a scheduler reads beside its own files: public traces, the compiler's throughput tables, logs of runs
// and Slurm's variable. The first line of an input says which: `philly`, `alibaba`, `plans`, `log` or
// `slurm`.
#include "lib/Launch/LaunchWords.h"
#include "lib/Scheduler/Engine.h"
#include "lib/Scheduler/TraceFiles.h"
#include "lib/Scheduler/launch/TrainLog.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

using namespace tessera::scheduler;

namespace {

void check(bool holds) {
  if (!holds)
    std::abort();
}

// `file:line:column: ` and something behind it.
void checkProblem(const Problem &problem) {
  llvm::StringRef rest = problem.text;
  unsigned line = 0, column = 0;
  check(rest.consume_front("t:") && !rest.consumeInteger(10, line) && rest.consume_front(":") &&
        !rest.consumeInteger(10, column) && rest.consume_front(": ") && !rest.empty() && line && column);
}

void runTrace(TraceJobs read) {
  const Cluster cluster = {{{"host", 16}}};
  if (auto *jobs = std::get_if<std::vector<Job>>(&read))
    read = fitTrace(std::move(*jobs), 4, cluster, "t");
  if (auto *problem = std::get_if<Problem>(&read)) {
    checkProblem(*problem);
    return;
  }
  auto &jobs = std::get<std::vector<Job>>(read);
  for (const Job &job : jobs)
    if (job.epochs() > 100)
      return;                                  // longer than a fuzzer should wait
  for (const char *policy : {"fifo", "drf"}) { // quick ones; fuzz-schedule has all
    SimulatedClock clock;
    Result result = simulate(jobs, cluster, *makePolicy(policy, {}), clock);
    double whole = cluster.places() * result.span;
    double sum = result.seconds.work + result.seconds.idle + result.seconds.resize;
    check(std::isfinite(whole) && std::abs(sum - whole) <= 1e-6 * whole);
  }
}

void readPlans(llvm::StringRef text) {
  auto read = plannedThroughput(text);
  if (auto *table = std::get_if<std::map<int, double>>(&read))
    for (auto [places, rate] : *table)
      check(places >= 1 && rate > 0 && std::isfinite(rate));
  else
    check(!std::get<std::string>(read).empty());
}

// A log in a file, read as a run goes on and after it was set back.
void readLog(llvm::StringRef text) {
  static const std::string path = "/tmp/fuzz-trace-log-" + std::to_string(::getpid());
  std::FILE *file = std::fopen(path.c_str(), "w");
  check(file);
  std::fwrite(text.data(), 1, text.size(), file);
  std::fclose(file);
  TrainLog log(path, 8);
  log.read();
  check(log.steps() >= 0 && log.stepsSince() >= 0);
  (void)log.secondsOfStep();
  (void)log.loss(log.steps() - 2, log.steps());
  log.goBackTo(log.steps() / 2);
  check(!log.read());
  ::unlink(path.c_str());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  auto [format, rest] = text.split('\n');
  if (format == "philly")
    runTrace(readPhilly(rest, "t"));
  else if (format == "alibaba")
    runTrace(readAlibaba(rest, "t"));
  else if (format == "plans")
    readPlans(rest);
  else if (format == "log")
    readLog(rest);
  else if (format == "slurm")
    check(tessera::launch::slurmTasks(rest).value_or(1) > 0);
  return 0;
}
