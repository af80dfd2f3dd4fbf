// Small jobs and clusters whose schedules can be worked out by hand.
#pragma once

#include "lib/Scheduler/Engine.h"

namespace tessera::scheduler {

/// Runs on exactly so many places, for so many seconds.
inline Job rigidJob(const std::string &name, double arrival, int places, double seconds) {
  Job job;
  job.name = job.kind = name;
  job.arrival = arrival;
  job.places = places;
  job.largestBatch = places;
  job.throughput = {{places, 1.0}};
  job.samples = job.dataSize = seconds;
  return job;
}

/// A sample takes each place a second, on one place to `places`, which it asks for.
inline Job elasticJob(const std::string &name, double arrival, int places, double samples) {
  Job job = rigidJob(name, arrival, places, samples);
  job.throughput = {{1, 1.0}, {places, 1.0 * places}};
  return job;
}

/// One host; starting and resizing take no time.
inline Cluster freeCluster(int places) {
  Cluster cluster;
  cluster.hosts = {{"host", places}};
  cluster.pauses = {0, 0};
  return cluster;
}

inline Result runPolicy(const std::string &policy, const std::vector<Job> &jobs, const Cluster &cluster,
                        const PolicyOptions &options = {}) {
  SimulatedClock clock;
  return simulate(jobs, cluster, *makePolicy(policy, options), clock, {options.seed});
}

inline std::vector<double> ends(const Result &result) {
  std::vector<double> list;
  for (const JobResult &job : result.jobs)
    list.push_back(job.end);
  return list;
}

} // namespace tessera::scheduler
