// The guard of pipelines: every message is received, every collective over stages is joined, and no stage
// waits for ever, with sends that complete only when they are received.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pipeline.h"
#include "lib/Support/Location.h"
#include "passes/Schedule/Passes.h"
#include "llvm/ADT/MapVector.h"
#include <map>

namespace tessera {
#define GEN_PASS_DEF_VERIFYPIPELINE
#include "passes/Schedule/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

// What one stage does that another one must answer.
struct Event {
  enum Kind { Send, WaitSent, Receive, Collective } kind;
  Operation *op;
  int64_t peer = -1, channel = -1;
  size_t sent = 0; // of WaitSent: which message to the peer
  Type type;
  std::string step;
};

// All stages of one program, by rendezvous: a message has left when its receive was reached.
class Rendezvous {
public:
  /// `ranksApart`: how many ranks further on the next stage is.
  Rendezvous(ArrayRef<func::FuncOp> funcs, const dist::Pipeline &pipeline, int64_t ranksApart)
      : pipeline(pipeline), ranksApart(ranksApart), events(funcs.size()), next(funcs.size()) {
    for (auto [stage, func] : llvm::enumerate(funcs))
      collect(func, events[stage]);
  }
  LogicalResult run();

private:
  void collect(func::FuncOp func, std::vector<Event> &list);
  bool advance(int64_t stage);
  LogicalResult match(const Event &receive, int64_t stage);
  bool joinCollective();
  LogicalResult reportStuck();
  std::string describe(int64_t stage) const;
  /// The stage by the first of its ranks.
  std::string nameOf(int64_t stage) const {
    return "rank " + std::to_string(stage * ranksApart) + " of stage " + std::to_string(stage);
  }

  const dist::Pipeline &pipeline;
  const int64_t ranksApart;
  std::vector<std::vector<Event>> events;
  std::vector<size_t> next;
  std::map<std::pair<int64_t, int64_t>, std::vector<const Event *>> sent; // (from, to) -> messages, in order
  std::map<std::pair<int64_t, int64_t>, size_t> received;
  bool ok = true;
};

} // namespace

void Rendezvous::collect(func::FuncOp func, std::vector<Event> &list) {
  std::string step = "the beginning";
  std::map<int64_t, size_t> messages;
  DenseMap<Value, std::pair<int64_t, size_t>> tokens;
  for (Operation &op : func.getBody().front()) {
    if (auto begin = dyn_cast<dist::StepOp>(op)) {
      step = (dist::stringifyPipelineWork(begin.getWork()) + " of chunk " + Twine(int64_t(begin.getChunk())) +
              ", microbatch " + Twine(int64_t(begin.getMicro())))
                 .str();
    } else if (auto send = dyn_cast<dist::SendStartOp>(op)) {
      int64_t to = send.getStage();
      tokens[send.getToken()] = {to, messages[to]++};
      list.push_back({Event::Send, &op, to, int64_t(send.getChannel()), 0, send.getSource().getType(), step});
    } else if (auto wait = dyn_cast<dist::SendWaitOp>(op)) {
      auto [to, index] = tokens.lookup(wait.getToken());
      list.push_back({Event::WaitSent, &op, to, -1, index, {}, step});
    } else if (auto receive = dyn_cast<dist::RecvOp>(op)) {
      list.push_back({Event::Receive, &op, int64_t(receive.getStage()), int64_t(receive.getChannel()), 0,
                      receive.getType(), step});
    } else {
      auto collective = dyn_cast<dist::CollectiveInterface>(op);
      if (collective && llvm::any_of(collective.getAxes().getAxes(),
                                     [&](const dist::AxisRef &axis) { return axis.name == pipeline.axis; }))
        list.push_back({Event::Collective, &op, -1, -1, 0, collective.getSource().getType(), step});
    }
  }
}

std::string Rendezvous::describe(int64_t stage) const {
  std::string who = nameOf(stage);
  if (next[stage] == events[stage].size())
    return who + " has ended";
  const Event &event = events[stage][next[stage]];
  std::string peer = nameOf(event.peer), where = " in " + event.step;
  switch (event.kind) {
  case Event::Receive:
    return who + where + " waits to receive channel " + std::to_string(event.channel) + " from " + peer;
  case Event::WaitSent:
    return who + where + " waits for " + peer + " to receive its message " + std::to_string(event.sent);
  case Event::Collective:
    return who + where + " waits for the others in a collective over \"" + pipeline.axis + "\"";
  case Event::Send:
    return who + where + " sends";
  }
  return who;
}

LogicalResult Rendezvous::match(const Event &receive, int64_t stage) {
  const Event &send = *sent[{receive.peer, stage}][received[{receive.peer, stage}]];
  if (send.channel == receive.channel && send.type == receive.type)
    return success();
  auto error = receive.op->emitOpError("of ")
               << nameOf(stage) << " in " << receive.step << " expects channel " << receive.channel << ", "
               << receive.type << ", from " << nameOf(receive.peer) << ", which sends channel "
               << send.channel << ", " << send.type << ", in " << send.step;
  error.attachNote(send.op->getLoc()) << "sent here";
  return failure();
}

bool Rendezvous::advance(int64_t stage) {
  bool moved = false;
  for (; ok && next[stage] < events[stage].size(); ++next[stage], moved = true) {
    const Event &event = events[stage][next[stage]];
    auto outgoing = std::pair(stage, event.peer), incoming = std::pair(event.peer, stage);
    if (event.kind == Event::Send) {
      sent[outgoing].push_back(&event);
    } else if (event.kind == Event::Receive) {
      if (received[incoming] >= sent[incoming].size())
        return moved;
      ok &= succeeded(match(event, stage));
      ++received[incoming];
    } else if (event.kind == Event::WaitSent) {
      if (received[outgoing] <= event.sent)
        return moved;
    } else {
      return moved; // all stages go on together
    }
  }
  return moved;
}

bool Rendezvous::joinCollective() {
  for (auto [stage, list] : llvm::enumerate(events))
    if (next[stage] == list.size() || list[next[stage]].kind != Event::Collective)
      return false;
  const Event &first = events[0][next[0]];
  for (auto [stage, list] : llvm::enumerate(events)) {
    const Event &other = list[next[stage]];
    IntegerAttr sum = dist::kStageSum.of(other.op), firstSum = dist::kStageSum.of(first.op);
    if (other.type != first.type || other.op->getName() != first.op->getName() || sum != firstSum) {
      auto error = other.op->emitOpError("of ")
                   << nameOf(stage) << " on " << other.type << " meets stage 0's " << first.op->getName()
                   << " on " << first.type;
      if (sum && firstSum)
        error << ": sum " << sum.getInt() << " over the stages meets sum " << firstSum.getInt();
      error.attachNote(first.op->getLoc()) << "stage 0 is here";
      return ok = false;
    }
    ++next[stage];
  }
  return true;
}

LogicalResult Rendezvous::reportStuck() {
  for (auto [stage, list] : llvm::enumerate(events)) {
    if (next[stage] == list.size())
      continue;
    const Event &event = list[next[stage]];
    int64_t other = event.peer;
    for (size_t k = 0; other < 0 && k < events.size(); ++k)
      if (next[k] == events[k].size() || events[k][next[k]].kind != Event::Collective)
        other = k;
    auto error = event.op->emitOpError("is never met: ")
                 << describe(stage) << ", while " << describe(std::max<int64_t>(other, 0));
    if (other >= 0 && next[other] < events[other].size())
      error.attachNote(events[other][next[other]].op->getLoc()) << "stage " << other << " is here";
    return failure();
  }
  for (auto &[pair, list] : sent)
    if (received[pair] < list.size()) {
      const Event &event = *list[received[pair]];
      return event.op->emitOpError("of ")
             << nameOf(pair.first) << " in " << event.step << " sends channel " << event.channel << " to "
             << nameOf(pair.second) << ", which never receives it";
    }
  return success();
}

LogicalResult Rendezvous::run() {
  for (bool moved = true; moved && ok;) {
    moved = false;
    for (size_t stage = 0; stage < events.size() && ok; ++stage)
      moved |= advance(stage);
    if (!moved && ok)
      moved = joinCollective();
  }
  return ok ? reportStuck() : failure();
}

namespace {
struct VerifyPipelinePass : tessera::impl::VerifyPipelineBase<VerifyPipelinePass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::optional<dist::Pipeline> pipeline = dist::Pipeline::of(module);
    if (!pipeline)
      return;
    int64_t ranksApart = 1;
    for (auto mesh : module.getOps<dist::MeshOp>())
      for (const dist::AxisRef &axis : llvm::reverse(mesh.getMesh().getMesh().declared())) {
        if (axis.name == pipeline->axis)
          break;
        ranksApart *= axis.size;
      }
    llvm::MapVector<StringAttr, SmallVector<func::FuncOp>> programs;
    for (auto func : module.getOps<func::FuncOp>())
      if (auto name = dist::kProgram.of(func))
        programs[name].push_back(func);
    for (auto &[name, funcs] : programs) {
      llvm::sort(funcs, [](func::FuncOp a, func::FuncOp b) { return dist::stageOf(a) < dist::stageOf(b); });
      if (failed(Rendezvous(funcs, *pipeline, ranksApart).run()))
        return signalPassFailure();
    }
  }
};
} // namespace
