// See SimulateCommand.h.
#include "runtime/simulate/simulate.h"
#include "lib/Driver/Judge.h"
#include "lib/Driver/Page/Page.h"
#include "lib/Driver/Report.h"
#include "lib/Driver/SimulateCommand.h"
#include "mlir/IR/Diagnostics.h"
#include "passes/Schedule/Sizes.h"
#include "runtime/app/figures.h"
#include "runtime/core/error.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace tessera;
using Json = nlohmann::ordered_json;

static int readHow(const SimulateCommand &command, rt::SimulateOptions &how) {
  for (const std::string &each : command.slow) {
    auto [rank, factor] = StringRef(each).split('=');
    int64_t number = 0;
    double times = 0;
    if (rank.getAsInteger(10, number) || !llvm::to_float(factor, times) || !(times > 0 && times <= 1e6))
      return usage("--slow=" + each + ": expected RANK=FACTOR, a rank and a number above 0, such as 1=1.3");
    how.slow[number] = times;
  }
  if (!llvm::to_float(StringRef(command.jitter), how.jitter) || !(how.jitter >= 0 && how.jitter < 1))
    return usage("--jitter=" + command.jitter + ": expected a number from 0 up to 1, such as 0.05");
  if (StringRef(command.seed).getAsInteger(10, how.seed))
    return usage("--seed=" + command.seed + ": expected a whole number");
  how.folds = !command.everyRank;
  how.records = !command.trace.empty() || !command.page.report.empty();
  return 0;
}

// `memory`, `sent` and `moved` as `info --json` has them.
static std::string jsonText(const rt::Description &description, const rt::Program &program,
                            const Verdict &verdict, const rt::Simulation &step, int threads) {
  rt::Figures figures = rt::promisedFigures(description, program, threads);
  figures.sent = step.sent;
  figures.moved = step.moved;
  figures.stepSeconds = step.seconds;
  Json info = Json::parse(rt::figuresJson(description, program, figures));
  Json communication = Json::object();
  for (auto &[axes, over] : step.communication)
    communication[axes] = {{"exposed", over.exposed}, {"hidden", over.hidden}};
  Json json = {{"seconds", step.seconds},
               {"ranks", description.mesh.size()},
               {"simulated_ranks", step.classes},
               {"calibrated", bool(description.rates)},
               {"machine", info["machine"]},
               {"computing", step.computing},
               {"communication", std::move(communication)},
               {"idle",
                {{"ranks", step.waitsForRanks},
                 {"stages", step.waitsForStages},
                 {"copies", step.waitsForCopies},
                 {"end", step.waitsForEnd}}},
               {"flops", step.flops},
               {"mfu", step.mfu},
               {"device_bytes", verdict.deviceBytes},
               {"host_bytes", verdict.hostBytes},
               {"sent_bytes", verdict.sentBytes},
               {"memory", info["memory"]},
               {"sent", info["sent"]},
               {"moved", info["moved"]}};
  return json.dump(2) + "\n";
}

static std::string text(const Verdict &verdict, const rt::Simulation &step, bool isCalibrated) {
  std::string result;
  llvm::raw_string_ostream os(result);
  os << llvm::formatv("a step     {0:e2} s by estimate{1}, {2:f1} % of what the products' rate allows\n",
                      step.seconds, isCalibrated ? "" : ", uncalibrated (no --machine)", 100 * step.mfu)
     << "memory     " << sizeText(verdict.deviceBytes) << " of the device a rank\n";
  if (verdict.hostBytes > 0)
    os << "           " << sizeText(verdict.hostBytes) << " of the host a rank\n";
  for (auto &[axes, bytes] : verdict.sentOver)
    os << "sent       over " << axes << ": " << sizeText(bytes) << " a rank\n";
  auto line = [&](StringRef what, double seconds, const llvm::Twine &how) {
    if (seconds > 0)
      os << llvm::formatv("{0,-10} {1,5:f1} % of the step{2}\n", what, 100 * seconds / step.seconds,
                          how.str());
  };
  line("computing", step.computing, "");
  for (auto &[axes, over] : step.communication)
    line("exposed", over.exposed, " sends over " + axes + " while nothing else is done, or in its place");
  for (auto &[axes, over] : step.communication)
    line("hidden", over.hidden, " sends over " + axes + " beside other work");
  line("idle", step.waitsForRanks, " waits for ranks that have not come to a collective");
  line("", step.waitsForStages, " waits for other stages");
  line("", step.waitsForCopies, " waits for copies between the tiers");
  line("", step.waitsForEnd, " waits for the last rank to end");
  return result;
}

int tessera::simulate(const SimulateCommand &command, const CompileOptions &options) {
  rt::SimulateOptions how;
  if (int status = readHow(command, how))
    return status;
  auto context = makeContext();
  installDiagnostics(*context);
  Compilation compilation(options, *context);
  compilation.wantsPlaced = !options.report.empty();
  if (failed(compilation.run(Phase::Memory)))
    return 1;
  FailureOr<rt::Description> described = compilation.describe();
  if (failed(described))
    return 1;
  const rt::Description &description = *described;
  Verdict verdict = verdictOf(compilation, description);
  const std::string &name = shownProgram(description).name;
  rt::Simulation step;
  try {
    step = rt::simulate(description, name, *rt::machineOf(description), how);
  } catch (const rt::Error &error) {
    emitError(UnknownLoc::get(context.get())) << error.what();
    return 1;
  }
  if (!command.trace.empty() && failed(writeText(*context, command.trace, rt::chromeTrace(step))))
    return 1;
  if (!options.report.empty() && failed(writePage({compilation, &description, &step, {}}, options.report)))
    return 1;
  if (command.json)
    llvm::outs() << jsonText(description, *description.findProgram(name), verdict, step,
                             int(compilation.threads()));
  else
    llvm::outs() << text(verdict, step, bool(description.rates));
  return 0;
}
