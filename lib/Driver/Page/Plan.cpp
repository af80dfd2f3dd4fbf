// The plan: the mesh on the machine's levels, the model unit by unit.
#include "lib/Driver/Page/Parts.h"
#include "passes/Assign/Fold.h"

using namespace mlir;
using namespace tessera;
using namespace tessera::page;

static constexpr int64_t kMostItems = 4000;

// By node: the first stage that works for it.
static std::map<std::string, int64_t> stageByNode(const rt::Description *description) {
  std::map<std::string, int64_t> stages;
  if (!description || description->pipelineAxis.empty())
    return stages;
  StringRef shown = shownProgram(*description).name;
  for (const rt::Program &program : description->programs)
    if (program.name == shown)
      for (const rt::Operation &op : program.operations)
        if (op.kind == rt::Operation::Kind::Kernel || op.kind == rt::Operation::Kind::Call) {
          auto [entry, isNew] = stages.emplace(op.name, program.stage);
          entry->second = std::min(entry->second, program.stage);
        }
  return stages;
}

namespace {

class Units {
public:
  Units(const PageContent &content, Texts &texts) : texts(texts), stages(stageByNode(content.description)) {
    const Facts &facts = *content.compilation.facts;
    // The training program has all that the inference program has.
    StringRef program;
    for (const OperatorFact &fact : facts.operators)
      if (program.empty() || fact.program == "train")
        program = fact.program;
    forward = forwardOf(facts, program);
  }

  Json json() {
    Json list = json(foldRepeats(forward.keys), false);
    return {{"operators", forward.operators.size()}, {"items", std::move(list)}, {"left_out", leftOut}};
  }

private:
  int64_t stageOf(const OperatorFact &fact) const {
    auto found = stages.find(fact.node);
    return found == stages.end() ? -1 : found->second;
  }

  Json json(const std::vector<Folded> &folded, bool isRepeated) {
    Json list = Json::array();
    for (const Folded &each : folded) {
      if (!each.inner.empty()) {
        Json unit = {{"times", each.times}, {"items", json(each.inner, true)}};
        if (Json range = stagesOf(each); !range.empty())
          unit["stages"] = std::move(range);
        list.push_back(std::move(unit));
        continue;
      }
      if (++count > kMostItems) {
        ++leftOut;
        continue;
      }
      list.push_back(item(*forward.operators[each.element], isRepeated));
    }
    return list;
  }

  // The first and the last stage of what is folded.
  Json stagesOf(const Folded &folded) const {
    int64_t first = -1, last = -1;
    for (size_t i = folded.element; i < folded.element + folded.count; ++i)
      if (int64_t stage = stageOf(*forward.operators[i]); stage >= 0) {
        first = first < 0 ? stage : std::min(first, stage);
        last = std::max(last, stage);
      }
    return first < 0 ? Json::array() : Json::array({first, last});
  }

  Json item(const OperatorFact &fact, bool isRepeated) {
    auto numbers = [&](const std::vector<std::string> &list) {
      Json result = Json::array();
      for (const std::string &each : list)
        result.push_back(texts.of(each));
      return result;
    };
    Json item = {{"node", texts.of(isRepeated && !fact.module.empty() ? "" : fact.node)},
                 {"module", texts.of(isRepeated ? moduleOfBlocks(fact.module) : fact.module)}};
    if (int64_t stage = stageOf(fact); stage >= 0 && !isRepeated)
      item["stage"] = stage;
    if (fact.move.empty()) {
      item["kind"] = texts.of(fact.kind);
      item["pattern"] = texts.of(fact.pattern);
      item["origin"] = texts.of(fact.origin);
      item["operands"] = numbers(fact.operands);
      item["results"] = numbers(fact.results);
      item["bytes"] = fact.heldBytes;
    } else {
      const MoveFact &move = fact.move.front();
      item["from"] = texts.of(move.from);
      item["to"] = texts.of(move.to);
      item["collectives"] = numbers(move.collectives);
      item["bytes"] = int64_t(move.bytes);
      item["seconds"] = move.seconds;
    }
    return item;
  }

  Texts &texts;
  std::map<std::string, int64_t> stages;
  ForwardFacts forward;
  int64_t count = 0, leftOut = 0;
};

} // namespace

// The innermost level that has all ranks of each group along an axis.
static int64_t levelOf(const rt::Mesh &mesh, const rt::Machine &machine, const std::string &axis,
                       int64_t size) {
  size_t level = 0;
  for (int64_t rank = 0; rank < mesh.size(); ++rank)
    for (int member : mesh.group({{axis, 1, size}}, rank).ranks)
      level = std::max(level, machine.levelOf(rank, member));
  return int64_t(level);
}

Json page::planJson(const PageContent &content, Texts &texts) {
  Json plan = Json::object();
  if (const rt::Description *description = content.description) {
    std::optional<rt::Machine> machine = rt::machineOf(*description);
    Json mesh = Json::array(), levels = Json::array();
    for (auto &[axis, size] : description->mesh.axes())
      mesh.push_back({{"axis", axis},
                      {"ranks", size},
                      {"level", machine ? Json(levelOf(description->mesh, *machine, axis, size)) : Json()}});
    if (machine)
      for (const rt::MachineFile::Level &level : machine->levels)
        levels.push_back({{"ranks", level.ranks},
                          {"bandwidth", level.bandwidth},
                          {"latency", level.latency},
                          {"links", level.links},
                          {"oversubscription", level.oversubscription}});
    plan["mesh"] = std::move(mesh);
    plan["levels"] = std::move(levels);
    plan["microbatches"] = description->micro;
    plan["pipeline"] = Json(description->pipeline);
  }
  plan["units"] = content.compilation.facts ? Units(content, texts).json() : Json();
  return plan;
}

Json page::communicationJson(const PageContent &content) {
  Json list = Json::array();
  for (const rt::Simulation::Traffic &each : content.step->traffic)
    if (each.sent.count > 0 || each.over.exposed + each.over.hidden > 0)
      list.push_back({{"axes", each.axes},
                      {"level", each.level},
                      {"kind", each.kind},
                      {"count", each.sent.count},
                      {"bytes", each.sent.bytes},
                      {"exposed", each.over.exposed},
                      {"hidden", each.over.hidden}});
  return list;
}
