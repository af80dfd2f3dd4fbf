// What writes exec programs as JSON.
#ifndef TESSERA_LIB_TARGET_PROGRAMWRITER_H
#define TESSERA_LIB_TARGET_PROGRAMWRITER_H

#include "dialects/dist/Pipeline.h"
#include "dialects/exec/Exec.h"
#include "dialects/nn/NN.h"
#include "lib/Target/DescriptionValues.h"
#include "lib/Target/JsonText.h"
#include "lib/Target/Program.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Pipeline/PipelineSchedule.h"
#include <map>
#include <optional>

namespace tessera {

/// A program of the description.
struct ProgramText {
  llvm::json::Object rest;
  ListText buffers, ops;
};

/// Writes the programs of a module one after the other.
class ProgramWriter {
public:
  ProgramWriter(mlir::ModuleOp module, const dist::Mesh &mesh, const ProgramInfo &info)
      : module(module), mesh(mesh), kernelPrefix(info.kernelPrefix), pipeline(dist::Pipeline::of(module)) {
    for (auto [i, variable] : llvm::enumerate(module.getOps<nn::VariableOp>()))
      variables[variable.getSymName()] = i;
  }
  llvm::json::Object variable(nn::VariableOp op);
  mlir::FailureOr<ProgramText> program(mlir::func::FuncOp func);
  /// What all stages of a program send.
  llvm::json::Object sentBy(llvm::StringRef program) const;
  std::optional<pipeline::Simulation> simulated(llvm::StringRef program) const;
  llvm::json::Value pipelineFigures() const;

private:
  /// What the operations of a block, which runs `times` times a step, do; counts operations and bytes on the
  /// way.
  mlir::LogicalResult operations(mlir::Block &block, ListText &list, int64_t times);
  mlir::FailureOr<llvm::json::Object> launch(exec::LaunchOp op);
  mlir::FailureOr<llvm::json::Object> call(exec::CallOp op, int64_t times);
  llvm::json::Object collective(exec::CollectiveOp op, int64_t times);
  llvm::json::Object send(exec::SendOp op, int64_t times);
  llvm::json::Object step(exec::StepOp op);
  llvm::json::Object copy(exec::CopyOp op, int64_t times);
  llvm::json::Object hostCall(exec::HostCallOp op);
  mlir::LogicalResult loop(exec::LoopOp op, ListText &list, int64_t times);
  llvm::json::Array indices(mlir::ValueRange values) const;
  /// Says which arguments a kernel or a call writes, where one of them is a variable's place.
  static void noteChanges(llvm::json::Object &object, mlir::ValueRange buffers,
                          llvm::ArrayRef<int64_t> writes);
  mlir::FailureOr<llvm::json::Value> expression(mlir::Value value) const;
  mlir::FailureOr<llvm::json::Array> expressions(mlir::ValueRange values) const;
  void countSent(exec::CollectiveOp op, int64_t times);
  /// `bytes`: what the ranks that execute this function send, all together, times the number of stages.
  void countSent(const std::string &axes, const std::string &kind, int64_t times, int64_t bytes);
  int64_t numStages() const { return pipeline ? pipeline->numStages : 1; }
  llvm::json::Array replicas(const dist::Layout &layout) const;
  /// Bytes of those of the buffers at `places`, each counted once, and at most so many of each.
  static int64_t bytesOf(mlir::ValueRange buffers, llvm::ArrayRef<int64_t> places, int64_t most = INT64_MAX);
  // The mesh's axes among `axes`, in the mesh's order: how figures are keyed.
  std::string setName(llvm::ArrayRef<dist::AxisRef> axes) const;

  mlir::ModuleOp module;
  const dist::Mesh &mesh;
  const std::string kernelPrefix;
  std::optional<dist::Pipeline> pipeline;
  llvm::StringMap<int64_t> variables;
  llvm::DenseMap<mlir::Value, int64_t> buffers;
  llvm::StringMap<int64_t> scalarInputs; // of the program being written: those of that kind, by name
  struct Sent {
    int64_t count = 0, total = 0; // over the stages; bytes over all ranks, times the number of stages
  };
  using SentTable = std::map<std::string, std::map<std::string, Sent>>;
  llvm::StringMap<SentTable> sent; // by program
  SentTable *sentHere = nullptr;
  llvm::StringMap<pipeline::Order> orders; // by program: the steps that were emitted
  std::vector<pipeline::Step> *stepsHere = nullptr;
  double totalFlops = 0;
  rt::MovedBytes moved; // between the tiers
};

} // namespace tessera
#endif
