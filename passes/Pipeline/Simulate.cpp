#include "passes/Pipeline/PipelineSchedule.h"
#include <algorithm>
#include <map>
#include <tuple>

namespace tessera::pipeline {

std::optional<Simulation> simulate(const Schedule &schedule, const Shape &shape, const Order &order) {
  std::map<std::tuple<Work, int64_t, int64_t>, double> ended;
  std::vector<size_t> next(order.size());
  std::vector<double> free(order.size());
  double busy = 0, makespan = 0;
  Simulation result;
  result.times.resize(order.size());
  auto endOf = [&](Work work, int64_t chunk, int64_t micro) -> std::optional<double> {
    if (chunk < 0 || chunk >= shape.chunks)
      return 0;
    auto it = ended.find({work, chunk, micro});
    return it == ended.end() ? std::nullopt : std::optional(it->second);
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t stage = 0; stage < order.size(); ++stage)
      for (; next[stage] < order[stage].size(); ++next[stage], moved = true) {
        const Step &step = order[stage][next[stage]];
        bool forward = step.work == Work::Forward, backward = step.work == Work::Backward;
        auto given = forward ? endOf(Work::Forward, step.chunk - 1, step.micro)
                             : endOf(Work::Backward, step.chunk + backward, step.micro);
        auto own = forward ? std::optional(0.0) : endOf(Work::Forward, step.chunk, step.micro);
        if (!given || !own)
          break;
        double units = backward && !schedule.splitsBackward ? 2 : 1;
        double begin = std::max({free[stage], *given, *own}), end = begin + units;
        ended[{step.work, step.chunk, step.micro}] = free[stage] = end;
        result.times[stage].push_back({begin, end});
        busy += units;
        makespan = std::max(makespan, end);
      }
  }
  double all = makespan * double(order.size());
  result.makespan = makespan;
  result.bubble = all > 0 ? (all - busy) / all : 0; // one rounding: of whole numbers the exact quotient
  for (size_t stage = 0; stage < order.size(); ++stage) {
    if (next[stage] < order[stage].size())
      return std::nullopt;
    Work last = schedule.splitsBackward ? Work::Weight : Work::Backward;
    double held = 0, most = 0, share = double(shape.stages) / double(shape.chunks);
    for (const Step &step : order[stage]) {
      held += step.work == Work::Forward ? share : step.work == last ? -share : 0;
      most = std::max(most, held);
    }
    result.live.push_back(most);
  }
  return result;
}

} // namespace tessera::pipeline
