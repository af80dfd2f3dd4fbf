// See Genome.h.
#include "lib/Scheduler/Genome.h"
#include <algorithm>
#include <limits>

namespace tessera::scheduler {

Allocation allocationOf(const Assignment &genome) {
  Allocation allocation;
  for (int job : genome)
    if (job != kIdle)
      ++allocation[job];
  return allocation;
}

Assignment refresh(const Assignment &genome, const Limit &limit) {
  Assignment result = genome;
  Allocation given;
  for (int &job : result)
    if (job != kIdle && ++given[job] > limit(job))
      job = kIdle;
  return result;
}

std::pair<Assignment, Assignment> crossover(const Assignment &first, const Assignment &second,
                                            const Limit &limit, Random &random) {
  Assignment left = first, right = second;
  for (size_t i = 0; i < left.size(); ++i)
    if (random.uniform() < 0.5)
      std::swap(left[i], right[i]);
  return {refresh(left, limit), refresh(right, limit)};
}

Assignment mutate(const Assignment &genome, const std::function<bool(int job)> &mayDrop, double probability,
                  Random &random) {
  std::map<int, bool> dropped;
  Assignment result = genome;
  for (int &job : result) {
    if (job == kIdle)
      continue;
    auto [entry, isNew] = dropped.try_emplace(job, false);
    if (isNew)
      entry->second = mayDrop(job) && random.uniform() < probability;
    if (entry->second)
      job = kIdle;
  }
  return result;
}

void fill(Allocation &allocation, int places, const std::vector<int> &fresh, const std::vector<int> &rest,
          const Limit &fewest, const Limit &limit) {
  std::erase_if(allocation, [&](auto &entry) { return entry.second < fewest(entry.first); });
  for (auto [job, count] : allocation)
    places -= count;
  for (int job : fresh)
    if (fewest(job) <= places && allocation.try_emplace(job, fewest(job)).second)
      places -= fewest(job);
  for (int job : rest) {
    auto has = allocation.find(job);
    int count = has == allocation.end() ? 0 : has->second, more = std::min(limit(job) - count, places);
    if (more <= 0 || count + more < fewest(job))
      continue;
    allocation[job] = count + more;
    places -= more;
  }
}

namespace {

// The jobs in the order of their blocks: where a running one begins now, a new one where enough is free.
std::vector<std::pair<int, int>> blockOrder(const Allocation &allocation, const Assignment &running) {
  std::map<int, size_t> begin;
  std::vector<size_t> free;
  for (size_t i = 0; i < running.size(); ++i)
    if (running[i] != kIdle && allocation.contains(running[i]))
      begin.try_emplace(running[i], i);
    else
      free.push_back(i);
  size_t next = 0;
  for (auto [job, count] : allocation) {
    if (begin.contains(job))
      continue;
    begin[job] = next < free.size() ? free[next] : running.size();
    next += count;
  }
  std::vector<std::pair<int, int>> order(allocation.begin(), allocation.end());
  std::ranges::stable_sort(order, {}, [&](auto &entry) { return begin[entry.first]; });
  return order;
}

} // namespace

Assignment reorder(const Allocation &allocation, const Assignment &running) {
  std::vector<std::pair<int, int>> order = blockOrder(allocation, running);
  size_t places = running.size();
  constexpr int kTooMany = std::numeric_limits<int>::max() / 2;
  // cost[k][i]: the first k blocks lie in the first i places; ends[k][i]: block k ends at i.
  std::vector<std::vector<int>> cost(order.size() + 1, std::vector<int>(places + 1, kTooMany));
  std::vector<std::vector<char>> ends(order.size() + 1, std::vector<char>(places + 1, 0));
  auto used = [&](size_t place) { return static_cast<int>(running[place] != kIdle); };
  cost[0][0] = 0;
  for (size_t i = 1; i <= places; ++i)
    cost[0][i] = cost[0][i - 1] + used(i - 1);
  for (size_t k = 1; k <= order.size(); ++k) {
    auto [job, count] = order[k - 1];
    auto taken = [&, job = job](size_t place) { return running[place] != kIdle && running[place] != job; };
    int inBlock = 0;
    for (size_t i = 1; i <= places; ++i) {
      size_t size = static_cast<size_t>(count);
      inBlock += taken(i - 1);
      if (i > size)
        inBlock -= taken(i - size - 1);
      cost[k][i] = std::min(cost[k][i - 1] + used(i - 1), kTooMany);
      if (i >= size && cost[k - 1][i - size] + inBlock < cost[k][i]) {
        cost[k][i] = cost[k - 1][i - size] + inBlock;
        ends[k][i] = 1;
      }
    }
  }
  Assignment result(places, kIdle);
  size_t i = places;
  for (size_t k = order.size(); k > 0; --k) {
    while (i > 0 && !ends[k][i])
      --i;
    for (int n = 0; n < order[k - 1].second; ++n)
      result[--i] = order[k - 1].first;
  }
  return result;
}

} // namespace tessera::scheduler
