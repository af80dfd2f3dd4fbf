// See Engine.h.
#include "lib/Scheduler/Engine.h"
#include "lib/Scheduler/Simulation.h"
#include "llvm/Support/ErrorHandling.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

namespace tessera::scheduler {

namespace {

// What the measured speed of a job has to differ by from the known one to be taken over.
constexpr double kCorrected = 0.02;

// A job's run between two changes of its places, which its service is counted from.
struct Since {
  double time = 0, serviceBefore = 0, ranBefore = 0;
  std::vector<int> places;
};

class Loop {
public:
  Loop(const std::vector<Job> &jobs, const Cluster &cluster, Policy &policy, Runner &runner, Batch batch,
       bool elastic)
      : jobs(jobs), cluster(cluster), policy(policy), runner(runner), batch(batch),
        resizes(elastic || policy.resizes()), corrections(jobs.size()), active(jobs.size()),
        since(jobs.size()) {
    result.jobs.resize(jobs.size());
    for (const Job &job : jobs)
      speed.push_back(speeds(job, cluster, batch));
    table = speed;
    situation.cluster = &cluster;
    situation.running.assign(cluster.places(), kIdle);
  }
  Result run();

private:
  double nextOccasion() const;
  void advance(double to);
  void correct(int index, double measured);
  void admit();
  void retire();
  void decide();
  void apply(Assignment wanted);
  void change(int index, std::vector<int> places);

  const std::vector<Job> &jobs;
  const Cluster &cluster;
  Policy &policy;
  Runner &runner;
  Batch batch;
  bool resizes;
  std::vector<std::vector<double>> table, speed;  // as given; as corrected by what was measured
  std::vector<std::map<int, double>> corrections; // of the speed on so many places
  std::vector<ActiveJob> active;                  // by index; only those in the situation count
  std::vector<Since> since;
  Situation situation;
  size_t arrived = 0;
  Result result;
};

// When to look again if no job ends before.
double Loop::nextOccasion() const {
  double next = arrived < jobs.size() ? jobs[arrived].arrival : kNever, occasion = policy.wake(situation);
  if (policy.wantsEpochs())
    for (const ActiveJob *job : situation.jobs)
      occasion = std::min(occasion, runner.due(job->index, (job->epochs() + 1) * job->job->dataSize));
  // What is only an occasion to decide has to let time pass.
  return std::max(std::min(next, std::max(occasion, std::nextafter(situation.now, kNever))), situation.now);
}

// Time passes, until `to`, in which no job changes its places.
void Loop::advance(double to) {
  double span = to - situation.now;
  int held = 0;
  for (const ActiveJob *job : situation.jobs) {
    if (!job->held)
      continue;
    held += job->held;
    ActiveJob &state = active[job->index];
    const Since &before = since[job->index];
    Progress progress = runner.progress(job->index);
    double waiting = std::clamp(progress.begin - situation.now, 0.0, span);
    result.seconds.resize += state.held * waiting;
    result.seconds.work += state.held * (span - waiting);
    state.done = progress.done;
    state.service = before.serviceBefore + state.held * (to - before.time);
    state.ran = before.ranBefore + (to - before.time);
    runner.addLosses(job->index, state.epochs(), state.losses);
    if (progress.measured > 0)
      correct(job->index, progress.measured);
  }
  result.seconds.idle += (cluster.places() - held) * span;
  situation.now = to;
}

// A speed that was measured is believed; on other numbers of places the table is off by as much as it was
// where it was measured, on the (geometric) mean.
void Loop::correct(int index, double measured) {
  std::map<int, double> &known = corrections[index];
  int held = active[index].held;
  double correction = measured / table[index][held];
  if (auto before = known.find(held);
      before != known.end() && std::abs(correction / before->second - 1) < kCorrected)
    return;
  known[held] = correction;
  double logarithms = 0;
  for (auto [count, factor] : known)
    logarithms += std::log(factor);
  double others = std::exp(logarithms / static_cast<double>(known.size()));
  for (size_t count = 0; count < table[index].size(); ++count) {
    auto own = known.find(static_cast<int>(count));
    speed[index][count] = table[index][count] * (own == known.end() ? others : own->second);
  }
}

void Loop::admit() {
  for (; arrived < jobs.size() && jobs[arrived].arrival <= situation.now; ++arrived) {
    ActiveJob &state = active[arrived];
    state.index = static_cast<int>(arrived);
    state.job = &jobs[arrived];
    state.speed = &speed[arrived];
    situation.jobs.push_back(&state);
  }
}

void Loop::retire() {
  std::erase_if(situation.jobs, [&](const ActiveJob *job) {
    int index = job->index;
    Progress progress = runner.progress(index);
    if (!progress.ended)
      return false;
    active[index].done = progress.done;
    result.jobs[index].end = situation.now;
    result.jobs[index].error = progress.error;
    change(index, {});
    std::ranges::replace(situation.running, index, kIdle);
    if (progress.error.empty())
      policy.ended(active[index]);
    return true;
  });
}

void Loop::change(int index, std::vector<int> places) {
  ActiveJob &state = active[index];
  Since &before = since[index];
  JobResult &record = result.jobs[index];
  bool restarts = before.places.empty() || !resizes;
  if (before.places.empty())
    ++record.starts;
  else if (!places.empty())
    ++record.resizes;
  if (!state.started)
    record.start = situation.now;
  double loss = runner.progress(index).loss;
  runner.change(index, places, restarts);
  state.started = true;
  state.held = static_cast<int>(places.size());
  state.doneBefore = state.done;
  before = {situation.now, state.service, state.ran, places};
  result.changes.push_back(
      {situation.now, index, std::move(places), batchOn(jobs[index], state.held, batch), loss});
}

void Loop::apply(Assignment wanted) {
  std::vector<std::vector<int>> places(jobs.size());
  for (size_t place = 0; place < wanted.size(); ++place)
    if (wanted[place] != kIdle)
      places[wanted[place]].push_back(static_cast<int>(place));
  for (const ActiveJob *job : situation.jobs) {
    std::vector<int> &own = places[job->index];
    // A job that cannot run on so many places leaves some idle.
    for (int used = job->job->usable(static_cast<int>(own.size())); static_cast<int>(own.size()) > used;
         own.pop_back())
      wanted[own.back()] = kIdle;
    if (own != since[job->index].places)
      change(job->index, own);
  }
  situation.running = std::move(wanted);
}

void Loop::decide() {
  auto before = std::chrono::steady_clock::now();
  Assignment wanted = policy.decide(situation);
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - before;
  result.slowestDecision = std::max(result.slowestDecision, took.count());
  ++result.decisions;
  apply(std::move(wanted));
  for (const ActiveJob *job : situation.jobs)
    if (JobResult &record = result.jobs[job->index]; record.forecastEnd == kNever) {
      record.forecastEnd = policy.forecast(job->index);
      record.forecastAt = situation.now;
    }
}

Result Loop::run() {
  while (arrived < jobs.size() || !situation.jobs.empty()) {
    double next = runner.wait(nextOccasion());
    if (runner.stopped())
      break;
    if (next == kNever)
      llvm::report_fatal_error("the policy lets jobs wait and nothing runs");
    advance(next);
    retire();
    admit();
    if (!situation.jobs.empty())
      decide();
  }
  result.span = situation.now;
  return std::move(result);
}

} // namespace

double Result::meanCompletion(const std::vector<Job> &given) const {
  double sum = 0, count = 0;
  for (size_t i = 0; i < given.size(); ++i)
    if (jobs[i].error.empty()) {
      sum += jobs[i].end - given[i].arrival;
      ++count;
    }
  return count > 0 ? sum / count : 0;
}

Result simulate(const std::vector<Job> &jobs, const Cluster &cluster, Policy &policy, Clock &clock,
                const EngineOptions &options) {
  Batch batch = options.elastic ? Batch::AtLeastAsked : policy.batch();
  Simulation simulation(jobs, cluster, clock, batch, options.seed);
  return Loop(jobs, cluster, policy, simulation, batch, options.elastic).run();
}

Result schedule(const std::vector<Job> &jobs, const Cluster &cluster, Policy &policy, Runner &runner) {
  return Loop(jobs, cluster, policy, runner, Batch::Asked, false).run();
}

} // namespace tessera::scheduler
