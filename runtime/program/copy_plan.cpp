// See copy_plan.h.
#include "runtime/program/copy_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tessera::rt {
namespace {

/// The ranks of each host, in the order of the hosts' first ranks; and where each rank is in that.
struct Places {
  std::vector<std::vector<int>> ranks;
  std::vector<std::pair<size_t, size_t>> of;

  explicit Places(const std::vector<std::string> &hosts) {
    std::map<std::string, size_t> known;
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      auto [host, isNew] = known.emplace(hosts[rank], ranks.size());
      if (isNew)
        ranks.emplace_back();
      of.emplace_back(host->second, ranks[host->second].size());
      ranks[host->second].push_back(int(rank));
    }
  }
  int keeperOf(int rank) const {
    const auto [host, number] = of[size_t(rank)];
    const std::vector<int> &next = ranks[(host + 1) % ranks.size()];
    return next[number % next.size()];
  }
};

/// Where the variables of a program lie that its steps change, by variable.
std::map<size_t, VariableRange> changedVariables(const Program &program) {
  const SlotPlan plan(program);
  std::map<size_t, VariableRange> places;
  for (size_t i = 0; i < program.buffers.size(); ++i)
    if (const BufferRange &buffer = program.buffers[i]; buffer.variable && plan.changes(int64_t(i)))
      places[size_t(*buffer.variable)] = {buffer.tier, buffer.offset, buffer.offset + buffer.bytes};
  return places;
}

bool isBefore(const VariableRange &a, const VariableRange &b) {
  return std::pair(a.tier, a.begin) < std::pair(b.tier, b.begin);
}

/// Joins those that touch, or are apart by less than a variable's alignment.
std::vector<VariableRange> joined(std::vector<VariableRange> ranges) {
  constexpr int64_t alignment = 256;
  std::sort(ranges.begin(), ranges.end(), isBefore);
  std::vector<VariableRange> all;
  for (const VariableRange &range : ranges)
    if (!all.empty() && all.back().tier == range.tier && range.begin - all.back().end < alignment)
      all.back().end = std::max(all.back().end, range.end);
    else
      all.push_back(range);
  return all;
}

} // namespace

std::vector<StateCopy> planCopies(const Description &description, const std::string &program,
                                  const std::vector<std::string> &hosts) {
  const Places places(hosts);
  std::map<const Program *, std::map<size_t, VariableRange>> changed;
  std::vector<StateCopy> copies(hosts.size());
  for (int rank = 0; rank < int(hosts.size()); ++rank) {
    const Program *own = description.findProgram(program, rank);
    if (!own)
      continue;
    if (!changed.contains(own))
      changed[own] = changedVariables(*own);
    StateCopy &copy = copies[size_t(rank)];
    copy.keeper = places.keeperOf(rank);
    for (const auto &[variable, range] : changed[own]) {
      const std::vector<int> same =
          description.mesh.group(description.variables[variable].replicas, rank).ranks;
      const bool isHereAlone = std::all_of(
          same.begin(), same.end(), [&](int other) { return hosts[size_t(other)] == hosts[size_t(rank)]; });
      if (!isHereAlone || *std::min_element(same.begin(), same.end()) != rank)
        continue;
      copy.variables.push_back(variable);
      copy.ranges.push_back(range);
    }
    copy.ranges = joined(std::move(copy.ranges));
  }
  return copies;
}

int64_t bytesOf(const StateCopy &copy) {
  return std::accumulate(
      copy.ranges.begin(), copy.ranges.end(), int64_t(0),
      [](int64_t sum, const VariableRange &range) { return sum + range.end - range.begin; });
}

int64_t bytesKept(const Description &description, const std::string &program,
                  const std::vector<StateCopy> &copies, int rank) {
  int64_t bytes = 0;
  for (size_t other = 0; other < copies.size(); ++other)
    if (copies[other].keeper == rank && !copies[other].ranges.empty())
      bytes += bytesOf(copiesFileRanges(*description.findProgram(program, int64_t(other)), copyPlaces,
                                        copies[other].ranges));
  return bytes;
}

std::vector<std::string> consecutiveHosts(int64_t ranks, int64_t hosts) {
  std::vector<std::string> names;
  for (int64_t rank = 0; rank < ranks; ++rank)
    names.push_back(std::to_string(rank * hosts / ranks));
  return names;
}

} // namespace tessera::rt
