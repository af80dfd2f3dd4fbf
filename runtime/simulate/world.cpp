// See world.h.
#include "runtime/simulate/world.h"

#include "runtime/core/error.h"
#include "runtime/machine/host_work.h"

#include <algorithm>
#include <set>

namespace tessera::rt {

World::World(const Description &description, const std::string &name, const Machine &machine,
             const SimulateOptions &options)
    : description(description), machine(machine), options(options),
      threads(options.threads > 0 ? options.threads : description.threads),
      rates(machine.ratesOf(description.mesh.size(), threads)) {
  int64_t ranks = description.mesh.size();
  if (machine.places() < ranks)
    throw Error("the machine has places for ", machine.places(), " ranks, and there are ", ranks,
                "; the last [[level]] says how many there are");
  for (const auto &[rank, factor] : options.slow)
    if (rank < 0 || rank >= ranks)
      throw Error("there is no rank ", rank, " to be slow; the ranks are 0 to ", ranks - 1);
  // A GPU's communication is no work of the host's processors.
  take = description.target == "cpu" ? machine.takeOf(ranks, threads) : machine.collectivesTake.value_or(0);
  addPrograms(name);
  addPairs();
  addNodes();
  addHosts();
  fold();
  for (const Grouping &grouping : groupings)
    groups.emplace_back(grouping, folding);
}

void World::addPrograms(const std::string &name) {
  std::map<const Program *, size_t> numbers;
  for (int64_t rank = 0; rank < description.mesh.size(); ++rank) {
    const Program *program = description.findProgram(name, rank);
    if (!program)
      throw Error("there is no program '", name, "' for rank ", rank);
    auto [entry, isNew] = numbers.emplace(program, programs.size());
    programAt.push_back(entry->second);
    if (isNew)
      programs.push_back(program);
  }
  for (const Program *program : programs)
    addSteps(*program);
}

void World::addSteps(const Program &program) {
  std::vector<SimulatedStep> &list = steps.emplace_back();
  for (const Operation &op : program.operations) {
    list.push_back(step(program, op));
    if (op.kind != Operation::Kind::Wait)
      continue;
    // Tokens may be used again: the last who started it is meant.
    auto started = std::find_if(list.rbegin(), list.rend(), [&](const SimulatedStep &other) {
      return other.op->startedToken() == op.token;
    });
    list.back().started = size_t(list.rend() - started) - 1;
  }
}

SimulatedStep World::step(const Program &program, const Operation &op) {
  SimulatedStep step;
  step.op = &op;
  switch (op.kind) {
  case Operation::Kind::Kernel:
  case Operation::Kind::Call:
    step.seconds = rates.seconds(op.work, threads);
    break;
  case Operation::Kind::Copy: {
    const BufferRange &from = program.buffers[size_t(op.copy.from)];
    step.direction = directionOf(from.tier, program.buffers[size_t(op.copy.to)].tier);
    const Machine::Way &way = machine.ways[step.direction];
    step.seconds = way.latency + double(from.bytes) / way.bandwidth;
    break;
  }
  case Operation::Kind::HostCall:
    step.seconds = hostUpdates(op.symbol, op.attrs->value("count", 0.0)) / machine.update;
    break;
  case Operation::Kind::Collective:
    addCollective(op, step);
    break;
  case Operation::Kind::Send:
  case Operation::Kind::Receive:
    step.traffic = trafficNumber(description.pipelineAxis, "send");
    step.load =
        collectiveLoad(CollectiveKind::Permute, 2, double(op.message.bytes), BroadcastAlgorithm::Direct);
    break;
  case Operation::Kind::Wait:
  case Operation::Kind::Loop:
  case Operation::Kind::End:
  case Operation::Kind::Step:
    break;
  }
  return step;
}

void World::addCollective(const Operation &op, SimulatedStep &step) {
  // The same on all ranks but for their places in the group.
  Collective collective = makeCollective(op.collective.request, description.mesh, 0);
  const CollectiveSize &size = collective.size;
  step.traffic = trafficNumber(collective.axes, op.collective.request.kind);
  step.grouping = groupingOf(op.collective.request.axes);
  step.kind = size.kind;
  step.ranks = size.ranks;
  step.bytes = double(size.bytes());
  step.load = collectiveLoad(size.kind, size.ranks, step.bytes, collective.algorithm);
  step.groupBytes = collectiveSentBytes(size);
  step.isEmpty = size.ranks == 1 || size.elements() == 0;
}

size_t World::trafficNumber(const std::string &axes, const std::string &kind) {
  auto [entry, isNew] = knownTraffic.emplace(std::pair(axes, kind), traffic.size());
  if (isNew)
    traffic.emplace_back(axes, kind);
  return entry->second;
}

// The level of the links that a group needs, and how many nodes of that level it is on.
int64_t World::markOf(const std::vector<int> &members) const {
  size_t level = 0;
  for (int member : members)
    level = std::max(level, machine.levelOf(members.front(), member));
  std::set<int64_t> nodes;
  for (int member : members)
    nodes.insert(member / machine.nodeRanks(level));
  return int64_t(level + nodes.size() * machine.levels.size());
}

// Which ranks meet, whatever the axes are called.
size_t World::groupingOf(const Axes &axes) {
  std::string text;
  for (const SubAxis &axis : axes)
    text += axis.name + " " + std::to_string(axis.pre) + " " + std::to_string(axis.size) + " ";
  auto [seen, isFirst] = ofAxes.emplace(text, groupings.size());
  if (!isFirst)
    return seen->second;
  const auto ranks = size_t(description.mesh.size());
  Grouping grouping{std::vector<int>(ranks, -1), std::vector<int64_t>(ranks)};
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (grouping.first[rank] >= 0)
      continue;
    std::vector<int> members = description.mesh.group(axes, int64_t(rank)).ranks;
    int64_t mark = markOf(members);
    for (int member : members) {
      grouping.first[size_t(member)] = int(rank);
      grouping.mark[size_t(member)] = mark;
    }
  }
  auto [entry, isNew] = known.emplace(grouping.first, groupings.size());
  if (isNew)
    groupings.push_back(std::move(grouping));
  return seen->second = entry->second;
}

int64_t World::inStage(int64_t rank, int64_t stage) const {
  Coordinates at = description.mesh.coordinates(rank);
  const auto &names = description.mesh.axes();
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i].first == description.pipelineAxis)
      at.ofAxis[i] = stage;
  return description.mesh.rank(at);
}

// Ranks of two stages that exchange messages, marked with the level of their links.
void World::addPairs() {
  std::set<std::pair<int64_t, int64_t>> pairs;
  for (const Program *program : programs)
    for (const Operation &op : program->operations)
      if (op.kind == Operation::Kind::Send || op.kind == Operation::Kind::Receive)
        pairs.insert(std::minmax(program->stage, op.message.stage));
  for (auto [one, other] : pairs) {
    Grouping grouping;
    for (int64_t rank = 0; rank < description.mesh.size(); ++rank) {
      int64_t stage = description.stageOf(rank);
      bool isIn = stage == one || stage == other;
      int64_t peer = isIn ? inStage(rank, stage == one ? other : one) : rank;
      grouping.first.push_back(int(std::min(rank, peer)));
      grouping.mark.push_back(int64_t(machine.levelOf(rank, peer)));
    }
    groupings.push_back(std::move(grouping));
  }
}

// Ranks that share the links of a level.
void World::addNodes() {
  for (size_t level = 0; level < machine.levels.size(); ++level) {
    nodes.push_back(std::nullopt);
    if (machine.levels[level].links == 0 && machine.levels[level].oversubscription == 1)
      continue;
    nodes.back() = groupings.size();
    addGrouping(machine.nodeRanks(level));
  }
}

// Ranks that share the processors of a host. Cards have their own.
void World::addHosts() {
  const auto together = double(machine.ranksOfHost(description.mesh.size()));
  if (description.target != "cpu" || machine.cores <= 0 || together * double(threads) <= machine.cores)
    return;
  workingRanks = machine.cores / double(threads);
  hosts = groupings.size();
  addGrouping(machine.levels.front().ranks);
}

// Of as many ranks each, one behind the other.
void World::addGrouping(int64_t together) {
  Grouping &grouping = groupings.emplace_back();
  for (int64_t rank = 0; rank < description.mesh.size(); ++rank) {
    grouping.first.push_back(int(rank / together * together));
    grouping.mark.push_back(0);
  }
}

void World::fold() {
  std::map<std::pair<size_t, double>, int64_t> kinds;
  std::vector<int64_t> numbers;
  for (int64_t rank = 0; rank < description.mesh.size(); ++rank) {
    auto slow = options.slow.find(rank);
    std::pair<size_t, double> kind = {programAt[size_t(rank)],
                                      slow == options.slow.end() ? 1.0 : slow->second};
    int64_t number = kinds.emplace(kind, int64_t(kinds.size())).first->second;
    numbers.push_back(options.folds && options.jitter == 0 ? number : rank);
  }
  folding = foldRanks(numbers, groupings);
}

size_t World::peerOf(size_t cls, int64_t stage) const {
  return size_t(folding.classOf[size_t(inStage(folding.first[cls], stage))]);
}

size_t World::levelOf(size_t cls, size_t grouping) const {
  return size_t(groupings[grouping].mark[size_t(folding.first[cls])]) % machine.levels.size();
}

NodeLoads World::loadsOf(size_t cls, const SimulatedStep &step) const {
  if (!description.target.starts_with("cuda") || step.ranks == 0)
    return {step.load, {}};
  int64_t nodes = groupings[step.grouping].mark[size_t(folding.first[cls])] / int64_t(machine.levels.size());
  return ncclLoads(step.kind, step.ranks, nodes, step.bytes);
}

size_t World::levelOfMessage(size_t cls, int64_t stage) const {
  int64_t rank = folding.first[cls];
  return machine.levelOf(rank, inStage(rank, stage));
}

void World::use(Network &network, size_t cls, size_t level, bool receives, std::vector<Network::Use> &uses) {
  auto link = [&](bool isNode, size_t whose, double bandwidth) {
    auto [entry, isNew] = links.try_emplace({isNode, whose, level, receives}, 0);
    if (isNew)
      entry->second = network.addLink(bandwidth);
    return entry->second;
  };
  const MachineFile::Level &of = machine.levels[level];
  uses.push_back({link(false, cls, of.bandwidth), 1});
  if (!nodes[level])
    return;
  const FoldedGroups &sharing = groups[*nodes[level]];
  int64_t shared = of.links > 0 ? of.links : machine.nodeRanks(level);
  uses.push_back({link(true, sharing.groupOf(cls), of.bandwidth * double(shared) / of.oversubscription),
                  sharing.countOf(cls)});
}

} // namespace tessera::rt
