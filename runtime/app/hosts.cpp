// See hosts.h.
#include "runtime/app/hosts.h"

#include "runtime/core/host_name.h"

#include <algorithm>
#include <cmath>
#include <sched.h>
#include <set>

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
  cpu_set_t set;
  CPU_ZERO(&set);
  std::string mine(CPU_SETSIZE, '0');
  if (::sched_getaffinity(0, sizeof(set), &set) == 0)
    for (size_t cpu = 0; cpu < mine.size(); ++cpu)
      if (CPU_ISSET(cpu, &set))
        mine[cpu] = '1';
  const std::vector<std::string> hosts = engine.exchange(hostName()), masks = engine.exchange(mine);
  OwnHost own{0, 0};
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    if (hosts[rank] != hosts[size_t(engine.rank())])
      continue;
    ++own.ranks;
    for (size_t cpu = 0; cpu < mine.size(); ++cpu)
      mine[cpu] = std::max(mine[cpu], masks[rank][cpu]);
  }
  own.processors = std::max<int64_t>(1, std::count(mine.begin(), mine.end(), '1'));
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
