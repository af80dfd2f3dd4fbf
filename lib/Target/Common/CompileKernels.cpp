// Compiles the kernels of a module in parallel, identical ones once.

#include "dialects/exec/Attributes.h"
#include "lib/Target/Common/Backend.h"
#include "lib/Target/Common/LowerLoops.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/SHA1.h"
#include <chrono>
#include <mutex>
#include <thread>
#include <unordered_map>

using namespace mlir;

namespace tessera::target {

/// The name kernels have while they are compiled, whatever they are called in the program.
static constexpr llvm::StringLiteral anonymous = "kernel";

std::string kernelText(func::FuncOp func) {
  OwningOpRef<func::FuncOp> copy = func.clone();
  copy->setName(anonymous);
  copy->setPrivate();
  // What other passes noted on operations and arguments neither changes the code nor is known where it is
  // compiled.
  copy->walk([](Operation *op) { op->setDiscardableAttrs(ArrayRef<NamedAttribute>()); });
  for (unsigned i = 0; i < copy->getNumArguments(); ++i) {
    Attribute inPlace = copy->getArgAttr(i, exec::kResult.name);
    copy->setArgAttrs(i, ArrayRef<NamedAttribute>());
    if (inPlace)
      copy->setArgAttr(i, exec::kResult.name, inPlace);
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  copy->print(stream, OpPrintingFlags().useLocalScope().assumeVerified());
  return text;
}

llvm::StringMap<std::string> dedupe(ModuleOp module) {
  llvm::StringMap<std::string> names, firstWithText;
  for (auto func : module.getOps<func::FuncOp>())
    if (!func.isExternal())
      names[func.getName()] = firstWithText.try_emplace(kernelText(func), func.getName().str()).first->second;
  return names;
}

namespace {
/// A kernel as LLVM IR in a context of its own.
struct LoweredKernel {
  KernelUse use;
  std::string text; ///< what its code is made of, and depends on
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
};

/// How a kernel is run, and code under a symbol, which other kernels may have too.
struct FinishedKernel {
  KernelUse use;
  std::string symbol;
  std::shared_ptr<const KernelCode> code;
};

struct Job {
  func::FuncOp func; // the first with that text
  std::string text;
  LoweredKernel lowered;
  FinishedKernel finished;
  std::string error;
};

/// What this process has compiled: kernels by back end and text, their code by symbol.
struct Cache {
  std::mutex mutex;
  std::unordered_map<std::string, FinishedKernel> kernels;
  std::unordered_map<std::string, KernelInfo> analysed; // by text
  std::unordered_map<std::string, std::shared_ptr<const KernelCode>> code;
};
} // namespace

static Cache &cache() {
  static Cache instance;
  return instance;
}

KernelContext::KernelContext() = default;

KernelContext::~KernelContext() = default;

MLIRContext &KernelContext::get() {
  if (context)
    return *context;
  DialectRegistry registry;
  registerKernelDialects(registry);
  context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  simplification = std::make_unique<PassManager>(context.get());
  simplification->addPass(createCanonicalizerPass());
  simplification->addPass(createCSEPass());
  lowering = std::make_unique<PassManager>(context.get());
  buildLoweringPipeline(*lowering);
  return *context;
}

LogicalResult KernelContext::simplify(ModuleOp module) { return simplification->run(module); }

LogicalResult KernelContext::lower(ModuleOp module) { return lowering->run(module); }

static FailureOr<KernelInfo> analyseText(StringRef text, KernelContext &own) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, ParserConfig(&own.get()));
  if (!module || failed(own.simplify(*module)))
    return failure();
  auto func = *module->getOps<func::FuncOp>().begin();
  if (needsBufferization(func)) {
    KernelInfo info;
    if (failed(bufferizeKernel(func, anonymous, info)))
      return failure();
    return info;
  }
  FailureOr<Kernel> kernel = readKernel(func);
  if (failed(kernel) || failed(schedule(*kernel)))
    return failure();
  return kernel->info;
}

FailureOr<KernelInfo> analyse(func::FuncOp func, KernelContext &own) {
  std::string messages, text = kernelText(func);
  {
    std::lock_guard lock(cache().mutex);
    if (auto known = cache().analysed.find(text); known != cache().analysed.end())
      return known->second;
  }
  ScopedDiagnosticHandler handler(&own.get(), [&](Diagnostic &diagnostic) {
    messages += (messages.empty() ? "" : "; ") + diagnostic.str();
    return success();
  });
  FailureOr<KernelInfo> info = analyseText(text, own);
  if (failed(info))
    return func.emitError("kernel '") << func.getName() << "' cannot be compiled: " << messages;
  std::lock_guard lock(cache().mutex);
  cache().analysed.try_emplace(std::move(text), *info);
  return info;
}

/// Calls `make()` on each thread and what that returns for each of [0, count), by whichever thread is free.
template <typename Make> static void inParallel(size_t count, unsigned threadCount, Make make) {
  std::atomic<size_t> next = 0;
  auto work = [&] {
    auto one = make();
    for (size_t i; (i = next++) < count;)
      one(i);
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min<size_t>(std::max(1u, threadCount), count); ++i)
    threads.emplace_back(work);
  if (count)
    work();
  for (std::thread &thread : threads)
    thread.join();
}

/// The name of the loops in LLVM IR.
static constexpr llvm::StringLiteral implementation = "kernel_body";

static LogicalResult lowerOne(KernelContext &own, Job &job, const KernelBackend &backend, bool plain) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(job.text, ParserConfig(&own.get()));
  if (!module || failed(own.simplify(*module)))
    return failure();
  auto func = *module->getOps<func::FuncOp>().begin();
  relaxReductions(func);
  LoweredKernel &lowered = job.lowered;
  KernelUse &use = lowered.use;
  if (plain || needsBufferization(func)) {
    if (failed(bufferizeKernel(func, implementation, use.info)))
      return failure();
  } else {
    FailureOr<Kernel> kernel = readKernel(func);
    if (failed(kernel) || failed(schedule(*kernel)))
      return failure();
    use.launch = backend.adapt(*kernel);
    if (failed(emitLoops(*kernel, implementation)))
      return failure();
    use.info = kernel->info;
    func.erase();
  }
  module->walk([&](Operation *op) {
    use.exact |= llvm::any_of(op->getResultTypes(), [](Type t) { return t.isF64(); });
  });
  if (failed(verify(*module)) || failed(expandMath(*module, backend.roundsToBF16(), backend.callsLibrary())))
    return failure();
  lowered.context = std::make_unique<llvm::LLVMContext>();
  if (succeeded(own.lower(*module)))
    lowered.module = translateToLlvm(*module, *lowered.context);
  if (!lowered.module) {
    job.error = "it could not be lowered to LLVM IR";
    return failure();
  }
  llvm::raw_string_ostream stream(lowered.text);
  stream << backend.key() << " " << backend.keyOfUse(use) << " " << use.exact << "\n" << *lowered.module;
  return success();
}

static void lowerJobs(ArrayRef<Job *> jobs, unsigned threads, const KernelBackend &backend, bool plain) {
  inParallel(jobs.size(), threads, [&] {
    // Each thread has a context.
    return [&, own = std::make_shared<KernelContext>()](size_t i) {
      Job &job = *jobs[i];
      std::string messages;
      ScopedDiagnosticHandler handler(&own->get(), [&](Diagnostic &diagnostic) {
        messages += (messages.empty() ? "" : "; ") + diagnostic.str();
        return success();
      });
      if (succeeded(lowerOne(*own, job, backend, plain)))
        return;
      if (job.error.empty())
        job.error = messages.empty() ? "unknown error" : messages;
      else if (!messages.empty())
        job.error += ": " + messages;
    };
  });
}

/// Makes the code of `jobs`, which have been lowered or have an error, once for those of equal LLVM IR.
static void emitJobs(ArrayRef<Job *> jobs, unsigned threads, const KernelBackend &backend) {
  std::vector<Job *> pending; // the first of each symbol that is new
  {
    std::lock_guard lock(cache().mutex);
    llvm::StringSet<> symbols;
    for (Job *job : jobs) {
      if (!job->error.empty())
        continue;
      auto digest = llvm::SHA1::hash(llvm::arrayRefFromStringRef(job->lowered.text));
      std::string &symbol = job->finished.symbol;
      symbol = "kernel_" + llvm::toHex(ArrayRef<uint8_t>(digest).take_front(8), /*LowerCase=*/true);
      job->finished.use = job->lowered.use;
      if (!cache().code.count(symbol) && symbols.insert(symbol).second)
        pending.push_back(job);
    }
  }
  inParallel(pending.size(), threads, [&] {
    return [&](size_t i) {
      Job &job = *pending[i];
      llvm::Expected<KernelCode> code =
          backend.emit(*job.lowered.module, implementation, job.finished.symbol, job.finished.use);
      if (code)
        job.finished.code = std::make_shared<KernelCode>(std::move(*code));
      else
        job.error = llvm::toString(code.takeError());
    };
  });
  std::lock_guard lock(cache().mutex);
  llvm::StringMap<StringRef> errors; // by symbol
  for (Job *job : pending)
    if (job->finished.code)
      cache().code.try_emplace(job->finished.symbol, job->finished.code);
    else
      errors[job->finished.symbol] = job->error;
  for (Job *job : jobs) {
    job->lowered.module.reset(); // before its context
    job->lowered.context.reset();
    if (job->finished.symbol.empty())
      continue;
    if (auto found = cache().code.find(job->finished.symbol); found != cache().code.end())
      job->finished.code = found->second;
    else if (job->error.empty())
      job->error = errors.lookup(job->finished.symbol).str();
  }
}

FailureOr<CompiledKernels> compileKernels(ArrayRef<ProgramKernels> programs, const KernelBackend &backend,
                                          unsigned threads, bool plain) {
  auto start = std::chrono::steady_clock::now();
  CompiledKernels result;
  std::vector<Job> jobs;
  std::string key = backend.key() + (plain ? "_plain" : "");
  llvm::StringMap<unsigned> byText;
  for (const ProgramKernels &program : programs)
    for (auto func : ModuleOp(program.functions).getOps<func::FuncOp>()) {
      if (func.isExternal())
        continue;
      std::string text = kernelText(func);
      auto [it, isNew] = byText.try_emplace(text, jobs.size());
      if (isNew)
        jobs.push_back({func, std::move(text), {}, {}, {}});
      result.byName[program.prefix + func.getName().str()] = it->second;
    }
  std::vector<Job *> pending;
  {
    std::lock_guard lock(cache().mutex);
    for (Job &job : jobs) {
      auto it = cache().kernels.find(key + job.text);
      if (it == cache().kernels.end()) {
        pending.push_back(&job);
        continue;
      }
      job.finished = it->second;
      ++result.reused;
    }
  }
  lowerJobs(pending, threads, backend, plain);
  emitJobs(pending, threads, backend);
  bool failedAny = false;
  std::lock_guard lock(cache().mutex);
  for (Job &job : jobs) {
    if (!job.error.empty()) {
      // Not at the kernel's place, which is that of one of its operators.
      job.func->getParentOfType<ModuleOp>().emitError("kernel '")
          << job.func.getName() << "' cannot be compiled: " << job.error;
      failedAny = true;
      continue;
    }
    const FinishedKernel &finished = job.finished;
    cache().kernels.try_emplace(key + job.text, finished);
    auto part = [&](const std::string &text) {
      return std::shared_ptr<const std::string>(finished.code, &text);
    };
    result.kernels.push_back({finished.symbol, finished.use.info, part(finished.code->object),
                              finished.use.launch, part(finished.code->twin)});
  }
  if (failedAny)
    return failure();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

} // namespace tessera::target
