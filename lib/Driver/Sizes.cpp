// See Sizes.h.
#include "lib/Driver/Sizes.h"
#include "dialects/dist/Attributes.h"
#include "dialects/dist/Pipeline.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "passes/Kernels/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Threading.h"

using namespace mlir;
using namespace tessera;

OtherSizes::OtherSizes(Compilation &whole, ModuleOp differentiated, const rt::Shards &shards)
    : whole(whole), size(shards.size) {
  llvm::raw_string_ostream stream(model);
  (void)writeBytecodeToFile(differentiated, stream); // fails for older versions of the format only
  // The largest first: they take longest, for what is left in their memory is hardest to pack.
  for (int64_t other : llvm::reverse(shards.sizes))
    if (other != size)
      sizes.push_back({other, nullptr, nullptr, {}, false});
  size_t others = llvm::hardware_concurrency().compute_thread_count() - 1;
  for (size_t i = 0; i < std::min(others, sizes.size()); ++i)
    threads.emplace_back([this] { work(); });
}

OtherSizes::~OtherSizes() {
  isStopped = true;
  for (std::thread &thread : threads)
    thread.join();
}

void OtherSizes::work() {
  for (size_t i; (i = next++) < sizes.size();) {
    Size &one = sizes[i];
    one.context = makeContext();
    // What is worth a warning is said of the first size; errors come with their notes.
    ScopedDiagnosticHandler quiet(one.context.get(), [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
        one.errors.push_back(std::move(diagnostic));
    });
    one.isDone = succeeded(compileOne(one));
  }
}

LogicalResult OtherSizes::compileOne(Size &size) {
  CompileOptions options = whole.options;
  options.assign.size = size.size;
  options.dumpDirectory = options.report = "";
  size.compilation = std::make_unique<Compilation>(options, *size.context);
  Compilation &one = *size.compilation;
  one.module =
      parseSourceString<ModuleOp>(model, ParserConfig(size.context.get(), /*verifyAfterParse=*/false));
  if (!one.module)
    return failure();
  one.next = Phase::Assign;
  one.machine = whole.machine;
  one.modelHash = whole.modelHash;
  one.planHash = whole.planHash;
  one.kernelPrefix = ("size" + Twine(size.size) + ".").str();
  for (Phase phase = one.next; phase <= Phase::Memory; phase = Phase(int(phase) + 1))
    if (isStopped || failed(one.run(phase)))
      return failure();
  return one.writeDescription();
}

LogicalResult OtherSizes::finish(std::vector<target::ProgramKernels> &programs) {
  work();
  for (std::thread &thread : threads)
    thread.join();
  threads.clear();
  SmallVector<std::pair<int64_t, StringRef>> descriptions = {{size, whole.description}};
  for (Size &one : llvm::reverse(sizes)) {
    auto pass = [this](Diagnostic &diagnostic) { whole.context.getDiagEngine().emit(std::move(diagnostic)); };
    llvm::for_each(one.errors, pass);
    one.context->getDiagEngine().registerHandler(pass);
    if (!one.isDone) {
      emitRemark(UnknownLoc::get(&whole.context)) << "that is of size " << one.size << ", one of --sizes";
      return failure();
    }
    Compilation &compilation = *one.compilation;
    programs.push_back(
        {compilation.module->lookupSymbol<ModuleOp>(kKernelsModule), compilation.kernelPrefix});
    descriptions.push_back({one.size, compilation.description});
    for (auto &[phase, seconds] : compilation.seconds)
      for (auto &[name, sum] : whole.seconds)
        if (name == phase)
          sum += seconds;
  }
  llvm::sort(descriptions);
  whole.allSizes = "{\"format\":1,\"size\":" + std::to_string(size) + ",\"sizes\":[\n" +
                   llvm::join(llvm::make_second_range(descriptions), ",\n") + "]}";
  return success();
}

std::shared_ptr<OtherSizes> tessera::startOtherSizes(Compilation &whole, ModuleOp differentiated) {
  std::optional<rt::Shards> shards = dist::shardsOf(*whole.module);
  if (!shards || shards->sizes.size() < 2)
    return nullptr;
  return std::make_shared<OtherSizes>(whole, differentiated, *shards);
}
