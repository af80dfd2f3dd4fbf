// Programs run in this process, all ranks as threads of it.
#ifndef TESSERA_LIB_DRIVER_INPROCESS_H
#define TESSERA_LIB_DRIVER_INPROCESS_H

#include "lib/Driver/Compile.h"
#include "lib/Driver/RandomData.h"
#include "lib/Target/Cpu/Jit.h"
#include "runtime/program/session.h"
#include <map>

namespace tessera {

using Arrays = std::map<std::string, HostArray>;

/// A program ready to run: its description and its kernels in memory.
struct LoadedProgram {
  rt::Description description;
  std::unique_ptr<cpu::JitKernels> kernels;
};

/// Takes a compilation through the memory phase and loads what comes of it. Problems are reported as
/// diagnostics.
mlir::FailureOr<LoadedProgram> loadProgram(Compilation &compilation);

struct RunOptions {
  std::string weights;               ///< file that variables are loaded from; empty: none
  const Arrays *variables = nullptr; ///< values of variables by name, where there is no file
  int threads = 0;                   ///< a rank; 0: this machine's cores over the ranks
  bool poison = false;               ///< memory begins as NaN instead of zero
};

/// What one step left.
struct RunResult {
  Arrays arrays; ///< outputs by name; of a training program also "parameter:NAME" as it is after the step
  rt::SentTable sent; ///< what the ranks sent
};

/// Runs the programs of these names once each, in a session of its own, with one large step of SGD if they
/// train; each begins with the variables that `options` gives. `inputs`: of all of them by name. Fails after
/// the runtime has reported why.
mlir::FailureOr<std::vector<RunResult>> runOnce(const LoadedProgram &loaded,
                                                const std::vector<std::string> &names,
                                                const std::vector<Arrays> &inputs, const RunOptions &options);

/// The largest difference found, over the largest magnitude of its tensor.
struct Worst {
  double relative = -1, expected = 0, got = 0;
  std::string where; // tensor
  int64_t index = 0;
};

/// Of all arrays of `expected` the worst, by kind: "outputs", "gradients", "parameters after a step", with
/// how many there are.
std::map<std::string, std::pair<int64_t, Worst>> compareByKind(const Arrays &expected, const Arrays &got);

} // namespace tessera
#endif
