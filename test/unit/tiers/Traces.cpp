#include "Traces.h"
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <set>
#include <string>
#include <tuple>

using namespace tessera::tiers;

int64_t tessera::tiers::between(Random &random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

std::vector<int64_t> tessera::tiers::keepingAll(const Step &step, int64_t other) {
  std::vector<int64_t> bytes(step.seconds.size(), other);
  for (const Value &value : step.values)
    for (int64_t p = 0; p < static_cast<int64_t>(bytes.size()); ++p)
      if (value.rests || (value.uses.front().position <= p && p <= value.uses.back().position))
        bytes[p] += value.bytes;
  return bytes;
}

Step tessera::tiers::training(Random &random, const Network &network) {
  int64_t layers = network.layers, perLayer = 3; // forward; backward; update
  Step step;
  for (int64_t p = 0; p < perLayer * layers; ++p)
    step.seconds.push_back(static_cast<double>(between(random, 1, 10)));
  auto forward = [&](int64_t layer) { return layer; };
  auto backward = [&](int64_t layer) { return layers + 2 * (layers - 1 - layer); };
  auto update = [&](int64_t layer) { return backward(layer) + 1; };
  Value shared{between(random, 1, 10), true, {}, false, Kind::Parameter};
  for (int64_t i = 0; i < layers; ++i) {
    Value weight{between(random, 1, 10),
                 true,
                 {{forward(i)}, {backward(i)}, {update(i), true}},
                 false,
                 Kind::Parameter};
    if (!network.sharedWeight)
      step.values.push_back(weight);
    if (network.state)
      step.values.push_back({between(random, 1, 20), true, {{update(i), true}}, false, Kind::Optimizer});
    Value activation{between(random, 1, 10), false, {{forward(i)}, {backward(i)}}};
    if (network.skips && i < layers / 2 && forward(layers - 1 - i) > forward(i))
      activation.uses.insert(activation.uses.begin() + 1, {forward(layers - 1 - i)});
    step.values.push_back(activation);
    step.values.push_back({between(random, 1, 5), false, {{backward(i)}, {update(i)}}}); // the gradient
  }
  if (network.sharedWeight) {
    for (int64_t i = 0; i < layers; ++i)
      shared.uses.push_back({forward(i)});
    for (int64_t i = layers; i-- > 0;)
      shared.uses.push_back({backward(i)});
    shared.uses.push_back({update(0), true});
    step.values.push_back(shared);
  }
  step.bytes = keepingAll(step, between(random, 0, 3));
  return step;
}

Step tessera::tiers::anyStep(Random &random, int64_t positions, int64_t values) {
  Step step;
  for (int64_t p = 0; p < positions; ++p)
    step.seconds.push_back(static_cast<double>(between(random, 0, 10)));
  for (int64_t i = 0; i < values; ++i) {
    std::set<int64_t> uses;
    for (int64_t k = between(random, 1, 4); k > 0; --k)
      uses.insert(between(random, 0, positions - 1));
    Value value{between(random, 1, 10), between(random, 0, 1) == 1, {}};
    for (int64_t use : uses)
      value.uses.push_back({use, between(random, 0, 3) == 0});
    step.values.push_back(value);
  }
  step.bytes = keepingAll(step, between(random, 0, 3));
  return step;
}

std::vector<Move> tessera::tiers::anyMoves(Random &random, const Step &step) {
  auto n = static_cast<int64_t>(step.seconds.size());
  std::vector<Move> moves;
  for (size_t v = 0; v < step.values.size(); ++v) {
    const Value &value = step.values[v];
    int gaps = static_cast<int>(value.uses.size()) - (value.rests ? 0 : 1);
    std::vector<bool> moved(gaps);
    for (int gap = 0; gap < gaps; ++gap)
      moved[gap] = between(random, 0, 2) > 0;
    if (value.rests && std::count(moved.begin(), moved.end(), true) > 0)
      moved[gaps - 1] = true;
    bool valid = value.rests && moved[gaps - 1];
    for (int gap = 0; gap < gaps; ++gap) {
      bool last = gap + 1 == static_cast<int>(value.uses.size());
      int64_t use = value.uses[gap].position, next = last ? n : value.uses[gap + 1].position;
      valid = valid && !value.uses[gap].writes;
      if (!moved[gap])
        continue;
      Move move{static_cast<int>(v), gap};
      if (!valid) {
        move.offload = between(random, use + 1, next);
        move.gone = between(random, move.offload, next);
      }
      int64_t earliest = valid ? use + 1 : move.gone;
      move.prefetch = last ? between(random, 0, value.uses[0].position) : between(random, earliest, next);
      moves.push_back(move);
      valid = true;
    }
  }
  std::shuffle(moves.begin(), moves.end(), random);
  return moves;
}

std::string tessera::tiers::whyWrong(const Step &step, const std::vector<Move> &moves) {
  auto n = static_cast<int64_t>(step.seconds.size());
  std::set<std::pair<int, int>> moved;
  for (const Move &move : moves)
    if (!moved.insert({move.value, move.gap}).second)
      return "a gap is moved twice";
  for (size_t v = 0; v < step.values.size(); ++v)
    if (step.values[v].below && !step.values[v].uses.empty() &&
        !moved.contains({static_cast<int>(v), static_cast<int>(step.values[v].uses.size()) - 1}))
      return "what rests on the host has no home there";
  for (const Move &move : moves) {
    const Value &value = step.values[move.value];
    int uses = static_cast<int>(value.uses.size());
    if (move.gap < 0 || move.gap >= uses - (value.rests ? 0 : 1))
      return "no such gap";
    if (value.rests && !moved.contains({move.value, uses - 1}))
      return "what rests on the device leaves it";
    bool last = move.gap + 1 == uses;
    int64_t use = value.uses[move.gap].position;
    int64_t next = last ? n : value.uses[move.gap + 1].position;
    // Back through the uses and gaps before this one, to a copy or to a use that makes it stale.
    bool valid = false;
    for (int at = move.gap; !valid && !value.uses[at].writes; --at) {
      valid = moved.contains({move.value, at > 0 ? at - 1 : value.rests ? uses - 1 : -1});
      if (at == 0)
        break;
    }
    if (valid != (move.offload == -1) || valid != (move.gone == -1))
      return valid ? "offloaded although a copy is valid" : "not offloaded, and no copy is valid";
    if (!valid && !(use < move.offload && move.offload <= move.gone && move.gone <= next))
      return "the offload is not within the gap";
    int64_t earliest = last ? 0 : valid ? use + 1 : move.gone;
    if (!(earliest <= move.prefetch && move.prefetch <= value.uses[(move.gap + 1) % uses].position))
      return "the prefetch is not within the gap";
  }
  return "";
}

double tessera::tiers::largestLoad(const Step &step, const std::vector<Move> &moves, const Rates &rates) {
  double compute = std::accumulate(step.seconds.begin(), step.seconds.end(), 0.0), down = 0, up = 0;
  for (const Move &move : moves) {
    auto bytes = static_cast<double>(step.values[move.value].bytes);
    if (move.offload >= 0)
      down += rates.latency + bytes / rates.bytesDown;
    up += rates.latency + bytes / rates.bytesUp;
  }
  return std::max({compute, down, up});
}
