#include "passes/Schedule/PipelineMessages.h"
#include "llvm/ADT/STLExtras.h"
#include <map>
#include <tuple>

using namespace mlir;
using namespace tessera;
using dist::PipelinePart;
using dist::PipelineWork;

pipeline::Step tessera::stepOf(PipelinePart part, int64_t micro, bool splitsBackward) {
  if (!splitsBackward && part.work == PipelineWork::Weight)
    part.work = PipelineWork::Backward;
  return {pipeline::Work(int(part.work)), part.chunk, micro};
}

namespace {

// Where a channel begins and ends.
struct Channel {
  int64_t from = 0, to = 0;
  std::optional<PipelinePart> sent, received;
};

struct Planned {
  PipelineMessage message;
  size_t sent, received; // steps of the two stages
};

std::map<int64_t, Channel> channelsOf(ArrayRef<func::FuncOp> stages) {
  std::map<int64_t, Channel> channels;
  for (auto [stage, each] : llvm::enumerate(stages)) {
    func::FuncOp func = each;
    for (auto send : func.getOps<dist::SendOp>()) {
      Channel &channel = channels[send.getChannel()];
      channel.from = stage;
      channel.sent = PipelinePart::of(send);
    }
    for (auto receive : func.getOps<dist::RecvOp>()) {
      Channel &channel = channels[receive.getChannel()];
      channel.to = stage;
      channel.received = PipelinePart::of(receive);
    }
  }
  return channels;
}

} // namespace

PipelineMessages tessera::planMessages(ArrayRef<func::FuncOp> stages, const pipeline::Order &order,
                                       const pipeline::Simulation &simulation, bool splitsBackward,
                                       int64_t micro) {
  PipelineMessages result;
  std::map<std::tuple<pipeline::Work, int64_t, int64_t>, size_t> places; // of steps in their stage's order
  for (const std::vector<pipeline::Step> &steps : order) {
    StageMessages &own = result.stages.emplace_back();
    own.receives.resize(steps.size());
    own.waits.resize(steps.size());
    for (auto [place, step] : llvm::enumerate(steps))
      places[{step.work, step.chunk, step.micro}] = place;
  }
  auto placeOf = [&](PipelinePart part, int64_t m) {
    pipeline::Step step = stepOf(part, m, splitsBackward);
    auto it = places.find({step.work, step.chunk, step.micro});
    return it == places.end() ? std::nullopt : std::optional(it->second);
  };
  std::map<std::pair<int64_t, int64_t>, std::vector<Planned>> pairs; // of stages
  for (auto &[number, channel] : channelsOf(stages)) {
    if (!channel.sent || !channel.received || channel.received->work == PipelineWork::Update)
      continue;
    result.channels.insert(number);
    for (int64_t m = 0; m < micro; ++m) {
      std::optional<size_t> sent = placeOf(*channel.sent, m), received = placeOf(*channel.received, m);
      if (sent && received)
        pairs[{channel.from, channel.to}].push_back({{number, m}, *sent, *received});
    }
  }
  for (auto &[pair, messages] : pairs) {
    auto [from, to] = pair;
    llvm::sort(messages, [](const Planned &a, const Planned &b) {
      return std::pair(a.sent, a.message) < std::pair(b.sent, b.message);
    });
    size_t next = SIZE_MAX;
    for (Planned &planned : llvm::reverse(messages))
      planned.received = next = std::min(next, planned.received);
    for (const Planned &planned : messages) {
      result.stages[to].receives[planned.received].push_back(planned.message);
      double left = simulation.times[to][planned.received].first;
      size_t step = planned.sent;
      while (step < order[from].size() && simulation.times[from][step].second <= left)
        ++step;
      if (step < order[from].size())
        result.stages[from].waits[step].push_back(planned.message);
    }
  }
  return result;
}
