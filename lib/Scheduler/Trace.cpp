// See Trace.h.
#include "lib/Scheduler/Trace.h"
#include "lib/Scheduler/Random.h"
#include <algorithm>

namespace tessera::scheduler {

namespace {

struct Kind {
  const char *name;
  int places;
  int64_t batch;                       // a place
  int largestRate;                     // relative to the learning rate of one place
  double rate;                         // samples/s at the asked places
  double efficiencyFrom, efficiencyTo; // of the asked places
  std::vector<double> dataSizes;
  double epochs;
  double parameters; // of the model
};

// Parameters are those of the published models (Inception without its auxiliary classifier). On images of
// CIFAR's size VGG's convolutions leave one position, and the usual version has one layer behind them.
const Kind kKinds[] = {
    {"resnet50/imagenet", 16, 32, 16, 1750, 0.4, 0.5, {10e3, 20e3}, 35, 25.6e6},
    {"inception/imagenet", 16, 32, 16, 1140, 0.4, 0.5, {10e3, 20e3}, 40, 23.8e6},
    {"vgg16/imagenet", 16, 32, 16, 1600, 0.4, 0.5, {10e3, 20e3}, 45, 138e6},
    {"alexnet/imagenet", 16, 64, 16, 3000, 0.25, 0.25, {10e3, 20e3}, 40, 61e6},
    {"resnet18/cifar", 4, 256, 16, 15000, 0.75, 0.85, {20e3, 40e3}, 28, 11.2e6},
    {"vgg16/cifar", 4, 128, 16, 2800, 0.75, 0.85, {20e3, 40e3}, 45, 14.7e6},
    {"googlenet/cifar", 4, 256, 16, 9900, 0.75, 0.85, {20e3, 40e3}, 33, 6.6e6},
    {"bert/cola", 2, 16, 4, 102, 0.75, 0.85, {5e3, 8e3}, 5, 110e6},
    {"bert/mrpc", 2, 16, 4, 102, 0.75, 0.85, {3.6e3}, 5, 110e6},
    {"bert/sst2", 8, 32, 8, 432, 0.75, 0.85, {10e3, 20e3}, 5, 110e6},
};

// Time of a step = work + overhead (places - 1): of what is lost at the asked places, each further place
// costs a share.
std::map<int, double> throughput(const Kind &kind, double efficiency, int most) {
  double overhead = (1 / efficiency - 1) / (kind.places - 1), one = kind.rate / (efficiency * kind.places);
  std::map<int, double> table;
  for (int count = 1; count <= most; ++count)
    table[count] = one * count / (1 + overhead * (count - 1));
  return table;
}

Job makeJob(const Kind &kind, Random &random, double scatter) {
  Job job;
  job.kind = kind.name;
  job.parameters = kind.parameters;
  job.places = kind.places;
  job.batch = kind.batch;
  job.largestBatch = kind.batch * kind.largestRate;
  job.dataSize = kind.dataSizes[random.below(static_cast<int>(kind.dataSizes.size()))];
  job.throughput = throughput(kind, random.uniform(kind.efficiencyFrom, kind.efficiencyTo), kind.largestRate);
  double epochs = kind.epochs * std::exp(scatter * random.normal() - scatter * scatter / 2);
  job.samples = std::max(1.0, std::round(epochs)) * job.dataSize;
  double first = random.uniform(5, 8), target = first * random.uniform(0.1, 0.3);
  job.loss = LossCurve{first, target, target * random.uniform(0.5, 0.9)};
  return job;
}

} // namespace

std::vector<Job> onesTrace(const TraceOptions &options) {
  Random random(options.seed);
  std::vector<int> kinds;
  for (int i = 0; i < options.jobs; ++i)
    kinds.push_back(i % static_cast<int>(std::size(kKinds)));
  for (int i = options.jobs - 1; i > 0; --i)
    std::swap(kinds[i], kinds[random.below(i + 1)]);
  std::vector<Job> jobs;
  double now = 0;
  for (int i = 0; i < options.jobs; ++i) {
    jobs.push_back(makeJob(kKinds[kinds[i]], random, options.scatter));
    jobs.back().name = "job" + std::to_string(i + 1);
    jobs.back().arrival = now;
    now += random.uniform(0, 2 * options.gap);
  }
  return jobs;
}

std::vector<Job> onesHistory(const TraceOptions &options) {
  Random random(options.seed + 1000000007);
  std::vector<Job> jobs;
  for (const Kind &kind : kKinds)
    for (int i = 0; i < 2; ++i)
      jobs.push_back(makeJob(kind, random, options.scatter));
  return jobs;
}

Cluster onesCluster() {
  Cluster cluster;
  for (int i = 1; i <= 16; ++i)
    cluster.hosts.push_back({"host" + std::to_string(i), 4});
  // `tools/bench elastic`: mpirun's four ranks on two cores, the mean over the sizes (docs/elastic.md).
  cluster.measured = {{14e6, {0.2, 2.9}}, {61e6, {0.9, 4.2}}, {110e6, {2.5, 11.3}}};
  return cluster;
}

} // namespace tessera::scheduler
