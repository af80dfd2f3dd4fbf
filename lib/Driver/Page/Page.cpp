// See Page.h.
#include "lib/Driver/Page/Page.h"
#include "lib/Driver/Page/Parts.h"
#include "lib/Driver/Page/Template.h"
#include "lib/Driver/Report.h"
#include "mlir/IR/Diagnostics.h"
#include "runtime/core/error.h"

using namespace mlir;
using namespace tessera;
using page::Json;

const rt::Program &tessera::shownProgram(const rt::Description &description) {
  const rt::Program *program = description.findProgram("train");
  return program ? *program : *description.findProgram("infer");
}

static Json stepJson(const PageContent &content) {
  const rt::Simulation &step = *content.step;
  const rt::Description &description = *content.description;
  Json machine;
  if (description.rates)
    machine = description.rates->name;
  return {{"program", shownProgram(description).name},
          {"seconds", step.seconds},
          {"ranks", description.mesh.size()},
          {"simulated_ranks", step.classes},
          {"machine", std::move(machine)},
          {"computing", step.computing},
          {"idle",
           {{"ranks", step.waitsForRanks},
            {"stages", step.waitsForStages},
            {"copies", step.waitsForCopies},
            {"end", step.waitsForEnd}}},
          {"flops", step.flops},
          {"mfu", step.mfu}};
}

// The page with the data in it, which its script reads.
static std::string filled(const Json &data) {
  std::string json = data.dump(-1, ' ', false, Json::error_handler_t::replace), safe;
  // Inside of strings only, where "\\u003c" is the same character: "</script>" would end the script.
  for (char c : json)
    safe += c == '<' ? "\\u003c" : std::string(1, c);
  auto [before, after] = StringRef(kPageTemplate).split("STEP_JSON");
  return (before + safe + after).str();
}

LogicalResult tessera::writePage(const PageContent &content, const std::string &path) {
  page::Texts texts;
  FailureOr<Json> measured = page::measuredJson(content);
  if (failed(measured))
    return failure();
  Json data = {{"model", content.compilation.options.model}};
  data["step"] = content.step ? stepJson(content) : Json();
  data["timeline"] = content.step ? page::timelineJson(content, texts) : Json();
  data["memory"] = page::memoryJson(content, texts);
  data["plan"] = page::planJson(content, texts);
  data["communication"] = content.step ? page::communicationJson(content) : Json();
  data["alternatives"] = page::alternativesJson(content);
  data["measured"] = std::move(*measured);
  data["texts"] = std::move(texts).json();
  return writeText(content.compilation.context, path, filled(data));
}

LogicalResult tessera::writePage(const Compilation &compilation, const std::string &path,
                                 std::vector<Alternative> alternatives) {
  if (compilation.description.empty())
    return writePage({compilation, nullptr, nullptr, std::move(alternatives)}, path);
  rt::Description description = rt::parseDescription(compilation.description);
  std::optional<rt::Machine> machine = rt::machineOf(description);
  if (!machine)
    return writePage({compilation, &description, nullptr, std::move(alternatives)}, path);
  try {
    rt::SimulateOptions how;
    how.records = true;
    rt::Simulation step = rt::simulate(description, shownProgram(description).name, *machine, how);
    return writePage({compilation, &description, &step, std::move(alternatives)}, path);
  } catch (const rt::Error &error) { // of text whose stages do not fit each other
    return emitError(UnknownLoc::get(&compilation.context)) << error.what();
  }
}
