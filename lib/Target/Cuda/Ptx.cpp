// See Ptx.h.

#include "lib/Target/Cuda/Ptx.h"
#include "lib/Target/Common/MachineCode.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include <mutex>

using namespace llvm;

extern "C" {
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace tessera::cuda {

/// What kernels ask of the GPU, and what the host's simulator calls it.
static constexpr std::pair<Intrinsic::ID, StringLiteral> questions[] = {
    {Intrinsic::nvvm_read_ptx_sreg_tid_x, "tsr_simt_thread"},
    {Intrinsic::nvvm_read_ptx_sreg_ctaid_x, "tsr_simt_block"},
    {Intrinsic::nvvm_shfl_sync_bfly_i32, "tsr_simt_shuffle_xor"},
    {Intrinsic::nvvm_bar_warp_sync, "tsr_simt_sync_warp"},
    {Intrinsic::nvvm_barrier_cta_sync_aligned_all, "tsr_simt_sync_block"},
};

Error addEntry(Module &module, StringRef implementation, StringRef symbol, const target::KernelInfo &info,
               const target::Launch &launch) {
  LLVMContext &context = module.getContext();
  // Functions that were declared by an intrinsic's name lack its attributes, convergence among them.
  for (Function &function : module)
    if (function.isDeclaration() && function.isIntrinsic())
      function.setAttributes(
          Intrinsic::getAttributes(context, function.getIntrinsicID(), function.getFunctionType()));
  Function *body = module.getFunction(implementation);
  body->setLinkage(GlobalValue::InternalLinkage);
  body->addFnAttr(Attribute::AlwaysInline);
  unsigned parameters = body->arg_size() - 2; // the range comes last
  SmallVector<Type *> types;
  for (unsigned i = 0; i < parameters; ++i)
    types.push_back(body->getArg(i)->getType());
  auto *entry = Function::Create(FunctionType::get(Type::getVoidTy(context), types, false),
                                 GlobalValue::ExternalLinkage, symbol, module);
  SmallVector<Value *> arguments;
  for (unsigned i = 0; i < parameters; ++i) {
    entry->addParamAttrs(i, AttrBuilder(context, body->getAttributes().getParamAttrs(i)));
    arguments.push_back(entry->getArg(i));
  }
  IRBuilder<> b(BasicBlock::Create(context, "", entry));
  Type *i64 = b.getInt64Ty();
  auto ask = [&](Intrinsic::ID id) {
    return b.CreateZExt(b.CreateIntrinsic(id, ArrayRef<Type *>(), ArrayRef<Value *>()), i64);
  };
  int64_t workers = launch.warpPerUnit     ? launch.threads / 32
                    : launch.sharesColumns ? launch.units
                                           : launch.threads,
          each = launch.units / workers;
  Value *worker = ask(Intrinsic::nvvm_read_ptx_sreg_tid_x);
  if (launch.warpPerUnit)
    worker = b.CreateUDiv(worker, b.getInt64(32));
  if (launch.sharesColumns)
    worker = b.CreateURem(worker, b.getInt64(workers));
  worker = b.CreateAdd(b.CreateMul(ask(Intrinsic::nvvm_read_ptx_sreg_ctaid_x), b.getInt64(workers)), worker);
  Value *begin = b.CreateMul(worker, b.getInt64(each)), *end = b.CreateAdd(begin, b.getInt64(each));
  if (info.extent % each)
    end = b.CreateBinaryIntrinsic(Intrinsic::umin, end, b.getInt64(info.extent));
  BasicBlock *work = BasicBlock::Create(context, "", entry), *done = BasicBlock::Create(context, "", entry);
  b.CreateCondBr(b.CreateICmpULT(begin, b.getInt64(info.extent)), work, done);
  b.SetInsertPoint(work);
  arguments.append({begin, end});
  b.CreateCall(body, arguments);
  b.CreateBr(done);
  b.SetInsertPoint(done);
  b.CreateRetVoid();
  return Error::success();
}

/// Functions of the C library, of which GPUs have none. LLVM has intrinsics for some, which its back end ends
/// the process for; those of f32 have been expanded.
static std::vector<std::string> libraryCalls(const Module &module) {
  static constexpr Intrinsic::ID known[] = {
      Intrinsic::acos,  Intrinsic::asin, Intrinsic::atan,  Intrinsic::atan2, Intrinsic::cos,
      Intrinsic::cosh,  Intrinsic::exp,  Intrinsic::exp10, Intrinsic::exp2,  Intrinsic::log,
      Intrinsic::log10, Intrinsic::log2, Intrinsic::pow,   Intrinsic::powi,  Intrinsic::sin,
      Intrinsic::sinh,  Intrinsic::tan,  Intrinsic::tanh};
  std::vector<std::string> names = target::externalCalls(module);
  for (const Function &function : module)
    if (is_contained(known, function.getIntrinsicID()) && !function.use_empty() &&
        function.getReturnType()->getScalarType()->isDoubleTy())
      names.push_back(Intrinsic::getBaseName(function.getIntrinsicID()).drop_front(5).str()); // llvm.
  return names;
}

Expected<std::string> emitPtx(Module &module, StringRef symbol, StringRef chip,
                              const target::Launch &launch) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  Function *entry = module.getFunction(symbol);
  // More than 4352 bytes of parameters are of version 8.1, which drivers take from 530 on; newer chips have a
  // newer version anyway.
  bool wide = entry->arg_size() > 4352 / 8 && (chip == "sm_80" || chip == "sm_90");
  Expected<std::unique_ptr<TargetMachine>> machine =
      target::createMachine(Triple("nvptx64-nvidia-cuda"), chip, wide ? "+ptx81" : "");
  if (!machine)
    return machine.takeError();
  entry->setCallingConv(CallingConv::PTX_Kernel);
  entry->addFnAttr("nvvm.maxntid", std::to_string(launch.threads));
  if (Error error = target::optimise(module, **machine, false))
    return error;
  for (const std::string &callee : libraryCalls(module))
    return createStringError(
        "it calls the function '" + callee +
        "', which there is none of on a GPU; compute in f32, or compile it with --target "
        "cpu");
  return target::emit(module, **machine, CodeGenFileType::AssemblyFile);
}

/// Conversions of bf16 by integer arithmetic: hosts call a library for them.
static void expandBF16(Module &module) {
  for (Function &function : module)
    for (Instruction &instruction : make_early_inc_range(instructions(function))) {
      auto *conversion = dyn_cast<CastInst>(&instruction);
      IRBuilder<> b(&instruction);
      Value *result = nullptr;
      if (isa_and_nonnull<FPExtInst>(conversion) && conversion->getSrcTy()->isBFloatTy()) {
        Value *bits =
            b.CreateZExt(b.CreateBitCast(conversion->getOperand(0), b.getInt16Ty()), b.getInt32Ty());
        result = b.CreateBitCast(b.CreateShl(bits, 16), conversion->getDestTy());
      } else if (isa_and_nonnull<FPTruncInst>(conversion) && conversion->getDestTy()->isBFloatTy()) {
        // To nearest, ties to even; a NaN stays one.
        Value *value = conversion->getOperand(0), *bits = b.CreateBitCast(value, b.getInt32Ty()),
              *high = b.CreateLShr(bits, 16);
        Value *rounded =
            b.CreateLShr(b.CreateAdd(bits, b.CreateAdd(b.CreateAnd(high, 1), b.getInt32(0x7fff))), 16);
        Value *chosen = b.CreateSelect(b.CreateFCmpUNO(value, value), b.CreateOr(high, 0x40), rounded);
        result = b.CreateBitCast(b.CreateTrunc(chosen, b.getInt16Ty()), conversion->getDestTy());
      }
      if (!result)
        continue;
      conversion->replaceAllUsesWith(result);
      conversion->eraseFromParent();
    }
}

Expected<std::string> emitTwin(Module &module, StringRef symbol) {
  for (auto [id, name] : questions)
    if (Function *function = Intrinsic::getDeclarationIfExists(&module, id)) {
      function->setName(name);
      function->setAttributes({});
    }
  expandBF16(module);
  Function *entry = module.getFunction(symbol);
  entry->setLinkage(GlobalValue::InternalLinkage);
  LLVMContext &context = module.getContext();
  Type *pointer = PointerType::getUnqual(context);
  auto *twin = Function::Create(FunctionType::get(Type::getVoidTy(context), {pointer}, false),
                                GlobalValue::ExternalLinkage, symbol + "_twin", module);
  IRBuilder<> b(BasicBlock::Create(context, "", twin));
  SmallVector<Value *> arguments;
  for (Argument &argument : entry->args())
    arguments.push_back(b.CreateLoad(
        argument.getType(),
        b.CreateLoad(pointer, b.CreateConstGEP1_64(pointer, twin->getArg(0), argument.getArgNo()))));
  b.CreateCall(entry, arguments);
  b.CreateRetVoid();
  if (Error error = target::optimise(module, target::CpuLevel::V3))
    return error;
  return target::emitObjectCode(module, target::CpuLevel::V3);
}

} // namespace tessera::cuda
