// Cluster files and jobs files: a problem with its place, or what can be simulated. An input is a cluster
// file, a line
// `# jobs`, and a jobs file.
#include "lib/Scheduler/Engine.h"
#include "lib/Scheduler/ReadFiles.h"
#include "llvm/ADT/Hashing.h"
#include <cmath>
#include <cstdlib>

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
  check(rest.consume_front("x.toml:") && !rest.consumeInteger(10, line) && rest.consume_front(":") &&
        !rest.consumeInteger(10, column) && rest.consume_front(": ") && !rest.empty() && line && column);
}

// Small enough to be run to the end for every input.
bool isSmall(const std::vector<Job> &jobs, const Cluster &cluster) {
  double epochs = 0;
  for (const Job &job : jobs)
    epochs += job.epochs();
  return jobs.size() <= 6 && cluster.places() <= 32 && epochs <= 100;
}

void run(const std::string &policy, const std::vector<Job> &jobs, const Cluster &cluster) {
  SimulatedClock clock;
  Result result = simulate(jobs, cluster, *makePolicy(policy, {}), clock);
  double whole = cluster.places() * result.span;
  double sum = result.seconds.work + result.seconds.idle + result.seconds.resize;
  check(std::isfinite(whole) && std::abs(sum - whole) <= 1e-6 * whole);
  for (size_t i = 0; i < jobs.size(); ++i)
    check(result.jobs[i].end >= jobs[i].arrival);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  auto [first, second] = text.split("# jobs\n");
  auto cluster = readCluster(first, "x.toml");
  if (auto *problem = std::get_if<Problem>(&cluster)) {
    checkProblem(*problem);
    cluster = Cluster{{{"host", 4}}};
  }
  auto jobs = readJobs(second, "x.toml", std::get<Cluster>(cluster));
  if (auto *problem = std::get_if<Problem>(&jobs)) {
    checkProblem(*problem);
    return 0;
  }
  auto &list = std::get<std::vector<Job>>(jobs);
  if (!isSmall(list, std::get<Cluster>(cluster)))
    return 0;
  // All policies for seeds and for what was found; one of them, by its contents, for each input of a long
  // search.
  static int inputs = 0;
  constexpr int kSeeds = 200;
  const std::vector<std::string> policies = policyNames();
  if (++inputs > kSeeds)
    run(policies[llvm::hash_value(text) % policies.size()], list, std::get<Cluster>(cluster));
  else
    for (const std::string &policy : policies)
      run(policy, list, std::get<Cluster>(cluster));
  return 0;
}
