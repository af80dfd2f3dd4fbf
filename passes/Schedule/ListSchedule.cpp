// Orders of a block's operators: see BlockGraph.h.
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Dist.h"
#include "passes/Schedule/BlockGraph.h"
#include "llvm/ADT/STLExtras.h"
#include <set>

using namespace tessera;

std::vector<int> BlockGraph::listSchedule(bool greedy) const {
  std::vector<int> before(size()), readers(storages.size()), order;
  for (int i = 0; i < size(); ++i)
    before[i] = nodes[i].numBefore;
  for (size_t s = 0; s < storages.size(); ++s)
    readers[s] = storages[s].readers;
  std::set<int> light, heavy; // ready nodes that allocate nothing, and others
  std::set<int> sent;         // of these the collectives that free what they allocate, and nothing waits for
  std::set<int> waiting;      // ready but for other stages of a pipeline, behind its steps
  // Bytes allocated less those freed, of every node by now, and the heavy ones by it.
  std::vector<int64_t> change(size());
  std::set<std::pair<int64_t, int>> byChange;
  std::vector<std::vector<int>> readersOf(storages.size());
  for (int i = 0; i < size(); ++i) {
    change[i] = nodes[i].allocated;
    for (int s : nodes[i].reads)
      readersOf[s].push_back(i);
  }
  auto enter = [&](int i) {
    byChange.insert({change[i], i});
    // In a step of a pipeline they would hold up the message to the stage before.
    if (i > ending && change[i] <= 0 && isa<dist::CollectiveOp>(nodes[i].op) && !usersAllocate(i))
      sent.insert(i);
  };
  auto isLastReader = [&](int i, int s) {
    if (storages[s].liveOut)
      return;
    bool isReady = byChange.erase({change[i], i});
    change[i] -= storages[s].bytes;
    if (isReady)
      enter(i);
  };
  for (size_t s = 0; s < storages.size(); ++s)
    if (readers[s] == 1)
      isLastReader(readersOf[s].front(), s);
  auto release = [&](int i) {
    if (i > ending && (isa<dist::RecvOp>(nodes[i].op) || dist::kStageSum.isOn(nodes[i].op)))
      waiting.insert(i);
    else if (nodes[i].allocated == 0)
      light.insert(i);
    else if (heavy.insert(i).second)
      enter(i);
  };
  for (int i = 0; i < size(); ++i)
    if (before[i] == 0)
      release(i);
  std::vector<bool> done(size());
  while (!light.empty() || !heavy.empty() || !waiting.empty()) {
    std::set<int> &from = !light.empty() ? light : !heavy.empty() ? heavy : waiting;
    int chosen = *from.begin();
    if (&from == &heavy && !sent.empty())
      chosen = *sent.begin();
    else if (&from == &heavy && greedy && byChange.begin()->first < 0)
      chosen = byChange.begin()->second;
    from.erase(chosen);
    sent.erase(chosen);
    byChange.erase({change[chosen], chosen});
    done[chosen] = true;
    order.push_back(chosen);
    for (int s : nodes[chosen].reads)
      if (--readers[s] == 1)
        isLastReader(*llvm::find_if(readersOf[s], [&](int i) { return !done[i]; }), s);
    for (int later : nodes[chosen].after)
      if (--before[later] == 0)
        release(later);
  }
  return order;
}

std::vector<int> BlockGraph::topologicalOrder(const std::vector<std::pair<int, int>> &preferred) const {
  std::vector<int> before(size()), delays(size()), order;
  std::vector<std::vector<int>> delayed(size());
  for (int i = 0; i < size(); ++i)
    before[i] = nodes[i].numBefore;
  for (auto [first, second] : preferred) {
    delayed[first].push_back(second);
    ++delays[second];
  }
  std::set<int> ready, waiting;
  auto release = [&](int i) { (delays[i] == 0 ? ready : waiting).insert(i); };
  for (int i = 0; i < size(); ++i)
    if (before[i] == 0)
      release(i);
  while (!ready.empty() || !waiting.empty()) {
    std::set<int> &from = ready.empty() ? waiting : ready;
    int chosen = *from.begin();
    from.erase(from.begin());
    order.push_back(chosen);
    for (int other : delayed[chosen])
      if (--delays[other] == 0 && waiting.erase(other))
        ready.insert(other);
    for (int later : nodes[chosen].after)
      if (--before[later] == 0)
        release(later);
  }
  return order;
}
