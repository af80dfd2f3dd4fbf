#include "lib/Driver/InProcess.h"
#include "dialects/nn/NN.h"
#include "passes/Kernels/Passes.h"
#include "runtime/comm/launch.h"
#include <cmath>

using namespace mlir;
using namespace tessera;

// A large step of SGD, so that a wrong gradient shows in the parameters; no momentum, and gradients clipped
// where a program clips. The loss of programs that compute in f16 is scaled so that its small gradients are
// there and its large ones finite.
static const std::vector<float> kStep = {0.1f, 0, 0, 1e-8f, 1, 1, 0, 0.5f, 4096};
static_assert(rt::numStepScalars == 8, "and one that scales the loss");

static constexpr uint64_t kSeed = 0;

FailureOr<LoadedProgram> tessera::loadProgram(Compilation &compilation) {
  if (failed(compilation.run(Phase::Memory)))
    return failure();
  FailureOr<rt::Description> description = compilation.writeDescription();
  if (failed(description))
    return failure();
  FailureOr<std::unique_ptr<cpu::JitKernels>> kernels =
      cpu::JitKernels::create((*compilation.module).lookupSymbol<ModuleOp>(kKernelsModule));
  if (failed(kernels))
    return failure();
  return LoadedProgram{std::move(*description), std::move(*kernels)};
}

// What a run of program `name` leaves, to be filled.
static RunResult emptyResult(const rt::Description &description, const std::string &name) {
  RunResult result;
  for (const rt::ProgramOutput &output : description.findProgram(name)->outputs)
    result.arrays[output.name] = HostArray(output.dtype, output.shape);
  std::vector<bool> used = rt::Variables::usedBy(description, {name});
  for (auto [i, variable] : llvm::enumerate(description.variables))
    if (name == nn::stringifyProgramRole(nn::ProgramRole::Train) && used[i] && variable.trained)
      result.arrays["parameter:" + variable.name] = HostArray(variable.dtype, variable.shape);
  return result;
}

static void setVariables(rt::Session &session, const rt::Description &description,
                         const RunOptions &options) {
  if (!options.weights.empty())
    session.loadVariables(options.weights);
  if (!options.variables)
    return;
  session.agreed([&] {
    for (auto [i, variable] : llvm::enumerate(description.variables))
      if (auto array = options.variables->find(variable.name); array != options.variables->end())
        session.setVariable(i, array->second.bytes.data());
  });
}

// One step of the session's current program.
static void step(rt::Session &session, const rt::Description &description, const rt::Program &program,
                 const Arrays &inputs, RunResult &result) {
  session.agreed([&] {
    for (auto [i, input] : llvm::enumerate(program.inputs))
      if (auto array = inputs.find(input.name); array != inputs.end())
        session.setInput(i, array->second.bytes.data());
    session.setRandom(kSeed, 1);
    session.setScalars(kStep, std::vector<float>(description.variables.size(), 0));
  });
  session.resetMeasurements();
  session.step();
  rt::Measured measured = session.measured();
  if (session.rank() == 0)
    result.sent = measured.sent;
  // The ranks write different parts of the same arrays.
  for (auto [i, output] : llvm::enumerate(program.outputs))
    session.getOutput(i, result.arrays.at(output.name).bytes.data());
  for (auto [i, variable] : llvm::enumerate(description.variables))
    if (auto array = result.arrays.find("parameter:" + variable.name); array != result.arrays.end())
      session.getVariable(i, array->second.bytes.data());
}

FailureOr<std::vector<RunResult>> tessera::runOnce(const LoadedProgram &loaded,
                                                   const std::vector<std::string> &names,
                                                   const std::vector<Arrays> &inputs,
                                                   const RunOptions &options) {
  const rt::Description &description = loaded.description;
  std::vector<RunResult> results;
  for (const std::string &name : names)
    results.push_back(emptyResult(description, name));
  auto resolve = [&](std::string_view symbol) { return rt::KernelFunction(loaded.kernels->lookup(symbol)); };
  int status = rt::launch(description.mesh.size(), [&](rt::Transport &transport) {
    rt::SessionOptions sessionOptions;
    sessionOptions.threads = options.threads;
    sessionOptions.poison = options.poison;
    // Each in a session of its own: a cap is for one program at a time, as a command runs it.
    for (auto [name, own, result] : llvm::zip_equal(names, inputs, results)) {
      const rt::Program &program = *description.findProgram(name, transport.rank());
      rt::Session session(description, {&program}, transport, resolve, sessionOptions);
      setVariables(session, description, options);
      step(session, description, program, own, result);
    }
  });
  if (status != 0)
    return failure();
  return results;
}

static double largest(const HostArray &array) {
  double most = 0;
  for (int64_t i = 0, n = array.count(); i < n; ++i)
    if (double value = std::abs(array.at(i)); std::isfinite(value))
      most = std::max(most, value);
  return most;
}

static void compare(const std::string &where, const HostArray &expected, const HostArray &got, double scale,
                    Worst &worst) {
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

static std::string kindOf(StringRef name) {
  return name.starts_with("grad:")        ? "gradients"
         : name.starts_with("parameter:") ? "parameters after a step"
                                          : "outputs";
}

std::map<std::string, std::pair<int64_t, Worst>> tessera::compareByKind(const Arrays &expected,
                                                                        const Arrays &got) {
  std::map<std::string, double> most; // of the tensors of a kind
  for (auto &[name, array] : expected)
    most[kindOf(name)] = std::max(most[kindOf(name)], largest(array));
  std::map<std::string, std::pair<int64_t, Worst>> kinds;
  for (auto &[name, array] : expected) {
    auto &[count, worst] = kinds[kindOf(name)];
    ++count;
    // A gradient that vanishes but for rounding (an attention's key bias) has no digits of its own; what it
    // is rounded from has the size of the others. A wrong one is wrong by its own size, far above the
    // tolerance of a tenth of theirs.
    double part = kindOf(name) == "gradients" ? 0.1 : 0.01;
    double scale = std::max({largest(array), part * most[kindOf(name)], 1e-30});
    compare(name, array, got.at(name), scale, worst);
  }
  return kinds;
}
