// The commands of `tessera` beside `compile`. Each returns the exit status, 0 done or 1 an error that it has
// reported.
#ifndef TESSERA_LIB_DRIVER_COMMANDS_H
#define TESSERA_LIB_DRIVER_COMMANDS_H

#include "lib/Driver/Options.h"
#include "llvm/ADT/StringSet.h"

namespace tessera {

/// Writes the plan that the options stand for, as TOML that --plan reads, to `output`; empty: the standard
/// output.
int printPlan(const CompileOptions &options, const std::string &output);

/// `plan --auto`: which numbers of ranks, for how long, and where plans go.
struct AutoOptions {
  std::vector<int64_t> ranks;
  double seconds = 60;
  std::string output; // empty: the standard output; with several numbers of ranks STEM-N.toml beside it
  bool json = false;
  llvm::StringSet<> decided; // options that the user has given
};
/// Finds the fastest plan, by the machine's rates, that keeps the caps of memory, and writes it; for
/// several numbers of ranks one each, and a table. SIGINT and SIGTERM end the search, as the clock does.
int planAutomatically(const CompileOptions &options, AutoOptions how);

/// Prints what becomes of every operator, or of those with a name that `glob` matches unless it is empty:
/// pattern, layouts, moves and their cost, and everything replicated, padded and trained.
int explain(const CompileOptions &options, const std::string &glob, const std::string &why);

/// Compiles for one rank and for the plan, runs both in this process on the same random data and compares
/// outputs, gradients and the parameters after one step of SGD. Values may differ by `tolerance` times the
/// largest magnitude of their tensor.
int verify(const CompileOptions &options, double tolerance);

/// Writes the program after assign as text with the plan in `dist.*` attributes, and its weights (or those of
/// --weights) beside it.
int convertToText(const CompileOptions &options);

/// Writes an ONNX model with the plan inside, as text in its metadata and as annotations of its nodes, and
/// with the weights of --weights.
int convertToOnnx(const CompileOptions &options);

/// Writes the weights in the file `options.weights` under the names and in the shapes of the framework that
/// exported the model.
int convertToTorch(const CompileOptions &options);

} // namespace tessera
#endif
