// --report: the facts of a compilation as JSON, or as a page that shows the same JSON.
#include "lib/Driver/Compile.h"
#include "lib/Driver/Report.h"
#include "lib/Driver/ReportPage.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/ToolOutputFile.h"

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
    json::Object object{{"program", fact.program}, {"node", fact.node}, {"module", fact.module}, {"forward", fact.isForward}};
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
    parameters.push_back(json::Object{{"name", fact.name}, {"source", fact.source}, {"transposed", fact.transposed}, {"type", fact.type},
                                      {"trained", fact.trained}, {"replicated", fact.isReplicated}, {"why", fact.why}});
  for (const PaddingFact &fact : facts.paddings)
    paddings.push_back(json::Object{{"size", fact.size}, {"padded", fact.padded}, {"values", fact.values}, {"first", fact.example}});
  root["mesh"] = std::move(mesh);
  root["microbatches"] = facts.microbatches;
  root["operators"] = std::move(operators);
  root["reshards"] = std::move(reshards);
  root["parameters"] = std::move(parameters);
  root["padded"] = std::move(paddings);
}

// The page with the report in it, which its script reads.
static std::string page(std::string report) {
  // Inside of strings only, where "\\u003c" is the same character: "</script>" would end the script.
  for (size_t at; (at = report.find('<')) != std::string::npos;)
    report.replace(at, 1, "\\u003c");
  auto [before, after] = StringRef(kReportPage).split("REPORT_JSON");
  return (llvm::Twine(before) + report + after).str();
}

LogicalResult tessera::writeReport(const Compilation &compilation, const std::string &path) {
  Location here = UnknownLoc::get(&compilation.context);
  json::Object root{{"model", compilation.options.model}}, phases;
  if (compilation.facts)
    addFacts(*compilation.facts, root);
  // The figures that the program promises, by program.
  if (llvm::Expected<json::Value> description = json::parse(compilation.description)) {
    json::Object memory, sent, estimates;
    if (const json::Object *object = description->getAsObject())
      if (const json::Array *programs = object->getArray("programs"))
        for (const json::Value &value : *programs)
          if (const json::Object *program = value.getAsObject()) {
            std::string name = program->getString("name")->str();
            memory[name] = *program->get("memory");
            sent[name] = *program->get("sent");
            estimates[name] = *program->get("step_seconds");
          }
    root["memory"] = std::move(memory);
    root["sent"] = std::move(sent);
    root["step_seconds"] = std::move(estimates);
  } else {
    llvm::consumeError(description.takeError()); // no description: --to an earlier phase
  }
  for (auto &[phase, seconds] : compilation.seconds)
    phases[phase] = seconds;
  root["seconds"] = std::move(phases);
  std::string message;
  auto file = openOutputFile(path, &message);
  if (!file)
    return emitError(here) << message;
  std::string text = llvm::formatv("{0:2}\n", json::Value(std::move(root)));
  file->os() << (StringRef(path).ends_with(".html") ? page(text) : text);
  file->keep();
  return success();
}
