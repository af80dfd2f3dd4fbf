// Compiles the kernels of a module in parallel, identical ones once.

#include "dialects/exec/Attributes.h"
#include "lib/Target/Common/Backend.h"
#include "lib/Target/Common/LowerLoops.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
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
  copy->print(stream, OpPrintingFlags().useLocalScope());
  return text;
}

llvm::StringMap<std::string> dedupe(ModuleOp module) {
  llvm::StringMap<std::string> names, firstWithText;
  for (auto func : module.getOps<func::FuncOp>())
    if (!func.isExternal())
      names[func.getName()] = firstWithText.try_emplace(kernelText(func), func.getName().str()).first->second;
  return names;
}

/// Simplifies a kernel so that equal things are one value, which the statement reader relies on for sharing.
static LogicalResult simplify(ModuleOp module) {
  PassManager pm(module.getContext());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  return pm.run(module);
}

std::unique_ptr<MLIRContext> makeKernelContext() {
  DialectRegistry registry;
  registerKernelDialects(registry);
  auto context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

/// `func`, whose text this is, parsed into a context of its own.
static FailureOr<KernelInfo> analyseText(func::FuncOp func, const std::string &text, MLIRContext &own) {
  std::string messages;
  ScopedDiagnosticHandler handler(&own, [&](Diagnostic &diagnostic) {
    messages += (messages.empty() ? "" : "; ") + diagnostic.str();
    return success();
  });
  auto fail = [&] {
    return func.emitError("kernel '") << func.getName() << "' cannot be compiled: " << messages;
  };
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, ParserConfig(&own));
  if (!module || failed(simplify(*module)))
    return fail();
  auto copy = *module->getOps<func::FuncOp>().begin();
  if (needsBufferization(copy)) {
    KernelInfo info;
    if (failed(bufferizeKernel(copy, anonymous, info)))
      return fail();
    return info;
  }
  FailureOr<Kernel> kernel = readKernel(copy);
  if (failed(kernel) || failed(schedule(*kernel)))
    return fail();
  return kernel->info;
}

FailureOr<KernelInfo> analyse(func::FuncOp func, MLIRContext &own) {
  // By text: a search compiles the same kernels with recipe after recipe.
  static std::mutex mutex;
  static std::unordered_map<std::string, KernelInfo> known;
  std::string text = kernelText(func);
  {
    std::lock_guard lock(mutex);
    if (auto found = known.find(text); found != known.end())
      return found->second;
  }
  FailureOr<KernelInfo> info = analyseText(func, text, own);
  std::lock_guard lock(mutex);
  if (succeeded(info))
    known.emplace(std::move(text), *info);
  return info;
}

namespace {
struct Job {
  std::string name, text, symbol;
  std::shared_ptr<const KernelCode> code;
  std::string error;
};

/// The kernels this process has compiled, by back end and text.
struct Cache {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<const KernelCode>> entries;
};
} // namespace

static Cache &cache() {
  static Cache instance;
  return instance;
}

static LogicalResult compileOne(MLIRContext &context, Job &job, const KernelBackend &backend, bool plain) {
  ParserConfig config(&context);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(job.text, config);
  if (!module || failed(simplify(*module)))
    return failure();
  auto func = *module->getOps<func::FuncOp>().begin();
  relaxReductions(func);
  std::string implementation = job.symbol + "_body";
  auto code = std::make_shared<KernelCode>();
  if (plain || needsBufferization(func)) {
    if (failed(bufferizeKernel(func, implementation, code->info)))
      return failure();
  } else {
    FailureOr<Kernel> kernel = readKernel(func);
    if (failed(kernel) || failed(schedule(*kernel)))
      return failure();
    code->launch = backend.adapt(*kernel);
    if (failed(emitLoops(*kernel, implementation)))
      return failure();
    code->info = kernel->info;
    func.erase();
  }
  bool exact = false;
  module->walk(
      [&](Operation *op) { exact |= llvm::any_of(op->getResultTypes(), [](Type t) { return t.isF64(); }); });
  if (failed(verify(*module)) || failed(expandMath(*module, backend.roundsToBF16(), backend.callsLibrary())))
    return failure();
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> base = lowerToLlvm(*module, llvmContext);
  if (!base) {
    job.error = "it could not be lowered to LLVM IR";
    return failure();
  }
  if (llvm::Error error = backend.emit(*base, implementation, job.symbol, exact, *code)) {
    job.error = llvm::toString(std::move(error));
    return failure();
  }
  job.code = std::move(code);
  return success();
}

static void compileJobs(std::vector<Job *> &jobs, std::atomic<size_t> &next, const KernelBackend &backend,
                        bool plain) {
  std::unique_ptr<MLIRContext> own = makeKernelContext();
  MLIRContext &context = *own;
  for (size_t i; (i = next++) < jobs.size();) {
    Job &job = *jobs[i];
    std::string messages;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      messages += (messages.empty() ? "" : "; ") + diagnostic.str();
      return success();
    });
    if (failed(compileOne(context, job, backend, plain))) {
      if (job.error.empty())
        job.error = messages.empty() ? "unknown error" : messages;
      else if (!messages.empty())
        job.error += ": " + messages;
    }
  }
}

FailureOr<CompiledKernels> compileKernels(ModuleOp module, const KernelBackend &backend, unsigned threadCount,
                                          bool plain) {
  auto start = std::chrono::steady_clock::now();
  CompiledKernels result;
  std::vector<Job> jobs;
  std::string key = backend.key() + (plain ? "_plain" : "");
  llvm::StringMap<unsigned> byText;
  for (auto func : module.getOps<func::FuncOp>()) {
    if (func.isExternal())
      continue;
    std::string text = kernelText(func);
    auto [it, isNew] = byText.try_emplace(text, jobs.size());
    if (isNew) {
      Job job;
      job.name = func.getName().str();
      auto digest = llvm::SHA1::hash(llvm::arrayRefFromStringRef(text));
      job.symbol = "kernel_" + llvm::toHex(ArrayRef<uint8_t>(digest).take_front(8), /*LowerCase=*/true);
      job.text = std::move(text);
      jobs.push_back(std::move(job));
    }
    result.byName[func.getName()] = it->second;
  }
  std::vector<Job *> pending;
  {
    std::lock_guard lock(cache().mutex);
    for (Job &job : jobs) {
      auto it = cache().entries.find(key + job.text);
      if (it == cache().entries.end()) {
        pending.push_back(&job);
        continue;
      }
      job.code = it->second;
      ++result.reused;
    }
  }
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min<size_t>(std::max(1u, threadCount), pending.size()); ++i)
    threads.emplace_back([&] { compileJobs(pending, next, backend, plain); });
  if (!pending.empty())
    compileJobs(pending, next, backend, plain);
  for (std::thread &thread : threads)
    thread.join();
  bool failedAny = false;
  for (Job &job : jobs) {
    if (!job.code) {
      module.emitError("kernel '") << job.name << "' cannot be compiled: " << job.error;
      failedAny = true;
      continue;
    }
    std::lock_guard lock(cache().mutex);
    cache().entries.try_emplace(key + job.text, job.code);
    auto part = [&](const std::string &text) { return std::shared_ptr<const std::string>(job.code, &text); };
    result.kernels.push_back(
        {job.symbol, job.code->info, part(job.code->object), job.code->launch, part(job.code->twin)});
  }
  if (failedAny)
    return failure();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

} // namespace tessera::target
