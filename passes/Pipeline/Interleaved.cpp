// Interleaved 1F1B: v chunks a stage, chunk c on stage c mod P, microbatches in groups of P through one chunk
// after the other. The bubble is v times smaller than that of 1F1B, the messages are v times as many.
#include "passes/Pipeline/PipelineSchedule.h"
#include <algorithm>

namespace tessera::pipeline {

std::string interleavedRefusal(const Shape &shape) {
  if (shape.chunks % shape.stages != 0 || shape.chunks == shape.stages)
    return "has two or more chunks a stage, so a multiple of " + std::to_string(shape.stages) +
           " lists of globs, not " + std::to_string(shape.chunks);
  if (shape.micro % shape.stages != 0)
    return "needs microbatches that the " + std::to_string(shape.stages) + " stages divide, not " +
           std::to_string(shape.micro) + "; use --microbatches " +
           std::to_string((shape.micro / shape.stages + 1) * shape.stages) + " or --pp-schedule 1f1b";
  return "";
}

Order interleavedOrder(const Shape &shape) {
  int64_t perStage = shape.chunks / shape.stages, total = shape.micro * perStage;
  Order order(shape.stages);
  for (int64_t stage = 0; stage < shape.stages; ++stage) {
    // The k-th forward, and by counting chunks from the other end the k-th backward.
    auto step = [&](Work work, int64_t k) {
      int64_t local = k % (shape.stages * perStage) / shape.stages;
      if (work == Work::Backward)
        local = perStage - 1 - local;
      return Step{work, local * shape.stages + stage,
                  k / (shape.stages * perStage) * shape.stages + k % shape.stages};
    };
    int64_t ahead = std::min(2 * (shape.stages - stage - 1) + (perStage - 1) * shape.stages, total);
    for (int64_t k = 0; k < total + ahead; ++k) {
      if (k < total)
        order[stage].push_back(step(Work::Forward, k));
      if (k >= ahead)
        order[stage].push_back(step(Work::Backward, k - ahead));
    }
  }
  return order;
}

} // namespace tessera::pipeline
