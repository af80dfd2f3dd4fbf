// The search for a plan: gaps by price, for this limit and smaller ones, their transfers placed, then flips.
#include "passes/Tiers/Search.h"
#include "passes/Tiers/Descent.h"
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
#include <memory>
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
constexpr size_t kSizes = 4; // the largest sizes of values that are all kept once
constexpr int kCuts = 3;     // flips are done in so many parts, after each of which half go on
constexpr int64_t kLess = 8; // a part of the flips is for moving less in the same time

// What is tried in small steps, and how much one round or flip looks at: in large steps less is tried.
constexpr int64_t kRounds = 8, kMostFlips = 120'000, kFlipsOfGap = 8'000;
constexpr int64_t kRoundWork = 80'000'000, kFlipWork = 200'000'000; // gaps x positions, positions
/// Of a large step, or a part of that where plans are only compared, not even every limit is tried two
/// rounds: see `collectFewStarts`.
constexpr int64_t kLargeWork = kRoundWork / 2; // gaps x positions
constexpr double kMostlyWaits = 2;             // times the least seconds: prices matter most here

/// None is best for all steps.
constexpr Course kCourses[] = {{false, 0}, {true, 0}, {false, 0.3}};

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
  void collectStarts(const Aim &aim);
  void collectAtOnce(const std::vector<Aim> &aims);
  std::vector<Start> follow(Descent &descent) const;
  void add(Start start);
  void add(std::vector<Start> starts);
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
  /// Whether each round takes long for the effort.
  bool isLong() const { return static_cast<double>(work()) > effort * static_cast<double>(kLargeWork); }
  /// Whether the plan is only compared.
  bool isSketch() const { return effort < 1; }
  int64_t target(int64_t least, double part) const {
    return least + static_cast<int64_t>(part * static_cast<double>(problem.limits.device - least));
  }
  double fastest() const { return starts.empty() ? kForever : starts.front().seconds; }
  /// Whether no plan is faster, or where it is only compared or the step is large none by much or to any use;
  /// or any will do.
  bool isPerfect(double seconds) const {
    double asked = problem.limits.enough, enough = (isLarge() || isSketch() ? kEnough : 1) * leastSeconds;
    return seconds <= (isLarge() || asked == kForever ? std::max(enough, asked) : enough);
  }
  bool isPerfect() const { return !starts.empty() && isPerfect(starts.front().seconds); }
  Plan plan(const std::vector<Away> &aways);

  const Problem &problem;
  Draft draft;
  double effort;
  double leastSeconds;       // of any plan
  std::vector<Start> starts; // fastest first
  uint64_t seed = 1;
};

int64_t peak(const std::vector<int64_t> &bytes) {
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

void Search::add(Start start) {
  auto place = std::find_if(starts.begin(), starts.end(),
                            [&](const Start &other) { return other.seconds >= start.seconds; });
  if (place != starts.end() && place->aways == start.aways)
    return;
  starts.insert(place, std::move(start));
  if (starts.size() > kKept)
    starts.pop_back();
}

void Search::add(std::vector<Start> found) {
  for (Start &start : found)
    add(std::move(start));
}

void Search::collectStarts(int64_t least) {
  if (isLong())
    collectFewStarts(least);
  bool mostlyWaits = !isSketch() && !starts.empty() && starts.front().seconds > kMostlyWaits * leastSeconds;
  if (starts.empty() || mostlyWaits)
    for (const Course &course : kCourses)
      for (double part : kTargets) {
        collectStarts({target(least, part), course});
        if (isPerfect())
          return;
      }
  if (!starts.empty() && !isPerfect() && !(isSketch() && isLong()))
    collectOfLargeValues();
}

/// One round for one limit after the other, as long as less is not worse, and all courses only for the limit
/// that was best, each as long as a round gains: in steps of hundreds of equal layers it is little where
/// computing takes longest, and much where copies do. Two limits at a time, taken as if one came after the
/// other.
void Search::collectFewStarts(int64_t least) {
  constexpr size_t kAtOnce = 2;
  static_assert(std::size(kTargets) % kAtOnce == 0);
  // What is only compared need not be the best.
  const double muchWorse = isSketch() ? 1 : Descent::kWorse;
  const int mostWorse = isSketch() ? 1 : 2;
  std::unique_ptr<OwnDescent> best;
  int64_t bestTarget = 0;
  int worse = 0;
  for (size_t first = 0; first < std::size(kTargets) && worse < mostWorse; first += kAtOnce) {
    std::unique_ptr<OwnDescent> tried[kAtOnce];
    inParallel(kAtOnce, [&](size_t i) {
      Aim aim{target(least, kTargets[first + i]), kCourses[0]};
      tried[i] = std::make_unique<OwnDescent>(problem, aim);
      tried[i]->rounds.round();
    });
    for (size_t i = 0; i < kAtOnce && worse < mostWorse; ++i) {
      double seconds = tried[i]->rounds.best();
      if (seconds < kForever)
        add(tried[i]->rounds.start());
      if (isPerfect())
        return;
      if (seconds < (best ? best->rounds.best() : kForever))
        best = std::move(tried[i]), bestTarget = target(least, kTargets[first + i]);
      else if (best && seconds > muchWorse * best->rounds.best())
        ++worse;
    }
  }
  if (!best)
    return;
  add(follow(best->rounds));
  if (!isSketch() && !isPerfect())
    collectAtOnce({{bestTarget, kCourses[1]}, {bestTarget, kCourses[2]}});
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
  std::vector<Aim> aims;
  for (auto it = moved.rbegin(); it != moved.rend() && aims.size() < kSizes; ++it)
    if (it->second < all / 4)
      aims.push_back({problem.limits.device, kCourses[1], it->first});
  if (isLarge())
    return collectAtOnce(aims);
  for (const Aim &aim : aims) // by the clock of what was placed before, which serves small steps better
    collectStarts(aim);
}

void Search::collectStarts(const Aim &aim) {
  Descent descent(draft, aim);
  add(follow(descent));
}

/// Taken as if one came after the other.
void Search::collectAtOnce(const std::vector<Aim> &aims) {
  std::vector<std::vector<Start>> found(aims.size());
  inParallel(aims.size(), [&](size_t i) {
    OwnDescent own(problem, aims[i]);
    found[i] = follow(own.rounds);
  });
  for (std::vector<Start> &each : found)
    if (!isPerfect())
      add(std::move(each));
}

/// What further rounds find, until there were enough, or another one is to little use.
std::vector<Start> Search::follow(Descent &descent) const {
  int64_t most = isLarge() ? kRounds : std::clamp<int64_t>(kRoundWork / work(), 2, kRounds);
  std::vector<Start> found;
  while (descent.rounds() < most) {
    if (!descent.round())
      continue;
    found.push_back(descent.start());
    double now = std::min(fastest(), descent.best());
    if (isPerfect(now) || (isLarge() && !descent.gains()) ||
        (descent.rounds() > 1 && descent.best() > kHopeless * now))
      break;
  }
  return found;
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
  if (isLarge() && isSketch()) // seconds are all that is asked for
    return;
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
