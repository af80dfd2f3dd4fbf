#include "lib/Driver/Compile.h"
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pipeline.h"
#include "dialects/dist/Place.h"
#include "dialects/exec/Attributes.h"
#include "dialects/nn/Attributes.h"
#include "lib/Driver/Cuts.h"
#include "lib/Driver/MachineOption.h"
#include "lib/Driver/OtherPlans.h"
#include "lib/Driver/Page/Page.h"
#include "lib/Driver/Report.h"
#include "lib/Driver/Sizes.h"
#include "lib/Export/WriteWeights.h"
#include "lib/Target/Common/Link.h"
#include "lib/Target/Program.h"
#include "lib/Target/Targets.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Assign/Passes.h"
#include "passes/Assign/Plan.h"
#include "passes/Differentiate/Passes.h"
#include "passes/Kernels/Passes.h"
#include "passes/Memory/Passes.h"
#include "passes/Normalize/Passes.h"
#include "passes/Partition/Passes.h"
#include "passes/Propagate/Passes.h"
#include "passes/Schedule/Passes.h"
#include "runtime/core/error.h"
#include "runtime/machine/machine.h"
#include "runtime/program/description.h"
#include "runtime/program/packed_text.h"
#include "runtime/program/write_description.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <chrono>
#include <thread>

using namespace mlir;
using namespace tessera;

static constexpr std::pair<Phase, llvm::StringLiteral> kPhases[] = {
    {Phase::Import, "import"},     {Phase::Normalize, "normalize"}, {Phase::Differentiate, "differentiate"},
    {Phase::Assign, "assign"},     {Phase::Propagate, "propagate"}, {Phase::Partition, "partition"},
    {Phase::Schedule, "schedule"}, {Phase::Memory, "memory"},       {Phase::Lower, "lower"},
    {Phase::Link, "link"}};

StringRef tessera::phaseName(Phase phase) { return kPhases[int(phase)].second; }

std::optional<Phase> tessera::parsePhase(StringRef name) {
  for (auto &[phase, text] : kPhases)
    if (text == name)
      return phase;
  return std::nullopt;
}

std::unique_ptr<MLIRContext> tessera::makeContext() {
  registerTargets();
  DialectRegistry registry;
  registry.insert<nn::NNDialect, dist::DistDialect, exec::ExecDialect, func::FuncDialect,
                  linalg::LinalgDialect, tensor::TensorDialect, arith::ArithDialect, math::MathDialect,
                  scf::SCFDialect, bufferization::BufferizationDialect>();
  auto context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

int64_t Compilation::threads() const {
  int64_t ranks = 1;
  for (auto mesh : (*module).getOps<dist::MeshOp>())
    ranks = mesh.getMesh().getMesh().numRanks();
  return threadsOf(ranks);
}

int64_t Compilation::threadsOf(int64_t ranks) const {
  if (options.threads > 0)
    return options.threads;
  return std::max<int64_t>(1, int64_t(std::thread::hardware_concurrency()) / ranks);
}

bool Compilation::hasWeights() {
  return llvm::all_of((*module).getOps<nn::VariableOp>(), [&](nn::VariableOp v) {
    return v.getInit() != "file" || weights.find(v.getSymName());
  });
}

// f16 or bf16 where a parameter comes so; else null.
static Type halfOfParameters(ModuleOp module) {
  for (nn::VariableOp variable : module.getOps<nn::VariableOp>())
    if (Type type = cast<ShapedType>(variable.getType()).getElementType();
        variable.getRole() == "parameter" && (type.isF16() || type.isBF16()))
      return type;
  return Type();
}

// What --dtype or the plan asks for; a program that has been differentiated cannot change it any more.
LogicalResult Compilation::chooseComputeType() {
  FailureOr<std::string> planned = plannedComputeType(*module, options.assign);
  if (failed(planned))
    return failure();
  Location here = UnknownLoc::get(&context);
  if (!planned->empty() && !options.dtype.empty() && *planned != options.dtype)
    return emitError(here) << "--dtype=" << options.dtype << ": the plan says compute = \"" << *planned
                           << "\"; give one of them";
  std::string wanted = planned->empty() ? options.dtype : *planned,
              have = exec::dtypeName(nn::computeTypeOf(*module));
  // What its file computes in needs no conversion.
  if (Type given = have == "f32" ? halfOfParameters(*module) : Type();
      given && (wanted.empty() || wanted == exec::dtypeName(given))) {
    nn::kComputeType.set(*module, TypeAttr::get(given));
    return success();
  }
  if (wanted.empty() || wanted == have)
    return success();
  if (next > Phase::Differentiate || have != "f32")
    return emitError(here) << "\"" << options.model << "\" is text that computes in " << have
                           << " and cannot change to " << wanted
                           << "; start from text before phase differentiate, or from the model";
  PassManager pm(&context);
  ComputeTypeOptions compute;
  compute.type = wanted;
  pm.addPass(createComputeType(compute));
  return pm.run(*module);
}

// How each kernel is run, what it may write over and how much scratch it takes.
static LogicalResult describeKernels(ModuleOp module) {
  auto kernels = module.lookupSymbol<ModuleOp>(kKernelsModule);
  Builder b(module.getContext());
  target::KernelContext own;
  for (auto func : kernels.getOps<func::FuncOp>()) {
    FailureOr<target::KernelInfo> info = target::analyse(func, own);
    if (failed(info))
      return failure();
    exec::kExtent.set(func, b.getI64IntegerAttr(info->extent));
    exec::kGrain.set(func, b.getI64IntegerAttr(info->grain));
    if (info->workspace)
      exec::kWorkspace.set(func, b.getI64IntegerAttr(info->workspace));
    SmallVector<Attribute> pairs;
    for (auto [arg, result] : info->inPlace)
      pairs.push_back(b.getDenseI64ArrayAttr({int64_t(arg), int64_t(result)}));
    if (!pairs.empty())
      exec::kInPlace.set(func, b.getArrayAttr(pairs));
  }
  return success();
}

// What the options say of memory, in place of what a text has from the options that it was made with.
void Compilation::setLimits() {
  Builder b(&context);
  if (isAssigned)
    return;
  auto set = [&](auto &attr, std::optional<int64_t> bytes) {
    if (bytes)
      attr.set(*module, b.getI64IntegerAttr(*bytes));
  };
  set(dist::kDeviceMemory, options.deviceMemory);
  set(dist::kHostMemory, options.hostMemory);
  if (options.nvme) {
    dist::kNvmeMemory.set(*module, b.getI64IntegerAttr(options.nvme->bytes));
    dist::kNvmeFolder.set(*module, b.getStringAttr(options.nvme->folder));
  }
  if (options.deviceMemory)
    dist::kOffload.set(
        *module, b.getStrArrayAttr(SmallVector<StringRef>(options.offload.begin(), options.offload.end())));
}

LogicalResult Compilation::checkMachine(int64_t ranks) {
  if (!machine)
    return success();
  Location here = UnknownLoc::get(&context);
  try {
    std::string type = exec::dtypeName(nn::computeTypeOf(*module));
    rt::checkProducts(*machine, rt::parseDType(type).value_or(rt::DType::F32));
  } catch (const rt::Error &error) {
    return emitError(here) << "\"" << options.machineFile << "\" does not serve here: " << error.what();
  }
  if (!machine->levels.empty() && machine->levels.back().ranks < ranks)
    return emitError(here) << "\"" << options.machineFile << "\" is a machine for "
                           << machine->levels.back().ranks << " ranks, and there are " << ranks
                           << "; its last [[level]] says how many";
  return success();
}

// The rates that decisions are made by: those of --machine, else the text's own, else the target's.
LogicalResult Compilation::setMachine(Phase phase) {
  if (!machine && (phase != Phase::Assign || dist::kMachine.isOn(*module)))
    return success();
  dist::Machine rates = target().machine();
  if (machine) {
    dist::Mesh mesh;
    for (auto op : (*module).getOps<dist::MeshOp>())
      mesh = op.getMesh().getMesh();
    if (failed(checkMachine(mesh.numRanks())))
      return failure();
    rates = machineOf(*machine, rates, mesh);
  }
  if (machine || rates != dist::Machine())
    dist::kMachine.set(*module, dist::MachineAttr::get(&context, rates));
  return success();
}

// With a cap, which a plan or a text may have given, recomputation may help to keep it.
void Compilation::setRecomputation() {
  Builder b(&context);
  if (!options.recompute.empty())
    dist::kRecomputation.set(*module, b.getStringAttr(options.recompute));
  else if (dist::kDeviceMemory.isOn(*module) && !dist::kRecomputation.isOn(*module))
    dist::kRecomputation.set(*module, b.getStringAttr("auto"));
}

// Moves that were decided for a program do not fit one that has its gradients as outputs: they are chosen
// anew. Nor do gradients go down to an update for good there.
static void dropMoves(ModuleOp module) {
  ArrayAttr places = dist::kPlace.of(module);
  if (!places)
    return;
  bool hasMoves =
      llvm::any_of(places, [](Attribute each) { return !dist::Place::from(each)->moves.empty(); });
  SmallVector<Attribute> kept = llvm::filter_to_vector(
      places, [&](Attribute each) { return !hasMoves && dist::Place::from(each)->update.empty(); });
  dist::kPlace.remove(module);
  if (!kept.empty())
    dist::kPlace.set(module, ArrayAttr::get(module.getContext(), kept));
}

// Runs passes over a program that is unrolled, and may be large: what they leave is verified once.
static LogicalResult runAndVerify(PassManager &pm, ModuleOp module) {
  pm.enableVerifier(false);
  return success(succeeded(pm.run(module)) && succeeded(verify(module)));
}

static ScheduleOptions scheduleOptions(Compilation &compilation) {
  const CompileOptions &options = compilation.options;
  ScheduleOptions schedule;
  schedule.target = compilation.target().library().name().str();
  schedule.threads = compilation.threads();
  schedule.tierPolicy = options.tierPolicy;
  schedule.onlyTraining = options.toCompare;
  schedule.advises = options.advises;
  schedule.anyPlacement = options.anyPlacement;
  schedule.turns = options.turns;
  schedule.describeKernels = describeKernels;
  // By program: values are made again before any program is placed.
  auto repeated = std::make_shared<llvm::StringMap<std::vector<std::string>>>();
  schedule.repeated = [repeated](StringRef program, ArrayRef<std::string> values) {
    (*repeated)[program] = values.vec();
  };
  if (compilation.wantsPlaced)
    schedule.placed = [&compilation, repeated](PlacedProgram each) {
      const std::vector<std::string> names = repeated->lookup(each.program);
      each.repeated.insert(each.repeated.end(), names.begin(), names.end());
      compilation.placed.push_back(std::move(each));
    };
  schedule.onlyLeast = compilation.onlyLeast;
  if (compilation.wantsLeast)
    schedule.refused = [&compilation](int64_t bytes) { compilation.leastDevice = bytes; };
  schedule.placedOnNvme = [&compilation](StringRef program, ArrayRef<std::string> values) {
    for (PlacedProgram &each : compilation.placed)
      if (each.program == program)
        each.onNvme.insert(values.begin(), values.end());
  };
  return schedule;
}

LogicalResult Compilation::passes(Phase phase) {
  PassManager pm(&context);
  if (phase >= Phase::Assign && failed(setMachine(phase)))
    return failure();
  // What is only compared is verified once, when it is scheduled; the best plans are compiled again.
  const bool verifies = !options.toCompare;
  pm.enableVerifier(verifies);
  auto verifyLayouts = [&] {
    if (verifies)
      pm.addPass(createVerifyLayouts());
  };
  switch (phase) {
  case Phase::Normalize: {
    NormalizeOptions n;
    n.capacityFactor = options.capacityFactor;
    pm.addPass(createNormalize(n));
    break;
  }
  case Phase::Differentiate:
    pm.addPass(createCSEPass());
    if (!options.optimizer.empty()) {
      DifferentiateOptions d;
      d.optimizer = options.optimizer;
      d.loss = options.loss;
      d.emitGrads = options.emitGradients;
      pm.addPass(createDifferentiate(d));
    }
    pm.addPass(createStopTraining());
    break;
  case Phase::Assign:
    chooseCut(*this);
    pm.addPass(createAssign(options.assign));
    isAssigned = true;
    break;
  case Phase::Propagate:
    pm.addPass(createPropagate());
    verifyLayouts();
    break;
  case Phase::Partition:
    // Again: the program may have come from a text.
    verifyLayouts();
    if (options.toCompare)
      pm.addPass(createKeepTraining());
    pm.addPass(createPartition());
    pm.addPass(createCanonicalizerPass());
    pm.addPass(createCSEPass());
    break;
  case Phase::Schedule:
    setLimits();
    setRecomputation();
    if (options.emitGradients)
      dropMoves(*module);
    buildSchedulePipeline(pm, scheduleOptions(*this));
    return runAndVerify(pm, *module);
  default:
    return success();
  }
  return pm.run(*module);
}

LogicalResult Compilation::lower() {
  if (failed(writeDescription()))
    return failure();
  std::vector<target::ProgramKernels> programs = {
      {(*module).lookupSymbol<ModuleOp>(kKernelsModule), kernelPrefix}};
  if (otherSizes && failed(otherSizes->finish(programs)))
    return failure();
  FailureOr<target::CompiledKernels> compiled =
      target().compileKernels(programs, /*twins=*/!options.hostTwins.empty());
  if (failed(compiled))
    return failure();
  kernels = std::move(*compiled);
  return success();
}

FailureOr<rt::Description> Compilation::describe() {
  return isAssigned ? describeUnread() : writeDescription();
}

FailureOr<rt::Description> Compilation::describeUnread() {
  if (failed(setMachine(Phase::Lower)))
    return failure();
  ProgramInfo info;
  info.target = target().name();
  info.dtype = exec::dtypeName(nn::computeTypeOf(*module));
  info.modelHash = modelHash;
  info.planHash = planHash;
  info.threads = threads();
  info.kernelPrefix = kernelPrefix;
  dist::Mesh mesh;
  for (auto op : (*module).getOps<dist::MeshOp>())
    mesh = op.getMesh().getMesh();
  dist::Machine own = machine ? target().machine() : dist::Machine::of(*module);
  info.ownRates = fileOf(own, mesh);
  info.rates = machine;
  if (machine && machine->name.empty())
    info.rates->name = options.machineFile;
  try {
    return describeProgram(*module, info);
  } catch (const rt::Error &error) {
    return emitUnreadable(error);
  }
}

FailureOr<rt::Description> Compilation::writeDescription() {
  FailureOr<rt::Description> described = describeUnread();
  if (failed(described))
    return failure();
  description = rt::descriptionText(*described);
  described = rt::Description(); // its memory, before that is read again
  try {
    return rt::parseDescription(description);
  } catch (const rt::Error &error) {
    return emitUnreadable(error);
  }
}

InFlightDiagnostic Compilation::emitUnreadable(const rt::Error &error) {
  return emitError(UnknownLoc::get(&context))
         << "internal error: the executable could not read what was compiled for it: " << error.what()
         << "; no executable is written; please report this with the model and the options";
}

static std::string printed(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module->print(os, OpPrintingFlags().enableDebugInfo(true, false));
  return text;
}

// Where the stages of a pipeline have programs of their own, one file more for each, to be read:
// NN-PHASE.stageK.mlir.
LogicalResult Compilation::dumpStages(StringRef path) {
  std::optional<dist::Pipeline> pipeline = dist::Pipeline::of(*module);
  auto stageOf = [](func::FuncOp func) { return dist::kStage.of(func); };
  if (!pipeline || llvm::none_of((*module).getOps<func::FuncOp>(), stageOf))
    return success();
  for (int64_t stage = 0; stage < pipeline->numStages; ++stage) {
    OwningOpRef<ModuleOp> own = (*module).clone();
    for (auto func : llvm::make_early_inc_range(own->getOps<func::FuncOp>()))
      if (auto other = stageOf(func); other && other.getInt() != stage)
        func.erase();
    std::string name = (path.drop_back(StringRef("mlir").size()) + "stage" + Twine(stage) + ".mlir").str();
    if (failed(writeText(context, name, printed(*own))))
      return failure();
  }
  return success();
}

LogicalResult Compilation::dump(Phase phase) {
  if (options.dumpDirectory.empty())
    return success();
  Location here = UnknownLoc::get(&context);
  if (auto error = llvm::sys::fs::create_directories(options.dumpDirectory))
    return emitError(here) << "cannot create the folder \"" << options.dumpDirectory
                           << "\": " << error.message();
  std::string path = options.dumpDirectory + "/" + (int(phase) < 10 ? "0" : "") + std::to_string(int(phase)) +
                     "-" + phaseName(phase).str() + ".mlir";
  if (failed(writeText(context, path, printed(*module))) || failed(dumpStages(path)))
    return failure();
  SmallString<128> values(options.dumpDirectory);
  llvm::sys::path::append(values, kDumpedWeights);
  if (seconds.size() == 1 && hasWeights() && failed(writeWeights(std::string(values), *module, weights)))
    return failure();
  if (phase != Phase::Lower)
    return success();
  StringRef extension = target().textExtension();
  for (const target::CompiledKernel *kernel : kernels->distinctCode())
    if (!extension.empty() &&
        failed(writeText(context, options.dumpDirectory + "/" + kernel->symbol + extension.str(),
                         *kernel->object)))
      return failure();
  return writeText(context, options.dumpDirectory + "/program.json", description);
}

LogicalResult Compilation::memory() {
  // Text may have kernels that nobody has looked at.
  auto kernels = (*module).lookupSymbol<ModuleOp>(kKernelsModule);
  if (kernels && !llvm::all_of(kernels.getOps<func::FuncOp>(), isDescribed)) {
    PassManager pm(&context);
    pm.addPass(createLowerKernels());
    if (failed(pm.run(*module)) || failed(describeKernels(*module)))
      return failure();
  }
  PassManager plan(&context);
  PlanMemoryOptions memory;
  memory.target = target().library().name().str();
  memory.threads = threads();
  memory.searches = !options.toCompare;
  plan.addNestedPass<func::FuncOp>(createVerifyRecompute());
  plan.addPass(options.report.empty()
                   ? createPlanMemory(memory)
                   : createPlanMemory(memory, [this](MemoryTide tide) { tides.push_back(std::move(tide)); }));
  if (options.toCompare) {
    plan.enableVerifier(false);
    return plan.run(*module);
  }
  plan.addPass(createVerifyMemory());
  return runAndVerify(plan, *module);
}

// Which loss is taken, where the options leave the choice to the compiler.
static void noteLoss(ModuleOp module) {
  for (auto func : module.getOps<func::FuncOp>())
    if (auto loss = nn::kLoss.of(func))
      emitRemark(UnknownLoc::get(module.getContext()))
          << "the loss is " << loss.getValue() << "; choose another by --loss";
}

LogicalResult Compilation::run(Phase last) {
  auto begin = std::chrono::steady_clock::now();
  auto finish = [&](Phase phase) -> LogicalResult {
    Builder b(&context);
    nn::kPhase.set(*module, b.getStringAttr(phaseName(phase)));
    nn::kModel.set(*module, b.getStringAttr(modelHash));
    if (!planHash.empty())
      nn::kPlan.set(*module, b.getStringAttr(planHash));
    auto now = std::chrono::steady_clock::now();
    seconds.push_back({phaseName(phase).str(), std::chrono::duration<double>(now - begin).count()});
    LogicalResult dumped = dump(phase);
    begin = std::chrono::steady_clock::now();
    return dumped;
  };
  if (!module && (failed(load()) || failed(finish(Phase(int(next) - 1)))))
    return failure();
  for (; next <= std::min(last, Phase::Lower); next = Phase(int(next) + 1)) {
    if ((next == Phase::Differentiate || next == Phase::Assign) && failed(chooseComputeType()))
      return failure();
    OwningOpRef<ModuleOp> differentiated;
    if (next == Phase::Assign && last == Phase::Link)
      differentiated = (*module).clone();
    if (failed(next == Phase::Memory ? memory() : next == Phase::Lower ? lower() : passes(next)))
      return failure();
    if (differentiated)
      otherSizes = startOtherSizes(*this, *differentiated);
    if (next == Phase::Differentiate && options.loss.empty())
      noteLoss(*module);
    if (next == Phase::Propagate)
      warnOfRepeats(*module);
    if (next == Phase::Propagate && !options.report.empty())
      facts = collectFacts(*module);
    if (next == Phase::Schedule && !options.report.empty())
      streams = collectStreams(*module);
    if (failed(finish(next)))
      return failure();
  }
  return success();
}

LogicalResult tessera::link(Compilation &compilation) {
  Location here = UnknownLoc::get(&compilation.context);
  if (failed(writeWeights(compilation.options.output + ".safetensors", *compilation.module,
                          compilation.weights)))
    return failure();
  const CompileOptions &options = compilation.options;
  llvm::Error error = compilation.target().writeExecutable(
      rt::pack(compilation.allSizes.empty() ? compilation.description : compilation.allSizes),
      *compilation.kernels, options.output);
  if (!error && !options.hostTwins.empty())
    error = target::linkTwins(*compilation.kernels, options.hostTwins);
  if (error) {
    (void)llvm::sys::fs::remove(options.output + ".safetensors"); // nobody reads it now
    return emitError(here) << llvm::toString(std::move(error));
  }
  return success();
}

LogicalResult tessera::writeText(Compilation &compilation) {
  const CompileOptions &options = compilation.options;
  Location here = UnknownLoc::get(&compilation.context);
  if (compilation.next <= options.to)
    return emitError(here) << "\"" << options.model << "\" cannot be compiled to " << phaseName(options.to);
  if (int(compilation.next) > int(options.to) + 1)
    return emitError(here) << "\"" << options.model << "\" is text after phase "
                           << phaseName(Phase(int(compilation.next) - 1)) << ", which is behind --to "
                           << phaseName(options.to);
  std::string text =
      options.to == Phase::Lower ? compilation.description + "\n" : printed(*compilation.module);
  if (failed(writeText(compilation.context, options.output.empty() ? "-" : options.output, text)))
    return failure();
  bool isFile = llvm::sys::fs::is_regular_file(options.output);
  if (options.to == Phase::Lower || !isFile || !compilation.hasWeights())
    return success();
  return writeWeights(options.output + ".safetensors", *compilation.module, compilation.weights);
}

// Text of one size does not lead to others.
static void noteMissingSizes(ModuleOp module) {
  std::optional<rt::Shards> shards = dist::shardsOf(module);
  if (shards && shards->sizes.size() > 1)
    emitRemark(UnknownLoc::get(module.getContext()))
        << "the text is of size " << shards->size << " alone; other sizes are compiled from the model";
}

LogicalResult tessera::compile(const CompileOptions &options) {
  auto context = makeContext();
  context->enableMultithreading(); // one model: elsewhere several are compiled at the same time
  installDiagnostics(*context);
  // The executable would take the place of a device or a folder; said now, not after the work.
  if (options.to == Phase::Link && llvm::sys::fs::exists(options.output) &&
      !llvm::sys::fs::is_regular_file(options.output))
    return emitError(UnknownLoc::get(context.get())) << "cannot write '" << options.output
                                                     << "': it exists and is not a regular file; to compile "
                                                        "without output, use --to lower -o /dev/null";
  Compilation compilation(options, *context);
  compilation.wantsPlaced = !options.report.empty();
  if (failed(runWithAdvice(compilation, options.to)))
    return failure();
  if (options.to == Phase::Link && !compilation.otherSizes)
    noteMissingSizes(*compilation.module);
  // Before the executable: a trace of another program leaves none behind.
  const bool hasPage = StringRef(options.report).ends_with(".html");
  if (hasPage && compilation.next == Phase::Lower && failed(compilation.writeDescription()))
    return failure();
  if (hasPage && failed(writePage(compilation, options.report)))
    return failure();
  auto begin = std::chrono::steady_clock::now();
  if (failed(options.to == Phase::Link ? link(compilation) : writeText(compilation)))
    return failure();
  std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  if (options.to == Phase::Link)
    compilation.seconds.push_back({"link", elapsed.count()});
  if (options.timing)
    printTiming(compilation.seconds, llvm::errs());
  return options.report.empty() || hasPage ? success() : writeReport(compilation, options.report);
}
