// The command line of a produced executable.
#include "runtime/app/commands.h"
#include "runtime/comm/launch.h"
#include "runtime/storage/file.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace tessera::rt {
namespace {

extern "C" void endBySignal(int number) {
  removeUnfinishedFiles();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void installSignalHandlers() {
  for (int number : {SIGTERM, SIGINT, SIGHUP})
    std::signal(number, endBySignal);
  // A full pipe's end or the file size limit show as errors of the write.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

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

int run(const std::vector<std::string> &arguments, const std::string &name, std::string_view text,
        const PlatformChooser &choose) {
  Options options = parseOptions(arguments);
  Description description = parseDescription(text);
  if (options.command == Options::Command::Help)
    return print(helpText(description, name));
  Platform platform;
  CommandContext context{description, options, platform};
  if (options.command == Options::Command::Info)
    return print(describeProgram(context));
  if (options.command == Options::Command::Train)
    checkOptimizerOptions(description, options);
  platform = choose(description, options);
  auto command = options.command == Options::Command::Train   ? runTrain
                 : options.command == Options::Command::Infer ? runInfer
                                                              : runCalibrate;
  int status = launch(description.mesh.size(), [&](Transport &transport) { command(context, transport); });
  removeUnfinishedFiles();
  return status;
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
