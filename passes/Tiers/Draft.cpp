#include "passes/Tiers/Draft.h"
#include "passes/Tiers/Gaps.h"
#include "passes/Tiers/Tiers.h"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <vector>

using namespace tessera::tiers;

namespace {

/// The first position of the ranges that is above the limit; -1 without one.
int64_t firstAbove(const Heights &heights, const std::vector<Range> &ranges, int64_t limit) {
  for (Range range : ranges)
    if (int64_t p = heights.firstAbove(range, limit); p >= 0)
      return p;
  return -1;
}

} // namespace

Draft::Draft(const Problem &problem)
    : problem_(&problem), aways_(problem.gaps.size()), device_(problem.step.bytes),
      host_(std::vector<int64_t>(problem.positions)), onHost_(problem.step.values.size()),
      listed_(problem.positions + 1), offloads_(problem.positions + 1), gone_(problem.positions + 1),
      updates_(problem.positions + 1), prefetches_(problem.positions + 1), uses_(problem.positions + 1),
      moments_(problem.positions + 1), downEnd_(problem.gaps.size()), upEnd_(problem.gaps.size()),
      remaining_(problem.positions + 1), last_(problem.positions) {
  for (int64_t p = problem.positions; p-- > 0;)
    remaining_[p] = remaining_[p + 1] + problem.step.seconds[p];
  for (const Update &update : problem.step.updates)
    if (update.onHost)
      norm_ = problem.step.norm;
  for (int64_t p : {norm_, problem.step.loop.begin})
    if (p >= 0)
      ++listed_[p];
  for (size_t v = 0; v < onHost_.size(); ++v)
    takeHost(static_cast<int>(v));
  moments_[0].host = problem.step.converting;
  forTurns_ = madeForTurns(problem.step);
  simulate(std::numeric_limits<double>::infinity());
  keep();
}

void Draft::list(int gap, const Away &away, bool enters) {
  auto at = [&](Lists &lists, int64_t position) {
    std::vector<int> &list = lists[position];
    auto place = std::lower_bound(list.begin(), list.end(), gap);
    if (enters)
      list.insert(place, gap);
    else
      list.erase(place);
    listed_[position] += enters ? 1 : -1;
  };
  if (!away.moved())
    return;
  if (away.dirty()) {
    at(offloads_, away.offload);
    at(gone_, away.gone);
  }
  const Gap &of = problem_->gaps[gap];
  if (of.sinks) {
    int64_t gone = away.dirty() ? away.gone : of.use + 1;
    return at(updates_, updateBegins(problem_->step, problem_->step.values[of.value], gone));
  }
  at(prefetches_, away.prefetch);
  at(uses_, of.next);
}

void Draft::touch(const Away &before, const Away &after, int gap) {
  auto position = [&](int64_t p) {
    if (p < 0)
      return;
    first_ = std::min(first_, p);
    last_ = std::max(last_, p);
  };
  auto differ = [&](int64_t a, int64_t b) {
    if (a != b) {
      position(a);
      position(b);
    }
  };
  differ(before.offload, after.offload);
  differ(before.gone, after.gone);
  differ(before.prefetch, after.prefetch);
  if (before.moved() != after.moved())
    position(problem_->gaps[gap].next);
}

void Draft::put(int gap, const Away &away) {
  const Gap &of = problem_->gaps[gap];
  Away &current = aways_[gap];
  touch(current, away, gap);
  list(gap, current, false);
  list(gap, away, true);
  // Between the positions of an edge the value is there now if it was not before, or the other way round.
  auto edge = [&](int64_t before, int64_t after, int sign) {
    Range range{std::min(before, after), std::max(before, after)};
    bool taken = sign > 0 ? after > before : after < before;
    device_.add(range, taken ? of.bytes : -of.bytes);
    if (taken)
      raised_.push_back(range);
  };
  auto count = [&](const Away &counted, int sign) {
    up_ += sign * of.up;
    for (Range range : absence(of, counted, problem_->positions)) {
      device_.add(range, -sign * of.bytes);
      if (sign < 0 && range.begin < range.end)
        raised_.push_back(range);
    }
  };
  down_ += (static_cast<int>(away.dirty()) - static_cast<int>(current.dirty())) * of.down;
  if (current.moved() && away.moved()) {
    edge(absence(of, current, 0)[0].begin, absence(of, away, 0)[0].begin, 1);
    edge(current.prefetch, away.prefetch, -1);
  } else if (current.moved()) {
    count(current, -1);
  } else if (away.moved()) {
    count(away, 1);
  }
  current = away;
}

void Draft::takeHost(int value) {
  std::vector<Away> aways;
  for (int gap : problem_->gapsOf[value])
    aways.push_back(aways_[gap]);
  Range range = problem_->onHost(value, aways), &current = onHost_[value];
  if (range.begin == current.begin && range.end == current.end)
    return;
  host_.add(current, -problem_->step.values[value].bytes);
  host_.add(range, problem_->step.values[value].bytes);
  current = range;
  raisedHost_.push_back(range);
}

void Draft::change(int gap, const Away &away) {
  int value = problem_->gaps[gap].value;
  std::vector<Away> aways;
  const std::vector<int> &gaps = problem_->gapsOf[value];
  int changed = 0;
  for (int other : gaps) {
    if (other == gap)
      changed = static_cast<int>(aways.size());
    aways.push_back(other == gap ? away : aways_[other]);
  }
  problem_->makeValid(value, aways, changed);
  for (size_t i = 0; i < gaps.size(); ++i)
    if (aways[i] != aways_[gaps[i]]) {
      before_.push_back({gaps[i], aways_[gaps[i]]});
      put(gaps[i], aways[i]);
    }
  takeHost(value);
}

void Draft::load(const std::vector<Away> &aways) {
  for (size_t v = 0; v < problem_->gapsOf.size(); ++v) {
    bool changed = false;
    for (int gap : problem_->gapsOf[v]) {
      if (aways[gap] == aways_[gap])
        continue;
      before_.push_back({gap, aways_[gap]});
      put(gap, aways[gap]);
      changed = true;
    }
    if (changed)
      takeHost(static_cast<int>(v));
  }
}

bool Draft::fits() const { return above() < 0 && firstAbove(host_, raisedHost_, problem_->limits.host) < 0; }

int64_t Draft::above() const { return firstAbove(device_, raised_, problem_->limits.device); }

int64_t Draft::excess() const {
  int64_t bytes = 0;
  for (int64_t p = 0; p < problem_->positions; ++p)
    bytes += std::max<int64_t>(0, device_[p] - problem_->limits.device) +
             std::max<int64_t>(0, host_[p] - problem_->limits.host);
  return bytes;
}

void Draft::keep() {
  before_.clear();
  raised_.clear();
  raisedHost_.clear();
  momentsBefore_.clear();
  endsBefore_.clear();
  secondsBefore_ = seconds_;
  firstBefore_ = first_;
  lastBefore_ = last_;
}

void Draft::undo() {
  for (auto it = before_.rbegin(); it != before_.rend(); ++it) {
    put(it->first, it->second);
    takeHost(problem_->gaps[it->first].value);
  }
  for (auto it = momentsBefore_.rbegin(); it != momentsBefore_.rend(); ++it)
    moments_[it->first] = it->second;
  for (auto it = endsBefore_.rbegin(); it != endsBefore_.rend(); ++it)
    (it->up ? upEnd_ : downEnd_)[it->gap] = it->end;
  seconds_ = secondsBefore_;
  first_ = firstBefore_;
  last_ = lastBefore_;
  keep();
}

// Inline, so that the clock stays in registers: written to memory by parts and read back whole, as a call
// would have it, each position would wait for the ones before.
[[gnu::always_inline]] inline Moment Draft::eventsAt(int64_t position, Moment at) {
  auto ends = [&](bool up, int gap, double end) {
    double &current = (up ? upEnd_ : downEnd_)[gap];
    if (current == end)
      return;
    endsBefore_.push_back({gap, up, current});
    current = end;
    last_ = std::max(last_, up ? problem_->gaps[gap].next : aways_[gap].gone);
  };
  for (int gap : offloads_[position])
    ends(false, gap, at.down = std::max(at.down, at.now) + problem_->gaps[gap].down);
  if (position == norm_)
    at.now = at.down = std::max(at.down, at.now) + problem_->rates.latency;
  for (int gap : gone_[position])
    at.now = std::max(at.now, downEnd_[gap]);
  for (int gap : updates_[position])
    at.host = std::max(at.host, at.now) +
              problem_->step.updates[problem_->step.values[problem_->gaps[gap].value].sinksInto].seconds;
  if (position == problem_->step.loop.begin)
    at.now = std::max(at.now, forTurns_);
  for (int gap : prefetches_[position]) {
    at.now = std::max(at.now, problem_->gaps[gap].made);
    ends(true, gap, at.up = std::max(at.up, at.now) + problem_->gaps[gap].up);
  }
  for (int gap : uses_[position])
    at.now = std::max(at.now, upEnd_[gap]);
  return at;
}

double Draft::simulate(double bound) {
  if (last_ < 0)
    return seconds_;
  int64_t n = problem_->positions;
  Moment at = moments_[first_];
  for (int64_t p = first_;; ++p) {
    at.down = std::max(at.down, at.now);
    at.up = std::max(at.up, at.now);
    at.host = std::max(at.host, at.now);
    if (p > last_ && at == moments_[p])
      break;
    if (at != moments_[p]) {
      momentsBefore_.push_back({p, moments_[p]});
      moments_[p] = at;
    }
    if (at.now + remaining_[p] > bound)
      return std::numeric_limits<double>::infinity();
    if (listed_[p] > 0)
      at = eventsAt(p, at);
    if (p == n) {
      seconds_ = std::max(at.now, at.host);
      break;
    }
    at.now += problem_->step.seconds[p];
  }
  first_ = n;
  last_ = -1;
  return seconds_;
}

std::vector<Move> Draft::moves() const {
  std::vector<Move> moves;
  for (size_t g = 0; g < aways_.size(); ++g)
    if (aways_[g].moved())
      moves.push_back({problem_->gaps[g].value, problem_->gaps[g].gap, aways_[g].offload, aways_[g].gone,
                       aways_[g].prefetch});
  return moves;
}
