// What ranks do when, as bars that a page can hold.
#include "lib/Driver/Page/Parts.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace tessera;
using namespace tessera::page;

namespace {

constexpr int64_t kTicks = 10'000'000;
/// A page of more is too large to be looked at, and to be sent to somebody.
constexpr size_t kMostBars = 40'000, kMostClasses = 24;

using Stream = rt::TimelineEvent::Stream;

struct Bar {
  int64_t begin, end, operation;
  int64_t cause = 0, traffic = 0; // of a wait
};

struct Lane {
  std::string name;
  std::vector<Bar> bars, waits;
  double seconds = 0; // that it is busy
};

struct RankClass {
  const rt::RankTimeline *timeline;
  std::vector<Lane> lanes;
};

/// Operations as a reader sees them: those of equal name, sizes and work are one.
class Operations {
public:
  Operations(const PageContent &content, Texts &texts) : texts(texts) {
    if (content.compilation.facts)
      for (const OperatorFact &fact : content.compilation.facts->operators)
        if (fact.isForward && fact.move.empty() && !fact.node.empty())
          facts.emplace(fact.node, &fact);
  }

  int64_t of(const rt::Operation &op) {
    auto [seen, isFirst] = numbers.emplace(&op, 0);
    if (isFirst)
      seen->second = add(op);
    return seen->second;
  }
  Json json() && { return std::move(list); }

private:
  int64_t add(const rt::Operation &op) {
    auto found = facts.find(op.name);
    Json entry = {texts.of(op.name),
                  texts.of(op.profile),
                  texts.of(sizes(op)),
                  texts.of(found == facts.end() ? "" : types(*found->second)),
                  texts.of(found == facts.end() ? "" : found->second->module),
                  int64_t(op.work.flops),
                  op.bytesRead,
                  op.bytesWritten};
    auto [known, isNew] =
        entries.emplace(entry.dump(-1, ' ', false, Json::error_handler_t::replace), int64_t(list.size()));
    if (isNew)
      list.push_back(std::move(entry));
    return known->second;
  }

  static std::string sizes(const rt::Operation &op) {
    std::string text;
    auto append = [&](const std::string &name, const std::string &value) {
      text += (text.empty() ? "" : ", ") + name + " " + value;
    };
    switch (op.kind) {
    case rt::Operation::Kind::Kernel:
      append("rows", std::to_string(op.extent));
      break;
    case rt::Operation::Kind::Collective: {
      std::string shape;
      for (int64_t extent : op.collective.request.shape)
        shape += (shape.empty() ? "" : " x ") + std::to_string(extent);
      append("local", shape);
      break;
    }
    case rt::Operation::Kind::Send:
    case rt::Operation::Kind::Receive:
      append("bytes", std::to_string(op.message.bytes));
      break;
    default:
      if (op.attrs->is_object())
        for (auto &[name, value] : op.attrs->items())
          if (name != "workspace" && (value.is_number_integer() || name == "shape"))
            append(name, value.dump());
    }
    return text;
  }

  static std::string types(const OperatorFact &fact) {
    return llvm::join(fact.operands, "; ") + " -> " + llvm::join(fact.results, "; ");
  }

  Texts &texts;
  std::map<std::string, const OperatorFact *> facts; // by node
  std::map<const rt::Operation *, int64_t> numbers;
  std::map<std::string, int64_t> entries;
  Json list = Json::array();
};

} // namespace

static std::vector<Lane> lanesOf(const rt::RankTimeline &timeline, const rt::Simulation &step,
                                 Operations &operations) {
  std::vector<Lane> lanes = {{"compute", {}, {}}};
  std::map<std::string, size_t> numbers = {{"compute", 0}};
  auto tick = [&](double seconds) {
    return step.seconds > 0 ? std::llround(seconds / step.seconds * kTicks) : 0;
  };
  for (const rt::TimelineEvent &event : timeline.events) {
    std::string name = rt::laneOf(event, step);
    auto [entry, isNew] = numbers.emplace(name, lanes.size());
    if (isNew)
      lanes.push_back({name, {}, {}});
    Lane &lane = lanes[entry->second];
    bool waits = event.stream == Stream::Wait;
    std::vector<Bar> &bars = waits ? lane.waits : lane.bars;
    // A message waits for the one before it.
    int64_t begin = std::max<int64_t>(tick(event.begin), bars.empty() ? 0 : bars.back().end);
    bars.push_back({begin, std::max<int64_t>(begin, tick(event.end)), operations.of(*event.op),
                    int64_t(event.cause), int64_t(event.traffic)});
    if (!waits)
      lane.seconds += event.end - event.begin;
  }
  // Compute first, then by name: stable whatever came first.
  std::stable_sort(lanes.begin() + 1, lanes.end(),
                   [](const Lane &a, const Lane &b) { return a.name < b.name; });
  return lanes;
}

// What is shorter than `shortest` is drawn as one with its neighbours of the same cause that are as close.
static std::vector<Bar> drawnTogether(const std::vector<Bar> &bars, int64_t shortest) {
  std::vector<Bar> result;
  auto isShort = [&](const Bar &bar) { return bar.end - bar.begin < shortest; };
  bool mayGrow = false;
  for (const Bar &bar : bars) {
    if (mayGrow && isShort(bar) && bar.cause == result.back().cause &&
        bar.begin - result.back().end < shortest) {
      Bar &last = result.back();
      last.operation = last.operation >= 0 ? -2 : last.operation - 1;
      last.end = bar.end;
      continue;
    }
    result.push_back(bar);
    mayGrow = isShort(bar);
  }
  return result;
}

static int64_t shortestThatFits(const std::vector<RankClass> &classes) {
  for (int64_t shortest = 0;; shortest += 16 + shortest / 4) {
    size_t count = 0;
    for (const RankClass &each : classes)
      for (const Lane &lane : each.lanes)
        count += drawnTogether(lane.bars, shortest).size() + drawnTogether(lane.waits, shortest).size();
    if (count <= kMostBars || shortest >= kTicks)
      return shortest;
  }
}

static Json barsJson(const std::vector<Bar> &bars, bool waits) {
  Json list = Json::array();
  int64_t until = 0;
  for (const Bar &bar : bars) {
    list.insert(list.end(), {bar.begin - until, bar.end - bar.begin, bar.operation});
    if (waits)
      list.insert(list.end(), {bar.cause, bar.traffic});
    until = bar.end;
  }
  return list;
}

// Of many classes those that matter: the first of each stage, and those that compute longest.
static std::vector<const rt::RankTimeline *> shownClasses(const rt::Simulation &step) {
  std::vector<const rt::RankTimeline *> order, rest;
  std::set<const rt::Program *> stages;
  for (const rt::RankTimeline &each : step.timelines)
    (stages.insert(each.program).second ? order : rest).push_back(&each);
  auto computing = [](const rt::RankTimeline *each) {
    double sum = 0;
    for (const rt::TimelineEvent &event : each->events)
      sum += event.stream == Stream::Work ? event.end - event.begin : 0;
    return sum;
  };
  if (step.timelines.size() > kMostClasses) {
    std::map<const rt::RankTimeline *, double> seconds;
    for (const rt::RankTimeline *each : rest)
      seconds[each] = computing(each);
    llvm::stable_sort(rest, [&](auto *a, auto *b) { return seconds[a] > seconds[b]; });
  }
  order.insert(order.end(), rest.begin(), rest.end());
  order.resize(std::min(order.size(), kMostClasses));
  llvm::sort(order, [](auto *a, auto *b) { return a->rank < b->rank; });
  return order;
}

Json page::timelineJson(const PageContent &content, Texts &texts) {
  const rt::Simulation &step = *content.step;
  Operations operations(content, texts);
  std::vector<RankClass> classes;
  for (const rt::RankTimeline *timeline : shownClasses(step))
    classes.push_back({timeline, lanesOf(*timeline, step, operations)});
  int64_t shortest = shortestThatFits(classes);
  Json list = Json::array();
  for (const RankClass &each : classes) {
    const rt::RankTimeline &timeline = *each.timeline;
    Json lanes = Json::array();
    for (const Lane &lane : each.lanes)
      lanes.push_back({{"name", lane.name},
                       {"operations", lane.bars.size()},
                       {"seconds", lane.seconds},
                       {"bars", barsJson(drawnTogether(lane.bars, shortest), false)},
                       {"waits", barsJson(drawnTogether(lane.waits, shortest), true)}});
    list.push_back({{"rank", timeline.rank},
                    {"ranks", timeline.ranks},
                    {"stage", timeline.program->stage},
                    {"dropped", timeline.dropped},
                    {"lanes", std::move(lanes)}});
  }
  Json traffic = Json::array();
  for (const rt::Simulation::Traffic &each : step.traffic)
    traffic.push_back({texts.of(each.axes), texts.of(each.kind), each.level});
  return {{"ticks", kTicks},
          {"shortest", shortest},
          {"classes_left_out", step.timelines.size() - classes.size()},
          {"causes", {"transfer", "ranks", "stages", "copies"}},
          {"traffic", std::move(traffic)},
          {"operations", std::move(operations).json()},
          {"classes", std::move(list)}};
}
