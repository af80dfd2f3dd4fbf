#include "passes/Tiers/Policies/Demand.h"
#include "passes/Tiers/Tiers.h"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

using namespace tessera::tiers;

namespace {

class Walk {
public:
  Walk(const Step &step, const DemandRules &rules)
      : step(step), rules(rules), n(static_cast<int64_t>(step.seconds.size())), below(step.values.size()),
        usedAt(n + 1) {
    for (size_t v = 0; v < below.size(); ++v) {
      below[v] = step.values[v].below || (step.values[v].rests && rules.rules[v] == Rule::Streamed);
      for (const Use &use : step.values[v].uses)
        usedAt[use.position].push_back(v);
    }
  }
  /// What leaves in the course of a step was not there at its beginning: the walk is done again until it is
  /// so from the beginning.
  std::optional<std::vector<Move>> run() {
    for (changed = true; changed;)
      if (changed = false; !walk())
        return std::nullopt;
    return moves;
  }

private:
  struct State {
    bool present = true, valid = false; // on the device; on the host
    int last = -1;                      // the use before now
    int open = -1;                      // the move that has it away
  };
  bool walk();
  bool makeRoom(int64_t p);
  void putAway(size_t v, int64_t p);
  void fetch(size_t v, int64_t p);
  int64_t positionOfNext(size_t v) const;
  bool mayLeave(size_t v, int64_t p) const;

  const Step &step;
  const DemandRules &rules;
  int64_t n;
  std::vector<bool> below;
  std::vector<std::vector<size_t>> usedAt;
  bool changed = false;
  std::vector<State> states;
  std::vector<Move> moves;
  int64_t away = 0; // bytes of what is alive and not there
};

int64_t Walk::positionOfNext(size_t v) const {
  const Value &value = step.values[v];
  size_t next = states[v].last + 1;
  if (value.uses.empty())
    return -1; // never
  return next < value.uses.size() ? value.uses[next].position : n + value.uses[0].position;
}

bool Walk::mayLeave(size_t v, int64_t p) const {
  const State &state = states[v];
  const Value &value = step.values[v];
  if (value.uses.empty() || !state.present || rules.rules[v] == Rule::Stays || positionOfNext(v) == p)
    return false;
  if (value.sinksInto >= 0 && !value.sinks(state.last))
    return false;
  return value.rests || (state.last >= 0 && (positionOfNext(v) < n || value.sinks(state.last)));
}

void Walk::putAway(size_t v, int64_t p) {
  const Value &value = step.values[v];
  State &state = states[v];
  state.present = false;
  away += value.bytes;
  if (value.rests && !below[v])
    below[v] = changed = true;
  if (state.last < 0) // has left before the step began: the next walk knows
    return;
  int64_t offload = state.valid ? -1 : p;
  state.valid = true;
  state.open = static_cast<int>(moves.size());
  bool round = state.last + 1 == static_cast<int>(value.uses.size());
  if (value.sinks(state.last)) {
    moves.push_back({static_cast<int>(v), state.last, offload, offload, n});
    return;
  }
  moves.push_back({static_cast<int>(v), state.last, offload, offload, round ? value.uses[0].position : -1});
}

void Walk::fetch(size_t v, int64_t p) {
  State &state = states[v];
  state.present = true;
  away -= step.values[v].bytes;
  if (state.open >= 0)
    moves[state.open].prefetch = p;
  state.open = -1;
}

bool Walk::makeRoom(int64_t p) {
  while (step.bytes[p] - away > rules.capacity[p]) {
    std::optional<std::pair<int64_t, size_t>> best;
    for (size_t v = 0; v < states.size(); ++v) {
      if (!mayLeave(v, p))
        continue;
      const Value &value = step.values[v];
      int last = states[v].last;
      int64_t key =
          rules.key(last < 0 ? value.uses.back().position - n : value.uses[last].position, positionOfNext(v));
      if (!best || key > best->first)
        best = {key, v};
    }
    if (!best)
      return false;
    putAway(best->second, p);
  }
  return true;
}

bool Walk::walk() {
  states.assign(step.values.size(), {});
  moves.clear();
  away = 0;
  for (size_t v = 0; v < states.size(); ++v)
    if (below[v] && !step.values[v].uses.empty()) {
      states[v].present = false;
      states[v].valid = true;
      away += step.values[v].bytes;
    }
  for (int64_t p = 0; p < n; ++p) {
    for (size_t v : p > 0 ? usedAt[p - 1] : std::vector<size_t>())
      if (rules.rules[v] == Rule::Streamed && mayLeave(v, p))
        putAway(v, p);
    for (size_t v : usedAt[p])
      if (!states[v].present)
        fetch(v, p);
    if (!makeRoom(p))
      return false;
    for (size_t v : usedAt[p])
      if (step.values[v].uses[++states[v].last].writes)
        states[v].valid = false;
  }
  for (size_t v = 0; v < states.size(); ++v)
    if (states[v].present && step.values[v].sinks(states[v].last)) {
      putAway(v, n);
    } else if (below[v] && states[v].present && !step.values[v].uses.empty()) {
      putAway(v, n);
      if (Move &move = moves.back(); move.offload >= 0)
        move.offload = step.values[v].uses.back().position + 1;
    }
  return true;
}

/// Where a move's value is used next.
int64_t need(const Step &step, const Move &move) {
  const std::vector<Use> &uses = step.values[move.value].uses;
  return uses[(move.gap + 1) % uses.size()].position;
}

} // namespace

std::optional<std::vector<Move>> tessera::tiers::fetchOnDemand(const Step &step, const DemandRules &rules) {
  std::optional<std::vector<Move>> moves = Walk(step, rules).run();
  if (moves)
    std::sort(moves->begin(), moves->end(), [&](const Move &a, const Move &b) {
      return std::tuple(need(step, a), a.value, a.gap) < std::tuple(need(step, b), b.value, b.gap);
    });
  return moves;
}

void tessera::tiers::overlapOne(const Step &step, std::vector<Move> &moves, int64_t capacity) {
  std::vector<int64_t> device = deviceBytes(step, moves), starts, needs;
  for (const Move &move : moves) {
    needs.push_back(move.prefetch);
    if (move.offload >= 0)
      starts.push_back(move.offload);
  }
  std::sort(needs.begin(), needs.end());
  std::sort(starts.begin(), starts.end());
  auto n = static_cast<int64_t>(device.size());
  for (Move &move : moves) {
    const Value &value = step.values[move.value];
    bool round = move.gap + 1 == static_cast<int>(value.uses.size());
    int64_t room = capacity - value.bytes;
    auto behind = std::upper_bound(starts.begin(), starts.end(), move.offload);
    int64_t latest = behind == starts.end() ? n : *behind;
    if (move.offload >= 0)
      for (latest = std::min(latest, round ? n : move.prefetch);
           move.gone < latest && device[move.gone] <= room; ++move.gone)
        device[move.gone] += value.bytes;
    auto before = std::lower_bound(needs.begin(), needs.end(), move.prefetch);
    int64_t earliest = before == needs.begin() ? 0 : *(before - 1);
    if (!round)
      earliest = std::max(earliest, move.offload >= 0 ? move.gone : value.uses[move.gap].position + 1);
    while (!value.sinks(move.gap) && move.prefetch > earliest && device[move.prefetch - 1] <= room)
      device[--move.prefetch] += value.bytes;
  }
}

std::vector<int64_t> tessera::tiers::bytesOf(const Step &step,
                                             const std::function<bool(const Value &)> &counts) {
  std::vector<int64_t> bytes(step.bytes.size());
  for (const Value &value : step.values)
    if (counts(value))
      for (int64_t p = value.rests ? 0 : value.uses.front().position;
           p < (value.rests ? static_cast<int64_t>(bytes.size())
                            : std::min(value.uses.back().position + 1, static_cast<int64_t>(bytes.size())));
           ++p)
        bytes[p] += value.bytes;
  return bytes;
}
