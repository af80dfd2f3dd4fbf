// `tessera verify`: the sharded program against the one of a single rank, in this process.
#include "dialects/nn/NN.h"
#include "lib/Driver/Commands.h"
#include "lib/Driver/InProcess.h"
#include "lib/Driver/Report.h"
#include "lib/Export/WriteWeights.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Assign/Annotations.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace tessera;

namespace {

// Compares by kind, prints a line for each, returns the worst of all.
Worst compareAll(const std::string &program, const Arrays &expected, const Arrays &got) {
  Worst worst;
  for (auto &[kind, entry] : compareByKind(expected, got)) {
    auto &[count, found] = entry;
    llvm::outs() << llvm::formatv("{0}: {1} {2}, worst {3} at {4}[{5}]\n", program, count, kind,
                                  llvm::format("%.3g", found.relative), found.where, found.index);
    if (found.relative > worst.relative) {
      worst = found;
      worst.where = program + " " + found.where;
    }
  }
  return worst;
}

// A folder for the weights, gone in the end.
struct TemporaryFile {
  SmallString<128> path;
  ~TemporaryFile() {
    if (!path.empty())
      llvm::sys::fs::remove(path);
  }
};

} // namespace

int tessera::verify(const CompileOptions &options, double tolerance) {
  auto context = makeContext();
  installDiagnostics(*context);
  Location here = UnknownLoc::get(context.get());
  Compilation front(options, *context);
  if (failed(front.run(Phase::Normalize)))
    return 1;
  bool trains =
      llvm::any_of((*front.module).getOps<nn::VariableOp>(), [](nn::VariableOp v) { return v.getTrained(); });
  front.options.optimizer = trains ? "sgd" : "";
  front.options.emitGradients = trains;
  if (failed(front.run(Phase::Differentiate)))
    return 1;
  if (front.next > Phase::Assign) {
    emitError(here) << "\"" << options.model << "\" is text after phase "
                    << phaseName(Phase(int(front.next) - 1))
                    << ", where its plan is part of it; verify takes it up to differentiate";
    return 1;
  }
  auto branch = [&](bool sharded) {
    CompileOptions own = front.options;
    own.report.clear();
    auto compilation = std::make_unique<Compilation>(own, *context);
    compilation->module = cast<ModuleOp>((*front.module)->clone());
    if (!sharded) {
      compilation->options.assign = {};
      dropCarriedPlan(*compilation->module);
    }
    compilation->next = Phase::Assign;
    return compilation;
  };
  FailureOr<LoadedProgram> one = loadProgram(*branch(false));
  if (failed(one))
    return 1;
  FailureOr<LoadedProgram> sharded = loadProgram(*branch(true));
  if (failed(sharded))
    return 1;

  TemporaryFile weights;
  if (llvm::any_of(one->description.variables, [](const rt::Variable &v) { return v.init == "file"; })) {
    if (auto error = llvm::sys::fs::createTemporaryFile("tessera-verify", "safetensors", weights.path)) {
      emitError(here) << "cannot create a temporary file: " << error.message();
      return 1;
    }
    if (failed(writeWeights(std::string(weights.path), *front.module, front.weights)))
      return 1;
  }
  RunOptions run;
  run.weights = std::string(weights.path);
  run.threads = int(options.threads);
  Worst worst;
  std::mt19937_64 random(1);
  std::vector<std::string> names;
  std::vector<Arrays> inputs;
  for (const rt::Program &program : one->description.programs) {
    names.push_back(program.name);
    Arrays &own = inputs.emplace_back();
    for (const rt::ProgramInput &input : program.inputs)
      if (input.isData())
        own[input.name] = randomInput(input, random);
  }
  FailureOr<std::vector<RunResult>> expected = runOnce(*one, names, inputs, run);
  if (failed(expected))
    return 1;
  FailureOr<std::vector<RunResult>> got = runOnce(*sharded, names, inputs, run);
  if (failed(got))
    return 1;
  for (size_t i = 0; i < names.size(); ++i) {
    Worst found = compareAll(names[i], (*expected)[i].arrays, (*got)[i].arrays);
    if (found.relative > worst.relative)
      worst = found;
  }
  llvm::outs().flush();
  std::string text = llvm::formatv(
      "worst {0} of the tensor's largest magnitude, at {1}[{2}]: {3} on 1 rank, {4} on {5}",
      llvm::format("%.3g", worst.relative), worst.where, worst.index, llvm::format("%.9g", worst.expected),
      llvm::format("%.9g", worst.got), sharded->description.mesh.size());
  if (!(worst.relative <= tolerance)) {
    emitError(here) << "the programs differ beyond "
                    << llvm::formatv("{0}", llvm::format("%g", tolerance)).str() << ": " << text;
    return 1;
  }
  llvm::outs() << text << "\n";
  return 0;
}
