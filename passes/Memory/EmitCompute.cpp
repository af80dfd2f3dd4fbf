// Kernels and calls of the library, in place where they may be.
#include "dialects/exec/Attributes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/Kernels/Passes.h"
#include "passes/Memory/Emitter.h"
#include <cmath>

using namespace mlir;
using namespace tessera;

// What estimates of the operation's time need to know of the operator.
template <class Made> static void noteWork(Operation *op, Made made) {
  nn::Work work = nn::workOf(op);
  if (work.kind != nn::WorkClass::Stream)
    made.setWork(rt::workClassName(work.kind));
  if (work.functions > 0)
    made.setFunctions(APFloat(work.functions));
  if (std::optional<double> bytes = nn::bytesReadBy(op))
    made.setBytesRead(APFloat(*bytes));
  if constexpr (std::is_same_v<Made, exec::CallOp>) {
    if (work.flops > 0)
      made.setFlops(APFloat(work.flops));
    const rt::ProductShape &shape = work.shape;
    if (shape.isKnown()) {
      const int64_t sizes[] = {int64_t(shape.count), int64_t(shape.m), int64_t(std::ceil(shape.n)),
                               int64_t(shape.k)};
      made.setShape(ArrayRef<int64_t>(sizes));
    }
  }
}

// The kernel that writes a result over an operand has one argument for both.
func::FuncOp ExecEmitter::kernelWriting(func::FuncOp kernel, ArrayRef<int> inPlace) {
  const int *result = llvm::find_if(inPlace, [](int from) { return from >= 0; });
  if (result == inPlace.end())
    return kernel;
  int64_t operand = *result, place = result - inPlace.begin();
  std::string name = (kernel.getName() + "_" + Twine(operand) + "in" + Twine(place)).str();
  auto variant = kernels.lookupSymbol<func::FuncOp>(name);
  if (!variant) {
    variant = cast<func::FuncOp>(kernel->clone());
    variant.setName(name);
    exec::kResult.setArgument(variant, operand, b.getI64IntegerAttr(place));
    kernels.push_back(variant);
  }
  return variant;
}

LogicalResult ExecEmitter::emitKernel(exec::ApplyOp op) {
  auto kernel = kernels.lookupSymbol<func::FuncOp>(op.getKernel());
  auto number = [&](const DiscardableAttr<IntegerAttr> &declared) {
    IntegerAttr attr = declared.of(kernel);
    return attr ? attr.getInt() : 1;
  };
  SmallVector<int> inPlace = storage.inPlaceOf(op);
  SmallVector<Value> list, scalars;
  SmallVector<int64_t> reads, writes;
  DenseMap<int, int64_t> places; // operand -> place among the buffers
  for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
    if (!isa<RankedTensorType>(operand.getType())) {
      scalars.push_back(scalar(operand));
      continue;
    }
    places[i] = list.size();
    reads.push_back(list.size());
    list.push_back(handleOf(operand));
  }
  for (auto [result, from] : llvm::zip(op.getResults(), inPlace)) {
    writes.push_back(from >= 0 ? places.at(from) : int64_t(list.size()));
    if (from < 0)
      list.push_back(handleOf(result));
  }
  if (int workspace = storage.extraOf(op); workspace >= 0) {
    writes.push_back(list.size());
    list.push_back(handle(workspace));
  }
  StringRef name = kernelWriting(kernel, inPlace).getName();
  auto launch = exec::LaunchOp::create(
      b, op.getLoc(), name, list, scalars, reads, writes, number(exec::kExtent), number(exec::kGrain),
      b.getStringAttr(op.getKind().value_or("kernel")), /*work=*/StringAttr(),
      /*functions=*/FloatAttr(), /*bytes_read=*/FloatAttr());
  noteWork(op, launch);
  return success();
}

// The numbers that a function has by value.
FailureOr<SmallVector<Value>> ExecEmitter::scalarsOf(Operation &op, const nn::LibraryCall &library) {
  SmallVector<Value> scalars;
  if (library.scalars.empty())
    for (Value operand : op.getOperands())
      if (operand.getType().isInteger(64))
        scalars.push_back(scalar(operand));
  for (auto [operand, times] : library.scalars) {
    APInt constant(64, 0);
    if (operand < 0 || matchPattern(op.getOperand(operand), m_ConstantInt(&constant))) {
      scalars.push_back(
          arith::ConstantIntOp::create(b, op.getLoc(), constant.getSExtValue() * int64_t(times), 64));
      continue;
    }
    auto number = op.getOperand(operand).getDefiningOp<exec::ScalarOp>();
    if (!number)
      return op.emitOpError("needs an input of kind scalar as operand ") << operand;
    auto copy = cast<exec::ScalarOp>(b.clone(*number));
    copy.setTimes(number.getTimes() * uint64_t(times));
    scalars.push_back(copy);
  }
  return scalars;
}

LogicalResult ExecEmitter::emitHostCall(dist::HostStartOp op) {
  auto reads = llvm::to_vector(llvm::seq<int64_t>(0, op.getSources().size()));
  for (int64_t place : op.getChanges())
    for (Operation *user : op.getSources()[place].getUsers()) {
      // Of what a loop's turns read, the loop.
      Operation *outer = op->getBlock()->findAncestorOpInBlock(*user);
      if (!outer || op->isBeforeInBlock(outer))
        return (op.emitOpError("changes a copy that is read behind it")).attachNote(user->getLoc()) << "here";
    }
  int64_t token = tokens[op.getCall()] = tokens.size();
  auto buffers = llvm::map_to_vector(op.getSources(), [&](Value copy) { return handleOf(copy); });
  auto writes = llvm::to_vector(op.getChanges());
  for (Value made : (*op.getCall().user_begin())->getResults().drop_front(op.getChanges().size())) {
    writes.push_back(buffers.size());
    buffers.push_back(handleOf(made));
  }
  exec::HostCallOp::create(b, op.getLoc(), op.getFunction(), buffers, reads, writes, op.getSettings(), token);
  return success();
}

LogicalResult ExecEmitter::emitLibrary(Operation &op, const nn::LibraryCall &library) {
  int numOperands = op.getNumOperands();
  auto isNamed = [&](int result) { return llvm::is_contained(library.buffers, numOperands + result); };
  for (auto [result, from] : llvm::zip(op.getResults(), library.inPlace))
    if (from >= 0 && !isNamed(result.getResultNumber()) &&
        storage.of(result) != storage.of(op.getOperand(from)))
      copy(op.getOperand(from), storage.of(result), op);
  SmallVector<int> list;
  SmallVector<int64_t> reads, writes;
  for (int index : library.buffers) {
    Value value = index < numOperands ? op.getOperand(index) : op.getResult(index - numOperands);
    int buffer = storage.of(value);
    (index < numOperands ? reads : writes).push_back(list.size());
    // What is added to, is read.
    if (int r = index - numOperands; r >= 0 && r < int(library.inPlace.size()) && library.inPlace[r] >= 0 &&
                                     storage.of(op.getOperand(library.inPlace[r])) == buffer)
      reads.push_back(list.size());
    // An operand that a result was copied from, for the function to change in place.
    if (index < numOperands)
      for (auto [r, from] : llvm::enumerate(library.inPlace))
        if (from == index && !isNamed(r)) {
          buffer = storage.of(op.getResult(r));
          writes.push_back(list.size());
        }
    list.push_back(buffer);
  }
  if (int workspace = storage.extraOf(&op); workspace >= 0) {
    writes.push_back(list.size());
    list.push_back(workspace);
  }
  FailureOr<SmallVector<Value>> scalars = scalarsOf(op, library);
  if (failed(scalars))
    return failure();
  exec::CallOp made = call(op, library.function, list, reads, writes, *scalars, library.attrs);
  noteWork(&op, made);
  return success();
}
