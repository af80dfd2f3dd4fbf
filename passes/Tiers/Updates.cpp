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
/// How many parts of the updates are compared at first, and how often the two beside the best are halved.
constexpr size_t kParts = 4;
constexpr int kHalvings = 2;

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

/// The time of a step by how many of the updates, in an order, run on the host.
class ByCount {
public:
  ByCount(const Step &step, const Limits &limits, const Rates &rates)
      : step(step), limits(limits), rates(rates) {
    for (size_t i = 0; i < step.updates.size(); ++i)
      if (!step.updates[i].decided)
        order.push_back(i);
    auto begins = [&](size_t i) {
      const Update &update = step.updates[i];
      int64_t last = 0; // use of the gradient but the update
      for (const Use &use : step.values[update.gradient].uses)
        if (use.position != update.position)
          last = use.position;
      return std::pair(std::max(last + 1, update.ready), i);
    };
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return begins(a) < begins(b); });
  }

  size_t size() const { return order.size(); }
  std::vector<bool> first(size_t count) const {
    std::vector<bool> onHost(step.updates.size());
    for (size_t i = 0; i < step.updates.size(); ++i)
      onHost[i] = step.updates[i].onHost;
    for (size_t i = 0; i < count; ++i)
      onHost[order[i]] = true;
    return onHost;
  }
  double seconds(size_t count) {
    auto [it, isNew] = known.try_emplace(count, kForever);
    if (isNew)
      if (auto plan = choose(withUpdates(step, first(count)), limits, rates, kEffort))
        it->second = plan->seconds;
    return it->second;
  }

private:
  const Step &step;
  const Limits &limits;
  const Rates &rates;
  std::vector<size_t> order;
  std::map<size_t, double> known;
};

} // namespace

int64_t tessera::tiers::updateBegins(const Step &step, const Value &value, int64_t gone) {
  return std::max(gone, step.updates[value.sinksInto].ready);
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

std::vector<bool> tessera::tiers::chooseUpdates(const Step &step, const Limits &limits, const Rates &rates) {
  ByCount times(step, limits, rates);
  size_t n = times.size(), best = 0;
  double alone = std::accumulate(step.seconds.begin(), step.seconds.end(), 0.0);
  if (n == 0 || times.seconds(0) <= alone)
    return times.first(0);
  auto attempt = [&](size_t count) {
    if (times.seconds(count) < times.seconds(best))
      best = count;
  };
  for (size_t part = 1; part <= kParts; ++part)
    attempt(n * part / kParts);
  size_t width = n / kParts;
  for (int i = 0; i < kHalvings; ++i) {
    width = std::max<size_t>(1, width / 2);
    size_t middle = best;
    attempt(middle - std::min(middle, width));
    attempt(std::min(n, middle + width));
  }
  return times.first(times.seconds(best) < kGain * times.seconds(0) ? best : 0);
}
