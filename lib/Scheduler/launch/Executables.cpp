// See Executables.h.
#include "lib/Scheduler/launch/Executables.h"
#include "lib/Launch/Executable.h"
#include "lib/Launch/LaunchWords.h"
#include "llvm/Support/FormatVariadic.h"

namespace tessera::scheduler {

namespace {

std::optional<std::string> checkFacts(const launch::ExecutableFacts &facts, const Job &job, int places) {
  // What grows is said of the largest size.
  bool grows = job.ownBatch == Batch::Places;
  int64_t batch = job.batch * (grows ? job.program.sizes.rbegin()->first : job.places);
  if (facts.ranks != places)
    return llvm::formatv("it was compiled for {0} ranks, and is given for {1} places", facts.ranks, places)
        .str();
  if (facts.batch != batch)
    return llvm::formatv("it has a batch of {0}, and the job one of {1}: \"batch\" times \"places\", on any "
                         "number of places{2}",
                         facts.batch, batch, grows ? ", of its largest size" : "")
        .str();
  if (job.program.promised && !(facts.stepSeconds > 0))
    return std::string("it promises no time of a step: the job needs a \"throughput\"");
  return std::nullopt;
}

Problem at(const std::string &file, const Job &job, const std::string &executable, const std::string &what) {
  return {llvm::formatv("{0}:{1}:{2}: executable \"{3}\": {4}", file, job.program.line, job.program.column,
                        executable, what)};
}

} // namespace

// Of one executable for all numbers of places: which of its sizes is for which.
static std::optional<std::string> takeSizes(Job &job, const launch::ExecutableFacts &facts) {
  const std::string path = job.program.executables.begin()->second;
  for (const launch::Size &each : facts.sizes) {
    job.program.sizes[static_cast<int>(each.ranks)] = each.size;
    if (job.program.promised)
      job.program.executables.try_emplace(static_cast<int>(each.ranks), path);
  }
  for (auto &[places, same] : job.program.executables)
    if (job.program.sizes.empty() ? places != facts.ranks : !job.program.sizes.contains(places))
      return llvm::formatv(
                 "it runs on {0} ranks{1}, and is given for {2} places: compile it with --sizes, as by "
                 "`tessera compile MODEL -o OUT --dp 4 --sizes 1,2,4 --train adamw`",
                 facts.ranks, job.program.sizes.empty() ? " alone" : " and others", places)
          .str();
  return std::nullopt;
}

// Whether the batch grows with the places is the executable's to say, and how far the job's.
static std::optional<std::string> checkGrowth(const Job &job, const launch::ExecutableFacts &facts) {
  bool grows = job.ownBatch == Batch::Places;
  if (grows && (!facts.scales || facts.sizes.empty()))
    return std::string(
        "its batch is the same on any places, and the job has a \"largest_batch\": compile it with "
        "--sizes and --on-resize scale");
  if (!grows && facts.scales)
    return std::string(
        job.program.isOne
            ? "its batch grows with its places: the job needs a \"largest_batch\""
            : "its batch grows with its places: give it for all numbers of places, as one, and a "
              "\"largest_batch\"");
  return std::nullopt;
}

std::optional<Problem> askExecutables(std::vector<Job> &jobs, const std::string &file) {
  for (Job &job : jobs) {
    std::map<int, launch::ExecutableFacts> known; // by places
    if (job.program.isOne) {
      const std::string path = job.program.executables.begin()->second;
      auto answer = launch::askExecutable(path);
      auto *problem = std::get_if<std::string>(&answer);
      if (problem)
        return at(file, job, path, *problem);
      const auto &facts = std::get<launch::ExecutableFacts>(answer);
      for (auto why : {checkGrowth(job, facts), takeSizes(job, facts)})
        if (why)
          return at(file, job, path, *why);
      known[static_cast<int>(facts.ranks)] = facts;
    }
    for (auto &[places, executable] : job.program.executables) {
      if (!known.contains(places)) {
        auto size = job.program.sizes.find(places);
        auto answer = launch::askExecutable(executable, size == job.program.sizes.end() ? 0 : size->second);
        if (auto *problem = std::get_if<std::string>(&answer))
          return at(file, job, executable, *problem);
        known[places] = std::get<launch::ExecutableFacts>(answer);
      }
      for (auto problem : {checkGrowth(job, known[places]), checkFacts(known[places], job, places)})
        if (problem)
          return at(file, job, executable, *problem);
      if (job.program.promised)
        job.throughput[places] = batchOn(job, places, Batch::Asked) / known[places].stepSeconds;
    }
  }
  return std::nullopt;
}

std::variant<std::vector<std::string>, Problem>
launcherCommand(llvm::StringRef launcher, const Cluster &cluster, const std::string &file) {
  auto words = launch::launchWords(launcher, cluster.hosts);
  if (auto *problem = std::get_if<std::string>(&words))
    return Problem{std::move(*problem)};
  std::optional<int64_t> tasks = launch::slurmTasks();
  if (launcher == "srun" && *tasks < cluster.places())
    return Problem{llvm::formatv("{0}:1:1: the cluster has {1} places, and Slurm's allocation only {2}", file,
                                 cluster.places(), *tasks)};
  return std::get<std::vector<std::string>>(std::move(words));
}

} // namespace tessera::scheduler
