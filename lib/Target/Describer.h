// What describes the programs of a module one after the other.
#ifndef TESSERA_LIB_TARGET_DESCRIBER_H
#define TESSERA_LIB_TARGET_DESCRIBER_H

#include "dialects/dist/Pipeline.h"
#include "dialects/exec/Exec.h"
#include "dialects/nn/NN.h"
#include "lib/Target/DescriptionValues.h"
#include "lib/Target/Program.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Pipeline/PipelineSchedule.h"
#include <map>
#include <optional>

namespace tessera {

class Describer {
public:
  /// `runtimeMesh` is the description's, `mesh` as the runtime has it.
  Describer(mlir::ModuleOp module, const dist::Mesh &mesh, const rt::Mesh &runtimeMesh,
            const ProgramInfo &info)
      : module(module), mesh(mesh), runtimeMesh(runtimeMesh), kernelPrefix(info.kernelPrefix),
        pipeline(dist::Pipeline::of(module)) {
    for (auto [i, variable] : llvm::enumerate(module.getOps<nn::VariableOp>()))
      variables[variable.getSymName()] = i;
  }
  rt::Variable variable(nn::VariableOp op) const;
  /// All but what it sends, which its other stages have a part in, and what follows from the rest.
  mlir::FailureOr<rt::Program> program(mlir::func::FuncOp func);
  /// What all stages of a program send.
  rt::SentTable sentBy(llvm::StringRef program) const;
  /// Null where there is no pipeline.
  nlohmann::json pipelineFigures() const;

private:
  /// What the operations of a block, which runs `times` times a step, do; counts operations and bytes on the
  /// way.
  mlir::LogicalResult operations(mlir::Block &block, rt::Program &program, int64_t times);
  mlir::FailureOr<rt::Operation> operation(mlir::Operation &op, int64_t times);
  mlir::FailureOr<rt::Operation> launch(exec::LaunchOp op);
  mlir::FailureOr<rt::Operation> call(exec::CallOp op, int64_t times);
  rt::Operation collective(exec::CollectiveOp op, int64_t times);
  rt::Operation send(exec::SendOp op, int64_t times);
  rt::Operation receive(exec::RecvOp op) const;
  rt::Operation step(exec::StepOp op);
  rt::Operation copy(exec::CopyOp op, int64_t times);
  rt::Operation hostCall(exec::HostCallOp op);
  std::vector<int64_t> indices(mlir::ValueRange values) const;
  /// Which arguments a kernel or a call writes, where one of them is a variable's place.
  static void noteChanges(rt::Operation &described, mlir::ValueRange buffers, llvm::ArrayRef<int64_t> writes);
  std::shared_ptr<const nlohmann::json> attributes(mlir::DictionaryAttr settings);
  mlir::FailureOr<rt::Expression> expression(mlir::Value value) const;
  mlir::FailureOr<std::vector<rt::Expression>> expressions(mlir::ValueRange values) const;
  rt::BufferRange buffer(mlir::Value value) const;
  rt::ProgramInput input(exec::InputOp op) const;
  rt::ProgramOutput output(exec::OutputOp op) const;
  int64_t bufferOf(mlir::Value value) const { return value ? buffers.lookup(value) : -1; }
  void countSent(exec::CollectiveOp op, int64_t times);
  /// `bytes`: what the ranks that execute this function send, all together, times the number of stages.
  void countSent(const std::string &axes, const std::string &kind, int64_t times, int64_t bytes);
  std::optional<pipeline::Simulation> simulated(llvm::StringRef program) const;
  int64_t numStages() const { return pipeline ? pipeline->numStages : 1; }
  rt::Axes replicas(const dist::Layout &layout) const;
  /// Bytes of those of the buffers at `places`, each counted once, and at most so many of each.
  static int64_t bytesOf(mlir::ValueRange buffers, llvm::ArrayRef<int64_t> places, int64_t most = INT64_MAX);
  // The mesh's axes among `axes`, in the mesh's order: how figures are keyed.
  std::string setName(llvm::ArrayRef<dist::AxisRef> axes) const;

  mlir::ModuleOp module;
  const dist::Mesh &mesh;
  const rt::Mesh &runtimeMesh;
  const std::string kernelPrefix;
  std::optional<dist::Pipeline> pipeline;
  llvm::StringMap<int64_t> variables;
  llvm::DenseMap<mlir::Attribute, std::shared_ptr<const nlohmann::json>> shared; // attributes of calls
  llvm::DenseMap<mlir::Value, int64_t> buffers;
  llvm::StringMap<int64_t> scalarInputs; // of the program being described: those of that kind, by name
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
