// When the messages between the stages of a pipeline are received, and when a stage waits for what it sent.
#ifndef TESSERA_PASSES_SCHEDULE_PIPELINEMESSAGES_H
#define TESSERA_PASSES_SCHEDULE_PIPELINEMESSAGES_H

#include "dialects/dist/Pipeline.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Pipeline/PipelineSchedule.h"
#include "llvm/ADT/DenseSet.h"

namespace tessera {

/// One value of one microbatch on its way to another stage.
struct PipelineMessage {
  int64_t channel = 0, micro = 0;
  auto operator<=>(const PipelineMessage &) const = default;
};

/// What a stage receives before each of its steps, and which of its sends it waits for behind it.
struct StageMessages {
  std::vector<std::vector<PipelineMessage>> receives, waits;
};

struct PipelineMessages {
  /// By stage.
  std::vector<StageMessages> stages;
  /// The channels that are used in steps. Others carry sums over all microbatches, after the last step.
  llvm::DenseSet<int64_t> channels;
};

/// The step that an operator of this part runs in, for microbatch `micro`.
pipeline::Step stepOf(dist::PipelinePart part, int64_t micro, bool splitsBackward);

/// Messages of two stages arrive in the order sent, so one that is wanted later than the next is received
/// with it. A stage waits for a send as soon as it has been received in the simulated run: everything that it
/// waits for is then over before, so that no stage waits for ever.
PipelineMessages planMessages(llvm::ArrayRef<mlir::func::FuncOp> stages, const pipeline::Order &order,
                              const pipeline::Simulation &simulation, bool splitsBackward, int64_t micro);

} // namespace tessera
#endif
