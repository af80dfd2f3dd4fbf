// The way of last resort for kernels that are not loop statements (loops over tensors, as a scatter has):
// MLIR's bufferization and plain loops, run as one unit. Always correct, never fast.

#include "dialects/exec/Attributes.h"
#include "lib/Target/Common/Loops.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/Transforms/Transforms.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace tessera::target {

/// Buffers that fit together in this many bytes are on the stack.
static constexpr int64_t maxStackBytes = 64 * 1024;

static MemRefType bufferType(Type tensor) {
  auto type = cast<RankedTensorType>(tensor);
  return MemRefType::get(type.getShape(), type.getElementType());
}

/// Turns tensor arguments into memrefs and results into further ones. A result in place of an argument is
/// computed in a buffer of its own and copied when all is done.
static void passBuffers(func::FuncOp func) {
  Block &body = func.getBody().front();
  OpBuilder b(&body, body.begin());
  Location loc = func.getLoc();
  DenseMap<unsigned, unsigned> inPlace; // result -> argument
  for (BlockArgument argument : func.getArguments())
    if (auto result = exec::kResult.ofArgument(func, argument.getArgNumber()))
      inPlace[result.getInt()] = argument.getArgNumber();
  func.removeArgAttrsAttr();
  SmallVector<Value> buffers, scalars, results;
  unsigned count = body.getNumArguments();
  SmallVector<Value> byNumber(count);
  for (unsigned i = 0; i < count; ++i) {
    BlockArgument argument = body.getArgument(i);
    bool isTensor = isa<RankedTensorType>(argument.getType());
    if (!isTensor)
      continue;
    BlockArgument buffer = body.addArgument(bufferType(argument.getType()), loc);
    byNumber[i] = buffer;
    argument.replaceAllUsesWith(
        bufferization::ToTensorOp::create(b, loc, argument.getType(), buffer, /*restrict=*/true).getResult());
  }
  auto returned = cast<func::ReturnOp>(body.getTerminator());
  b.setInsertionPoint(returned);
  SmallVector<std::pair<Value, Value>> copies;
  for (auto [number, value] : llvm::enumerate(returned.getOperands())) {
    MemRefType type = bufferType(value.getType());
    Value target = inPlace.count(number) ? memref::AllocOp::create(b, loc, type).getResult()
                                         : Value(body.addArgument(type, loc));
    if (inPlace.count(number))
      copies.push_back({target, byNumber[inPlace[number]]});
    bufferization::MaterializeInDestinationOp::create(b, loc, TypeRange(), value, target, /*restrict=*/true,
                                                      /*writable=*/true);
  }
  for (auto [from, to] : copies)
    memref::CopyOp::create(b, loc, from, to);
  returned->setOperands({});
  for (unsigned i = 0; i < count; ++i)
    if (!byNumber[i])
      body.getArgument(i).replaceAllUsesWith(body.addArgument(body.getArgument(i).getType(), loc));
  body.addArgument(b.getIndexType(), loc); // begin
  body.addArgument(b.getIndexType(), loc); // end
  body.eraseArguments(0, count);
  func.setFunctionType(b.getFunctionType(body.getArgumentTypes(), {}));
}

/// Replaces allocations by places on the stack or in the workspace. Returns the bytes of workspace needed, 0
/// if none.
static FailureOr<int64_t> placeAllocations(func::FuncOp func, StringRef name) {
  SmallVector<memref::AllocOp> allocations;
  int64_t bytes = 0;
  auto sizeOf = [](MemRefType type) {
    return static_cast<int64_t>(
        llvm::alignTo(type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8), 64));
  };
  WalkResult walked = func.walk([&](memref::AllocOp op) {
    // Each allocation gets one place, so a buffer must not outlive the iteration that made it.
    bool escapes = llvm::any_of(op->getUsers(), llvm::IsaPred<scf::YieldOp>);
    if (!op.getType().hasStaticShape() || escapes) {
      op.emitError("kernel '") << name << "' would need a buffer of run-time size or lifetime";
      return WalkResult::interrupt();
    }
    allocations.push_back(op);
    bytes += sizeOf(op.getType());
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  Block &entry = func.getBody().front();
  OpBuilder b(&entry, entry.begin());
  Value workspace;
  if (bytes > maxStackBytes) {
    unsigned buffers = llvm::count_if(entry.getArgumentTypes(), llvm::IsaPred<MemRefType>);
    auto type = MemRefType::get({bytes}, b.getIntegerType(8));
    workspace = entry.insertArgument(buffers, type, func.getLoc());
    func.setFunctionType(b.getFunctionType(entry.getArgumentTypes(), {}));
  }
  int64_t used = 0;
  for (memref::AllocOp op : allocations) {
    b.setInsertionPointToStart(&entry); // the operation replaced before may have been the first
    Value place;
    if (workspace)
      place = memref::ViewOp::create(b, op.getLoc(), op.getType(), workspace,
                                     arith::ConstantIndexOp::create(b, op.getLoc(), used), ValueRange());
    else
      place = memref::AllocaOp::create(b, op.getLoc(), op.getType(), b.getI64IntegerAttr(64));
    used += sizeOf(op.getType());
    op.replaceAllUsesWith(place);
    op.erase();
  }
  return workspace ? bytes : 0;
}

FailureOr<func::FuncOp> bufferizeKernel(func::FuncOp func, StringRef name, KernelInfo &info) {
  MLIRContext *context = func.getContext();
  std::string original = func.getName().str();
  auto module = func->getParentOfType<ModuleOp>();
  passBuffers(func);
  func.setName(name);
  func.setPublic();
  RewritePatternSet decompose(context);
  tensor::populateDecomposeTensorConcatPatterns(decompose);
  if (failed(applyPatternsGreedily(module, std::move(decompose))))
    return failure();
  PassManager pm(context);
  pm.addPass(createConvertElementwiseToLinalgPass()); // conversions of whole tensors
  pm.addPass(bufferization::createEmptyTensorEliminationPass());
  pm.addPass(bufferization::createOneShotBufferizePass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  if (failed(pm.run(module)))
    return failure();
  IRRewriter rewriter(context);
  SmallVector<memref::CopyOp> copies;
  func.walk([&](memref::CopyOp op) { copies.push_back(op); });
  for (memref::CopyOp op : copies) {
    rewriter.setInsertionPoint(op);
    rewriter.replaceOpWithNewOp<linalg::CopyOp>(op, op.getSource(), op.getTarget());
  }
  FailureOr<int64_t> workspace = placeAllocations(func, original);
  if (failed(workspace))
    return failure();
  info = KernelInfo();
  info.workspace = *workspace;
  info.reason = "it has loops over tensors";
  PassManager loops(context);
  loops.addPass(createConvertLinalgToLoopsPass());
  loops.addPass(memref::createFoldMemRefAliasOpsPass());
  loops.addPass(memref::createExpandStridedMetadataPass());
  loops.addPass(createLowerAffinePass());
  loops.addPass(createCanonicalizerPass());
  if (failed(loops.run(module)))
    return failure();
  return func;
}

} // namespace tessera::target
