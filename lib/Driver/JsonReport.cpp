// --report FILE.json: the facts of a compilation.
#include "lib/Driver/Compile.h"
#include "lib/Driver/Report.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Support/FileUtilities.h"
#include "runtime/core/error.h"
#include "runtime/device/attention_order.h"
#include "runtime/program/description.h"
#include "runtime/simulate/simulate.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace tessera;
namespace json = llvm::json;

static json::Array list(const std::vector<std::string> &texts) {
  json::Array array;
  for (const std::string &text : texts)
    array.push_back(text);
  return array;
}

static void addFacts(const Facts &facts, json::Object &root) {
  json::Object mesh;
  for (auto &[axis, size] : facts.mesh)
    mesh[axis] = size;
  json::Array operators, reshards, parameters, paddings;
  for (const OperatorFact &fact : facts.operators) {
    json::Object object{
        {"program", fact.program}, {"node", fact.node}, {"module", fact.module}, {"forward", fact.isForward}};
    if (fact.move.empty()) {
      object["kind"] = fact.kind;
      object["pattern"] = fact.pattern;
      object["origin"] = fact.origin;
      object["operands"] = list(fact.operands);
      object["results"] = list(fact.results);
      object["held_bytes"] = fact.heldBytes;
      object["repeated_over"] = list(fact.whole);
      operators.push_back(std::move(object));
      continue;
    }
    const MoveFact &move = fact.move.front();
    object["from"] = move.from;
    object["to"] = move.to;
    object["collectives"] = list(move.collectives);
    object["bytes"] = int64_t(move.bytes);
    object["seconds"] = move.seconds;
    reshards.push_back(std::move(object));
  }
  for (const ParameterFact &fact : facts.parameters)
    parameters.push_back(json::Object{{"name", fact.name},
                                      {"source", fact.source},
                                      {"transposed", fact.transposed},
                                      {"type", fact.type},
                                      {"trained", fact.trained},
                                      {"replicated", fact.isReplicated},
                                      {"why", fact.why}});
  for (const PaddingFact &fact : facts.paddings)
    paddings.push_back(json::Object{
        {"size", fact.size}, {"padded", fact.padded}, {"values", fact.values}, {"first", fact.example}});
  root["mesh"] = std::move(mesh);
  root["microbatches"] = facts.microbatches;
  root["operators"] = std::move(operators);
  root["reshards"] = std::move(reshards);
  root["parameters"] = std::move(parameters);
  root["padded"] = std::move(paddings);
}

// How many pairs of a query and a key each rank's attention works on in a step of a program, forward and
// backward: the part of its work that is not the same on every rank by construction.
static json::Array attentionPairs(const rt::Description &description, const rt::Program &program) {
  json::Array ranks;
  for (int rank = 0; rank < description.mesh.size(); ++rank) {
    rt::Coordinates where = description.mesh.coordinates(rank);
    int64_t pairs = 0, times = 1;
    for (const rt::Operation &op : description.findProgram(program.name, rank)->operations) {
      if (op.kind == rt::Operation::Kind::Loop)
        times = op.times;
      if (op.kind == rt::Operation::Kind::End)
        times = 1;
      if (op.kind != rt::Operation::Kind::Call || op.symbol.rfind("attention_", 0) != 0)
        continue;
      auto size = [&](const char *name) { return op.attrs->at(name).get<int64_t>(); };
      auto scalar = [&](size_t i, int64_t otherwise) {
        return i < op.scalars.size() ? rt::evaluate(op.scalars[i], description.mesh, where) : otherwise;
      };
      int64_t validS = scalar(0, size("s")), validT = scalar(1, size("t")), startS = scalar(2, 0),
              startT = scalar(3, 0), seen = 0;
      bool causal = op.attrs->value("causal", false);
      int64_t zigzag = op.attrs->value("zigzag", int64_t(0));
      for (int64_t i = 0; i < validS; ++i)
        seen += causal ? rt::visibleKeys({startS, size("s"), zigzag}, {startT, size("t"), zigzag}, i, validT)
                       : validT;
      pairs += times * size("batch") * size("kv_heads") * size("group") * seen;
    }
    ranks.push_back(pairs);
  }
  return ranks;
}

// What each tier holds over a step, operator by operator, and what moves meanwhile.
static json::Object tideJson(const PlacedProgram &placed) {
  const tiers::Step &step = placed.step;
  json::Array moves, seconds = json::Array(tiers::timeline(step, placed.plan, placed.rates));
  auto add = [&](const tiers::Move &move, StringRef direction, int64_t start, int64_t wait) {
    const PlacedValue &value = placed.values[move.value];
    moves.push_back(json::Object{{"value", value.name},
                                 {"what", value.what},
                                 {"bytes", step.values[move.value].bytes},
                                 {"direction", direction},
                                 {"start", start},
                                 {"wait", wait}});
  };
  for (const tiers::Move &move : placed.plan.moves) {
    const std::vector<tiers::Use> &uses = step.values[move.value].uses;
    if (move.offload >= 0)
      add(move, "device_to_host", move.offload, move.gone);
    if (!step.values[move.value].sinks(move.gap))
      add(move, "host_to_device", move.prefetch, uses[(move.gap + 1) % uses.size()].position);
  }
  bool isCapped = placed.limits.device != INT64_MAX;
  return json::Object{{"operators", list(placed.operators)},
                      {"seconds", std::move(seconds)},
                      {"device", json::Array(tiers::deviceBytes(step, placed.plan.moves))},
                      {"host", json::Array(tiers::hostBytes(step, placed.plan.moves))},
                      {"cap", isCapped ? json::Value(placed.limits.device) : json::Value(nullptr)},
                      {"moves", std::move(moves)}};
}

LogicalResult tessera::writeReport(const Compilation &compilation, const std::string &path) {
  json::Object root{{"model", compilation.options.model}}, phases;
  if (compilation.facts)
    addFacts(*compilation.facts, root);
  if (compilation.next > Phase::Schedule) {
    json::Array streams;
    for (const StreamFact &fact : compilation.streams)
      streams.push_back(json::Object{{"program", fact.program},
                                     {"node", fact.node},
                                     {"axes", fact.axes},
                                     {"broadcasts", fact.count},
                                     {"bytes", fact.bytes},
                                     {"algorithm", fact.algorithm},
                                     {"seconds", fact.seconds}});
    root["streams"] = std::move(streams);
    json::Object tides;
    for (const PlacedProgram &placed : compilation.placed)
      tides[placed.program] = tideJson(placed);
    root["tide"] = std::move(tides);
  }
  // The figures that the program promises, by program.
  if (llvm::Expected<json::Value> description = json::parse(compilation.description)) {
    json::Object memory, sent, estimates;
    if (const json::Object *object = description->getAsObject())
      if (const json::Array *programs = object->getArray("programs"))
        for (const json::Value &value : *programs)
          if (const json::Object *program = value.getAsObject()) {
            std::string name = program->getString("name")->str();
            // Of a pipeline's stages the one that needs most memory.
            const json::Object *held = program->getObject("memory"), *before = memory.getObject(name);
            if (!before || *before->getNumber("peak") < held->getNumber("peak").value_or(0))
              memory[name] = *program->get("memory");
            sent[name] = *program->get("sent");
          }
    if (const json::Object *object = description->getAsObject(); object && object->getObject("pipeline"))
      root["pipeline"] = *object->get("pipeline");
    root["memory"] = std::move(memory);
    root["sent"] = std::move(sent);
    json::Object pairs;
    rt::Description parsed = rt::parseDescription(compilation.description);
    for (const rt::Program &program : parsed.programs)
      if (program.stage == 0) {
        try {
          estimates[program.name] = rt::estimatedSeconds(parsed, program.name);
        } catch (const rt::Error &error) { // of text whose stages do not fit each other
          return emitError(UnknownLoc::get(&compilation.context)) << error.what();
        }
      }
    root["step_seconds"] = std::move(estimates);
    for (const rt::Program &program : parsed.programs)
      if (json::Array ranks = attentionPairs(parsed, program);
          llvm::any_of(ranks, [](auto &pairs) { return pairs != json::Value(0); }))
        pairs[program.name] = std::move(ranks);
    root["attention_pairs"] = std::move(pairs);
  } else {
    llvm::consumeError(description.takeError()); // no description: --to an earlier phase
  }
  for (auto &[phase, seconds] : compilation.seconds)
    phases[phase] = seconds;
  root["seconds"] = std::move(phases);
  std::string text = llvm::formatv("{0:2}\n", json::Value(std::move(root)));
  return writeText(compilation.context, path, text);
}
