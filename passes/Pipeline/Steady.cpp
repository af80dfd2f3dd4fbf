// From how many microbatches on a schedule is steady.
#include "passes/Pipeline/PipelineSchedule.h"
#include <algorithm>

namespace tessera::pipeline {

std::optional<FewMicrobatches> steadyMicrobatches(const Schedule &schedule, const Shape &shape) {
  struct Known {
    int64_t micro;
    double makespan, live;
  };
  std::vector<Known> known;
  // Not before all chunks are at work, and messages that are taken early, and sums begun, are as many as
  // later.
  const int64_t least = std::max(shape.stages + 2, shape.chunks);
  for (int64_t micro = least; 2 * least < shape.micro && micro <= shape.micro; ++micro) {
    const size_t last = known.size();
    if (last >= 2 && known[last - 2].micro + known[last - 1].micro >= shape.micro)
      break;
    const Shape fewer{shape.stages, shape.chunks, micro};
    if (!schedule.refusal(fewer).empty())
      continue;
    std::optional<Simulation> simulation = simulate(schedule, fewer, schedule.order(fewer));
    if (!simulation)
      continue;
    known.push_back({micro, simulation->makespan, *std::ranges::max_element(simulation->live)});
    if (last < 2)
      continue;
    const Known &a = known[last - 2], &b = known[last - 1], &c = known[last];
    if (b.micro - a.micro == c.micro - b.micro && b.makespan - a.makespan == c.makespan - b.makespan &&
        b.live - a.live == c.live - b.live)
      return FewMicrobatches{a.micro, b.micro};
  }
  return std::nullopt;
}

} // namespace tessera::pipeline
