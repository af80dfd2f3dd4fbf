// See PlaceJobs.h.
#include "lib/Scheduler/PlaceJobs.h"
#include <algorithm>
#include <map>

namespace tessera::scheduler {

namespace {

// Places by host, of one job or free ones.
using ByHost = std::map<int, std::vector<int>>;

// The host whose free places a job should take next when it needs `wanted` more.
int hostFor(const ByHost &free, const ByHost &own, int wanted) {
  int best = -1;
  size_t room = 0;
  for (auto &[host, places] : own)
    if (auto found = free.find(host); found != free.end() && found->second.size() > room)
      best = host, room = found->second.size();
  if (best >= 0)
    return best;
  // The least room that is enough, else the most there is.
  for (auto &[host, places] : free) {
    bool enough = places.size() >= static_cast<size_t>(wanted),
         bestEnough = room >= static_cast<size_t>(wanted);
    if (best < 0 || (enough && (!bestEnough || places.size() < room)) ||
        (!bestEnough && places.size() > room))
      best = host, room = places.size();
  }
  return best;
}

} // namespace

Assignment placeJobs(const Assignment &running, const Counts &counts, const std::vector<int> &hostOfPlace) {
  Assignment result(running.size(), kIdle);
  std::map<int, ByHost> held;
  for (size_t place = 0; place < running.size(); ++place)
    if (running[place] != kIdle)
      held[running[place]][hostOfPlace[place]].push_back(static_cast<int>(place));
  std::vector<std::pair<int, int>> growing; // places missing, job
  for (auto [job, count] : counts) {
    int has = 0;
    for (auto &[host, places] : held[job])
      has += static_cast<int>(places.size());
    for (; has > count; --has) {
      auto least = std::ranges::min_element(held[job], {}, [](auto &entry) { return entry.second.size(); });
      least->second.pop_back();
      if (least->second.empty())
        held[job].erase(least);
    }
    for (auto &[host, places] : held[job])
      for (int place : places)
        result[place] = job;
    if (has < count)
      growing.emplace_back(count - has, job);
  }
  ByHost free;
  for (size_t place = 0; place < result.size(); ++place)
    if (result[place] == kIdle)
      free[hostOfPlace[place]].push_back(static_cast<int>(place));
  // Large ones first, while there is room in one piece.
  std::ranges::stable_sort(growing, std::greater<>(), &std::pair<int, int>::first);
  for (auto [missing, job] : growing)
    while (missing > 0 && !free.empty()) {
      int host = hostFor(free, held[job], missing);
      std::vector<int> &room = free[host];
      for (; missing > 0 && !room.empty(); --missing) {
        result[room.front()] = job;
        held[job][host].push_back(room.front());
        room.erase(room.begin());
      }
      if (room.empty())
        free.erase(host);
    }
  return result;
}

} // namespace tessera::scheduler
