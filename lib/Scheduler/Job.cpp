// See Job.h.
#include "lib/Scheduler/Job.h"
#include <algorithm>
#include <cmath>

namespace tessera::scheduler {

double LossCurve::at(double part) const {
  double start = 1 / (first - floor), end = 1 / (target - floor);
  return 1 / (start + part * (end - start)) + floor;
}

std::optional<double> Job::told() const {
  if (loss && !toldAnyway)
    return std::nullopt;
  return samples;
}

int Job::usable(int count) const {
  if (program.executables.empty() || count == 0)
    return count;
  auto above = program.executables.upper_bound(count);
  return above == program.executables.begin() ? 0 : std::prev(above)->first;
}

int Job::most() const {
  if (ownBatch == Batch::Asked)
    return throughput.rbegin()->first;
  return std::max(places,
                  static_cast<int>(std::min<int64_t>(throughput.rbegin()->first, largestBatch / batch)));
}

double Job::throughputAt(int count) const {
  auto above = throughput.lower_bound(count);
  if (above == throughput.end())
    return throughput.rbegin()->second;
  if (above->first == count)
    return above->second;
  if (above == throughput.begin())
    return 0;
  auto below = std::prev(above);
  double part = static_cast<double>(count - below->first) / (above->first - below->first);
  return below->second + part * (above->second - below->second);
}

int Cluster::places() const {
  int sum = 0;
  for (const Host &host : hosts)
    sum += host.places;
  return sum;
}

std::vector<int> Cluster::hostOfPlace() const {
  std::vector<int> result;
  for (size_t i = 0; i < hosts.size(); ++i)
    result.insert(result.end(), hosts[i].places, static_cast<int>(i));
  return result;
}

static Pauses interpolate(const std::vector<MeasuredPauses> &measured, double parameters) {
  auto above = std::ranges::lower_bound(measured, parameters, {}, &MeasuredPauses::parameters);
  if (above == measured.begin())
    return above->pauses;
  auto below = std::prev(above);
  if (above == measured.end())
    return below->pauses;
  double part = (parameters - below->parameters) / (above->parameters - below->parameters);
  return {std::lerp(below->pauses.resize, above->pauses.resize, part),
          std::lerp(below->pauses.restart, above->pauses.restart, part)};
}

Pauses Cluster::pausesOf(const Job &job) const {
  Pauses result = job.parameters > 0 && !measured.empty() ? interpolate(measured, job.parameters) : pauses;
  return {job.resizeSeconds.value_or(result.resize), job.restartSeconds.value_or(result.restart)};
}

double batchOn(const Job &job, int count, Batch batch) {
  double asked = static_cast<double>(job.batch) * job.places,
         together = static_cast<double>(job.batch) * count;
  switch (job.ownBatch.value_or(batch)) {
  case Batch::Asked:
    return asked;
  case Batch::Places:
    return together;
  default:
    return std::max(asked, together);
  }
}

std::vector<double> speeds(const Job &job, const Cluster &cluster, Batch batch) {
  std::vector<double> result(std::min(job.most(), cluster.places()) + 1);
  // Seconds of a sample's work on a place; what a step takes beyond that is communication.
  double work = job.fewest() / job.throughput.begin()->second, own = static_cast<double>(job.batch);
  for (int count = job.fewest(); count < static_cast<int>(result.size()); ++count) {
    int used = job.usable(count);
    double size = batchOn(job, used, batch), rate = job.throughputAt(used);
    double communication = std::max(0.0, count * own / rate - own * work);
    double doublings = std::max(0.0, std::log2(size / (own * job.places)));
    // The table is of batches of so much a place, but for executables', whose own it is of.
    bool isTables = job.ownBatch || size == count * own;
    double samples = isTables ? rate : size / (size / count * work + communication);
    result[count] = samples * std::pow(1 - cluster.lostPerDoubling, doublings);
  }
  return result;
}

} // namespace tessera::scheduler
