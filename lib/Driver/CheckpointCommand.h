// `tessera checkpoint`: what lies in a folder of checkpoints.
#ifndef TESSERA_LIB_DRIVER_CHECKPOINTCOMMAND_H
#define TESSERA_LIB_DRIVER_CHECKPOINTCOMMAND_H

#include "lib/Driver/CommandOptions.h"

namespace tessera {

struct CheckpointCommand {
  CheckpointCommand();
  explicit operator bool() { return bool(sub); }
  /// The exit status, 0 done, 1 an error or 2 wrong usage that it has reported.
  int run();

private:
  llvm::cl::SubCommand sub;
  llvm::cl::opt<std::string> action, folder, keep, keepEvery;
};

/// Writes a checkpoint, or of a folder of them the newest whole one, as a single safetensors file: all of it,
/// or the parameters alone. The exit status, 0 done or 1 an error that it has reported.
int joinCheckpoint(const std::string &path, const std::string &output, bool parametersAlone);

} // namespace tessera
#endif
