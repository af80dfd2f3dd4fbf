// `tessera run`, `tessera status` and `tessera stop`: a training that goes on whatever ends it.
#ifndef TESSERA_LIB_DRIVER_RUNCOMMAND_H
#define TESSERA_LIB_DRIVER_RUNCOMMAND_H

#include "lib/Driver/CommandOptions.h"

namespace tessera {

struct RunCommand {
  RunCommand();
  explicit operator bool() { return bool(sub); }
  /// The exit status: 0 done, 1 an error or 2 wrong usage that it has reported, 75 stopped.
  int run();

private:
  llvm::cl::SubCommand sub;
  llvm::cl::opt<std::string> folder, ranks, launcher, restarts, hosts, discover;
  llvm::cl::list<std::string> command;
};

/// `tessera resize WORK SIZE`.
struct ResizeCommand {
  ResizeCommand();
  explicit operator bool() { return bool(sub); }
  int run();

private:
  llvm::cl::SubCommand sub;
  llvm::cl::opt<std::string> folder, size;
};

/// `tessera status WORK` or `tessera stop WORK`.
struct RunControlCommand {
  RunControlCommand(const char *name, const char *description, std::string (*act)(const std::string &folder));
  explicit operator bool() { return bool(sub); }
  int run();

private:
  llvm::cl::SubCommand sub;
  llvm::cl::opt<std::string> folder;
  std::string (*const act)(const std::string &folder);
};

} // namespace tessera
#endif
