// One rank's instance of a program: its arena, its prepared operations, and the loop that executes them.
#pragma once

#include "runtime/comm/engine.h"
#include "runtime/device/cpu/library.h"
#include "runtime/program/description.h"
#include "runtime/program/memory.h"
#include "runtime/program/profile.h"
#include "runtime/program/trace.h"
#include "runtime/program/weights.h"

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

namespace tessera::rt {

/// A kernel of the program: see tsr_kernel_function in include/tessera-rt/main.h.
using KernelFunction = void (*)(void *const *args, const int64_t *scalars, int64_t begin, int64_t end);
/// Finds a kernel by its symbol; null when there is none.
using KernelResolver = std::function<KernelFunction(std::string_view symbol)>;

/// Executes one program on one rank. Everything that can be checked or prepared is, in the constructor; a step allocates nothing.
class RankProgram {
public:
  /// The description, the program (one of its programs), engine, pool and allocator must outlive this. Throws Error for an unknown kernel or a
  /// library call that this machine cannot run.
  RankProgram(const Description &description, const Program &program, int rank, Engine &engine, Pool &pool,
              CountingAllocator &allocator, const KernelResolver &resolve);
  ~RankProgram();

  const Coordinates &coordinates() const { return at; }
  /// Which variables the program holds.
  static std::vector<bool> usedVariables(const Description &description, const Program &program);
  /// This rank's part of a variable; null when the program does not hold it.
  void *variableData(size_t index) const { return variables[index]; }
  void *inputData(size_t index) const { return bufferData(program.inputs[index].buffer); }
  void *outputData(size_t index) const { return bufferData(program.outputs[index].buffer); }

  /// Fills the variables from the file, or with zeros.
  void loadVariables(const Weights &weights);
  /// Runs the operations once.
  void step();
  /// Records what every operation does when; null stops it.
  void setTrace(TraceRecorder *recorder) { trace = recorder; }
  /// Adds up where the time of steps goes; null stops it.
  void setProfile(Profile *sums) { profile = sums; }

private:
  struct Prepared;
  void *bufferData(int64_t index) const;
  void prepare(const Operation &op, const KernelResolver &resolve);
  void prepareScalars(const Operation &op, Prepared &prepared) const;
  void prepareCollective(const Operation &op, Prepared &prepared) const;
  void execute(Prepared &prepared, int64_t micro);
  void observe(Prepared &prepared, int64_t micro);

  const Description &description;
  const Program &program;
  const Coordinates at;
  Engine &engine;
  Pool &pool;
  CountingAllocator &allocator;
  char *arena = nullptr;
  char *workspace = nullptr;
  std::vector<void *> variables;
  std::vector<Prepared> operations;
  TraceRecorder *trace = nullptr;
  Profile *profile = nullptr;
};

} // namespace tessera::rt
