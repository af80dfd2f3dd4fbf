#include "lib/Driver/CommandLine.h"
#include "dialects/dist/Attributes.h"
#include "lib/Driver/CalibrateCommand.h"
#include "lib/Driver/CheckpointCommand.h"
#include "lib/Driver/Commands.h"
#include "lib/Driver/Compile.h"
#include "lib/Driver/ModelCommand.h"
#include "lib/Driver/RunCommand.h"
#include "lib/Driver/ScheduleCommand.h"
#include "lib/Driver/SimulateCommand.h"
#include "lib/Run/Control.h"
#include "lib/Target/Targets.h"
#include "passes/Assign/Pattern.h"
#include "passes/Assign/Plan.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include <cmath>

using namespace tessera;
namespace cl = llvm::cl;

std::string FlagParser::problem;

bool FlagParser::parse(cl::Option &, llvm::StringRef name, llvm::StringRef text, bool &value) {
  value = text.empty() || text == "true" || text == "1";
  if (!value && text != "false" && text != "0")
    problem = ("--" + name + "=" + text + ": expected no value, or true or false").str();
  return !problem.empty();
}

int tessera::usage(const llvm::Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return 2;
}

namespace {

// `compile`, with what it writes and where it starts and stops.
struct CompileCommand : TargetCommand {
  cl::opt<std::string> output{"o", cl::desc("output file"), cl::value_desc("OUT"), cl::sub(sub)};
  cl::opt<std::string> to{"to",
                          cl::desc("stop after a phase: import normalize differentiate assign propagate "
                                   "partition schedule memory lower link"),
                          cl::value_desc("PHASE"), cl::sub(sub)};
  cl::opt<std::string> from{"from",
                            cl::desc("the phase that a .mlir MODEL goes on with (default: as its text says)"),
                            cl::value_desc("PHASE"), cl::sub(sub)};
  const std::string twinsText = "with --target " + targetsWithTwins() +
                                ": write the kernels' programs for the host, which a simulator executes";
  cl::opt<std::string> hostTwins{"host-twins", cl::desc(twinsText), cl::value_desc("FILE.so"), cl::sub(sub)};
  cl::opt<std::string> dump{"dump-phases", cl::desc("write the program after each phase"),
                            cl::value_desc("DIR"), cl::sub(sub)};
  PageCommand page{sub, "FILE.json|.html"};
  Flag timing{"timing", cl::desc("show where compile time goes"), cl::sub(sub)};
  Flag verbose{"v", cl::desc("say how long each phase takes"), cl::sub(sub)};
  Flag listPatterns{"list-patterns", cl::desc("print every pattern with its axes"), cl::sub(sub)};

  using TargetCommand::TargetCommand;
};

// `convert`. With --format torch the positional argument is the weights, the model an option.
struct ConvertCommand : ModelCommand {
  cl::opt<std::string> output{"o", cl::desc("output file"), cl::value_desc("OUT"), cl::sub(sub)};
  cl::opt<std::string> format{"format",
                              cl::desc("onnx (the model with the plan inside), mlir (text with it), torch "
                                       "(MODEL is FILE.safetensors or a checkpoint: under the names and in "
                                       "the shapes of the framework), or safetensors (MODEL is a "
                                       "checkpoint: all of it in one file)"),
                              cl::value_desc("FORMAT"), cl::sub(sub)};
  cl::opt<std::string> of{"model", cl::desc("the model that FILE.safetensors was trained with"),
                          cl::value_desc("MODEL"), cl::sub(sub)};

  using ModelCommand::ModelCommand;
};

// `plan`, with what `--auto` wants to know.
struct PlanCommandLine : TargetCommand {
  Flag automatic{"auto",
                 cl::desc("find the plan for --ranks that makes the fastest step, by the machine's rates, "
                          "and fits; recipe options that are given stay"),
                 cl::sub(sub)};
  cl::opt<std::string> ranks{"ranks",
                             cl::desc("with --auto: how many ranks; of a list a plan each, and a table"),
                             cl::value_desc("N[,N...]"), cl::sub(sub)};
  cl::opt<std::string> planSeconds{
      "plan-seconds", cl::desc("with --auto: end the search after so long, as SIGINT does (default 60)"),
      cl::value_desc("S"), cl::init("60"), cl::sub(sub)};
  cl::opt<std::string> output{
      "o", cl::desc("the plan's file, else standard output; with --auto for several ranks STEM-N.toml"),
      cl::value_desc("PLAN.toml"), cl::sub(sub)};
  Flag json{"json", cl::desc("with --auto: print what was found as JSON"), cl::sub(sub)};
  PageCommand page{sub, "FILE.html"};

  using TargetCommand::TargetCommand;
  bool findsRecipe() const override { return automatic; }
};

// LLVM's messages without the name of the program before each line: one error, then notes.
std::string withoutProgramName(llvm::StringRef text) {
  std::string result;
  for (llvm::StringRef line : llvm::split(text.trim(), '\n')) {
    line.consume_front("error: ");
    result += (result.empty() ? "" : "\nnote: ") + line.str();
  }
  for (size_t at; (at = result.find("error --help")) != std::string::npos;)
    result.replace(at, 5, "tessera");
  return result;
}

// What is wrong with an option's name, or nothing. LLVM's parser takes unknown names for groups of one-letter
// options.
std::string unknownOption(llvm::ArrayRef<const char *> arguments) {
  for (cl::SubCommand *sub : cl::getRegisteredSubcommands()) {
    if (arguments.empty() || sub->getName() != arguments.front())
      continue;
    auto takesValue = [](const cl::Option *option) {
      return option->getValueExpectedFlag() == cl::ValueRequired;
    };
    for (size_t i = 1; i < arguments.size(); ++i) {
      llvm::StringRef argument = arguments[i];
      if (argument == "--")
        return {};
      if (!argument.consume_front("-") || argument.empty())
        continue;
      argument.consume_front("-");
      auto [name, value] = argument.split('=');
      auto known = sub->OptionsMap.find(name);
      if (known != sub->OptionsMap.end()) {
        i += takesValue(known->second) && !argument.contains('=');
        continue;
      }
      if (name == "h") // LLVM has it aside
        continue;
      std::string nearest;
      unsigned least = 1 + std::max<size_t>(1, name.size() / 3);
      for (auto &entry : sub->OptionsMap)
        if (unsigned distance = name.edit_distance(entry.first, true, least);
            entry.first.size() > 1 && distance < least)
          least = distance, nearest = "; did you mean --" + entry.first.str() + "?";
      return ("unknown option \"" + llvm::StringRef(arguments[i]).split('=').first + "\" of tessera " +
              sub->getName() + (nearest.empty() ? "; see tessera " + sub->getName() + " --help" : nearest))
          .str();
    }
  }
  return {};
}

// What only `compile` has.
int read(CompileCommand &command, CompileOptions &options) {
  if (int status = read(static_cast<TargetCommand &>(command), options))
    return status;
  options.output = command.output;
  options.hostTwins = command.hostTwins;
  if (!options.hostTwins.empty() && !options.target->hasTwins())
    return usage("--host-twins=" + command.hostTwins + ": kernels for " + options.target->name() +
                 " have no twins; expected with --target " + targetsWithTwins());
  options.dumpDirectory = command.dump;
  if (int status = read(command.page, options))
    return status;
  options.timing = command.timing || command.verbose;
  for (auto [text, phase, name] :
       {std::tuple(&command.to, &options.to, "--to"), {&command.from, &options.from, "--from"}})
    if (!text->empty()) {
      auto parsed = parsePhase(*text);
      if (!parsed)
        return usage(llvm::Twine(name) + "=" + *text +
                     " is no phase; phases are import normalize differentiate assign propagate partition "
                     "schedule memory lower link");
      *phase = *parsed;
    }
  if (options.from != Phase::Import && !llvm::StringRef(options.model).ends_with(".mlir"))
    return usage("--from=" + command.from + " needs .mlir text, and the model is \"" + options.model + "\"");
  if (options.from > Phase::Normalize && options.capacityFactor > 0)
    return usage("--capacity-factor=" + command.capacityFactor +
                 ": is for phase normalize, which --from=" + command.from + " leaves out");
  if (options.from > options.to)
    return usage("--from=" + command.from + " is behind --to=" + command.to);
  options.import.allowAbsentData = options.to < Phase::Link;
  if (options.output.empty() && options.to == Phase::Link)
    return usage("no output given: add -o OUT");
  return 0;
}

// What only `convert` has.
int read(ConvertCommand &command, CompileOptions &options) {
  if (int status = read(static_cast<ModelCommand &>(command), options))
    return status;
  options.output = command.output;
  if (options.output.empty())
    return usage("no output given: add -o OUT");
  if (!llvm::is_contained({"onnx", "mlir", "torch", "safetensors"}, std::string(command.format)))
    return usage("--format=" + command.format + ": expected onnx, mlir, torch or safetensors");
  bool isTorch = command.format == "torch";
  if (isTorch != !command.of.empty())
    return usage(isTorch ? "--format torch: no model given: tessera convert FILE.safetensors --model MODEL "
                           "--format torch -o OUT"
                         : "--model goes with --format torch: tessera convert MODEL --format " +
                               command.format + " -o OUT");
  if (command.format == "onnx" && !llvm::StringRef(options.model).ends_with(".onnx"))
    return usage("--format onnx needs an .onnx model to write the plan into, and the model is \"" +
                 options.model + "\"");
  if (isTorch && !command.weights.empty())
    return usage("--weights: with --format torch the weights are the first argument");
  if (isTorch) {
    options.weights = command.model;
    options.model = command.of;
  }
  return 0;
}

// Which ranks, and what of a recipe is decided.
int read(PlanCommandLine &command, const CompileOptions &options, AutoOptions &how) {
  if (command.ranks.empty())
    return usage("--auto: give the number of ranks by --ranks N");
  for (llvm::StringRef text : llvm::split(llvm::StringRef(command.ranks), ',')) {
    int64_t ranks = 0;
    if (text.getAsInteger(10, ranks) || ranks < 1 || ranks > 1 << 16)
      return usage("--ranks=" + command.ranks +
                   ": expected whole numbers from 1 to 65536, such as 8 or 1,2,4");
    how.ranks.push_back(ranks);
  }
  if (!llvm::to_float(llvm::StringRef(command.planSeconds), how.seconds) || !(how.seconds > 0) ||
      how.seconds > 1e6)
    return usage("--plan-seconds=" + command.planSeconds + ": expected a number above 0");
  int64_t product = 1;
  for (auto [option, text, value] : {std::tuple("dp", &command.dp, options.assign.dp),
                                     {"tp", &command.tp, options.assign.tp},
                                     {"sp", &command.sp, options.assign.sp},
                                     {"pp", &command.pp, options.assign.pp},
                                     {"ep", &command.ep, options.assign.ep}})
    if (text->getNumOccurrences() > 0) {
      how.decided.insert(option);
      product *= std::min<int64_t>(value, 1 << 17);
    }
  for (int64_t ranks : how.ranks)
    if (ranks % product != 0 || (how.decided.size() == 5 && ranks != product))
      return usage("--ranks=" + command.ranks + ": the recipe's options take " + llvm::Twine(product) +
                   " ranks, which do not go into " + llvm::Twine(ranks));
  for (auto [option, text] : {std::pair("tp-mode", &command.tpMode),
                              {"tp-depth", &command.tpDepth},
                              {"sp-mode", &command.spMode},
                              {"pp-schedule", &command.ppSchedule},
                              {"microbatches", &command.microbatches},
                              {"zero", &command.zero}})
    if (text->getNumOccurrences() > 0)
      how.decided.insert(option);
  how.output = command.output;
  how.json = command.json;
  return 0;
}

void printPatterns() {
  for (const Pattern *pattern : allPatterns()) {
    llvm::outs() << pattern->name() << " [";
    llvm::interleaveComma(pattern->axes(), llvm::outs());
    llvm::outs() << "]\n  " << pattern->doc() << "\n\n";
  }
}

int readPageAndSimulate(SimulateCommand &command, CompileOptions &options) {
  int status = read(command.page, options);
  return status ? status : simulate(command, options);
}

int readAndVerify(ModelCommand &command, CompileOptions &options, const std::string &tolerance) {
  if (int status = read(command, options))
    return status;
  double allowed = 0;
  if (llvm::StringRef(tolerance).getAsDouble(allowed) || !(allowed >= 0))
    return usage("--tolerance=" + tolerance + ": expected a number of at least 0");
  return verify(options, allowed);
}

int plan(PlanCommandLine &command, CompileOptions &options) {
  if (int status = read(command.page, options))
    return status;
  if (command.automatic) {
    AutoOptions how;
    int status = read(command, options, how);
    return status ? status : planAutomatically(options, how);
  }
  for (const cl::Option *only :
       {static_cast<cl::Option *>(&command.ranks), static_cast<cl::Option *>(&command.planSeconds),
        static_cast<cl::Option *>(&command.json)})
    if (only->getNumOccurrences() > 0)
      return usage("--" + only->ArgStr + " goes with --auto");
  return printPlan(options, command.output);
}

// What is about runs and their files.
struct CommandsWithoutModel {
  ScheduleCommand schedule;
  CheckpointCommand checkpoint;
  CalibrateCommand calibrate;
  RunCommand train;
  ResizeCommand resize;
  RunControlCommand status{"status", "what runs in a folder of `tessera run`, and how far it is",
                           run::describeRun};
  RunControlCommand ending{"stop", "tell what runs in a folder to finish its step and end", run::stopRun};

  // The exit status of the one that is given; none where none is.
  std::optional<int> run() {
    if (schedule)
      return schedule.run();
    if (checkpoint)
      return checkpoint.run();
    if (calibrate)
      return calibrate.run();
    if (train)
      return train.run();
    if (resize)
      return resize.run();
    for (RunControlCommand *control : {&status, &ending})
      if (*control)
        return control->run();
    return std::nullopt;
  }
};

} // namespace

int tessera::runCommandLine(int argc, char **argv) {
  registerTargets();
  static CompileCommand compileCommand("compile", "compile a model into an executable");
  static PlanCommandLine planCommand("plan", "print the plan that the options stand for, or find one");
  static TargetCommand explainCommand("explain",
                                      "print what becomes of every operator and parameter, and why");
  static ModelCommand verifyCommand("verify",
                                    "compare the sharded program with that of one rank on random data");
  static ConvertCommand convertCommand(
      "convert", "write the model with its plan, or trained weights for the framework that exported it");
  static SimulateCommand simulateCommand(
      "simulate", "print what a step takes on the machine, simulated, without an executable");
  static CommandsWithoutModel others;
  static cl::opt<std::string> glob{"op", cl::desc("only operators with this name: node, module or parameter"),
                                   cl::value_desc("GLOB"), cl::sub(explainCommand.sub)};
  static cl::opt<std::string> why{
      "why", cl::desc("only why what has this name (node, module or parameter) became what it is"),
      cl::value_desc("NODE"), cl::sub(explainCommand.sub)};
  static cl::opt<std::string> tolerance{
      "tolerance",
      cl::desc("difference allowed, relative to the largest magnitude of a tensor (default 1e-5)"),
      cl::value_desc("X"), cl::init("1e-5"), cl::sub(verifyCommand.sub)};
  // LLVM's own options mean nothing to users of this tool.
  static cl::OptionCategory ours("options");
  cl::HideUnrelatedOptions(ours);
  std::string problems;
  llvm::raw_string_ostream os(problems);
  // LLVM begins its messages about single options with the program's name: with the word of the contract,
  // unless help is asked for.
  std::vector<const char *> arguments(argv, argv + argc);
  if (llvm::none_of(arguments,
                    [](llvm::StringRef a) { return a.starts_with("--help") || a == "-h" || a == "-help"; }))
    arguments[0] = "error";
  if (std::string problem = unknownOption(llvm::ArrayRef(arguments).drop_front()); !problem.empty())
    return usage(problem);
  bool parsed = cl::ParseCommandLineOptions(
      argc, arguments.data(), "Tessera: compiles models into sharded, distributed programs\n", &os);
  if (!FlagParser::problem.empty())
    return usage(FlagParser::problem);
  if (!parsed) // a missing value has been reported already
    return problems.empty() ? 2 : usage(withoutProgramName(problems));
  if (std::optional<int> status = others.run())
    return *status;
  CompileOptions options;
  if (compileCommand) {
    if (compileCommand.listPatterns) {
      printPatterns();
      return 0;
    }
    if (int status = read(compileCommand, options))
      return status;
    return failed(compile(options)) ? 1 : 0;
  }
  if (convertCommand) {
    if (int status = read(convertCommand, options))
      return status;
    return convertCommand.format == "safetensors" ? joinCheckpoint(options.model, options.output, false)
           : convertCommand.format == "torch"     ? convertToTorch(options)
           : convertCommand.format == "onnx"      ? convertToOnnx(options)
                                                  : convertToText(options);
  }
  for (TargetCommand *command : {static_cast<TargetCommand *>(&planCommand), &explainCommand,
                                 static_cast<TargetCommand *>(&simulateCommand)})
    if (*command)
      if (int status = read(*command, options))
        return status;
  options.import.allowAbsentData = !verifyCommand;
  if (planCommand)
    return plan(planCommand, options);
  if (simulateCommand)
    return readPageAndSimulate(simulateCommand, options);
  if (explainCommand)
    return explain(options, glob, why);
  if (verifyCommand)
    return readAndVerify(verifyCommand, options, tolerance);
  return usage("no command given; see tessera --help");
}
