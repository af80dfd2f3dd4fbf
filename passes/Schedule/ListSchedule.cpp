// Orders of a block's operators: see BlockGraph.h.
#include "passes/Schedule/BlockGraph.h"
#include <algorithm>
#include <set>

using namespace tessera;

std::vector<int> BlockGraph::listSchedule(bool greedy) const {
  std::vector<int> before(size()), readers(storages.size()), order;
  for (int i = 0; i < size(); ++i)
    before[i] = nodes[i].numBefore;
  for (size_t s = 0; s < storages.size(); ++s)
    readers[s] = storages[s].readers;
  std::set<int> light, heavy; // ready ones that make nothing, and others
  auto release = [&](int i) { (nodes[i].made == 0 ? light : heavy).insert(i); };
  for (int i = 0; i < size(); ++i)
    if (before[i] == 0)
      release(i);
  auto change = [&](int i) {
    int64_t bytes = nodes[i].made;
    for (int s : nodes[i].reads)
      if (readers[s] == 1 && !storages[s].kept)
        bytes -= storages[s].bytes;
    return bytes;
  };
  while (!light.empty() || !heavy.empty()) {
    std::set<int> &from = light.empty() ? heavy : light;
    int chosen = *from.begin();
    if (light.empty() && greedy) {
      int64_t least = std::min<int64_t>(change(chosen), 0);
      for (int i : heavy)
        if (int64_t bytes = change(i); bytes < least)
          least = bytes, chosen = i;
    }
    from.erase(chosen);
    order.push_back(chosen);
    for (int s : nodes[chosen].reads)
      --readers[s];
    for (int later : nodes[chosen].after)
      if (--before[later] == 0)
        release(later);
  }
  return order;
}

std::vector<int> BlockGraph::repaired(const std::vector<std::pair<int, int>> &held) const {
  std::vector<int> before(size()), holds(size()), order;
  std::vector<std::vector<int>> freed(size());
  for (int i = 0; i < size(); ++i)
    before[i] = nodes[i].numBefore;
  for (auto [first, second] : held) {
    freed[first].push_back(second);
    ++holds[second];
  }
  std::set<int> ready, waiting;
  auto release = [&](int i) { (holds[i] == 0 ? ready : waiting).insert(i); };
  for (int i = 0; i < size(); ++i)
    if (before[i] == 0)
      release(i);
  while (!ready.empty() || !waiting.empty()) {
    std::set<int> &from = ready.empty() ? waiting : ready;
    int chosen = *from.begin();
    from.erase(from.begin());
    order.push_back(chosen);
    for (int other : freed[chosen])
      if (--holds[other] == 0 && waiting.erase(other))
        ready.insert(other);
    for (int later : nodes[chosen].after)
      if (--before[later] == 0)
        release(later);
  }
  return order;
}
