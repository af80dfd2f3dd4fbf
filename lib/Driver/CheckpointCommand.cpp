// See CheckpointCommand.h.
#include "lib/Driver/CheckpointCommand.h"
#include "runtime/checkpoint/inspect.h"
#include "runtime/core/error.h"
#include "llvm/ADT/STLExtras.h"

using namespace tessera;
namespace cl = llvm::cl;

CheckpointCommand::CheckpointCommand()
    : sub("checkpoint", "list, verify or prune the checkpoints of a training"),
      action{cl::Positional, cl::desc("list|verify|prune"), cl::sub(sub)},
      folder{cl::Positional, cl::desc("DIR"), cl::sub(sub)},
      keep{"keep", cl::desc("with prune: the newest N stay"), cl::value_desc("N"), cl::sub(sub)},
      keepEvery{"keep-every", cl::desc("with prune: those of step M, 2M, ... stay, too"), cl::value_desc("M"),
                cl::sub(sub)} {}

static int fail(const llvm::Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return 1;
}

int CheckpointCommand::run() {
  if (!llvm::is_contained({"list", "verify", "prune"}, std::string(action)))
    return usage("tessera checkpoint list|verify|prune DIR: no such action as \"" + action + "\"");
  if (folder.empty())
    return usage("no folder given: tessera checkpoint " + action + " DIR");
  rt::KeepRule rule;
  for (auto [name, text, number] :
       {std::tuple("--keep", &keep, &rule.newest), {"--keep-every", &keepEvery, &rule.every}}) {
    if (!text->empty() && action != "prune")
      return usage(llvm::Twine(name) + " goes with tessera checkpoint prune");
    if (!text->empty() && (llvm::StringRef(*text).getAsInteger(10, *number) || *number < 1))
      return usage(llvm::Twine(name) + "=" + *text + ": expected a whole number of at least 1");
  }
  if (action == "prune" && rule.newest == 0)
    return usage("tessera checkpoint prune needs --keep N, how many of the newest stay");
  try {
    if (action == "prune") {
      llvm::outs() << rt::pruneCheckpoints(folder, rule);
      return 0;
    }
    std::vector<rt::CheckpointEntry> entries = rt::checkpointsAt(folder);
    if (action == "list") {
      llvm::outs() << rt::listCheckpoints(entries);
      return 0;
    }
    int64_t damaged = 0;
    llvm::outs() << rt::verifyCheckpoints(entries, damaged);
    llvm::outs().flush();
    return damaged ? fail(llvm::Twine(damaged) + " of " + llvm::Twine(entries.size()) +
                          " checkpoints are damaged")
                   : 0;
  } catch (const rt::Error &error) {
    return fail(error.what());
  }
}

int tessera::joinCheckpoint(const std::string &path, const std::string &output, bool parametersAlone) {
  std::vector<std::string> warnings;
  try {
    rt::joinCheckpoint(path, output, parametersAlone, warnings);
  } catch (const rt::Error &error) {
    return fail(error.what());
  }
  for (const std::string &warning : warnings)
    llvm::errs() << "warning: a checkpoint is passed over, since it is damaged: " << warning << "\n";
  return 0;
}
