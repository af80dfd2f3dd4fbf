// What a program holds over a step, short enough for a page.
#include "lib/Driver/Page/Parts.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>

using namespace tessera;
using namespace tessera::page;

/// Of all stages together, and of each.
static constexpr size_t kMostMoments = 4000, kMostHeld = 30, kMostMoves = 200;

// [position, operator, bytes by category ..., host, nvme, ...]: where there are too many, of neighbours the
// fullest.
static Json momentsJson(const MemoryTide &tide, size_t most, Texts &texts) {
  Json list = Json::array();
  size_t count = tide.moments.size(), together = (count + most - 1) / most;
  auto device = [&](size_t i) {
    const auto &by = tide.moments[i].by;
    return std::accumulate(by.begin(), by.end(), int64_t(0));
  };
  for (size_t begin = 0; begin < count; begin += together) {
    size_t fullest = begin;
    for (size_t i = begin; i < std::min(begin + together, count); ++i)
      if (device(i) > device(fullest))
        fullest = i;
    const MemoryTide::Moment &moment = tide.moments[fullest];
    list.insert(list.end(), {int64_t(fullest), texts.of(moment.operation)});
    for (int64_t bytes : moment.by)
      list.push_back(bytes);
    list.insert(list.end(), {moment.host, moment.nvme});
  }
  return list;
}

static Json heldJson(const MemoryTide &tide, Texts &texts) {
  Json list = Json::array();
  for (const MemoryTide::Held &each : llvm::ArrayRef(tide.held).take_front(kMostHeld))
    list.push_back({texts.of(each.name), each.category.str(), each.bytes});
  return list;
}

static int64_t bytesHeld(const MemoryTide &tide) {
  int64_t sum = 0;
  for (const MemoryTide::Held &each : tide.held)
    sum += each.bytes;
  return sum;
}

// What moves between the device and the host, the largest first: where each copy begins and is waited for.
static Json movesJson(const PlacedProgram &placed, Texts &texts) {
  struct Copy {
    const tiers::Move *move;
    bool up;
    int64_t start, wait;
  };
  std::vector<Copy> copies;
  const tiers::Step &step = placed.step;
  for (const tiers::Move &move : placed.plan.moves) {
    const std::vector<tiers::Use> &uses = step.values[move.value].uses;
    if (move.offload >= 0)
      copies.push_back({&move, false, move.offload, move.gone});
    if (!step.values[move.value].sinks(move.gap))
      copies.push_back({&move, true, move.prefetch, uses[(move.gap + 1) % uses.size()].position});
  }
  auto bytes = [&](const Copy &copy) { return step.values[copy.move->value].bytes; };
  llvm::stable_sort(copies, [&](const Copy &a, const Copy &b) { return bytes(a) > bytes(b); });
  std::vector<std::string> operators = placed.operators;
  operators.push_back("the step's end");
  auto operatorAt = [&](int64_t position) {
    return texts.of(operators[std::min(size_t(position), operators.size() - 1)]);
  };
  Json list = Json::array();
  for (const Copy &copy : llvm::ArrayRef(copies).take_front(kMostMoves)) {
    const PlacedValue &value = placed.values[copy.move->value];
    list.push_back({texts.of(value.name), texts.of(value.what), bytes(copy), copy.up ? "up" : "down",
                    operatorAt(copy.start), operatorAt(copy.wait)});
  }
  return {{"count", copies.size()}, {"largest", std::move(list)}};
}

Json page::memoryJson(const PageContent &content, Texts &texts) {
  if (!content.description || content.compilation.tides.empty())
    return nullptr;
  const rt::Description &description = *content.description;
  std::vector<const MemoryTide *> shown;
  for (const MemoryTide &tide : content.compilation.tides)
    if (tide.program == shownProgram(description).name)
      shown.push_back(&tide);
  Json stages = Json::array();
  for (const MemoryTide *tide : shown) {
    auto program = llvm::find_if(description.programs, [&](const rt::Program &each) {
      return each.name == tide->program && each.stage == tide->stage;
    });
    if (program == description.programs.end())
      continue;
    int threads = int(description.threads);
    Json by = Json::object();
    for (auto [name, bytes] : llvm::zip(rt::categoryNames, program->memory.device.by))
      by[name] = bytes;
    Json stage = {{"stage", tide->stage},
                  {"peak", program->memoryFor(threads).peak},
                  {"behind", program->memoryFor(threads).peak - tide->peak},
                  {"unused", tide->unused},
                  {"host_peak", program->memoryFor(threads, rt::Tier::Host).peak},
                  {"nvme_peak", program->memoryFor(threads, rt::Tier::Nvme).peak},
                  {"by", std::move(by)},
                  {"operators", tide->moments.size()},
                  {"moments", momentsJson(*tide, std::max<size_t>(kMostMoments / shown.size(), 50), texts)},
                  {"fullest", tide->fullest},
                  {"held", heldJson(*tide, texts)},
                  {"held_count", tide->held.size()},
                  {"held_bytes", bytesHeld(*tide)}};
    for (const PlacedProgram &placed : content.compilation.placed)
      if (placed.program == tide->function && !placed.plan.moves.empty())
        stage["moves"] = movesJson(placed, texts);
    stages.push_back(std::move(stage));
  }
  Json cap = Json::object();
  for (rt::Tier tier : rt::tiers)
    if (description.capacity[tier])
      cap[std::string(rt::nameOf(tier))] = *description.capacity[tier];
  return {{"categories", rt::categoryNames}, {"cap", std::move(cap)}, {"stages", std::move(stages)}};
}
