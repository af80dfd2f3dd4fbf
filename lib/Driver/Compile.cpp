#include "lib/Driver/Compile.h"
#include "dialects/dist/Dist.h"
#include "dialects/exec/Exec.h"
#include "dialects/nn/NN.h"
#include "lib/Driver/Report.h"
#include "lib/Target/Cpu/Executable.h"
#include "lib/Target/Program.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Assign/Passes.h"
#include "passes/Differentiate/Passes.h"
#include "passes/Lower/Passes.h"
#include "passes/Memory/Passes.h"
#if __has_include("passes/Normalize/Passes.h.inc")
#include "passes/Normalize/Passes.h"
#define HAVE_NORMALIZE
#endif
#include "passes/Partition/Passes.h"
#include "passes/Propagate/Passes.h"
#include "passes/Schedule/Passes.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/ADT/StringExtras.h"
#include <chrono>
#include <thread>

using namespace mlir;
using namespace tessera;

static constexpr std::pair<Phase, llvm::StringLiteral> kPhases[] = {
    {Phase::Import, "import"},       {Phase::Normalize, "normalize"}, {Phase::Differentiate, "differentiate"},
    {Phase::Assign, "assign"},       {Phase::Propagate, "propagate"}, {Phase::Partition, "partition"},
    {Phase::Schedule, "schedule"},   {Phase::Memory, "memory"},       {Phase::Lower, "lower"},
    {Phase::Link, "link"}};

StringRef tessera::phaseName(Phase phase) { return kPhases[int(phase)].second; }

std::optional<Phase> tessera::parsePhase(StringRef name) {
  for (auto &[phase, text] : kPhases)
    if (text == name)
      return phase;
  return std::nullopt;
}

std::unique_ptr<MLIRContext> tessera::makeContext() {
  DialectRegistry registry;
  registry.insert<nn::NNDialect, dist::DistDialect, exec::ExecDialect, func::FuncDialect, linalg::LinalgDialect, tensor::TensorDialect,
                  arith::ArithDialect, math::MathDialect, scf::SCFDialect, bufferization::BufferizationDialect>();
  auto context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

static FailureOr<std::string> sha256(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return failure();
  llvm::SHA256 hash;
  hash.update((*buffer)->getBuffer());
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

int64_t Compilation::threads() const {
  if (options.threads > 0)
    return options.threads;
  int64_t ranks = 1;
  for (auto mesh : (*module).getOps<dist::MeshOp>())
    ranks = mesh.getMesh().getMesh().numRanks();
  return std::max<int64_t>(1, int64_t(std::thread::hardware_concurrency()) / ranks);
}

LogicalResult Compilation::load() {
  Location here = UnknownLoc::get(&context);
  if (!llvm::sys::fs::exists(options.model))
    return emitError(here) << "there is no file \"" << options.model << "\"";
  if (auto hash = sha256(options.model); succeeded(hash))
    modelHash = *hash;
  if (!options.plan.empty())
    if (auto hash = sha256(options.plan); succeeded(hash))
      planHash = *hash;
  if (StringRef(options.model).ends_with(".mlir")) {
    module = parseSourceFile<ModuleOp>(options.model, &context);
    if (!module)
      return failure();
    std::string weightsFile = options.weights;
    if (weightsFile.empty() && llvm::sys::fs::exists(options.model + ".safetensors"))
      weightsFile = options.model + ".safetensors";
    return weightsFile.empty() ? success() : weights.addSafetensors(weightsFile, &context);
  }
  FailureOr<OwningOpRef<ModuleOp>> imported = importOnnx(options.model, options.import, context, weights);
  if (failed(imported))
    return failure();
  module = std::move(*imported);
  return success();
}

LogicalResult Compilation::passes(Phase phase) {
  PassManager pm(&context);
  pm.enableVerifier(true);
  switch (phase) {
  case Phase::Normalize:
#ifdef HAVE_NORMALIZE
    pm.addPass(createNormalize());
#endif
    break;
  case Phase::Differentiate:
    pm.addPass(createCSEPass());
    if (!options.optimizer.empty()) {
      DifferentiateOptions d;
      d.optimizer = options.optimizer;
      d.loss = options.loss;
      d.emitGrads = options.emitGradients;
      pm.addPass(createDifferentiate(d));
    }
    break;
  case Phase::Assign: {
    AssignOptions a;
    a.planFile = options.plan;
    a.dp = options.dp;
    a.tp = options.tp;
    a.microbatches = options.microbatches;
    pm.addPass(createAssign(a));
    break;
  }
  case Phase::Propagate:
    pm.addPass(createPropagate());
    pm.addPass(createVerifyLayouts());
    break;
  case Phase::Partition:
    pm.addPass(createPartition());
    pm.addPass(createCanonicalizerPass());
    pm.addPass(createCSEPass());
    break;
  case Phase::Schedule:
    buildSchedulePipeline(pm);
    break;
  default:
    return success();
  }
  return pm.run(*module);
}

// Kernels are scheduled before memory is planned: what may be in place and how much scratch they take is theirs to say.
static LogicalResult annotateKernels(ModuleOp module) {
  auto kernels = module.lookupSymbol<ModuleOp>(kKernelsModule);
  Builder b(module.getContext());
  for (auto func : kernels.getOps<func::FuncOp>()) {
    FailureOr<cpu::KernelInfo> info = cpu::analyse(func);
    if (failed(info))
      return failure();
    func->setAttr("exec.extent", b.getI64IntegerAttr(info->extent));
    func->setAttr("exec.grain", b.getI64IntegerAttr(info->grain));
    if (info->workspace)
      func->setAttr("exec.workspace", b.getI64IntegerAttr(info->workspace));
    SmallVector<Attribute> pairs;
    for (auto [arg, result] : info->inPlace)
      pairs.push_back(b.getDenseI64ArrayAttr({int64_t(arg), int64_t(result)}));
    if (!pairs.empty())
      func->setAttr("exec.in_place", b.getArrayAttr(pairs));
  }
  return success();
}

LogicalResult Compilation::lower() {
  FailureOr<cpu::CompiledKernels> compiled =
      cpu::compileKernels((*module).lookupSymbol<ModuleOp>(kKernelsModule), {});
  if (failed(compiled))
    return failure();
  kernels = std::move(*compiled);
  ProgramInfo info;
  info.modelHash = modelHash;
  info.planHash = planHash;
  info.threads = threads();
  FailureOr<std::string> text = describeProgram(*module, info);
  if (failed(text))
    return failure();
  description = std::move(*text);
  return success();
}

LogicalResult Compilation::dump(Phase phase) {
  if (options.dumpDirectory.empty())
    return success();
  Location here = UnknownLoc::get(&context);
  if (auto error = llvm::sys::fs::create_directories(options.dumpDirectory))
    return emitError(here) << "cannot create the folder \"" << options.dumpDirectory << "\": " << error.message();
  std::string path = options.dumpDirectory + "/" + (int(phase) < 10 ? "0" : "") + std::to_string(int(phase)) + "-" + phaseName(phase).str() + ".mlir";
  std::string message;
  auto file = openOutputFile(path, &message);
  if (!file)
    return emitError(here) << message;
  (*module)->print(file->os(), OpPrintingFlags().enableDebugInfo(true, false));
  file->keep();
  if (phase == Phase::Lower) {
    auto json = openOutputFile(options.dumpDirectory + "/program.json", &message);
    if (!json)
      return emitError(here) << message;
    json->os() << description;
    json->keep();
  }
  return success();
}

LogicalResult Compilation::run(Phase last) {
  for (int p = int(options.from); p <= int(std::min(last, Phase::Lower)); ++p) {
    Phase phase = Phase(p);
    auto begin = std::chrono::steady_clock::now();
    LogicalResult done = success();
    if (!module)
      done = load();
    if (succeeded(done) && (p > int(options.from) || phase != Phase::Import)) {
      switch (phase) {
      case Phase::Import:
        break;
      case Phase::Memory: {
        PassManager pm(&context);
        FormKernelsOptions form;
        form.threads = threads();
        pm.addPass(createFormKernels(form));
        pm.addPass(createLowerKernels());
        done = pm.run(*module);
        if (succeeded(done))
          done = annotateKernels(*module);
        PassManager plan(&context);
        PlanMemoryOptions memory;
        memory.threads = threads();
        plan.addPass(createPlanMemory(memory));
        if (succeeded(done))
          done = plan.run(*module);
        break;
      }
      case Phase::Lower:
        done = lower();
        break;
      default:
        done = passes(phase);
      }
    }
    if (failed(done))
      return failure();
    std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    seconds.push_back({phaseName(phase).str(), elapsed.count()});
    if (failed(dump(phase)))
      return failure();
  }
  return success();
}

LogicalResult tessera::link(Compilation &compilation) {
  Location here = UnknownLoc::get(&compilation.context);
  if (failed(compilation.weights.writeSafetensors(compilation.options.output + ".safetensors", *compilation.module)))
    return failure();
  if (llvm::Error error = cpu::writeExecutable(compilation.description, *compilation.kernels, compilation.options.output))
    return emitError(here) << llvm::toString(std::move(error));
  return success();
}

LogicalResult tessera::compile(const CompileOptions &options) {
  auto context = makeContext();
  installDiagnostics(*context);
  Compilation compilation(options, *context);
  if (failed(compilation.run(options.to)))
    return failure();
  if (options.to != Phase::Link) {
    std::string message;
    auto file = openOutputFile(options.output.empty() ? "-" : options.output, &message);
    if (!file)
      return emitError(UnknownLoc::get(context.get())) << message;
    if (options.to == Phase::Lower)
      file->os() << compilation.description << "\n";
    else
      (*compilation.module)->print(file->os(), OpPrintingFlags().enableDebugInfo(true, false));
    file->keep();
    return success();
  }
  auto begin = std::chrono::steady_clock::now();
  if (failed(link(compilation)))
    return failure();
  std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  compilation.seconds.push_back({"link", elapsed.count()});
  if (options.timing)
    printTiming(compilation.seconds, llvm::errs());
  return success();
}
