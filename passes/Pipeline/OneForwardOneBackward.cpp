// 1F1B: a stage runs as many forwards ahead as there are stages behind it, then one forward and one backward
// in turn. Stage s of P holds at most P-s microbatches.
#include "passes/Pipeline/PipelineSchedule.h"
#include <algorithm>

namespace tessera::pipeline {

Order oneForwardOneBackwardOrder(const Shape &shape) {
  Order order(shape.stages);
  for (int64_t stage = 0; stage < shape.stages; ++stage) {
    int64_t ahead = std::min(shape.stages - stage - 1, shape.micro);
    for (int64_t micro = 0; micro < shape.micro + ahead; ++micro) {
      if (micro < shape.micro)
        order[stage].push_back({Work::Forward, stage, micro});
      if (micro >= ahead)
        order[stage].push_back({Work::Backward, stage, micro - ahead});
    }
  }
  return order;
}

} // namespace tessera::pipeline
