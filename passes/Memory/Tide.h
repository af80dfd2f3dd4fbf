// What a program holds over a step, for people to look at.
#ifndef TESSERA_PASSES_MEMORY_TIDE_H
#define TESSERA_PASSES_MEMORY_TIDE_H

#include "passes/Memory/Offsets.h"
#include <array>
#include <functional>

namespace tessera {

/// Bytes live while each operator runs, in program order, of the model of memory that `exec.memory` is of.
struct MemoryTide {
  struct Moment {
    std::string operation;                      // its ONNX node, or what it is
    std::array<int64_t, kCategories.size()> by; // of the device
    int64_t host = 0, nvme = 0;
  };
  struct Held {
    std::string name; // of a variable, or of the operator that made it
    llvm::StringRef category;
    int64_t bytes;
  };
  std::string function, program; // the program without its stage
  int64_t stage = 0;
  std::vector<Moment> moments;
  size_t fullest = 0;           // of the device: a moment,
  std::vector<Held> held;       // and what is live there, largest first
  int64_t peak = 0, unused = 0; // of the device; what packing lost and variables of other programs
};

using TideObserver = std::function<void(MemoryTide)>;

/// Of a function before it is an exec program.
MemoryTide tideOf(mlir::func::FuncOp func, const Storage &storage, const Offsets &offsets);

} // namespace tessera
#endif
