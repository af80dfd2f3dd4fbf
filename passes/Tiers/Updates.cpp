// Which updates run on the host, and the step that has them there.
#include "passes/Tiers/Tiers.h"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

using namespace tessera::tiers;

namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
/// Plans are only compared: see `choose`.
constexpr double kEffort = 0.05;
/// The host's processors have other things to do: a step must be faster by so much.
constexpr double kGain = 0.995;
/// A deadline is found to within this part of it, or in so many halvings.
constexpr double kNear = 0.01;
constexpr int kHalvings = 5;

void addBytes(Step &step, int64_t begin, int64_t bytes) {
  for (size_t p = begin; p < step.bytes.size(); ++p)
    step.bytes[p] += bytes;
}

void dropUse(Value &value, int64_t position) {
  value.uses.erase(std::remove_if(value.uses.begin(), value.uses.end(),
                                  [&](const Use &use) { return use.position == position; }),
                   value.uses.end());
}

/// What has no use on the device has no bytes there.
void restBelow(Step &step, Value &value) {
  value.below = true;
  if (!value.uses.empty())
    return;
  value.always.clear();
  addBytes(step, 0, -value.bytes);
}

void moveToHost(Step &step, int number) {
  Update &update = step.updates[number];
  update.onHost = true;
  step.seconds[update.position] = 0;
  for (int state : update.state) {
    step.values[state].uses.clear();
    restBelow(step, step.values[state]);
  }
  dropUse(step.values[update.parameter], update.position);
  restBelow(step, step.values[update.parameter]);

  Value &gradient = step.values[update.gradient];
  if (!gradient.rests)
    addBytes(step, gradient.uses.back().position + 1, gradient.bytes);
  dropUse(gradient, update.position);
  gradient.always.push_back(static_cast<int>(gradient.uses.size()) - 1);
  gradient.uses.push_back({static_cast<int64_t>(step.seconds.size()), false});
  gradient.sinksInto = number;
}

/// Whether the host can make it, and where several operators do, as one value for all of them.
bool isMovable(const Step &step, const Conversion &conversion) {
  auto isOfLoop = [&](int result) { return !step.values[result].inLoop.empty(); };
  return std::none_of(conversion.positions.begin(), conversion.positions.end(),
                      [&](int64_t position) { return step.loop.has(position); }) &&
         (conversion.results.size() == 1 ||
          std::none_of(conversion.results.begin(), conversion.results.end(), isOfLoop));
}

/// Whether the device uses the parameter for nothing but conversions that the host can make.
bool isOnlyConverted(const Step &step, int parameter) {
  for (const Use &use : step.values[parameter].uses)
    if (std::none_of(step.conversions.begin(), step.conversions.end(), [&](const Conversion &each) {
          return each.parameter == parameter && isMovable(step, each) &&
                 std::find(each.positions.begin(), each.positions.end(), use.position) !=
                     each.positions.end();
        }))
      return false;
  return true;
}

/// The host makes what these operators did: one value, with the uses of all, that is where its parameter may
/// be.
void convertOnHost(Step &step, Conversion &conversion) {
  conversion.onHost = true;
  Value &made = step.values[conversion.results.front()];
  std::map<int64_t, bool> uses;
  for (int result : conversion.results) {
    Value &value = step.values[result];
    addBytes(step, value.uses.front().position, -value.bytes);
    addBytes(step, value.uses.back().position + 1, value.bytes);
    for (const Use &use : value.uses)
      uses.try_emplace(use.position, false);
    value.uses.clear();
    value.rests = value.below = true;
    if (&value != &made)
      value.bytes = 0;
  }
  for (int64_t position : conversion.positions) {
    step.seconds[position] = 0;
    uses.erase(position);
    dropUse(step.values[conversion.parameter], position);
  }
  for (auto [position, writes] : uses)
    made.uses.push_back({position, writes});
  if (made.loopGap >= 0)
    --made.loopGap; // it is used first by what made it
  made.always = conversion.given.value_or(std::vector<int>());
  made.decided = conversion.given || step.values[conversion.parameter].decided;
  made.kind = Kind::Parameter;
  addBytes(step, 0, made.bytes);
}

/// With each updated parameter that the device does nothing with but convert it; in the order of need.
void moveConversions(Step &step, const std::vector<bool> &onHost) {
  std::vector<Conversion *> moved;
  for (size_t i = 0; i < onHost.size(); ++i) {
    int parameter = step.updates[i].parameter;
    if (!onHost[i] || step.values[parameter].uses.empty() || !isOnlyConverted(step, parameter))
      continue;
    for (Conversion &each : step.conversions)
      if (each.parameter == parameter) {
        convertOnHost(step, each);
        moved.push_back(&each);
        // It is read until what it has become is waited for, which is used first here.
        int64_t waited = step.values[each.results.front()].uses.front().position + 1;
        step.updates[i].ready =
            std::max(step.updates[i].ready, step.loop.has(waited) ? step.loop.end + 1 : waited);
      }
    restBelow(step, step.values[parameter]);
  }
  std::sort(moved.begin(), moved.end(), [&](const Conversion *a, const Conversion *b) {
    auto need = [&](const Conversion *each) {
      return std::pair(step.values[each->results.front()].uses.front().position, each->results.front());
    };
    return need(a) < need(b);
  });
  for (Conversion *each : moved)
    step.values[each->results.front()].made = step.converting += each->seconds;
}

/// The time of a step by the deadline that the host has for updates.
class ByDeadline {
public:
  ByDeadline(const Step &step, const Limits &limits, const Rates &rates);

  /// Those that the host ends by then if the step waits for no copy but those of their gradients, each in the
  /// order in which these are there: one that would end later is left out, and a smaller one behind it may
  /// not be.
  std::vector<bool> until(double deadline) const;
  struct Time {
    double seconds = kForever;
    bool hostIsLast = false; // to end
  };
  Time time(const std::vector<bool> &onHost);
  /// Of the device, with no update on the host that need not be there.
  double computing() const { return begins.back(); }
  /// A deadline that is late enough for all.
  double lastOfAll() const;
  bool hasNone() const { return order.empty(); }

private:
  double down(size_t i) const {
    return rates.latency + static_cast<double>(step.values[step.updates[i].gradient].bytes) / rates.bytesDown;
  }

  const Step &step;
  const Limits &limits;
  const Rates &rates;
  std::vector<double> begins; // each position, if nothing is waited for
  std::vector<std::pair<int64_t, size_t>> order;
  std::map<std::vector<bool>, Time> known;
};

ByDeadline::ByDeadline(const Step &step, const Limits &limits, const Rates &rates)
    : step(step), limits(limits), rates(rates), begins(step.seconds.size() + 1) {
  std::partial_sum(step.seconds.begin(), step.seconds.end(), begins.begin() + 1);
  for (size_t i = 0; i < step.updates.size(); ++i) {
    const Update &update = step.updates[i];
    if (update.decided)
      continue;
    int64_t last = 0; // use of the gradient but the update
    for (const Use &use : step.values[update.gradient].uses)
      if (use.position != update.position)
        last = use.position;
    order.push_back({std::max(last + 1, update.ready), i});
  }
  std::sort(order.begin(), order.end());
}

std::vector<bool> ByDeadline::until(double deadline) const {
  std::vector<bool> onHost(step.updates.size());
  for (size_t i = 0; i < step.updates.size(); ++i)
    onHost[i] = step.updates[i].onHost;
  double link = 0, host = 0;
  for (auto [position, i] : order) {
    double isDown = std::max(link, begins[position]) + down(i);
    double ends = std::max(host, isDown) + step.updates[i].seconds;
    if (ends > deadline)
      continue;
    onHost[i] = true;
    link = isDown;
    host = ends;
  }
  return onHost;
}

double ByDeadline::lastOfAll() const {
  double seconds = computing();
  for (auto [position, i] : order)
    seconds += down(i) + step.updates[i].seconds;
  return seconds;
}

ByDeadline::Time ByDeadline::time(const std::vector<bool> &onHost) {
  auto [it, isNew] = known.try_emplace(onHost);
  if (!isNew)
    return it->second;
  Step there = withUpdates(step, onHost);
  if (std::optional<Plan> plan = choose(there, limits, rates, kEffort)) {
    for (Update &update : there.updates)
      update.seconds = 0;
    it->second = {plan->seconds, simulate(there, plan->moves, rates) < plan->seconds};
  }
  return it->second;
}

} // namespace

int64_t tessera::tiers::updateBegins(const Step &step, const Value &value, int64_t gone) {
  int64_t begins = std::max(gone, step.updates[value.sinksInto].ready);
  return step.loop.has(begins) ? step.loop.end + 1 : begins;
}

double tessera::tiers::madeForTurns(const Step &step) {
  double seconds = 0;
  for (const Value &value : step.values)
    if (value.turns)
      seconds = std::max(seconds, value.made);
  return seconds;
}

Step tessera::tiers::withUpdates(const Step &step, const std::vector<bool> &onHost) {
  Step result = step;
  for (size_t i = 0; i < onHost.size(); ++i)
    if (onHost[i])
      moveToHost(result, static_cast<int>(i));
  moveConversions(result, onHost);
  return result;
}

double tessera::tiers::leastComputing(const Step &step) {
  std::vector<bool> onHost;
  for (const Update &update : step.updates)
    onHost.push_back(update.onHost || !update.decided);
  std::vector<double> seconds = withUpdates(step, onHost).seconds;
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

// The later the deadline, the more updates are on the host: the longer the host takes, and the less the
// device and the links have to do. So the step is fastest where both end at about the same time.
UpdateChoice tessera::tiers::chooseUpdates(const Step &step, const Limits &limits, const Rates &rates,
                                           double bound, std::optional<double> given) {
  ByDeadline times(step, limits, rates);
  UpdateChoice none{times.until(-kForever)};
  double low = leastComputing(step);
  if (low >= bound)
    return none;
  if (given) {
    std::vector<bool> onHost = times.until(*given);
    const double seconds = times.time(onHost).seconds;
    UpdateChoice same{std::move(onHost), seconds, *given};
    if (isLarge(step) && seconds > kEnough * times.computing()) // something waits
      return same;
    none.seconds = times.time(none.onHost).seconds;
    return seconds < kGain * none.seconds ? same : none;
  }
  none.seconds = times.time(none.onHost).seconds;
  if (times.hasNone() || none.seconds <= kEnough * times.computing()) // nothing waits
    return none;
  UpdateChoice best = none;
  double high = std::min({bound, none.seconds, times.lastOfAll()});
  for (int i = 0; i <= kHalvings && low < (1 - kNear) * high; ++i) {
    double deadline = i == 0 ? high : (low + high) / 2;
    std::vector<bool> onHost = times.until(deadline);
    auto [seconds, hostIsLast] = times.time(onHost);
    if (seconds < best.seconds)
      best = {std::move(onHost), seconds, deadline};
    if (i == 0 && !hostIsLast && seconds >= bound)
      break; // with fewer there it is no faster
    if (i > 0)
      (hostIsLast ? high : low) = deadline;
    high = std::min(high, seconds);
  }
  return best.seconds < kGain * none.seconds ? best : none;
}
