// See Engine.h.
#include "lib/Scheduler/Engine.h"
#include "lib/Scheduler/Random.h"
#include "llvm/Support/ErrorHandling.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

namespace tessera::scheduler {

namespace {

// Reported losses scatter by this part, as those of minibatches do.
constexpr double kLossNoise = 0.02;

// A job's run between two changes of its places, which progress is counted from.
struct Run {
  double since = 0, begin = 0; // when its places changed; when it works again
  double doneBefore = 0, serviceBefore = 0, ranBefore = 0;
  double rate = 0; // useful samples/s when it works
  std::vector<int> places;
};

class Loop {
public:
  Loop(const std::vector<Job> &jobs, const Cluster &cluster, Policy &policy, Clock &clock,
       const EngineOptions &options)
      : jobs(jobs), cluster(cluster), policy(policy), clock(clock), options(options),
        batch(options.elastic ? Batch::AtLeastAsked : policy.batch()), hosts(cluster.hostOfPlace()),
        active(jobs.size()), runs(jobs.size()) {
    result.jobs.resize(jobs.size());
    for (const Job &job : jobs)
      speed.push_back(speeds(job, cluster, batch));
    situation.cluster = &cluster;
    situation.running.assign(cluster.places(), kIdle);
  }
  Result run();

private:
  double nextEvent() const;
  void advance(double to);
  void reportLosses(int index);
  void admit();
  void retire();
  void decide();
  void apply(const Assignment &wanted);
  void change(int index, std::vector<int> places);
  double endOf(int index) const;
  double nextEpochOf(int index) const;

  const std::vector<Job> &jobs;
  const Cluster &cluster;
  Policy &policy;
  Clock &clock;
  EngineOptions options;
  Batch batch;
  std::vector<int> hosts;
  std::vector<std::vector<double>> speed;
  std::vector<ActiveJob> active; // by index; only those in the situation count
  std::vector<Run> runs;
  Situation situation;
  size_t arrived = 0;
  Result result;
};

double Loop::endOf(int index) const {
  const Run &run = runs[index];
  return run.rate > 0 ? run.begin + (jobs[index].samples - run.doneBefore) / run.rate : kNever;
}

double Loop::nextEpochOf(int index) const {
  const Run &run = runs[index];
  double next = (active[index].epochs() + 1) * jobs[index].dataSize;
  return run.rate > 0 ? run.begin + (next - run.doneBefore) / run.rate : kNever;
}

double Loop::nextEvent() const {
  double next = arrived < jobs.size() ? jobs[arrived].arrival : kNever, occasion = policy.wake(situation);
  for (const ActiveJob *job : situation.jobs) {
    next = std::min(next, endOf(job->index));
    if (policy.wantsEpochs())
      occasion = std::min(occasion, nextEpochOf(job->index));
  }
  // An end comes when it is due. What is only an occasion to decide has to let time pass.
  return std::max(std::min(next, std::max(occasion, std::nextafter(situation.now, kNever))), situation.now);
}

void Loop::reportLosses(int index) {
  const Job &job = jobs[index];
  if (!job.loss)
    return;
  std::vector<double> &losses = active[index].losses;
  while (static_cast<int>(losses.size()) < active[index].epochs()) {
    Random noise(options.seed * 1000003 + static_cast<uint64_t>(index) * 8191 + losses.size());
    double part = static_cast<double>(losses.size() + 1) / job.epochs();
    losses.push_back(job.loss->at(std::min(part, 1.0)) * (1 + kLossNoise * noise.normal()));
  }
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
    const Run &run = runs[job->index];
    double waiting = std::clamp(run.begin - situation.now, 0.0, span);
    result.seconds.resize += state.held * waiting;
    result.seconds.work += state.held * (span - waiting);
    state.done =
        std::min(run.doneBefore + run.rate * std::max(0.0, to - run.begin), jobs[job->index].samples);
    state.service = run.serviceBefore + state.held * (to - run.since);
    state.ran = run.ranBefore + (to - run.since);
    reportLosses(job->index);
  }
  result.seconds.idle += (cluster.places() - held) * span;
  situation.now = to;
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
    if (endOf(index) > situation.now)
      return false;
    active[index].done = jobs[index].samples;
    result.jobs[index].end = situation.now;
    change(index, {});
    std::ranges::replace(situation.running, index, kIdle);
    policy.ended(active[index]);
    return true;
  });
}

void Loop::change(int index, std::vector<int> places) {
  ActiveJob &state = active[index];
  Run &run = runs[index];
  bool restarts = run.places.empty() || !(options.elastic || policy.resizes());
  double pause = restarts ? cluster.restartSeconds : cluster.resizeSeconds;
  JobResult &record = result.jobs[index];
  if (run.places.empty())
    ++record.starts;
  else if (!places.empty())
    ++record.resizes;
  if (!state.started)
    record.start = situation.now;
  double begin = std::max(run.begin, situation.now + pause);
  state.started = true;
  state.held = static_cast<int>(places.size());
  state.doneBefore = state.done;
  std::set<int> on;
  for (int place : places)
    on.insert(hosts[place]);
  // The fewest hosts that have so many places.
  std::vector<int> sizes;
  for (const Host &host : cluster.hosts)
    sizes.push_back(host.places);
  std::ranges::sort(sizes, std::greater<>());
  size_t needed = 0;
  for (int room = 0; room < state.held; ++needed)
    room += sizes[needed];
  double slowdown = on.size() > needed ? cluster.spread : 1;
  double rate = places.empty() ? 0 : speed[index][state.held] * slowdown;
  run = {situation.now, places.empty() ? 0 : begin, state.done, state.service, state.ran, rate, places};
  const Job &job = jobs[index];
  result.changes.push_back({situation.now, index, std::move(places), batchOn(job, state.held, batch),
                            job.loss ? job.loss->at(state.done / job.samples) : 0});
}

void Loop::apply(const Assignment &wanted) {
  std::vector<std::vector<int>> places(jobs.size());
  for (size_t place = 0; place < wanted.size(); ++place)
    if (wanted[place] != kIdle)
      places[wanted[place]].push_back(static_cast<int>(place));
  for (const ActiveJob *job : situation.jobs)
    if (places[job->index] != runs[job->index].places)
      change(job->index, places[job->index]);
  situation.running = wanted;
}

void Loop::decide() {
  auto before = std::chrono::steady_clock::now();
  Assignment wanted = policy.decide(situation);
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - before;
  result.slowestDecision = std::max(result.slowestDecision, took.count());
  ++result.decisions;
  apply(wanted);
  for (const ActiveJob *job : situation.jobs)
    if (JobResult &record = result.jobs[job->index]; record.forecastEnd == kNever) {
      record.forecastEnd = policy.forecast(job->index);
      record.forecastAt = situation.now;
    }
}

Result Loop::run() {
  while (arrived < jobs.size() || !situation.jobs.empty()) {
    double next = nextEvent();
    if (next == kNever)
      llvm::report_fatal_error("the policy lets jobs wait and nothing runs");
    clock.waitUntil(next);
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
  double sum = 0;
  for (size_t i = 0; i < given.size(); ++i)
    sum += jobs[i].end - given[i].arrival;
  return given.empty() ? 0 : sum / static_cast<double>(given.size());
}

Result simulate(const std::vector<Job> &jobs, const Cluster &cluster, Policy &policy, Clock &clock,
                const EngineOptions &options) {
  return Loop(jobs, cluster, policy, clock, options).run();
}

} // namespace tessera::scheduler
