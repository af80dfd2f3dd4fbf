// What the command line asks of the compiler, as plain data.
#ifndef TESSERA_LIB_DRIVER_OPTIONS_H
#define TESSERA_LIB_DRIVER_OPTIONS_H

#include "lib/Import/Import.h"
#include "lib/Target/Target.h"
#include "passes/Assign/Passes.h"
#include "runtime/core/size.h"
#include <optional>
#include <string>

namespace tessera {

/// The phases in order. docs/architecture.md says what the program looks like at the end of each.
enum class Phase {
  Import,
  Normalize,
  Differentiate,
  Assign,
  Propagate,
  Partition,
  Schedule,
  Memory,
  Lower,
  Link
};

llvm::StringRef phaseName(Phase phase);
std::optional<Phase> parsePhase(llvm::StringRef name);

struct CompileOptions {
  std::string model, output;
  ImportOptions import;
  std::string weights;       // --weights, for .mlir models
  AssignOptions assign;      // plan file and recipe
  double capacityFactor = 0; // of experts; 0: they take every token
  std::string dtype;         // --dtype: what to compute in; empty: as the plan says, else f32
  std::string optimizer;     // --train; empty: inference only
  std::string loss;
  bool emitGradients = false; // verification: gradients are outputs
  /// --target; null: the first of target::targets().
  const target::Target *target = nullptr;
  std::string hostTwins; // file for the kernels' programs for the host, which tests execute
  std::string dumpDirectory;
  Phase from = Phase::Import, to = Phase::Link;
  std::string report;   // --report: FILE.json or FILE.html
  std::string measured; // --measured: a run's trace that a page compares with
  /// --device-memory and --host-memory, bytes a rank, and what may leave the device: "optimizer",
  /// "parameters", "activations".
  std::optional<int64_t> deviceMemory, hostMemory;
  std::optional<rt::FolderSize> nvme; // --nvme, for what the host has no room for
  std::vector<std::string> offload;
  /// --recompute: "none", "block" or "auto"; empty: as a text says that is resumed, else none.
  std::string recompute;
  std::string tierPolicy = "planned"; // --tier-policy, what decides that
  bool toCompare = false;             // with others: no programs for inference and clipping, packed quickly
  bool advises = true;                // what would help where memory is too small, which has to be tried
  bool anyPlacement = false;          // the first that fits will do, however long a step takes
  int64_t turns = 0;                  // likewise, of a pipeline: so many of its microbatches alone; 0: all
  std::string machineFile;            // --machine: rates to estimate by; empty: the target's
  int64_t threads = 0;                // a rank; 0: this machine's cores over the ranks
  bool timing = false, verbose = false;
};

} // namespace tessera
#endif
