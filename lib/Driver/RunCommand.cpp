// See RunCommand.h.
#include "lib/Driver/RunCommand.h"
#include "lib/Launch/Executable.h"
#include "lib/Run/Control.h"
#include "lib/Run/Supervisor.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/core/error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"

using namespace tessera;
using namespace tessera::run;
namespace cl = llvm::cl;

RunCommand::RunCommand()
    : sub("run", "train under a launcher, and start again whatever ends it"),
      folder{"in", cl::desc("the folder of its state, checkpoints and log"), cl::value_desc("WORK"),
             cl::sub(sub)},
      ranks{"n", cl::desc("ranks, which are the executable's (default)"), cl::value_desc("N"), cl::sub(sub)},
      launcher{"launcher",
               cl::desc("what starts ranks: mpirun (default for several, in an allocation of Slurm's srun), "
                        "threads, srun, torchrun, or a command with {ranks}"),
               cl::value_desc("NAME"), cl::sub(sub)},
      restarts{"restarts", cl::desc("give up after so many starts without a new step (default: 10)"),
               cl::value_desc("N"), cl::sub(sub)},
      hosts{"hosts", cl::desc("lines of HOST:PLACES, read again before each start"), cl::value_desc("FILE"),
            cl::sub(sub)},
      discover{"discover", cl::desc("a command that prints such lines"), cl::value_desc("COMMAND"),
               cl::sub(sub)},
      command{cl::Positional, cl::desc("-- OUT train ..."), cl::sub(sub)} {}

static int fail(const llvm::Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return 1;
}

// What starts ranks where the user did not say.
static std::string usualLauncher(int64_t ranks) {
  if (launch::slurmTasks())
    return "srun";
  return ranks > 1 && llvm::sys::findProgramByName("mpirun") ? "mpirun" : "threads";
}

// What can be wrong before anything is started; the exit status.
static int prepare(RunOptions &options, llvm::StringRef ranks) {
  auto facts = launch::askExecutable(options.command.words.front());
  if (auto *problem = std::get_if<std::string>(&facts))
    return fail("executable \"" + options.command.words.front() + "\": " + *problem);
  options.ranks = std::max<int64_t>(1, std::get<launch::ExecutableFacts>(facts).ranks);
  options.sizes = std::get<launch::ExecutableFacts>(facts).sizes;
  int64_t asked = options.ranks;
  if (!ranks.empty() && (ranks.getAsInteger(10, asked) || asked < 1))
    return usage("-n=" + ranks + ": expected a whole number of at least 1");
  if (!options.sizes.empty()) {
    if (asked < options.sizes.front().ranks)
      return fail("executable \"" + options.command.words.front() + "\" runs on " +
                  llvm::Twine(options.sizes.front().ranks) + " ranks or more, not on " + llvm::Twine(asked));
    options.ranks = asked;
  } else if (asked != options.ranks)
    return fail("executable \"" + options.command.words.front() + "\" runs on " + llvm::Twine(options.ranks) +
                " ranks, not on " + llvm::Twine(asked) + ": compile it for as many, or with --sizes");
  if (options.launcher.empty())
    options.launcher = usualLauncher(options.ranks);
  auto words = launch::launchWords(options.launcher, {});
  if (auto *problem = std::get_if<std::string>(&words))
    return fail(*problem);
  if (std::error_code error = llvm::sys::fs::create_directories(options.folder))
    return fail("cannot make the folder \"" + options.folder + "\": " + error.message());
  return 0;
}

int RunCommand::run() {
  if (folder.empty())
    return usage("no folder given: tessera run --in WORK -- OUT train ...");
  RunOptions options;
  options.folder = folder;
  options.launcher = launcher;
  options.hostsFile = hosts;
  options.discover = discover;
  if (!hosts.empty() && !discover.empty())
    return usage("--hosts and --discover exclude each other");
  if (!restarts.empty() &&
      (llvm::StringRef(restarts).getAsInteger(10, options.restarts) || options.restarts < 0))
    return usage("--restarts=" + restarts + ": expected a whole number of at least 0");
  auto completed = completeCommand({command.begin(), command.end()}, folder);
  if (auto *problem = std::get_if<std::string>(&completed))
    return usage("tessera run: " + *problem);
  options.command = std::get<TrainingCommand>(std::move(completed));
  if (int status = prepare(options, ranks))
    return status;
  try {
    rt::FolderLock lock(options.folder);
    return Supervisor(std::move(options)).run();
  } catch (const rt::Error &error) {
    return fail(error.what());
  }
}

ResizeCommand::ResizeCommand()
    : sub("resize", "let what runs in a folder go on on another number of ranks"),
      folder{cl::Positional, cl::desc("WORK"), cl::sub(sub)},
      size{cl::Positional, cl::desc("SIZE"), cl::sub(sub)} {}

int ResizeCommand::run() {
  int64_t asked = 0;
  if (folder.empty() || size.empty())
    return usage("tessera resize WORK SIZE: give both");
  if (llvm::StringRef(size).getAsInteger(10, asked) || asked < 1)
    return usage("tessera resize " + folder + " " + size + ": expected a size of at least 1, such as 2");
  try {
    llvm::outs() << resizeRun(folder, asked);
    return 0;
  } catch (const rt::Error &error) {
    return fail(error.what());
  }
}

RunControlCommand::RunControlCommand(const char *name, const char *description,
                                     std::string (*act)(const std::string &folder))
    : sub(name, description), folder{cl::Positional, cl::desc("WORK"), cl::sub(sub)}, act(act) {}

int RunControlCommand::run() {
  if (folder.empty())
    return usage("no folder given: tessera " + sub.getName() + " WORK");
  try {
    llvm::outs() << act(folder);
    return 0;
  } catch (const rt::Error &error) {
    return fail(error.what());
  }
}
