// See hosts.h.
#include "runtime/app/hosts.h"

#include "runtime/core/host_name.h"
#include "runtime/core/processors.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

namespace tessera::rt {

HostLayout layoutOf(const std::vector<std::string> &hosts) {
  const size_t count = std::set<std::string>(hosts.begin(), hosts.end()).size(), ranks = hosts.size() / count;
  HostLayout layout{int64_t(count), std::nullopt};
  if (ranks * count != hosts.size())
    return layout;
  for (size_t rank = 0; rank < hosts.size(); ++rank)
    if (hosts[rank] != hosts[rank / ranks * ranks])
      return layout;
  layout.ranks = int64_t(ranks);
  return layout;
}

OwnHost findOwnHost(Engine &engine) {
  std::string mine;
  for (int number : ownProcessors())
    mine += std::to_string(number) + " ";
  const std::vector<std::string> hosts = engine.exchange(hostName()), lists = engine.exchange(mine);
  OwnHost own{0, 0};
  std::set<int> processors;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    if (hosts[rank] != hosts[size_t(engine.rank())])
      continue;
    ++own.ranks;
    std::istringstream list(lists[rank]);
    for (int number = 0; list >> number;)
      processors.insert(number);
  }
  own.processors = std::max<int64_t>(1, int64_t(processors.size()));
  return own;
}

int64_t ranksWithLinks(int64_t ranks, double together, double alone, double shortest) {
  constexpr double kLong = 2, kShared = 0.8;
  if (alone < kLong * shortest || together * kShared < alone)
    return ranks;
  const double share = (alone - shortest) / (together - shortest);
  return std::clamp<int64_t>(std::llround(double(ranks) * share), 1, ranks);
}

} // namespace tessera::rt
