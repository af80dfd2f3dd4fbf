// The command line of a produced executable: see include/tessera-rt/main.h.
#include "tessera-rt/main.h"

#include "runtime/app/commands.h"
#include "runtime/comm/launch.h"
#include "runtime/comm/mpi/mpi.h"
#include "runtime/device/cpu/cpu.h"
#include "runtime/storage/file.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>

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

/// The kernels by symbol, for the highest level that this machine has.
KernelResolver makeResolver(const tsr_kernel *kernels, size_t count) {
  struct Entry {
    int level;
    KernelFunction function;
  };
  int highest = int(cpu::cpuLevel());
  std::unordered_map<std::string_view, Entry> table;
  for (size_t i = 0; i < count; ++i) {
    if (kernels[i].level > highest)
      continue;
    Entry &entry = table[kernels[i].symbol];
    if (!entry.function || kernels[i].level > entry.level)
      entry = {kernels[i].level, kernels[i].function};
  }
  return [table = std::move(table)](std::string_view symbol) {
    auto it = table.find(symbol);
    return it == table.end() ? nullptr : it->second.function;
  };
}

/// Prints the error once, also where a launcher started several processes.
void fail(const std::string &message) noexcept {
  try {
    if (underMpi()) {
      runMpi([&](Transport &transport) { Engine(transport).agree(message); });
      return;
    }
  } catch (const std::exception &) {
    // MPI does not start: then every process says it.
  }
  std::fprintf(stderr, "error: %s\n", message.c_str());
}

/// Prints a text once.
int print(const std::string &text) {
  auto put = [&] {
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
      throw Error("cannot write to standard output");
  };
  if (underMpi())
    return runMpi([&](Transport &transport) {
      if (transport.rank() == 0)
        put();
    });
  put();
  return 0;
}

int run(const std::vector<std::string> &arguments, const std::string &name, std::string_view text,
        const tsr_kernel *kernels, size_t count) {
  Options options = parseOptions(arguments);
  Description description = parseDescription(text);
  if (options.command == Options::Command::Help)
    return print(helpText(description, name));
  KernelResolver resolve;
  CommandContext context{description, options, resolve};
  if (options.command == Options::Command::Info)
    return print(describeProgram(context));
  if (description.target != "cpu")
    throw Error("the program was compiled for ", description.target, ", this runtime executes cpu");
  if (options.command == Options::Command::Train)
    checkOptimizerOptions(description, options);
  resolve = makeResolver(kernels, count);
  auto command = options.command == Options::Command::Train ? runTrain : runInfer;
  int status = launch(description.mesh.size(), [&](Transport &transport) { command(context, transport); });
  removeUnfinishedFiles();
  return status;
}

} // namespace
} // namespace tessera::rt

extern "C" int tsr_main(int argc, char **argv, const char *description, size_t length, const tsr_kernel *kernels,
                        size_t num_kernels) {
  using namespace tessera::rt;
  installSignalHandlers();
  try {
    return run({argv + 1, argv + argc}, argc > 0 ? argv[0] : "program", {description, length}, kernels, num_kernels);
  } catch (const UsageError &error) {
    fail(error.what());
    return 2;
  } catch (const std::exception &error) {
    fail(error.what());
    return 1;
  }
}
