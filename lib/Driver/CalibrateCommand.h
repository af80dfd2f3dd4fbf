// `tessera calibrate`: the machine's figures, without a model of one's own.
#ifndef TESSERA_LIB_DRIVER_CALIBRATECOMMAND_H
#define TESSERA_LIB_DRIVER_CALIBRATECOMMAND_H

#include "lib/Driver/CommandOptions.h"

namespace tessera {

class CalibrateCommand {
public:
  CalibrateCommand();
  explicit operator bool() const { return bool(sub); }
  /// Compiles a program of kernels of every class for so many ranks, threads of one process, and has its
  /// `calibrate` write the file. The exit status.
  int run();

private:
  llvm::cl::SubCommand sub;
  const std::string targetText;
  llvm::cl::opt<std::string> output, target, ranks, threads, seconds;
};

} // namespace tessera
#endif
