// tessera: the compiler's command line. Every command is a function of lib/Driver.
#include "lib/Driver/CommandLine.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"
#include <csignal>
#include <cstdlib>

// What LLVM gives up on, a standard output that is full for example, is told as any other error.
static void fail(void *, const char *reason, bool) {
  llvm::errs() << "error: " << reason << "\n";
  std::_Exit(1);
}

int main(int argc, char **argv) {
  llvm::install_fatal_error_handler(fail);
  // Beyond `ulimit -f` writes fail.
  std::signal(SIGXFSZ, SIG_IGN);
  return tessera::runCommandLine(argc, argv);
}
