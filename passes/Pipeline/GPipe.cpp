// GPipe: all forwards, then all backwards. Every microbatch is live at once.
#include "passes/Pipeline/PipelineSchedule.h"

namespace tessera::pipeline {

Order gpipeOrder(const Shape &shape) {
  Order order(shape.stages);
  for (int64_t stage = 0; stage < shape.stages; ++stage)
    for (Work work : {Work::Forward, Work::Backward})
      for (int64_t micro = 0; micro < shape.micro; ++micro)
        order[stage].push_back({work, stage, micro});
  return order;
}

} // namespace tessera::pipeline
