// See FastForward.h.
#include "lib/Scheduler/FastForward.h"
#include "lib/Scheduler/Policy.h"
#include <algorithm>
#include <limits>
#include <numeric>

namespace tessera::scheduler {

FastForward::FastForward(const std::vector<Ahead> &jobs, int places)
    : jobs(jobs), places(places), queue(jobs.size()) {
  std::iota(queue.begin(), queue.end(), 0);
  std::ranges::stable_sort(queue, {}, [&](size_t i) {
    const Ahead &job = jobs[i];
    return job.samples / (*job.speed)[job.begin] * job.begin;
  });
}

void FastForward::start(size_t job, int given, double at) {
  count[job] = given;
  free -= given;
  end[job] = at + jobs[job].samples / (*jobs[job].speed)[given];
  running.push_back(job);
}

void FastForward::giveAway(double now) {
  std::erase_if(waiting, [&](size_t i) {
    int given = std::min(jobs[i].begin, free);
    if (given < jobs[i].fewest || free <= 0)
      return false;
    start(i, given, now + jobs[i].pauses.restart);
    return true;
  });
  while (free > 0 && waiting.empty()) {
    double best = 0, bestEnd = 0;
    size_t grows = 0;
    for (size_t i : running) {
      const Ahead &job = jobs[i];
      int wanted = withoutIdle(*job.speed, std::min(count[i] + free, job.most), count[i]);
      if (wanted == count[i])
        continue;
      double left = end[i] - now,
             faster = left * (*job.speed)[count[i]] / (*job.speed)[wanted] + job.pauses.resize;
      if (left - faster > best)
        best = left - faster, bestEnd = now + faster, grows = i;
    }
    if (best <= 0)
      return;
    int wanted =
        withoutIdle(*jobs[grows].speed, std::min(count[grows] + free, jobs[grows].most), count[grows]);
    free -= wanted - count[grows];
    count[grows] = wanted;
    end[grows] = bestEnd;
  }
}

double FastForward::run(const std::vector<int> &counts) {
  end.assign(jobs.size(), 0);
  count.assign(jobs.size(), 0);
  running.clear();
  waiting.clear();
  free = places;
  for (size_t i : queue) {
    int given = counts[i];
    if (given == 0)
      waiting.push_back(i);
    else
      start(i, given,
            given == jobs[i].held ? 0
            : jobs[i].held        ? jobs[i].pauses.resize
                                  : jobs[i].pauses.restart);
  }
  double sum = 0;
  while (!running.empty()) {
    auto first = std::ranges::min_element(running, {}, [&](size_t i) { return end[i]; });
    double now = end[*first];
    sum += now;
    free += count[*first];
    *first = running.back();
    running.pop_back();
    giveAway(now);
  }
  return waiting.empty() ? sum : std::numeric_limits<double>::infinity();
}

} // namespace tessera::scheduler
