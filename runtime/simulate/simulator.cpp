// See simulator.h. All that happens at one moment happens before links are shared anew, so that the order of
// what is simultaneous has no influence.
#include "runtime/simulate/simulator.h"

#include "runtime/core/error.h"
#include "runtime/core/philox.h"

#include <algorithm>

namespace tessera::rt {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

using Kind = Operation::Kind;

} // namespace

Simulator::Simulator(World &world)
    : world(world), actors(world.folding.size()), sent(world.traffic.size() * world.machine.levels.size()) {
  for (size_t cls = 0; cls < actors.size(); ++cls) {
    Actor &actor = actors[cls];
    actor.cls = cls;
    actor.steps = &world.stepsOf(cls);
    actor.done.assign(actor.steps->size(), never);
    actor.exposed.assign(sent.size(), 0);
    actor.transferred.assign(sent.size(), 0);
    auto slow = world.options.slow.find(world.folding.first[cls]);
    if (slow != world.options.slow.end())
      actor.slowness = slow->second;
    if (world.options.records)
      actor.timeline = {world.folding.first[cls], world.folding.counts[cls], &world.programOf(cls), {}, 0};
  }
  if (!world.hosts)
    return;
  const FoldedGroups &hosts = world.groups[*world.hosts];
  std::vector<Network::Link> ofHost;
  for (size_t host = 0; host < hosts.size(); ++host)
    ofHost.push_back(processors.addLink(world.workingRanks));
  for (size_t cls = 0; cls < actors.size(); ++cls)
    workers.push_back({{processors.addLink(1), 1}, {ofHost[hosts.groupOf(cls)], hosts.countOf(cls)}});
}

void Simulator::run() {
  for (Actor &actor : actors)
    proceed(actor);
  while (true) {
    double next =
        std::min({network.next(clock), processors.next(clock), events.empty() ? never : events.top().time});
    if (next == never)
      break;
    clock = next;
    for (size_t transfer : network.finish(clock))
      endPart(transfer);
    for (size_t cls : processors.finish(clock))
      endWork(actors[cls]);
    while (!events.empty() && events.top().time <= clock) {
      Event event = events.top();
      events.pop();
      if (event.begins)
        move(event.which);
      else
        proceed(actors[event.which]);
    }
  }
  if (std::any_of(actors.begin(), actors.end(), [](const Actor &actor) { return !actor.isFinished(); }))
    failStuck();
}

void Simulator::failStuck() const {
  for (const Actor &actor : actors)
    if (!actor.isFinished()) {
      const Operation &op = *actor.step().op;
      throw Error("the step never ends: rank ", world.folding.first[actor.cls], " waits for ever in '",
                  op.name.empty() ? op.profile : op.name, "', which others do not come to");
    }
  throw Error("the step never ends");
}

// Up to where it has to wait, or where what it does next depends on others that are not so far yet.
void Simulator::proceed(Actor &actor) {
  while (!actor.isFinished() && !actor.waitsFor && !actor.worksSince) {
    if (++actor.executed > world.options.mostOperations)
      throw Error("a step of rank ", world.folding.first[actor.cls], " has more than ",
                  world.options.mostOperations, " operations, too many to be simulated");
    switch (actor.step().op->kind) {
    case Kind::Kernel:
    case Kind::Call:
      if (!world.hosts) {
        work(actor);
        break;
      }
      if (actor.now > clock) {
        events.push({actor.now, false, actor.cls});
        return;
      }
      startWork(actor);
      break;
    case Kind::Copy:
    case Kind::HostCall:
      startBeside(actor);
      break;
    case Kind::Loop:
    case Kind::End:
    case Kind::Step:
      turn(actor);
      break;
    default:
      if (waitForSideWork(actor))
        break;
      if (actor.now > clock) {
        events.push({actor.now, false, actor.cls});
        return;
      }
      communicate(actor);
    }
  }
}

// Where the rank has processors of its own.
double Simulator::secondsOfWork(const Actor &actor) const {
  double seconds = actor.step().seconds * actor.slowness;
  if (world.options.jitter > 0) {
    uint32_t word =
        philoxQuad(world.options.seed, uint64_t(world.folding.first[actor.cls]), uint64_t(actor.executed))
            .word[0];
    seconds *= 1 + world.options.jitter * (double(word) / 2147483648.0 - 1);
  }
  return seconds;
}

void Simulator::work(Actor &actor) {
  const double seconds = secondsOfWork(actor);
  if (actor.timeline)
    actor.timeline->add({.op = actor.step().op, .begin = actor.now, .end = actor.now + seconds});
  actor.computing += seconds;
  actor.now += seconds;
  ++actor.at;
}

// What ranks of the host do beside it decides when it ends.
void Simulator::startWork(Actor &actor) {
  actor.worksSince = actor.now = clock;
  processors.start(clock, secondsOfWork(actor), workers[actor.cls], actor.cls);
}

// Transfers that were over meanwhile have put it off.
void Simulator::endWork(Actor &actor) {
  const double began = *actor.worksSince, later = actor.now - began;
  if (actor.timeline)
    actor.timeline->add({.op = actor.step().op, .begin = actor.now, .end = clock + later});
  actor.worksSince.reset();
  actor.computing += clock - began;
  actor.now = clock + later;
  ++actor.at;
  events.push({actor.now, false, actor.cls});
}

// What a rank starts that is no communication: copies, one after the other in each direction, and updates on
// the host, one after the other.
void Simulator::startBeside(Actor &actor) {
  using Stream = TimelineEvent::Stream;
  const SimulatedStep &step = actor.step();
  const bool isCopy = step.op->kind == Kind::Copy;
  double &busy = isCopy ? actor.ways[step.direction] : actor.updating;
  double begin = std::max(busy, actor.now);
  busy = actor.done[actor.at] = begin + step.seconds;
  if (actor.timeline)
    actor.timeline->add({.op = step.op,
                         .stream = isCopy ? Stream::Copy : Stream::Host,
                         .begin = begin,
                         .end = busy,
                         .direction = step.direction});
  ++actor.at;
}

void Simulator::turn(Actor &actor) {
  const Operation &op = *actor.step().op;
  if (op.kind == Kind::Loop) {
    actor.loopBegin = actor.at;
    actor.turn = 0;
    while (op.times == 0 && actor.step().op->kind != Kind::End)
      ++actor.at;
  } else if (op.kind == Kind::End && ++actor.turn < (*actor.steps)[actor.loopBegin].op->times) {
    actor.at = actor.loopBegin;
  }
  ++actor.at;
}

bool Simulator::waitForSideWork(Actor &actor) {
  const SimulatedStep &step = actor.step();
  if (step.op->kind != Kind::Wait)
    return false;
  if (const Kind started = (*actor.steps)[step.started].op->kind;
      started != Kind::Copy && started != Kind::HostCall)
    return false;
  double until = std::max(actor.now, actor.done[step.started]);
  actor.waitForCopy(until, *step.op);
  ++actor.at;
  return true;
}

// On GPUs what is of one group, or goes from one rank to another, is one after the other.
int64_t Simulator::queueOf(const Actor &actor, const SimulatedStep &step) const {
  const Operation &op = *step.op;
  if (isHost() || op.kind == Kind::Wait)
    return 0;
  if (op.kind == Kind::Collective)
    return 1 + int64_t(step.grouping);
  return -1 - 2 * int64_t(world.peerOf(actor.cls, op.message.stage)) - (op.kind == Kind::Receive ? 1 : 0);
}

void Simulator::communicate(Actor &actor) {
  const SimulatedStep &step = actor.step();
  const Operation &op = *step.op;
  const size_t at = actor.at;
  if (op.kind == Kind::Wait) {
    const bool forSend = (*actor.steps)[step.started].op->kind == Kind::Send;
    // A rank's thread asks its communication whether a message has left, behind all else that it does.
    if (!forSend || !isHost())
      return block(actor, step.started);
  } else if (step.isEmpty) {
    count(trafficAt(step, levelOf({actor.cls, at}, false)), actor.cls, 0);
    actor.done[at] = clock;
    ++actor.at;
    return;
  }
  actor.done[at] = never;
  int64_t queue = queueOf(actor, step);
  actor.queues[queue].push_back({at});
  bool goesOn = op.kind == Kind::Send || (op.kind == Kind::Collective && op.collective.token >= 0);
  if (goesOn)
    ++actor.at;
  advance(actor, queue);
  if (!goesOn)
    block(actor, at);
}

// Goes on where the step is done; else waits for it.
void Simulator::block(Actor &actor, size_t step) {
  if (actor.isDone(step))
    ++actor.at;
  else
    actor.waitsFor = step;
}

void Simulator::advance(Actor &actor, int64_t queue) {
  std::deque<SimulatedJob> &jobs = actor.queues[queue];
  while (!jobs.empty() && isOver(actor, jobs.front()))
    jobs.pop_front();
}

// Whether what is first in a queue is done, or needs nothing more of the queue; begins it if it has not been.
bool Simulator::isOver(Actor &actor, SimulatedJob &job) {
  const SimulatedStep &step = (*actor.steps)[job.step];
  const bool begins = !job.begun;
  job.begun = true;
  switch (step.op->kind) {
  case Kind::Collective:
    if (begins)
      come(actor, job.step);
    return actor.isDone(job.step);
  case Kind::Send:
    if (begins) {
      Channel &to = channel(actor.cls, world.peerOf(actor.cls, step.op->message.stage));
      to.sent.push_back({actor.cls, job.step});
      beginMessages(to);
    }
    return isHost() || actor.isDone(job.step);
  case Kind::Receive:
    return receive(actor, job);
  default: // a wait for a message to have left
    if (!actor.isDone(step.started))
      return false;
    complete({actor.cls, job.step}, nullptr);
    return true;
  }
}

void Simulator::come(Actor &actor, size_t step) {
  const SimulatedStep &mine = (*actor.steps)[step];
  const FoldedGroups &groups = world.groups[mine.grouping];
  size_t group = groups.groupOf(actor.cls);
  Meeting &meeting = meetings[{mine.grouping, group}];
  if (!meeting.here.empty()) {
    const Member &first = meeting.here.front();
    const SimulatedStep &theirs = (*actors[first.cls].steps)[first.step];
    if (theirs.op->collective.request.kind != mine.op->collective.request.kind ||
        theirs.groupBytes != mine.groupBytes)
      throw Error("the step cannot be: rank ", world.folding.first[actor.cls], " is in '", mine.op->name,
                  "' when rank ", world.folding.first[first.cls], " of its group is in '", theirs.op->name,
                  "'");
  }
  meeting.here.push_back({actor.cls, step});
  if (meeting.here.size() < groups.classes(group).size())
    return;
  std::vector<Member> members = std::move(meeting.here);
  meeting.here.clear();
  const size_t traffic = trafficAt(mine, levelOf(members.front(), false));
  for (size_t i = 0; i < members.size(); ++i) {
    size_t cls = members[i].cls;
    // All groups that look like this one have come together.
    count(traffic, cls, i > 0 ? 0 : mine.groupBytes * (world.folding.counts[cls] / groups.countOf(cls)));
  }
  begin(std::move(members), nullptr);
}

void Simulator::count(size_t traffic, size_t cls, int64_t bytes) {
  sent[traffic].count += world.folding.counts[cls];
  sent[traffic].bytes += bytes;
}

// The level whose links a member of a collective uses, or the sender of a message.
size_t Simulator::levelOf(const Member &member, bool isMessage) const {
  const SimulatedStep &step = (*actors[member.cls].steps)[member.step];
  return isMessage ? world.levelOfMessage(member.cls, step.op->message.stage)
                   : world.levelOf(member.cls, step.grouping);
}

Simulator::Channel &Simulator::channel(size_t sender, size_t receiver) {
  Channel &found = channels[{sender, receiver}];
  found.receiver = receiver;
  return found;
}

// Memory for the next message of a sender is there from when the one before it was taken; for the first one
// from when it is asked for. On GPUs always so.
bool Simulator::receive(Actor &actor, SimulatedJob &job) {
  const SimulatedStep &step = (*actor.steps)[job.step];
  Channel &from = channel(world.peerOf(actor.cls, step.op->message.stage), actor.cls);
  from.expected = std::max(from.expected, from.received + 1);
  beginMessages(from);
  if (from.arrived <= from.received)
    return false;
  const Member &sender = from.sent[from.received];
  int64_t bytes = (*actors[sender.cls].steps)[sender.step].op->message.bytes;
  if (bytes != step.op->message.bytes)
    throw Error("the step cannot be: rank ", world.folding.first[actor.cls], " receives ",
                step.op->message.bytes, " bytes in '", step.op->name, "', and is sent ", bytes);
  ++from.received;
  if (isHost())
    from.expected = std::max(from.expected, from.received + 1);
  beginMessages(from);
  complete({actor.cls, job.step}, nullptr);
  return true;
}

void Simulator::beginMessages(Channel &channel) {
  while (channel.begun < std::min(channel.sent.size(), channel.expected)) {
    Member sender = channel.sent[channel.begun++];
    const SimulatedStep &step = (*actors[sender.cls].steps)[sender.step];
    count(trafficAt(step, levelOf(sender, true)), sender.cls,
          step.op->message.bytes * world.folding.counts[sender.cls]);
    begin({sender}, &channel);
  }
}

// The time in which nothing moves yet comes first.
void Simulator::begin(std::vector<Member> members, Channel *channel) {
  if (freeTransfers.empty()) {
    freeTransfers.push_back(transfers.size());
    transfers.emplace_back();
  }
  size_t number = freeTransfers.back();
  freeTransfers.pop_back();
  const Member &first = members.front();
  const SimulatedStep &step = (*actors[first.cls].steps)[first.step];
  const size_t level = levelOf(first, channel), traffic = trafficAt(step, level);
  for (const Member &member : members)
    openSpan(member.cls, traffic);
  if (channel)
    openSpan(channel->receiver, traffic);
  transfers[number] = {std::move(members), channel, clock, traffic, 0};
  const NodeLoads loads = world.loadsOf(first.cls, step);
  double seconds = world.machine.launch + world.machine.levels[level].latency * loads.between.rounds;
  if (loads.within.rounds > 0)
    seconds += world.machine.levels[level - 1].latency * loads.within.rounds;
  events.push({clock + seconds, true, number});
}

void Simulator::move(size_t number) {
  Transfer &transfer = transfers[number];
  auto start = [&](const Member &member, size_t level, double bytes) {
    std::vector<Network::Use> uses;
    world.use(network, member.cls, level, false, uses);
    world.use(network, transfer.channel ? transfer.channel->receiver : member.cls, level, true, uses);
    network.start(clock, bytes, std::move(uses), number);
    ++transfer.pending;
  };
  for (const Member &member : transfer.members) {
    const NodeLoads loads = world.loadsOf(member.cls, (*actors[member.cls].steps)[member.step]);
    const size_t level = levelOf(member, transfer.channel);
    start(member, level, loads.between.bytes);
    if (loads.within.bytes > 0)
      start(member, level - 1, loads.within.bytes);
  }
}

void Simulator::endPart(size_t number) {
  if (--transfers[number].pending > 0)
    return;
  Transfer transfer = std::move(transfers[number]);
  freeTransfers.push_back(number);
  if (Channel *channel = transfer.channel) {
    const Member &sender = transfer.members.front();
    const SimulatedStep &step = (*actors[sender.cls].steps)[sender.step];
    ++channel->arrived;
    closeSpan(channel->receiver, transfer, *step.op);
    if (std::optional<RankTimeline> &timeline = actors[sender.cls].timeline)
      timeline->add({.op = step.op,
                     .stream = TimelineEvent::Stream::Message,
                     .begin = transfer.begin,
                     .end = clock,
                     .peer = world.folding.first[channel->receiver],
                     .traffic = transfer.traffic});
  }
  for (const Member &member : transfer.members) {
    closeSpan(member.cls, transfer, *(*actors[member.cls].steps)[member.step].op);
    complete(member, transfer.channel ? nullptr : &transfer);
    // What comes next may begin, here and in whatever queue waits for this.
    for (auto &[queue, jobs] : actors[member.cls].queues)
      advance(actors[member.cls], queue);
  }
  if (transfer.channel)
    for (auto &[queue, jobs] : actors[transfer.channel->receiver].queues)
      advance(actors[transfer.channel->receiver], queue);
}

void Simulator::openSpan(size_t cls, size_t traffic) {
  actors[cls].spans.push_back({clock, never, traffic, actors[cls].waitedUntil(clock)});
}

void Simulator::closeSpan(size_t cls, const Transfer &transfer, const Operation &op) {
  std::vector<Actor::Span> &spans = actors[cls].spans;
  auto span = std::find_if(spans.rbegin(), spans.rend(), [&](const Actor::Span &each) {
    return each.end == never && each.traffic == transfer.traffic && each.begin == transfer.begin;
  });
  actors[cls].endSpan(*span, clock, world.take, op);
}

void Simulator::complete(Member member, const Transfer *collective) {
  Actor &actor = actors[member.cls];
  const SimulatedStep &step = (*actor.steps)[member.step];
  actor.done[member.step] = clock;
  if (actor.timeline && collective)
    actor.timeline->add({.op = step.op,
                         .stream = TimelineEvent::Stream::Collective,
                         .begin = collective->begin,
                         .end = clock,
                         .traffic = collective->traffic});
  if (actor.waitsFor != member.step)
    return;
  actor.waitsFor.reset();
  actor.wait(clock, step.op->kind != Kind::Collective, *actor.step().op);
  ++actor.at;
  events.push({clock, false, actor.cls});
}

Simulation Simulator::result() {
  Simulation result;
  const Folding &folding = world.folding;
  const auto ranks = double(folding.classOf.size());
  std::vector<double> ends;
  for (const Actor &actor : actors) {
    double end = std::max(actor.now, actor.updating);
    for (Direction direction : directions)
      end = std::max(end, actor.ways[direction]);
    ends.push_back(end);
    result.seconds = std::max(result.seconds, end);
  }
  for (int cls : folding.classOf)
    result.ends.push_back(ends[size_t(cls)]);
  result.classes = int64_t(actors.size());
  MovedBytes moved;
  for (const Actor &actor : actors) {
    const auto count = double(folding.counts[actor.cls]);
    const double share = count / ranks;
    result.computing += actor.computing * share;
    result.waitsForRanks += actor.ofRanks * share;
    result.waitsForStages += actor.ofStages * share;
    result.waitsForCopies += actor.ofCopies * share;
    result.waitsForEnd += (result.seconds - actor.now) * share;
    const Program &program = world.programOf(actor.cls);
    result.flops += program.flops * count;
    for (Direction direction : directions)
      moved[direction] += program.moved[direction] * folding.counts[actor.cls];
  }
  const auto all = int64_t(folding.classOf.size());
  auto mean = [&](int64_t sum) { return (2 * sum + all) / (2 * all); };
  for (Direction direction : directions)
    result.moved[direction] = mean(moved[direction]);
  addTraffic(result);
  for (Actor &actor : actors)
    if (actor.timeline)
      result.timelines.push_back(std::move(*actor.timeline));
  return result;
}

void Simulator::addTraffic(Simulation &result) const {
  const auto all = int64_t(world.folding.classOf.size());
  auto mean = [&](const SentFigures &sum) {
    return SentFigures{(2 * sum.count + all) / (2 * all), (2 * sum.bytes + all) / (2 * all)};
  };
  const size_t levels = world.machine.levels.size();
  for (size_t at = 0; at < sent.size(); ++at) {
    auto &[axes, kind] = world.traffic[at / levels];
    Simulation::Traffic &each = result.traffic.emplace_back(axes, kind, at % levels);
    each.sent = mean(sent[at]);
    for (const Actor &actor : actors) {
      const double share = double(world.folding.counts[actor.cls]) / double(all);
      each.over.exposed += actor.exposed[at] * share;
      each.over.hidden += (actor.transferred[at] - actor.exposed[at]) * share;
    }
    if (each.over.exposed + each.over.hidden > 0) {
      Simulation::Communication &over = result.communication[axes];
      over.exposed += each.over.exposed;
      over.hidden += each.over.hidden;
    }
  }
  for (size_t begin = 0; begin < sent.size(); begin += levels) {
    SentFigures sum;
    for (size_t at = begin; at < begin + levels; ++at) {
      sum.count += sent[at].count;
      sum.bytes += sent[at].bytes;
    }
    auto &[axes, kind] = world.traffic[begin / levels];
    if (sum.count > 0)
      result.sent[axes][kind] = mean(sum);
  }
}

} // namespace tessera::rt
