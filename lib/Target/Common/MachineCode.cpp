// See MachineCode.h.

#include "lib/Target/Common/MachineCode.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include <mutex>

using namespace llvm;

namespace tessera::target {

StringRef levelSuffix(CpuLevel level) { return level == CpuLevel::V4 ? "_v4" : "_v3"; }

mlir::FailureOr<CpuLevel> hostLevel() {
  StringMap<bool> features = sys::getHostCPUFeatures();
  auto all = [&](std::initializer_list<StringRef> names) {
    return llvm::all_of(names, [&](StringRef name) { return features.lookup(name); });
  };
  if (!all({"avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}))
    return mlir::failure();
  return all({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}) ? CpuLevel::V4 : CpuLevel::V3;
}

void wrapKernel(Module &module, StringRef implementation, StringRef symbol) {
  Function *inner = module.getFunction(implementation);
  inner->setLinkage(GlobalValue::InternalLinkage);
  inner->addFnAttr(Attribute::NoInline);
  LLVMContext &context = module.getContext();
  Type *pointer = PointerType::getUnqual(context), *i64 = Type::getInt64Ty(context);
  auto *type = FunctionType::get(Type::getVoidTy(context), {pointer, pointer, i64, i64}, false);
  Function *outer = Function::Create(type, GlobalValue::ExternalLinkage, symbol, module);
  IRBuilder<> b(BasicBlock::Create(context, "", outer));
  SmallVector<Value *> arguments;
  unsigned buffers = 0, scalars = 0, last = inner->arg_size() - 2;
  for (Argument &argument : inner->args()) {
    if (argument.getArgNo() >= last)
      arguments.push_back(outer->getArg(2 + argument.getArgNo() - last));
    else if (argument.getType()->isPointerTy())
      arguments.push_back(b.CreateLoad(pointer, b.CreateConstGEP1_64(pointer, outer->getArg(0), buffers++)));
    else
      arguments.push_back(b.CreateLoad(i64, b.CreateConstGEP1_64(i64, outer->getArg(1), scalars++)));
  }
  b.CreateCall(inner, arguments);
  b.CreateRetVoid();
}

Expected<std::unique_ptr<TargetMachine>> createMachine(const Triple &triple, StringRef cpu,
                                                       StringRef features) {
  std::string message;
  const Target *target = TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return createStringError("no LLVM back end for '" + triple.str() + "': " + message);
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Standard; // where flags allow it
  return std::unique_ptr<TargetMachine>(target->createTargetMachine(
      triple, cpu, features, options, Reloc::PIC_, std::nullopt, CodeGenOptLevel::Aggressive));
}

Error optimise(Module &module, TargetMachine &machine, bool joinStatements) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", machine.getTargetCPU());
    function.addFnAttr(Attribute::NoUnwind);
  }
  std::string problems;
  raw_string_ostream stream(problems);
  if (verifyModule(module, &stream))
    return createStringError("invalid LLVM IR: " + problems);
  PipelineTuningOptions tuning;
  tuning.SLPVectorization = joinStatements;
  PassBuilder builder(&machine, tuning);
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager sccs;
  ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(OptimizationLevel::O3).run(module, modules);
  return Error::success();
}

Expected<std::string> emit(Module &module, TargetMachine &machine, CodeGenFileType type) {
  SmallString<0> bytes;
  raw_svector_ostream stream(bytes);
  legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type))
    return createStringError("LLVM cannot emit files of this kind for this target");
  passes.run(module);
  return bytes.str().str();
}

static Expected<std::unique_ptr<TargetMachine>> createHostMachine(StringRef cpu) {
  static std::once_flag once;
  std::call_once(once, [] {
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
    InitializeNativeTargetAsmParser();
  });
  return createMachine(Triple(sys::getDefaultTargetTriple()), cpu);
}

static StringRef cpuName(CpuLevel level) { return level == CpuLevel::V4 ? "x86-64-v4" : "x86-64-v3"; }

Error optimise(Module &module, CpuLevel level) {
  Expected<std::unique_ptr<TargetMachine>> machine = createHostMachine(cpuName(level));
  if (!machine)
    return machine.takeError();
  for (Function &function : module)
    if (!function.isDeclaration())
      function.addFnAttr("prefer-vector-width", level == CpuLevel::V4 ? "512" : "256");
  return optimise(module, **machine, true);
}

Expected<std::string> emitObjectCode(Module &module, CpuLevel level) {
  Expected<std::unique_ptr<TargetMachine>> machine = createHostMachine(cpuName(level));
  if (!machine)
    return machine.takeError();
  return emit(module, **machine, CodeGenFileType::ObjectFile);
}

Expected<std::string> emitPortableObject(Module &module) {
  Expected<std::unique_ptr<TargetMachine>> machine = createHostMachine("x86-64");
  if (!machine)
    return machine.takeError();
  module.setTargetTriple((*machine)->getTargetTriple());
  module.setDataLayout((*machine)->createDataLayout());
  return emit(module, **machine, CodeGenFileType::ObjectFile);
}

std::vector<std::string> externalCalls(const Module &module) {
  std::vector<std::string> names;
  for (const Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic() && !function.use_empty())
      names.push_back(function.getName().str());
  return names;
}

} // namespace tessera::target
