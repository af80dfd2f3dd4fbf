// Kernels and calls of the library, in place where they may be.
#include "passes/Lower/Passes.h"
#include "passes/Memory/Emitter.h"

using namespace mlir;
using namespace tessera;

// Chooses results that take over an operand's buffer: `inPlace` gets the operand of each, or -1. Returns the
// kernel to call, since the kernel has one argument for both. One pair only: each is known to be safe by
// itself, not with another.
StringRef ExecEmitter::kernelInPlace(exec::ApplyOp op, SmallVectorImpl<int> &inPlace) {
  auto kernel = kernels.lookupSymbol<func::FuncOp>(op.getKernel());
  inPlace.assign(op.getNumResults(), -1);
  auto pairs = kernel->getAttrOfType<ArrayAttr>("exec.in_place");
  if (!pairs)
    return kernel.getName();
  for (Attribute attr : pairs) {
    auto pair = cast<DenseI64ArrayAttr>(attr);
    Value operand = op.getOperands()[pair[0]], result = op.getResult(pair[1]);
    bool once = llvm::count(op.getOperands(), operand) == 1;
    bool shared = llvm::any_of(op.getOperands(), [&](Value other) {
      return other != operand && isa<RankedTensorType>(other.getType()) &&
             buffers.of(other) == buffers.of(operand);
    });
    if (!once || shared || buffers.hasPlace(result) ||
        dist::bytesOf(operand.getType()) != dist::bytesOf(result.getType()) || !buffers.diesAt(operand, op))
      continue;
    inPlace[pair[1]] = pair[0];
    std::string name = (kernel.getName() + "_" + Twine(pair[0]) + "in" + Twine(pair[1])).str();
    auto variant = kernels.lookupSymbol<func::FuncOp>(name);
    if (!variant) {
      variant = cast<func::FuncOp>(kernel->clone());
      variant.setName(name);
      variant.setArgAttr(pair[0], "tessera.result", b.getI64IntegerAttr(pair[1]));
      kernels.push_back(variant);
    }
    return variant.getName();
  }
  return kernel.getName();
}

LogicalResult ExecEmitter::emitKernel(exec::ApplyOp op) {
  auto kernel = kernels.lookupSymbol<func::FuncOp>(op.getKernel());
  auto number = [&](StringRef name, int64_t otherwise) {
    auto attr = kernel->getAttrOfType<IntegerAttr>(name);
    return attr ? attr.getInt() : otherwise;
  };
  SmallVector<int> inPlace;
  StringRef name = kernelInPlace(op, inPlace);
  SmallVector<Value> handles, scalars;
  SmallVector<int64_t> reads, writes;
  DenseMap<int, int64_t> places; // operand -> place among the buffers
  for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
    if (!isa<RankedTensorType>(operand.getType())) {
      scalars.push_back(scalar(operand));
      continue;
    }
    places[i] = handles.size();
    reads.push_back(handles.size());
    handles.push_back(buffers.handle(buffers.of(operand)));
  }
  for (auto [result, from] : llvm::zip(op.getResults(), inPlace)) {
    if (from >= 0) {
      buffers.bind(result, buffers.of(op.getOperands()[from]));
      writes.push_back(places.at(from));
      ++numInPlace;
    } else {
      buffers.define(result);
      writes.push_back(handles.size());
      handles.push_back(buffers.handle(buffers.of(result)));
    }
  }
  int64_t at = buffers.positions().start(op);
  if (int64_t workspace = number("exec.workspace", 0)) {
    writes.push_back(handles.size());
    handles.push_back(buffers.handle(buffers.create(workspace, at, at + 1, "workspace")));
  }
  auto launch = exec::LaunchOp::create(b, op.getLoc(), name, handles, scalars, reads, writes,
                                       number("exec.extent", 1), number("exec.grain", 1));
  auto kind = op->getAttrOfType<StringAttr>("kind");
  tag(launch, kind ? kind.getValue() : "kernel");
  return success();
}

LogicalResult ExecEmitter::emitLibrary(Operation &op, const nn::LibraryCall &library) {
  int numOperands = op.getNumOperands();
  int64_t at = buffers.positions().start(&op);
  auto isNamed = [&](int result) { return llvm::is_contained(library.buffers, numOperands + result); };
  for (auto [r, result] : llvm::enumerate(op.getResults())) {
    int from = r < library.inPlace.size() ? library.inPlace[r] : -1;
    if (from < 0) {
      buffers.define(result);
      continue;
    }
    Value operand = op.getOperand(from);
    int buffer = buffers.of(operand);
    // The update of a variable happens in it, when nothing reads the old value afterwards.
    auto variable = updates.lookup(result);
    bool updatesIt =
        variable && buffers.variableOf(buffer) == variable && buffers.positions().lastUse(operand) <= at;
    if (updatesIt || buffers.diesAt(operand, &op)) {
      buffers.bind(result, buffer);
      ++numInPlace;
      continue;
    }
    buffers.define(result);
    if (!isNamed(r))
      copy(operand, buffers.of(result), op);
  }
  SmallVector<int> list;
  SmallVector<int64_t> reads, writes;
  for (int index : library.buffers) {
    Value value = index < numOperands ? op.getOperand(index) : op.getResult(index - numOperands);
    int buffer = buffers.of(value);
    (index < numOperands ? reads : writes).push_back(list.size());
    // What is added to, is read.
    if (int r = index - numOperands; r >= 0 && r < int(library.inPlace.size()) && library.inPlace[r] >= 0 &&
                                     buffers.of(op.getOperand(library.inPlace[r])) == buffer)
      reads.push_back(list.size());
    // An operand that a result was copied from, for the function to change in place.
    if (index < numOperands)
      for (auto [r, from] : llvm::enumerate(library.inPlace))
        if (from == index && !isNamed(r)) {
          buffer = buffers.of(op.getResult(r));
          writes.push_back(list.size());
        }
    list.push_back(buffer);
  }
  NamedAttrList attrs(library.attrs);
  if (threads == 0) {
    attrs.erase("workspace");
  } else if (library.workspace > 0) {
    writes.push_back(list.size());
    list.push_back(buffers.create(library.workspace, at, at + 1, "workspace"));
    if (!attrs.get("workspace"))
      attrs.set("workspace", b.getI64IntegerAttr(library.workspace));
  }
  SmallVector<Value> scalars;
  for (Value operand : op.getOperands())
    if (operand.getType().isInteger(64))
      scalars.push_back(scalar(operand));
  call(op, library.function, list, reads, writes, scalars, attrs.getDictionary(b.getContext()));
  if (library.flops > 0)
    b.getInsertionBlock()->back().setAttr("flops", b.getF64FloatAttr(library.flops));
  return success();
}
