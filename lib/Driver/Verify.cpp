// `tessera verify`: the sharded program against the one of a single rank, in this process.
#include "lib/Driver/Commands.h"
#include "lib/Driver/Compile.h"
#include "lib/Driver/RandomData.h"
#include "lib/Driver/Report.h"
#include "lib/Target/Cpu/Jit.h"
#include "dialects/exec/Exec.h"
#include "dialects/nn/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Lower/Passes.h"
#include "runtime/comm/launch.h"
#include "runtime/core/error.h"
#include "runtime/program/session.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace mlir;
using namespace tessera;

namespace {

// A large step of SGD, so that a wrong gradient shows in the parameters; no momentum, no clipping.
const std::vector<float> kStep = {0.1f, 0, 0, 1e-8f, 1, 1, 0, 0};

using Arrays = std::map<std::string, HostArray>;

// A program in this process.
struct Loaded {
  rt::Description description;
  std::unique_ptr<cpu::JitKernels> kernels;
};

FailureOr<Loaded> load(Compilation &compilation) {
  if (failed(compilation.run(Phase::Memory)) || failed(compilation.describe()))
    return failure();
  FailureOr<std::unique_ptr<cpu::JitKernels>> kernels =
      cpu::JitKernels::create((*compilation.module).lookupSymbol<ModuleOp>(kKernelsModule));
  if (failed(kernels))
    return failure();
  try {
    return Loaded{rt::parseDescription(compilation.description), std::move(*kernels)};
  } catch (const rt::Error &error) {
    return emitError(UnknownLoc::get(&compilation.context)) << "program description: " << error.what();
  }
}

// Runs the program once on all ranks, as threads. Outputs by name, and the variables after it if it is the training program.
FailureOr<Arrays> runOnce(const Loaded &loaded, const std::string &name, const Arrays &inputs, const std::string &weights, int threads) {
  const rt::Description &description = loaded.description;
  const rt::Program &program = *description.findProgram(name);
  std::vector<bool> used = rt::RankProgram::usedVariables(description, program);
  Arrays results;
  for (const rt::ProgramOutput &output : program.outputs)
    results[output.name] = HostArray(output.dtype, output.shape);
  for (auto [i, variable] : llvm::enumerate(description.variables))
    if (name == "train" && used[i] && variable.trained)
      results["parameter:" + variable.name] = HostArray(variable.dtype, variable.shape);
  auto resolve = [&](std::string_view symbol) { return rt::KernelFunction(loaded.kernels->lookup(symbol)); };
  int status = rt::launch(description.mesh.size(), [&](rt::Transport &transport) {
    rt::Session session(description, program, transport, resolve, {threads, std::nullopt, false});
    if (!weights.empty())
      session.loadVariables(weights);
    session.agreed([&] {
      for (auto [i, input] : llvm::enumerate(program.inputs))
        if (auto array = inputs.find(input.name); array != inputs.end())
          session.setInput(i, array->second.bytes.data());
      session.setScalars(kStep, std::vector<float>(description.variables.size(), 0));
    });
    session.step();
    // The ranks write different parts of the same arrays.
    for (auto [i, output] : llvm::enumerate(program.outputs))
      session.getOutput(i, results.at(output.name).bytes.data());
    for (auto [i, variable] : llvm::enumerate(description.variables))
      if (auto array = results.find("parameter:" + variable.name); array != results.end())
        session.getVariable(i, array->second.bytes.data());
  });
  if (status != 0)
    return failure();
  return results;
}

double largest(const HostArray &array) {
  double most = 0;
  for (int64_t i = 0, n = array.count(); i < n; ++i)
    if (double value = std::abs(array.at(i)); std::isfinite(value))
      most = std::max(most, value);
  return most;
}

// The largest difference found, over the largest magnitude of its tensor.
struct Worst {
  double relative = -1, expected = 0, got = 0;
  std::string where; // program and tensor
  int64_t index = 0;
};

void compare(const std::string &where, const HostArray &expected, const HostArray &got, double scale, Worst &worst) {
  for (int64_t i = 0, n = expected.count(); i < n; ++i) {
    double a = expected.at(i), b = got.at(i);
    bool same = a == b || (std::isnan(a) && std::isnan(b));
    double relative = same ? 0 : std::abs(a - b) / scale;
    if (!same && !(relative <= HUGE_VAL)) // NaN or infinity on one side
      relative = HUGE_VAL;
    if (relative > worst.relative)
      worst = {relative, a, b, where, i};
  }
}

std::string kindOf(StringRef name) {
  return name.starts_with("grad:") ? "gradients" : name.starts_with("parameter:") ? "parameters after a step" : "outputs";
}

// Compares by kind, prints a line for each, returns the worst of all.
Worst compareAll(const std::string &program, const Arrays &expected, const Arrays &got) {
  std::map<std::string, double> most; // of the tensors of a kind
  for (auto &[name, array] : expected)
    most[kindOf(name)] = std::max(most[kindOf(name)], largest(array));
  std::map<std::string, std::pair<int64_t, Worst>> kinds;
  Worst worst;
  for (auto &[name, array] : expected) {
    auto &[count, worstOfKind] = kinds[kindOf(name)];
    ++count;
    // A gradient that vanishes but for rounding (an attention's key bias) has no digits of its own; what it is rounded from has the size of
    // the others. A wrong one is wrong by its own size, far above the tolerance of a tenth of theirs.
    double part = kindOf(name) == "gradients" ? 0.1 : 0.01;
    double scale = std::max({largest(array), part * most[kindOf(name)], 1e-30});
    compare(program + " " + name, array, got.at(name), scale, worstOfKind);
    if (worstOfKind.relative > worst.relative)
      worst = worstOfKind;
  }
  for (auto &[kind, entry] : kinds)
    llvm::outs() << llvm::formatv("{0}: {1} {2}, worst {3} at {4}[{5}]\n", program, entry.first, kind,
                                  llvm::format("%.3g", entry.second.relative), StringRef(entry.second.where).drop_front(program.size() + 1),
                                  entry.second.index);
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
  bool trains = llvm::any_of((*front.module).getOps<nn::VariableOp>(), [](nn::VariableOp v) { return v.getTrained(); });
  front.options.optimizer = trains ? "sgd" : "";
  front.options.emitGradients = trains;
  if (failed(front.run(Phase::Differentiate)))
    return 1;
  if (front.next > Phase::Assign) {
    emitError(here) << "\"" << options.model << "\" is text after phase " << phaseName(Phase(int(front.next) - 1))
                    << ", where its plan is part of it; verify takes it up to differentiate";
    return 1;
  }
  auto branch = [&](bool sharded) {
    CompileOptions own = front.options;
    own.report.clear();
    if (!sharded)
      own.assign = {};
    auto compilation = std::make_unique<Compilation>(own, *context);
    compilation->module = cast<ModuleOp>((*front.module)->clone());
    compilation->next = Phase::Assign;
    return compilation;
  };
  FailureOr<Loaded> one = load(*branch(false));
  if (failed(one))
    return 1;
  FailureOr<Loaded> sharded = load(*branch(true));
  if (failed(sharded))
    return 1;

  TemporaryFile weights;
  if (llvm::any_of(one->description.variables, [](const rt::Variable &v) { return v.init == "file"; })) {
    if (auto error = llvm::sys::fs::createTemporaryFile("tessera-verify", "safetensors", weights.path)) {
      emitError(here) << "cannot create a temporary file: " << error.message();
      return 1;
    }
    if (failed(front.weights.writeSafetensors(std::string(weights.path), *front.module)))
      return 1;
  }
  Worst worst;
  std::mt19937_64 random(1);
  for (const rt::Program &program : one->description.programs) {
    Arrays inputs;
    for (const rt::ProgramInput &input : program.inputs)
      if (input.kind != "scalars" && input.kind != "decay")
        inputs[input.name] = randomInput(input, random);
    FailureOr<Arrays> expected = runOnce(*one, program.name, inputs, std::string(weights.path), int(options.threads));
    if (failed(expected))
      return 1;
    FailureOr<Arrays> got = runOnce(*sharded, program.name, inputs, std::string(weights.path), int(options.threads));
    if (failed(got))
      return 1;
    Worst found = compareAll(program.name, *expected, *got);
    if (found.relative > worst.relative)
      worst = found;
  }
  llvm::outs().flush();
  std::string text = llvm::formatv("worst {0} of the tensor's largest magnitude, at {1}[{2}]: {3} on 1 rank, {4} on {5}",
                                   llvm::format("%.3g", worst.relative), worst.where, worst.index, llvm::format("%.9g", worst.expected),
                                   llvm::format("%.9g", worst.got), sharded->description.mesh.size());
  if (!(worst.relative <= tolerance)) {
    emitError(here) << "the programs differ beyond " << llvm::formatv("{0}", llvm::format("%g", tolerance)).str() << ": " << text;
    return 1;
  }
  llvm::outs() << text << "\n";
  return 0;
}
