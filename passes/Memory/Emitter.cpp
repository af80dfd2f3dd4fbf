// See Emitter.h: which operator is emitted how, and variables.
#include "passes/Memory/Emitter.h"

using namespace mlir;
using namespace tessera;

ExecEmitter::ExecEmitter(func::FuncOp func, const Storage &storage, const Offsets &offsets, ModuleOp kernels,
                         Block *program)
    : storage(storage), kernels(kernels), b(func.getContext()) {
  b.setInsertionPointToEnd(program);
  for (auto [i, buffer] : llvm::enumerate(storage.buffers())) {
    auto type = exec::BufferType::get(b.getContext(), buffer.tier);
    if (buffer.whole >= 0) {
      handles.push_back(
          exec::PartOp::create(b, func.getLoc(), type, handle(buffer.whole), buffer.offset, buffer.bytes));
      continue;
    }
    nn::VariableOp held = buffer.variable;
    auto variable = held ? FlatSymbolRefAttr::get(held.getSymNameAttr()) : nullptr;
    handles.push_back(exec::BufferOp::create(b, func.getLoc(), type, offsets.of(i), buffer.bytes,
                                             buffer.category, variable));
  }
}

DictionaryAttr ExecEmitter::settings(std::initializer_list<std::pair<StringRef, Attribute>> list) {
  SmallVector<NamedAttribute> attrs;
  for (auto [name, value] : list)
    attrs.push_back(b.getNamedAttr(name, value));
  return b.getDictionaryAttr(attrs);
}

exec::CallOp ExecEmitter::call(Operation &op, StringRef function, ArrayRef<int> list, ArrayRef<int64_t> reads,
                               ArrayRef<int64_t> writes, ValueRange scalars, DictionaryAttr attrs) {
  auto buffers = llvm::map_to_vector(list, [&](int buffer) { return handle(buffer); });
  return exec::CallOp::create(b, op.getLoc(), function, buffers, scalars, reads, writes, attrs,
                              b.getStringAttr(function), /*flops=*/FloatAttr(), /*work=*/StringAttr(),
                              /*functions=*/FloatAttr(), /*bytes_read=*/FloatAttr(),
                              /*shape=*/DenseI64ArrayAttr(), /*touched=*/IntegerAttr());
}

void ExecEmitter::copy(Value source, int target, Operation &op) {
  auto type = cast<RankedTensorType>(source.getType());
  Attribute one = b.getI64ArrayAttr({1});
  call(op, "copy_box", {storage.of(source), target}, {0}, {1}, {},
       settings({{"shape", b.getI64ArrayAttr({type.getNumElements()})},
                 {"source_strides", one},
                 {"target_strides", one},
                 {"dtype", b.getStringAttr(exec::dtypeName(type.getElementType()))}}));
  ++numCopies;
}

// A handle to no more than so many bytes: where pieces were gathered the buffer has their padding too.
Value ExecEmitter::firstBytes(Value handle, int64_t bytes) {
  if (exec::rangeOf(handle).bytes <= bytes)
    return handle;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointAfterValue(handle); // beside the other buffers, also for what is in a loop
  return exec::PartOp::create(b, handle.getLoc(), handle.getType(), handle, 0, bytes);
}

// What goes between the tiers, or is done below.
LogicalResult ExecEmitter::emitBelow(Operation &op) {
  if (auto call = dyn_cast<dist::HostStartOp>(op))
    return emitHostCall(call);
  if (isa<dist::OffloadStartOp, dist::PrefetchStartOp>(op)) {
    int64_t token = tokens[op.getResult(0)] = tokens.size();
    Value arrival = (*op.getResult(0).user_begin())->getResult(0);
    Value source = handleOf(op.getOperand(0)), target = handleOf(arrival);
    source = firstBytes(source, exec::rangeOf(target).bytes);
    exec::CopyOp::create(b, op.getLoc(), source, target, token);
  } else {
    exec::WaitOp::create(b, op.getLoc(), tokens.at(op.getOperand(0)));
  }
  return success();
}

LogicalResult ExecEmitter::emit(Operation &op) {
  auto isAbsent = [&](StringRef variable) {
    return storage.buffers()[storage.ofVariable(variable)].tier != Tier::Device;
  };
  if (auto read = dyn_cast<nn::ReadOp>(op); read && isAbsent(read.getVariable()))
    return read.emitOpError(
        "reads a variable that rests below the device; dist.read_copy and a prefetch do that");
  if (auto assign = dyn_cast<nn::AssignOp>(op)) {
    if (isAbsent(assign.getVariable()))
      return assign.emitOpError(
          "assigns a variable that rests below the device; an offload and dist.assign_copy do that");
    int target = storage.ofVariable(assign.getVariable());
    if (storage.of(assign.getValue()) != target)
      copy(assign.getValue(), target, op);
    return success();
  }
  if (auto assign = dyn_cast<dist::AssignCopyOp>(op)) {
    if (storage.of(assign.getValue()) != storage.ofVariable(assign.getVariable()))
      return op.emitOpError(
          "must take what an offload of this step has brought to the variable's place, or what the host has "
          "changed there, after the last use of its old copy");
    return success();
  }
  if (isFilled(&op)) {
    fill(cast<nn::ConstantOp>(op), storage.of(op.getResult(0)), op);
    return success();
  }
  // What has a place and does nothing; numbers are cloned where they are used, a loop's initial values too.
  if (isa<nn::ReadOp, dist::ReadCopyOp, dist::BlockStartOp, dist::ValidOp, exec::ScalarOp>(op) ||
      op.hasTrait<OpTrait::ConstantLike>() || isView(&op))
    return success();
  if (auto flatten = dyn_cast<dist::FlattenOp>(op)) {
    copy(flatten.getSource(), storage.of(flatten.getResult()), op);
    return success();
  }
  if (auto apply = dyn_cast<exec::ApplyOp>(op))
    return emitKernel(apply);
  if (isa<nn::LibraryOpInterface>(op)) {
    const nn::LibraryCall *call = storage.callOf(&op);
    if (!call)
      return op.emitOpError("has no library function and was not made part of a kernel");
    return emitLibrary(op, *call);
  }
  if (auto slice = dyn_cast<dist::SliceOp>(op))
    return emitSlice(slice);
  if (auto mask = dyn_cast<dist::MaskPaddingOp>(op))
    return emitMask(mask);
  if (auto index = dyn_cast<dist::LogicalIndexOp>(op))
    return emitIndex(index);
  if (isa<dist::CollectiveOp, dist::CollectiveStartOp>(op))
    return emitCollective(op);
  if (auto wait = dyn_cast<dist::CollectiveWaitOp>(op)) {
    exec::WaitOp::create(b, op.getLoc(), tokens.at(wait.getToken()));
    return success();
  }
  if (isa<dist::OffloadStartOp, dist::PrefetchStartOp, dist::HostStartOp, dist::OffloadWaitOp,
          dist::PrefetchWaitOp, dist::HostWaitOp>(op))
    return emitBelow(op);
  if (auto own = dyn_cast<exec::OwnOp>(op)) {
    int buffer = storage.ofPack(own);
    for (Value source : own.getSources())
      if (buffer < 0 || !storage.isPart(storage.of(source), buffer, 0))
        return own.emitOpError("needs values that reductions to one rank each have made");
    return success();
  }
  if (auto pack = dyn_cast<dist::PackOp>(op))
    return emitPack(pack);
  if (auto unpack = dyn_cast<dist::UnpackOp>(op))
    return emitUnpack(unpack);
  if (auto loop = dyn_cast<dist::LoopOp>(op))
    return emitLoop(loop);
  if (isa<dist::StepOp, dist::SendStartOp, dist::SendWaitOp, dist::RecvOp, dist::AbsentOp>(op)) {
    emitPipeline(op);
    return success();
  }
  return op.emitOpError("cannot be executed; it should have been partitioned or lowered");
}
