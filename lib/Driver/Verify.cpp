// `tessera verify`: the sharded program against the one of a single rank, in this process.
#include "dialects/nn/NN.h"
#include "lib/Driver/Commands.h"
#include "lib/Driver/InProcess.h"
#include "lib/Driver/Report.h"
#include "lib/Export/WriteWeights.h"
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
      (void)llvm::sys::fs::remove(path);
  }
};

// One rank's program and the sharded one, of the same model.
struct Pair {
  LoadedProgram one, sharded;
};

// Takes the model up to where their ways part: with a step of SGD and its gradients, where it can be trained.
LogicalResult runFront(Compilation &front) {
  if (failed(front.run(Phase::Normalize)))
    return failure();
  bool trains =
      llvm::any_of((*front.module).getOps<nn::VariableOp>(), [](nn::VariableOp v) { return v.getTrained(); });
  front.options.optimizer = trains ? "sgd" : "";
  front.options.emitGradients = trains;
  if (failed(front.run(Phase::Differentiate)))
    return failure();
  if (front.next > Phase::Assign)
    return emitError(UnknownLoc::get(&front.context))
           << "\"" << front.options.model << "\" is text after phase "
           << phaseName(Phase(int(front.next) - 1))
           << ", where its plan is part of it; verify takes it up to differentiate";
  return success();
}

FailureOr<LoadedProgram> branch(Compilation &front, bool sharded) {
  CompileOptions own = front.options;
  own.report.clear();
  Compilation compilation(own, front.context);
  compilation.module = cast<ModuleOp>((*front.module)->clone());
  if (!sharded) {
    compilation.options.assign = {};
    dropCarriedPlan(*compilation.module);
  }
  compilation.machine = front.machine;
  compilation.next = Phase::Assign;
  return loadProgram(compilation);
}

FailureOr<Pair> branches(Compilation &front) {
  FailureOr<LoadedProgram> one = branch(front, false);
  if (failed(one))
    return failure();
  FailureOr<LoadedProgram> sharded = branch(front, true);
  if (failed(sharded))
    return failure();
  return Pair{std::move(*one), std::move(*sharded)};
}

// Writes the initial values of variables that have them in a file.
LogicalResult writeInitial(Compilation &front, const rt::Description &description, TemporaryFile &file) {
  if (llvm::none_of(description.variables, [](const rt::Variable &v) { return v.init == "file"; }))
    return success();
  if (auto error = llvm::sys::fs::createTemporaryFile("tessera-verify", "safetensors", file.path))
    return emitError(UnknownLoc::get(&front.context))
           << "cannot create a temporary file: " << error.message();
  return writeWeights(std::string(file.path), *front.module, front.weights);
}

// Runs both on the same random inputs; the worst difference.
FailureOr<Worst> runBoth(const Pair &pair, const RunOptions &run) {
  std::mt19937_64 random(1);
  std::vector<std::string> names;
  std::vector<Arrays> inputs;
  for (const rt::Program &program : pair.one.description.programs) {
    names.push_back(program.name);
    Arrays &own = inputs.emplace_back();
    for (const rt::ProgramInput &input : program.inputs)
      if (input.isData())
        own[input.name] = randomInput(input, random);
  }
  FailureOr<std::vector<RunResult>> expected = runOnce(pair.one, names, inputs, run);
  if (failed(expected))
    return failure();
  FailureOr<std::vector<RunResult>> got = runOnce(pair.sharded, names, inputs, run);
  if (failed(got))
    return failure();
  Worst worst;
  for (auto [name, mine, theirs] : llvm::zip(names, *expected, *got)) {
    Worst found = compareAll(name, mine.arrays, theirs.arrays);
    if (found.relative > worst.relative)
      worst = found;
  }
  return worst;
}

} // namespace

int tessera::verify(const CompileOptions &options, double tolerance) {
  auto context = makeContext();
  installDiagnostics(*context);
  Compilation front(options, *context);
  if (failed(runFront(front)))
    return 1;
  FailureOr<Pair> pair = branches(front);
  TemporaryFile weights;
  if (failed(pair) || failed(writeInitial(front, pair->one.description, weights)))
    return 1;
  RunOptions run;
  run.weights = std::string(weights.path);
  run.threads = int(options.threads);
  FailureOr<Worst> worst = runBoth(*pair, run);
  if (failed(worst))
    return 1;
  llvm::outs().flush();
  std::string text =
      llvm::formatv("worst {0} of the tensor's largest magnitude, at {1}[{2}]: {3} on 1 rank, {4} on {5}",
                    llvm::format("%.3g", worst->relative), worst->where, worst->index,
                    llvm::format("%.9g", worst->expected), llvm::format("%.9g", worst->got),
                    pair->sharded.description.mesh.size());
  if (!(worst->relative <= tolerance)) {
    if (const std::string &type = pair->sharded.description.dtype; type != "f32")
      text +=
          "; they compute in " + type +
          ", and what is rounded elsewhere may differ by more: give --tolerance, or verify the plan in f32";
    emitError(UnknownLoc::get(context.get()))
        << "the programs differ beyond " << llvm::formatv("{0}", llvm::format("%g", tolerance)).str() << ": "
        << text;
    return 1;
  }
  llvm::outs() << text << "\n";
  return 0;
}
