// Zero-bubble, V-shaped: two chunks a stage, chunk c and chunk 2P-1-c, so that the last stage turns round by
// itself and stage 0 has the first and the last chunk. The backward is split: Backward hands the activations'
// gradients on at once, Weight fills what would be idle. No stage holds more than 1F1B's first stage does: 2P
// chunks' activations.
//
// A greedy list schedule: at every unit of time every stage takes the first step that is ready, in the order
// forward of its first chunk, forward of its second, backward of the first, backward of the second, weights
// of the second, weights of the first. The first chunk may run ahead of the second only as far as the way
// there and back is long, and leaves room for one forward of the second chunk where that helps; both are
// tried. All that is left idle for m >= P is the P-1 units that the pipeline takes to fill.
#include "passes/Pipeline/PipelineSchedule.h"
#include <algorithm>
#include <array>
#include <tuple>

namespace tessera::pipeline {
namespace {

// How many steps of each kind a chunk has run, and when each ended.
struct ChunkState {
  std::array<std::vector<int64_t>, 3> ended; // by Work
  int64_t count(Work work) const { return int64_t(ended[size_t(work)].size()); }
  bool hasEnded(Work work, int64_t micro, int64_t now) const {
    return micro < count(work) && ended[size_t(work)][size_t(micro)] <= now;
  }
};

class ListSchedule {
public:
  ListSchedule(const Shape &shape, int64_t room)
      : shape(shape), room(room), chunks(size_t(shape.chunks)), held(size_t(shape.stages)),
        order(size_t(shape.stages)) {}

  /// The number of units it takes; none when a stage can never go on.
  std::optional<int64_t> run() {
    int64_t left = 3 * shape.chunks * shape.micro, now = 0;
    for (; left > 0; ++now) {
      // All stages choose by what has ended before this unit.
      std::vector<std::pair<int64_t, Step>> chosen;
      for (int64_t stage = 0; stage < shape.stages; ++stage)
        if (auto step = choose(stage, now))
          chosen.push_back({stage, *step});
      bool underWay = std::any_of(chunks.begin(), chunks.end(), [&](const ChunkState &chunk) {
        return std::any_of(chunk.ended.begin(), chunk.ended.end(),
                           [&](auto &times) { return !times.empty() && times.back() > now; });
      });
      if (chosen.empty() && !underWay)
        return std::nullopt;
      for (auto &[stage, step] : chosen) {
        chunks[size_t(step.chunk)].ended[size_t(step.work)].push_back(now + 1);
        held[size_t(stage)] += step.work == Work::Forward ? 1 : step.work == Work::Weight ? -1 : 0;
        order[size_t(stage)].push_back(step);
        --left;
      }
    }
    return now;
  }

  Order take() { return std::move(order); }

private:
  std::optional<Step> choose(int64_t stage, int64_t now) const {
    int64_t first = stage, second = shape.chunks - 1 - stage, most = 2 * shape.stages;
    const ChunkState &a = chunks[size_t(first)], &b = chunks[size_t(second)];
    bool farAhead = a.count(Work::Forward) - b.count(Work::Forward) >= 2 * (shape.stages - stage) - 1;
    if (!farAhead && held[size_t(stage)] + room < most && ready(Work::Forward, first, now))
      return Step{Work::Forward, first, a.count(Work::Forward)};
    if (held[size_t(stage)] < most && ready(Work::Forward, second, now))
      return Step{Work::Forward, second, b.count(Work::Forward)};
    for (int64_t chunk : {first, second})
      if (ready(Work::Backward, chunk, now))
        return Step{Work::Backward, chunk, chunks[size_t(chunk)].count(Work::Backward)};
    // The later chunk's first: its backward ended first, and where both use a parameter (a tied table, on
    // stage 0) the earlier chunk's step adds the two gradients.
    for (int64_t chunk : {second, first})
      if (ready(Work::Weight, chunk, now))
        return Step{Work::Weight, chunk, chunks[size_t(chunk)].count(Work::Weight)};
    return std::nullopt;
  }

  bool ready(Work work, int64_t chunk, int64_t now) const {
    const ChunkState &mine = chunks[size_t(chunk)];
    int64_t micro = mine.count(work);
    if (micro >= shape.micro)
      return false;
    if (work == Work::Weight)
      return mine.hasEnded(Work::Backward, micro, now);
    if (work == Work::Forward)
      return chunk == 0 || chunks[size_t(chunk - 1)].hasEnded(Work::Forward, micro, now);
    bool given = chunk + 1 == shape.chunks || chunks[size_t(chunk + 1)].hasEnded(Work::Backward, micro, now);
    return given && mine.hasEnded(Work::Forward, micro, now);
  }

  const Shape shape;
  const int64_t room;
  std::vector<ChunkState> chunks;
  std::vector<int64_t> held; // chunks' activations, by stage
  Order order;
};

} // namespace

Order zeroBubbleOrder(const Shape &shape) {
  Order best;
  int64_t shortest = INT64_MAX;
  for (int64_t room : {0, 1}) {
    ListSchedule schedule(shape, room);
    std::optional<int64_t> units = schedule.run();
    if (units && *units < shortest) {
      shortest = *units;
      best = schedule.take();
    }
  }
  return best;
}

} // namespace tessera::pipeline
