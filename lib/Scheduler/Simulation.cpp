// See Simulation.h.
#include "lib/Scheduler/Simulation.h"
#include "lib/Scheduler/Random.h"
#include <algorithm>
#include <set>

namespace tessera::scheduler {

// Reported losses scatter by this part, as those of minibatches do.
static constexpr double kLossNoise = 0.02;

Simulation::Simulation(const std::vector<Job> &jobs, const Cluster &cluster, Clock &clock, Batch batch,
                       uint64_t seed)
    : jobs(jobs), cluster(cluster), clock(clock), seed(seed), hosts(cluster.hostOfPlace()),
      spans(jobs.size()) {
  for (const Job &job : jobs)
    speed.push_back(speeds(job, cluster, batch));
  for (const Host &host : cluster.hosts)
    sizes.push_back(host.places);
  std::ranges::sort(sizes, std::greater<>());
}

double Simulation::wait(double until) {
  for (int job : running)
    until = std::min(until, std::max(due(job, jobs[job].samples), now));
  if (until == kNever)
    return until;
  clock.waitUntil(until);
  return now = until;
}

// Of a job that is on more hosts than the fewest that have so many places.
double Simulation::slowdown(const std::vector<int> &places) const {
  std::set<int> on;
  for (int place : places)
    on.insert(hosts[place]);
  size_t needed = 0;
  for (int room = 0; room < static_cast<int>(places.size()); ++needed)
    room += sizes[needed];
  return on.size() > needed ? cluster.spread : 1;
}

void Simulation::change(int job, const std::vector<int> &places, bool restarts) {
  Span &span = spans[job];
  Pauses pauses = cluster.pausesOf(jobs[job]);
  double done = progress(job).done,
         begin = std::max(span.begin, now + (restarts ? pauses.restart : pauses.resize));
  std::erase(running, job);
  if (places.empty()) {
    span = {0, done, 0};
    return;
  }
  running.push_back(job);
  span = {begin, done, speed[job][places.size()] * slowdown(places)};
}

Progress Simulation::progress(int job) const {
  const Span &span = spans[job];
  Progress result;
  result.begin = span.begin;
  result.ended = due(job, jobs[job].samples) <= now;
  result.done = result.ended ? jobs[job].samples
                             : std::min(span.doneBefore + span.rate * std::max(0.0, now - span.begin),
                                        jobs[job].samples);
  if (jobs[job].loss)
    result.loss = jobs[job].loss->at(result.done / jobs[job].samples);
  return result;
}

double Simulation::due(int job, double samples) const {
  const Span &span = spans[job];
  return span.rate > 0 ? span.begin + (samples - span.doneBefore) / span.rate : kNever;
}

void Simulation::addLosses(int index, int epochs, std::vector<double> &losses) const {
  const Job &job = jobs[index];
  while (job.loss && static_cast<int>(losses.size()) < epochs) {
    Random noise(seed * 1000003 + static_cast<uint64_t>(index) * 8191 + losses.size());
    double part = static_cast<double>(losses.size() + 1) / job.epochs();
    losses.push_back(job.loss->at(std::min(part, 1.0)) * (1 + kLossNoise * noise.normal()));
  }
}

} // namespace tessera::scheduler
