// What is simulated: the steps of each class of ranks, the groups that they meet in, and the links there.
#pragma once

#include "runtime/comm/nccl_cost.h"
#include "runtime/simulate/folding.h"
#include "runtime/simulate/network.h"
#include "runtime/simulate/simulate.h"

#include <utility>

namespace tessera::rt {

/// An operation as far as it takes time.
struct SimulatedStep {
  const Operation *op = nullptr;
  /// Of a kernel, a call, a copy.
  double seconds = 0;
  Direction direction = Direction::HostToDevice;
  /// Of a collective: the grouping of its members; its kind, ranks, and bytes of a source; what it takes by
  /// the runtime's own exchange; what all of a group send. A message has load.bytes alone.
  size_t grouping = 0;
  CollectiveKind kind = CollectiveKind::Permute;
  int64_t ranks = 0;
  double bytes = 0;
  CollectiveLoad load;
  int64_t groupBytes = 0;
  /// Of what communicates: its axes and its kind, by number.
  size_t traffic = 0;
  /// Whether nothing has to be moved.
  bool isEmpty = false;
  /// Of a wait: the step that it waits for.
  size_t started = 0;
};

class World {
public:
  World(const Description &description, const std::string &name, const Machine &machine,
        const SimulateOptions &options);

  const Description &description;
  const Machine &machine;
  const SimulateOptions &options;
  Folding folding;
  /// Names of axes and kinds of collectives, or `send`, by number.
  std::vector<std::pair<std::string, std::string>> traffic;
  std::vector<FoldedGroups> groups; ///< by grouping

  /// What a rank's communication takes of its computing while both go on.
  double take = 0;
  /// Where a host has more ranks than its processors let work at a time: how many these are, and the grouping
  /// of ranks by hosts.
  double workingRanks = 0;
  std::optional<size_t> hosts;

  const Program &programOf(size_t cls) const { return *programs[programAt[size_t(folding.first[cls])]]; }
  const std::vector<SimulatedStep> &stepsOf(size_t cls) const {
    return steps[programAt[size_t(folding.first[cls])]];
  }
  /// The class of those that a rank of the class exchanges messages with, in that stage.
  size_t peerOf(size_t cls, int64_t stage) const;
  /// The level whose links a group uses, and a message.
  size_t levelOf(size_t cls, size_t grouping) const;
  /// What a member of the class sends in a collective, or in a message: all of it between nodes of that level
  /// but where NCCL keeps to links within them, of the level below.
  NodeLoads loadsOf(size_t cls, const SimulatedStep &step) const;
  size_t levelOfMessage(size_t cls, int64_t stage) const;
  /// What a rank of the class uses of a level's links when it sends, or receives.
  void use(Network &network, size_t cls, size_t level, bool receives, std::vector<Network::Use> &uses);

private:
  void addPrograms(const std::string &name);
  void addSteps(const Program &program);
  SimulatedStep step(const Program &program, const Operation &op);
  void addCollective(const Operation &op, SimulatedStep &step);
  size_t trafficNumber(const std::string &axes, const std::string &kind);
  size_t groupingOf(const Axes &axes);
  int64_t markOf(const std::vector<int> &members) const;
  void addPairs();
  void addNodes();
  void addHosts();
  void addGrouping(int64_t together);
  void fold();
  int64_t inStage(int64_t rank, int64_t stage) const;

  int64_t threads;
  Rates rates; ///< of a rank among all of them
  std::vector<const Program *> programs;
  std::vector<size_t> programAt;                 ///< by rank
  std::vector<std::vector<SimulatedStep>> steps; ///< by program
  std::vector<Grouping> groupings;
  std::map<std::vector<int>, size_t> known; ///< groupings of collectives
  std::map<std::string, size_t> ofAxes;     ///< the same, by axes
  std::map<std::pair<std::string, std::string>, size_t> knownTraffic;
  std::vector<std::optional<size_t>> nodes; ///< by level: the grouping of ranks that share its links
  /// By class or group of a node, level and way.
  std::map<std::tuple<bool, size_t, size_t, bool>, Network::Link> links;
};

} // namespace tessera::rt
