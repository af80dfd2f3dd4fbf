// See ReadFiles.h.
#include "lib/Scheduler/ReadFiles.h"
#include "lib/Scheduler/ReadProgram.h"
#include "lib/Scheduler/ReadThroughput.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Format.h"

namespace tessera::scheduler {

namespace {

// Beyond these nothing real lies, and arithmetic stays exact.
constexpr double kMostPlaces = 65536, kMostSeconds = 1e9, kMostSamples = 1e15, kMostEpochs = 1e5,
                 kMostParameters = 1e15;

void readLoss(TomlReader &reader, const toml::table &table, Job &job) {
  const toml::node *first = table.get("first_loss"), *target = table.get("target_loss");
  if (!first && !target)
    return;
  if (!first || !target) {
    reader.error((first ? first : target)->source())
        << "\"first_loss\" and \"target_loss\" go together: the loss that the job begins and ends at";
    return;
  }
  LossCurve curve;
  curve.first = reader.number(table, "first_loss", 1e-9, 1e9);
  curve.target = reader.number(table, "target_loss", 1e-9, 1e9);
  if (curve.target >= curve.first)
    reader.error(target->source()) << "\"target_loss\" has to be below \"first_loss\"";
  // Nothing says how far the loss would fall: half the target, as it is for most of the trace's jobs.
  curve.floor = curve.target / 2;
  job.loss = curve;
}

Job readJob(TomlReader &reader, const toml::table &table, const Cluster &cluster, const FileReader &files) {
  reader.keys(table,
              {"name", "kind", "arrival", "places", "batch", "largest_batch", "learning_rate", "throughput",
               "samples", "data_size", "first_loss", "target_loss", "parameters", "resize", "restart",
               "executable", "arguments", "every"},
              "[[job]]");
  Job job;
  job.name = reader.text(table, "name");
  job.kind = reader.text(table, "kind", job.name);
  job.arrival = reader.number(table, "arrival", 0, kMostSeconds);
  job.places = static_cast<int>(reader.number(table, "places", 1, kMostPlaces, std::nullopt, true));
  job.batch = static_cast<int64_t>(reader.number(table, "batch", 1, 1e9, std::nullopt, true));
  double asked = static_cast<double>(job.batch) * job.places;
  job.largestBatch =
      static_cast<int64_t>(reader.number(table, "largest_batch", 1, kMostSamples, asked, true));
  if (static_cast<double>(job.largestBatch) < asked && reader.problem().empty())
    reader.error(table.get("largest_batch")->source()) << "\"largest_batch\" is less than " << job.places
                                                       << " places with a batch of " << job.batch << " each";
  job.learningRate = reader.number(table, "learning_rate", 0, 1e9, 1);
  readProgram(reader, table, job);
  readThroughput(reader, table, job, files);
  fitThroughput(reader, table, job);
  job.samples = reader.number(table, "samples", 1, kMostSamples);
  job.dataSize = reader.number(table, "data_size", 1, kMostSamples, job.samples);
  if (job.epochs() > kMostEpochs)
    reader.error(table.get("data_size")->source()) << "\"samples\" are more than 100000 times \"data_size\"";
  if (reader.problem().empty() && job.samples / job.throughput.at(job.places) > kMostSeconds)
    reader.error(table.get("samples")->source())
        << "on the places that it asks for the job would run for more than "
        << llvm::format("%g", kMostSeconds) << " seconds";
  readLoss(reader, table, job);
  job.parameters = reader.number(table, "parameters", 1, kMostParameters, 0);
  for (auto &[key, value] : {std::pair("resize", &job.resizeSeconds), {"restart", &job.restartSeconds}})
    if (table.contains(key))
      *value = reader.number(table, key, 0, kMostSeconds);
  if (job.places > cluster.places())
    reader.error(table.get("places") ? table.get("places")->source() : table.source())
        << "the job can never run: it asks for " << job.places << " places, and the cluster has "
        << cluster.places();
  return job;
}

Pauses readPauses(TomlReader &reader, const toml::table &table, std::optional<Pauses> standard) {
  auto number = [&](llvm::StringRef key, double Pauses::*member) {
    return reader.number(table, key, 0, kMostSeconds,
                         standard ? std::optional(*standard.*member) : std::nullopt);
  };
  return {number("resize", &Pauses::resize), number("restart", &Pauses::restart)};
}

void readMeasured(TomlReader &reader, const toml::table &costs, Cluster &cluster) {
  for (const toml::table *table : reader.tables(costs, "measured", "costs.")) {
    reader.keys(*table, {"parameters", "resize", "restart"}, "[[costs.measured]]");
    double parameters = reader.number(*table, "parameters", 1, kMostParameters);
    Pauses pauses = readPauses(reader, *table, std::nullopt);
    if (!cluster.measured.empty() && parameters <= cluster.measured.back().parameters)
      reader.error(table->get("parameters") ? table->get("parameters")->source() : table->source())
          << "what was measured has to be in the order of \"parameters\", each number once";
    cluster.measured.push_back({parameters, pauses});
  }
}

} // namespace

std::variant<Cluster, Problem> readCluster(llvm::StringRef text, llvm::StringRef file) {
  TomlReader reader(text, file);
  reader.keys(reader.root(), {"host", "links", "costs"}, "the cluster file");
  Cluster cluster;
  llvm::StringMap<int> lines;
  double places = 0;
  for (const toml::table *table : reader.tables("host")) {
    reader.keys(*table, {"name", "places"}, "[[host]]");
    Host host{reader.text(*table, "name"),
              static_cast<int>(reader.number(*table, "places", 1, kMostPlaces, std::nullopt, true))};
    int line = static_cast<int>(table->source().begin.line);
    if (auto [known, isNew] = lines.try_emplace(host.name, line); !isNew)
      reader.error(table->source()) << "host \"" << host.name << "\" is in line " << known->second
                                    << " already";
    places += host.places;
    cluster.hosts.push_back(host);
  }
  if (places > kMostPlaces)
    reader.error(reader.root().source())
        << "the cluster has more than " << static_cast<int>(kMostPlaces) << " places";
  if (cluster.hosts.empty())
    reader.error(reader.root().source())
        << "the cluster has no places: add a [[host]] with a name and places";
  if (const toml::table *links = reader.table("links")) {
    reader.keys(*links, {"spread"}, "[links]");
    cluster.spread = reader.number(*links, "spread", 0.01, 1, cluster.spread);
  }
  if (const toml::table *costs = reader.table("costs")) {
    reader.keys(*costs, {"resize", "restart", "lost_per_doubling", "measured"}, "[costs]");
    cluster.pauses = readPauses(reader, *costs, cluster.pauses);
    readMeasured(reader, *costs, cluster);
    cluster.lostPerDoubling = reader.number(*costs, "lost_per_doubling", 0, 0.5, cluster.lostPerDoubling);
  }
  if (!reader.problem().empty())
    return Problem{reader.problem()};
  return cluster;
}

std::variant<std::vector<Job>, Problem> readJobs(llvm::StringRef text, llvm::StringRef file,
                                                 const Cluster &cluster, const FileReader &files) {
  TomlReader reader(text, file);
  reader.keys(reader.root(), {"job"}, "the jobs file");
  std::vector<Job> jobs;
  llvm::StringMap<int> lines;
  for (const toml::table *table : reader.tables("job")) {
    Job job = readJob(reader, *table, cluster, files);
    int line = static_cast<int>(table->source().begin.line);
    if (auto [known, isNew] = lines.try_emplace(job.name, line); !isNew)
      reader.error(table->source()) << "job \"" << job.name << "\" is in line " << known->second
                                    << " already";
    if (reader.problem().empty() && !jobs.empty() && job.arrival < jobs.back().arrival)
      reader.error(table->get("arrival")->source())
          << "jobs have to be in the order of their arrival, and job \"" << jobs.back().name
          << "\" before this one arrives later";
    jobs.push_back(std::move(job));
  }
  if (jobs.empty())
    reader.error(reader.root().source()) << "there is no [[job]]";
  if (!reader.problem().empty())
    return Problem{reader.problem()};
  return jobs;
}

} // namespace tessera::scheduler
