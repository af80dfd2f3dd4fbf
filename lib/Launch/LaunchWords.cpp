// See LaunchWords.h.
#include "lib/Launch/LaunchWords.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Program.h"
#include <cstdlib>
#include <unistd.h>

namespace tessera::launch {

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

std::optional<int64_t> slurmTasks() {
  const char *text = std::getenv("SLURM_TASKS_PER_NODE");
  return text ? slurmTasks(text) : std::nullopt;
}

static std::vector<std::string> mpirunWords(bool namesHosts) {
  std::vector<std::string> words = {"mpirun", "-n", "{ranks}", "--oversubscribe", "--bind-to", "none"};
  if (::getuid() == 0)
    words.push_back("--allow-run-as-root");
  if (namesHosts)
    words.insert(words.end(), {"--host", "{slots}"});
  return words;
}

// Ranks meet as those of torchrun do, so that no MPI has to know Slurm.
static std::vector<std::string> srunWords(bool namesHosts) {
  std::vector<std::string> words = {"srun", "--exact", "-n", "{ranks}"};
  if (namesHosts)
    words.insert(words.end(), {"--nodelist", "{hosts}"});
  const char *first =
      namesHosts ? "{host}" : "$(scontrol show hostnames \"$SLURM_STEP_NODELIST\" | head -n 1)";
  words.insert(words.end(), {"sh", "-c",
                             std::string("RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS MASTER_ADDR=") + first +
                                 " MASTER_PORT={port} exec \"$0\" \"$@\""});
  return words;
}

std::variant<std::vector<std::string>, std::string> launchWords(llvm::StringRef launcher,
                                                                const std::vector<Host> &hosts) {
  std::vector<std::string> words;
  if ((launcher == "threads" || launcher == "torchrun") && hosts.size() > 1)
    return (launcher == "threads" ? "threads are" : "torchrun starts ranks here alone, which are") +
           std::string(" all on this host, and there are ") + std::to_string(hosts.size()) +
           ": --launcher mpirun";
  if (launcher == "threads")
    return words;
  if (launcher == "mpirun") {
    words = mpirunWords(hosts.size() > 1);
  } else if (launcher == "torchrun") {
    words = {"torchrun", "--no-python", "--nproc-per-node", "{ranks}", "--master-port", "{port}"};
  } else if (launcher == "srun") {
    if (!slurmTasks())
      return std::string("--launcher srun is for an allocation of Slurm's: salloc -n RANKS tessera ...");
    words = srunWords(!hosts.empty());
  } else {
    llvm::SmallVector<llvm::StringRef> parts;
    launcher.split(parts, ' ', -1, false);
    for (llvm::StringRef part : parts)
      words.push_back(part.str());
    if (!launcher.contains("{ranks}"))
      return "--launcher=" + launcher.str() +
             ": expected threads, mpirun, srun, torchrun or a command with {ranks} in it";
  }
  if (!llvm::sys::findProgramByName(words.front()))
    return "--launcher: there is no program " + words.front();
  return words;
}

static void replace(std::string &word, const std::string &what, const std::string &by) {
  for (size_t at = 0; (at = word.find(what, at)) != std::string::npos; at += by.size())
    word.replace(at, what.size(), by);
}

std::vector<std::string> fillIn(const std::vector<std::string> &words, const std::vector<Host> &hosts,
                                int64_t ranks, int port) {
  std::vector<std::string> names, slots, result;
  for (const Host &host : hosts) {
    names.push_back(host.name);
    slots.push_back(host.name + ":" + std::to_string(host.places));
  }
  for (std::string word : words) {
    replace(word, "{ranks}", std::to_string(ranks));
    replace(word, "{hosts}", llvm::join(names, ","));
    replace(word, "{slots}", llvm::join(slots, ","));
    replace(word, "{host}", names.empty() ? "localhost" : names.front());
    replace(word, "{port}", std::to_string(port));
    result.push_back(std::move(word));
  }
  return result;
}

int portOf(int64_t start) {
  constexpr int first = 21000, count = 8000;
  return first + static_cast<int>(start % count);
}

} // namespace tessera::launch
