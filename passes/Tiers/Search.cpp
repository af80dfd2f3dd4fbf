// The search for a plan: gaps by price, for this limit and smaller ones, their transfers placed, then flips.
#include "passes/Tiers/Search.h"
#include "passes/Tiers/Draft.h"
#include "passes/Tiers/Gaps.h"
#include "passes/Tiers/Parallel.h"
#include "passes/Tiers/Tiers.h"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

using namespace tessera::tiers;

namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
/// Limits that gaps are chosen for, as parts of the way from the least possible to the limit given: what is
/// chosen for less leaves the transfers more time.
constexpr double kTargets[] = {1, 0.95, 0.9, 0.8, 0.5, 0};
constexpr double kHopeless = 1.1; // so much slower than the fastest, a target is left after two rounds
constexpr size_t kKept = 8;       // of what was chosen so, the fastest
/// Flips lead small steps into one of few dead ends, by chance: these begin more often.
constexpr size_t kMostTurns = 32, kTurnsOfGaps = 400;
constexpr int kSizes = 4;    // the largest sizes of values that are all kept once
constexpr int kCuts = 3;     // flips are done in so many parts, after each of which half go on
constexpr int64_t kLess = 8; // a part of the flips is for moving less in the same time

// What is tried in small steps, and how much one round or flip looks at: in large steps less is tried.
constexpr int64_t kRounds = 8, kMostFlips = 120'000, kFlipsOfGap = 8'000;
constexpr int64_t kRoundWork = 80'000'000, kFlipWork = 200'000'000; // gaps x positions, positions
/// Of a large step not even every limit is tried two rounds: see `collectFewStarts`.
constexpr int64_t kLargeWork = kRoundWork / 2; // gaps x positions
constexpr double kWorse = 1.01;                // than the fastest
constexpr double kMostlyWaits = 2;             // times the least seconds: prices matter most here

/// How prices begin and are led on: with one of the host or without, whether or not it is limited, and see
/// `pressure`. None is best for all steps.
struct Course {
  bool downBehind;
  double host;
};
constexpr Course kCourses[] = {{false, 0}, {true, 0}, {false, 0.3}};

struct Start {
  double seconds;
  std::vector<Away> aways;
};

/// What the device computes, or what the host updates if nothing is in the way of the gradients.
double leastSecondsOf(const Problem &problem) {
  const Step &step = problem.step;
  std::vector<double> begins(problem.positions + 1); // each position
  std::partial_sum(step.seconds.begin(), step.seconds.end(), begins.begin() + 1);
  std::vector<std::pair<double, double>> updates; // when one may begin, and how long it takes
  for (const Gap &gap : problem.gaps)
    if (gap.sinks) {
      const Update &update = step.updates[step.values[gap.value].sinksInto];
      // A copy may be there already.
      double down = problem.gapsOf[gap.value].size() == 1 ? gap.down : 0;
      updates.push_back({std::max(begins[gap.use + 1] + down, begins[update.ready]), update.seconds});
    }
  std::sort(updates.begin(), updates.end());
  double host = step.converting;
  for (auto [begin, seconds] : updates)
    host = std::max(host, begin) + seconds;
  return std::max(problem.computing, host);
}

/// How much one round looks at.
int64_t workOf(const Problem &problem) {
  return static_cast<int64_t>(problem.gaps.size()) * problem.positions;
}

class Search {
public:
  Search(const Problem &problem, double effort)
      : problem(problem), draft(problem), effort(effort), leastSeconds(leastSecondsOf(problem)) {}
  std::optional<Plan> run();

private:
  void collectStarts(int64_t least);
  void collectFewStarts(int64_t least);
  void collectOfLargeValues();
  double collectStarts(int64_t target, const Course &course, int64_t stays = -1, int64_t most = kRounds);
  bool startFrom(const std::vector<int> &gaps);
  bool startAnywhere(std::mt19937_64 &random);
  bool startFromRepaired();
  void load(const std::vector<Away> &aways);
  void flipEach(int64_t tries);
  void moveLess();
  int64_t flips() const {
    int64_t most = std::min(
        {kFlipWork / problem.positions, kMostFlips, kFlipsOfGap * static_cast<int64_t>(problem.gaps.size())});
    return static_cast<int64_t>(effort * static_cast<double>(most));
  }
  int64_t work() const { return workOf(problem); }
  bool isLarge() const { return tessera::tiers::isLarge(problem); }
  /// Whether the plan is only compared.
  bool isSketch() const { return effort < 1; }
  int64_t target(int64_t least, double part) const {
    return least + static_cast<int64_t>(part * static_cast<double>(problem.limits.device - least));
  }
  /// Whether no plan is faster, or none of a large step by much or to any use; or any will do.
  bool isPerfect() const {
    double asked = problem.limits.enough, enough = leastSeconds;
    if (isLarge() || asked == kForever)
      enough = std::max(kNearForLarge * leastSeconds, asked);
    return !starts.empty() && starts.front().seconds <= enough;
  }
  Plan plan(const std::vector<Away> &aways);

  const Problem &problem;
  Draft draft;
  double effort;
  double leastSeconds;       // of any plan
  std::vector<Start> starts; // fastest first
  uint64_t seed = 1;
};

/// Moves prices towards what a round has shown, the less the more rounds there have been.
void approach(Prices &prices, const Prices &shown, double part) {
  constexpr double kLeast = 0.05; // what the step does not wait for is not for free: it may soon
  auto each = [&](std::vector<double> &price, const std::vector<double> &by) {
    for (size_t p = 0; p < price.size(); ++p)
      price[p] += part * (kLeast + by[p] - price[p]);
  };
  each(prices.down, shown.down);
  each(prices.up, shown.up);
}

int64_t peak(const std::vector<int64_t> &bytes) {
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

bool Search::startFrom(const std::vector<int> &gaps) {
  move(draft, gaps);
  if (draft.excess() > 0)
    return false;
  placeTransfers(draft);
  auto place = std::find_if(starts.begin(), starts.end(),
                            [&](const Start &start) { return start.seconds >= draft.seconds(); });
  if (place != starts.end() && place->aways == draft.aways())
    return true;
  starts.insert(place, {draft.seconds(), draft.aways()});
  if (starts.size() > kKept)
    starts.pop_back();
  return true;
}

void Search::collectStarts(int64_t least) {
  if (isLarge())
    collectFewStarts(least);
  bool mostlyWaits = !isSketch() && !starts.empty() && starts.front().seconds > kMostlyWaits * leastSeconds;
  if (starts.empty() || mostlyWaits)
    for (const Course &course : kCourses)
      for (double part : kTargets) {
        collectStarts(target(least, part), course);
        if (isPerfect())
          return;
      }
  if (!starts.empty() && !isPerfect() && !(isLarge() && isSketch()))
    collectOfLargeValues();
}

/// One round for one limit after the other, as long as less is not worse, and all courses only for the limit
/// that was best, each as long as a round gains: in steps of hundreds of equal layers it is little where
/// computing takes longest, and much where copies do.
void Search::collectFewStarts(int64_t least) {
  double best = kForever, bestPart = 1;
  int worse = 0;
  for (double part : kTargets) {
    double seconds = collectStarts(target(least, part), kCourses[0], -1, 1);
    if (isPerfect())
      return;
    if (seconds < best)
      best = seconds, bestPart = part;
    if (best < kForever && seconds > kWorse * best && ++worse == 2)
      break;
  }
  if (best == kForever)
    return;
  for (const Course &course : kCourses) {
    collectStarts(target(least, bestPart), course);
    if (isSketch() || isPerfect())
      return;
  }
}

/// One large value is worth many small ones, which no few changes would put in its place.
void Search::collectOfLargeValues() {
  std::map<int64_t, int64_t> moved; // bytes, by the size of values
  int64_t all = 0;
  for (size_t g = 0; g < problem.gaps.size(); ++g)
    if (starts.front().aways[g].moved()) {
      moved[problem.gaps[g].bytes] += problem.gaps[g].bytes;
      all += problem.gaps[g].bytes;
    }
  int sizes = 0;
  for (auto it = moved.rbegin(); it != moved.rend() && sizes < kSizes; ++it)
    if (it->second < all / 4) {
      collectStarts(problem.limits.device, kCourses[1], it->first);
      ++sizes;
    }
}

/// The fastest of the rounds of one course, seconds; infinity where none was within the limits.
double Search::collectStarts(int64_t target, const Course &course, int64_t stays, int64_t most) {
  int64_t rounds = isLarge() ? most : std::clamp<int64_t>(kRoundWork / work(), 2, kRounds);
  std::vector<double> flat(problem.positions + 1, 0.3);
  Prices prices{flat, flat, course.host};
  double best = kForever;
  for (int64_t round = 0; round < rounds; ++round) {
    std::optional<std::vector<int>> gaps = chooseGaps(problem, target, prices, stays);
    if (!gaps || !startFrom(*gaps)) {
      prices.host = std::max(0.1, 4 * prices.host);
      continue;
    }
    bool gains = draft.seconds() * kWorse < best;
    best = std::min(best, draft.seconds());
    if (isPerfect() || (isLarge() && !gains) || round + 1 == rounds ||
        (round > 0 && best > kHopeless * starts.front().seconds))
      break;
    approach(prices, pressure(draft, course.downBehind), 2.0 / static_cast<double>(round + 4));
  }
  return best;
}

/// Everything moved, then in any order kept what there is memory for.
bool Search::startAnywhere(std::mt19937_64 &random) {
  std::vector<int> order(problem.gaps.size());
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random() % i]);
  move(draft, order);
  draft.keep();
  for (int gap : order) {
    draft.change(gap, {});
    if (draft.fits())
      draft.keep();
    else
      draft.undo();
  }
  if (draft.excess() > 0)
    return false;
  placeTransfers(draft);
  starts.push_back({draft.seconds(), draft.aways()});
  return true;
}

/// Where no choice by price is within both limits: from everything moved, which the device has room for.
bool Search::startFromRepaired() {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    std::vector<int> all(problem.gaps.size());
    std::iota(all.begin(), all.end(), 0);
    move(draft, all);
    draft.keep();
    if (!repair(draft, flips(), seed))
      continue;
    draft.simulate(kForever);
    draft.keep();
    starts.push_back({draft.seconds(), draft.aways()});
    return true;
  }
  return false;
}

void Search::load(const std::vector<Away> &aways) {
  draft.load(aways);
  draft.simulate(kForever);
  draft.keep();
}

Plan Search::plan(const std::vector<Away> &aways) {
  load(aways);
  return judge(problem.step, draft.moves(), problem.rates);
}

/// All at the same time. What the first one has become may be perfect: then the others stay as they are.
void Search::flipEach(int64_t tries) {
  if (isPerfect())
    return;
  std::vector<Start> flipped(starts.size());
  inParallel(starts.size(), [&](size_t i) {
    Draft own(problem);
    own.load(starts[i].aways);
    own.simulate(kForever);
    own.keep();
    flip(own, tries, seed + i);
    flipped[i] = {own.seconds(), own.aways()};
  });
  std::swap(starts.front(), flipped.front());
  if (isPerfect()) {
    ++seed;
  } else {
    flipped.front() = std::move(starts.front());
    starts = std::move(flipped);
    seed += starts.size();
  }
  // Few, and the first of equally fast ones stays first.
  for (size_t i = 1; i < starts.size(); ++i)
    for (size_t k = i; k > 0 && starts[k].seconds < starts[k - 1].seconds; --k)
      std::swap(starts[k], starts[k - 1]);
}

/// Of plans that take equally long that which moves least: a link that is busy takes memory's bandwidth from
/// the operators, which no clock here knows.
void Search::moveLess() {
  load(starts.front().aways);
  if (isPerfect())
    flip(draft, flips() / kLess, seed++);
  std::vector<int> order(problem.gaps.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return std::pair(problem.gaps[b].bytes, a) < std::pair(problem.gaps[a].bytes, b);
  });
  for (int gap : order) {
    double seconds = draft.seconds();
    if (!draft.away(gap).moved())
      continue;
    draft.change(gap, {});
    if (draft.fits() && draft.simulate(seconds) <= seconds)
      draft.keep();
    else
      draft.undo();
  }
  starts.front() = {draft.seconds(), draft.aways()};
}

std::optional<Plan> Search::run() {
  if (problem.always.empty() && peak(problem.step.bytes) <= problem.limits.device)
    return plan(std::vector<Away>(problem.gaps.size()));
  int64_t least = leastDeviceBytes(problem.step).first;
  if (least > problem.limits.device)
    return std::nullopt;
  collectStarts(least);
  if (starts.empty() && !startFromRepaired())
    return std::nullopt;
  size_t distinct = starts.size();
  size_t turns = std::clamp(kTurnsOfGaps / problem.gaps.size(), distinct, kMostTurns);
  std::mt19937_64 random(seed);
  for (size_t i = distinct; i < turns; ++i)
    if (!startAnywhere(random))
      starts.push_back(starts[i % distinct]);
  for (int cut = 0; cut < kCuts && !isPerfect(); ++cut) {
    flipEach(flips() / kCuts / static_cast<int64_t>(starts.size()));
    starts.resize(std::max<size_t>(1, starts.size() / 2));
  }
  moveLess();
  return plan(starts.front().aways);
}

} // namespace

bool tessera::tiers::isLarge(const Problem &problem) { return workOf(problem) > kLargeWork; }
bool tessera::tiers::isLarge(const Step &step) { return isLarge(Problem(step, {}, {})); }

std::optional<Plan> tessera::tiers::choose(const Step &step, const Limits &limits, const Rates &rates,
                                           double effort) {
  // What is found where the host has no limit is not to be missed where it fits.
  if (limits.host != INT64_MAX)
    if (auto plan = choose(step, {limits.device, INT64_MAX, limits.enough}, rates, effort);
        !plan || plan->hostPeak <= limits.host)
      return plan;
  Problem problem(step, limits, rates);
  return Search(problem, effort).run();
}
