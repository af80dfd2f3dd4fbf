// The command line of a produced executable.
#include "runtime/app/commands.h"
#include "runtime/app/course.h"
#include "runtime/app/signals.h"
#include "runtime/comm/first_ranks.h"
#include "runtime/comm/launch.h"
#include "runtime/storage/file.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace tessera::rt {
namespace {

/// Prints the error once, also where a launcher started several processes, which all have it at the same
/// time.
void fail(const std::string &message) noexcept {
  try {
    if (underLauncher()) {
      runProcess([&](Transport &transport) { Engine(transport).agree(message); }, std::chrono::seconds(5));
      return;
    }
  } catch (const std::exception &) {
    // The ranks do not come together: then every process says it.
  }
  std::fprintf(stderr, "error: %s\n", message.c_str());
}

/// Prints a text once, for which processes of a launcher need not come together.
int print(const std::string &text) {
  if (isFirstProcess() && (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0))
    throw Error("cannot write to standard output");
  return 0;
}

/// The command on all ranks; returns the exit status. `whole` becomes false where a signal ended it.
int launchCommand(const Executable &executable, const CommandContext &context, std::atomic<bool> &whole) {
  const bool isElastic = executable.sizes.size() > 1,
             trains = context.options.command == Options::Command::Train;
  return launch(
      isElastic && trains ? executable.mostRanks() : context.description.mesh.size(),
      [&](Transport &transport) {
        if (trains) {
          TrainEnd end = isElastic ? runElasticTrain(executable, context.options, context.platform, transport)
                                   : runTrain(context, transport, nullptr);
          if (end.how == TrainEnd::Stopped)
            whole = false;
          return;
        }
        // As many of the ranks as it can use.
        const Description &chosen =
            executable.sizes[isElastic ? chooseSize(executable, context.options, transport.size()) : 0];
        if (transport.rank() >= chosen.mesh.size())
          return;
        FirstRanks ranks(transport, int(chosen.mesh.size()));
        const CommandContext own{chosen, context.options, context.platform};
        if (context.options.command == Options::Command::Infer)
          runInfer(own, ranks);
        else
          runCalibrate(own, ranks);
      },
      isElastic);
}

int run(const std::vector<std::string> &arguments, const std::string &name, std::string_view text,
        const PlatformChooser &choose) {
  Options options = parseOptions(arguments);
  const Executable executable = parseExecutable(text);
  const Description &description = executable.sizes[chooseSize(executable, options, std::nullopt)];
  if (options.command == Options::Command::Help)
    return print(helpText(description, name));
  Platform platform;
  CommandContext context{description, options, platform};
  if (options.command == Options::Command::Info)
    return print(describeProgram(context));
  if (options.command == Options::Command::Train) {
    checkOptimizerOptions(description, options);
    checkCourseOptions(description, options);
    deferStops();
  }
  platform = choose(description, options);
  print(idleTiersText(description, options));
  std::atomic<bool> whole = true;
  int status = launchCommand(executable, context, whole);
  removeUnfinishedFiles();
  return status == 0 && !whole ? startAgainStatus : status;
}

} // namespace

int runExecutable(int argc, char **argv, std::string_view description, const PlatformChooser &choose) {
  installSignalHandlers();
  try {
    return run({argv + 1, argv + argc}, argc > 0 ? argv[0] : "program", description, choose);
  } catch (const UsageError &error) {
    fail(error.what());
    return 2;
  } catch (const std::exception &error) {
    fail(error.what());
    return 1;
  }
}

} // namespace tessera::rt
