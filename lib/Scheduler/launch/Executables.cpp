// See Executables.h.
#include "lib/Scheduler/launch/Executables.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include <unistd.h>

namespace tessera::scheduler {

namespace {

constexpr unsigned kSecondsToAnswer = 10;

struct Facts {
  int64_t ranks = 0, batch = 0; // 0: not said
  double stepSeconds = 0;
};

// What `path` answers to `info --json`; else what is wrong with it.
std::variant<Facts, std::string> ask(const std::string &path) {
  llvm::SmallString<128> executable(path), output;
  (void)llvm::sys::fs::make_absolute(executable);
  if (!llvm::sys::fs::can_execute(executable))
    return "there is no such program";
  if (llvm::sys::fs::createTemporaryFile("tessera-info", "json", output))
    return "no temporary file for what it says of itself";
  std::string error;
  int status = llvm::sys::ExecuteAndWait(executable, {executable, "info", "--json"}, std::nullopt,
                                         {llvm::StringRef(""), output.str(), llvm::StringRef("")},
                                         kSecondsToAnswer, 0, &error);
  auto text = llvm::MemoryBuffer::getFile(output);
  (void)llvm::sys::fs::remove(output);
  if (status != 0 || !text)
    return "it does not answer to `info --json`, as what `tessera compile` wrote does";
  llvm::Expected<llvm::json::Value> value = llvm::json::parse((*text)->getBuffer());
  const llvm::json::Object *object = value ? value->getAsObject() : nullptr;
  if (!object) {
    llvm::consumeError(value.takeError());
    return "what it answers to `info --json` is not JSON";
  }
  Facts facts;
  facts.ranks = object->getInteger("ranks").value_or(0);
  facts.stepSeconds = object->getNumber("step_seconds").value_or(0);
  if (const llvm::json::Array *inputs = object->getArray("inputs"); inputs && !inputs->empty())
    if (const llvm::json::Object *input = inputs->front().getAsObject())
      if (const llvm::json::Array *shape = input->getArray("shape"); shape && !shape->empty())
        facts.batch = shape->front().getAsInteger().value_or(0);
  return facts;
}

std::optional<std::string> checkFacts(const Facts &facts, const Job &job, int places) {
  int64_t batch = job.batch * job.places;
  if (facts.ranks != places)
    return llvm::formatv("it runs on {0} ranks, and is given for {1} places", facts.ranks, places).str();
  if (facts.batch != batch)
    return llvm::formatv("it has a batch of {0}, and the job one of {1}: \"batch\" times \"places\", on any "
                         "number of places",
                         facts.batch, batch)
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

std::optional<Problem> askExecutables(std::vector<Job> &jobs, const std::string &file) {
  for (Job &job : jobs)
    for (auto &[places, executable] : job.program.executables) {
      auto answer = ask(executable);
      if (auto *problem = std::get_if<std::string>(&answer))
        return at(file, job, executable, *problem);
      const auto &facts = std::get<Facts>(answer);
      if (auto problem = checkFacts(facts, job, places))
        return at(file, job, executable, *problem);
      if (job.program.promised)
        job.throughput[places] = static_cast<double>(facts.batch) / facts.stepSeconds;
    }
  return std::nullopt;
}

std::optional<int64_t> slurmTasks(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',');
  int64_t sum = 0;
  for (llvm::StringRef part : parts) {
    int64_t tasks = 0, nodes = 1;
    if (part.consumeInteger(10, tasks))
      return std::nullopt;
    if (part.consume_front("(x") && (part.consumeInteger(10, nodes) || !part.consume_front(")")))
      return std::nullopt;
    if (!part.empty() || tasks < 1 || nodes < 1 || tasks > 1'000'000 || nodes > 1'000'000)
      return std::nullopt;
    sum += tasks * nodes;
  }
  return sum;
}

// What is missing for `srun`.
static std::optional<Problem> checkAllocation(const Cluster &cluster, const std::string &file) {
  const char *text = std::getenv("SLURM_TASKS_PER_NODE");
  std::optional<int64_t> tasks = text ? slurmTasks(text) : std::nullopt;
  if (!tasks)
    return Problem{llvm::formatv("--launcher srun is for an allocation of Slurm's: salloc -n {0} tessera "
                                 "schedule ...",
                                 cluster.places())};
  if (*tasks < cluster.places())
    return Problem{llvm::formatv("{0}:1:1: the cluster has {1} places, and Slurm's allocation only {2}", file,
                                 cluster.places(), *tasks)};
  return std::nullopt;
}

std::variant<std::vector<std::string>, Problem>
launcherCommand(llvm::StringRef launcher, const Cluster &cluster, const std::string &file) {
  std::vector<std::string> words;
  bool manyHosts = cluster.hosts.size() > 1;
  if (launcher == "threads") {
    if (manyHosts)
      return Problem{llvm::formatv("{0}:1:1: the cluster has {1} hosts, and threads are all on this one: "
                                   "--launcher mpirun",
                                   file, cluster.hosts.size())};
    return words;
  }
  if (launcher == "mpirun") {
    words = {"mpirun", "-n", "{ranks}", "--oversubscribe", "--bind-to", "none"};
    if (::getuid() == 0)
      words.push_back("--allow-run-as-root");
    if (manyHosts)
      words.insert(words.end(), {"--host", "{slots}"});
  } else if (launcher == "srun") {
    if (auto problem = checkAllocation(cluster, file))
      return *problem;
    // Ranks meet as those of torchrun do, so that no MPI has to know Slurm.
    const char *rank = "RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS MASTER_ADDR={host} MASTER_PORT={port} "
                       "exec \"$0\" \"$@\"";
    words = {"srun", "--exact", "-n", "{ranks}", "--nodelist", "{hosts}", "sh", "-c", rank};
  } else {
    llvm::SmallVector<llvm::StringRef> parts;
    launcher.split(parts, ' ', -1, false);
    for (llvm::StringRef part : parts)
      words.push_back(part.str());
    if (!launcher.contains("{ranks}"))
      return Problem{"--launcher=" + launcher.str() +
                     ": expected threads, mpirun, srun or a command with {ranks} in it"};
  }
  if (!llvm::sys::findProgramByName(words.front()))
    return Problem{"--launcher: there is no program " + words.front()};
  return words;
}

} // namespace tessera::scheduler
