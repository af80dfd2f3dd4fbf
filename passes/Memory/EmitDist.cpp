// Operators of the dist dialect: local parts, collectives and the loop over microbatches.
#include "dialects/dist/Broadcast.h"
#include "dialects/dist/CollectiveSize.h"
#include "dialects/dist/Machine.h"
#include "dialects/dist/Pack.h"
#include "passes/Memory/Emitter.h"

using namespace mlir;
using namespace tessera;

LogicalResult ExecEmitter::emitSlice(dist::SliceOp op) {
  auto shape = op.getShape();
  int64_t split = op.getSplit(), outer = 1, inner = 1;
  for (auto [i, extent] : llvm::enumerate(shape))
    if (int64_t(i) != split)
      (int64_t(i) < split ? outer : inner) *= extent;
  int64_t row = shape[split] * inner, block = row / dist::product(op.getAxes().getAxes());
  Value start =
      dist::BlockStartOp::create(b, op.getLoc(), b.getI64Type(), op.getAxes(), block, op.getShiftAttr());
  exec::CallOp made = call(
      *op, "copy_box", {storage.of(op.getSource()), storage.of(op.getResult())}, {0}, {1}, start,
      settings({{"shape", b.getI64ArrayAttr({outer, block})},
                {"source_strides", b.getI64ArrayAttr({row, 1})},
                {"target_strides", b.getI64ArrayAttr({block, 1})},
                {"dtype", b.getStringAttr(exec::dtypeName(op.getSource().getType().getElementType()))}}));
  made.setTouched(dist::bytesOf(op.getResult().getType()));
  return success();
}

// What a device visits in place: the padding of the rank that has most.
static int64_t paddingBytes(dist::MaskPaddingOp op) {
  auto shape = op.getShape();
  const int64_t ranks = dist::product(op.getAxes().getAxes());
  const int64_t padded = std::min(shape[1], ranks * shape[1] - int64_t(op.getSize()));
  return shape[0] * padded * shape[2] * dist::elementBytes(op.getSource().getType().getElementType());
}

LogicalResult ExecEmitter::emitMask(dist::MaskPaddingOp op) {
  auto shape = op.getShape();
  Value valid = dist::ValidOp::create(b, op.getLoc(), b.getI64Type(), op.getAxes(), shape[1], op.getSize(),
                                      /*shift=*/nullptr);
  SmallVector<int> list = {storage.of(op.getSource())};
  bool inPlace = storage.of(op.getResult()) == list[0];
  if (!inPlace)
    list.push_back(storage.of(op.getResult()));
  double value = 0;
  if (auto f = dyn_cast<FloatAttr>(op.getValue()))
    value = f.getValueAsDouble();
  else
    value = double(cast<IntegerAttr>(op.getValue()).getInt());
  // JSON has no infinity, and no end of the range of 64 bit integers: the library reads the word.
  bool isEnd =
      std::isinf(value) || (isa<IntegerAttr>(op.getValue()) && std::abs(value) > std::ldexp(1.0, 53));
  Attribute text =
      isEnd ? Attribute(b.getStringAttr(value < 0 ? "-inf" : "inf")) : Attribute(b.getF64FloatAttr(value));
  int64_t count = op.getPiece() ? op.getSource().getType().getNumElements() : 0;
  SmallVector<Value> scalars = {valid};
  if (count)
    scalars.push_back(dist::BlockStartOp::create(b, op.getLoc(), b.getI64Type(), op.getPieceAttr(), count,
                                                 /*shift=*/nullptr));
  exec::CallOp made = call(
      *op, "mask_padding", list, {0}, {inPlace ? 0 : 1}, scalars,
      settings({{"piece", b.getI64IntegerAttr(count)},
                {"outer", b.getI64IntegerAttr(shape[0])},
                {"n", b.getI64IntegerAttr(shape[1])},
                {"inner", b.getI64IntegerAttr(shape[2])},
                {"value", text},
                {"out", b.getBoolAttr(!inPlace)},
                {"dtype", b.getStringAttr(exec::dtypeName(op.getSource().getType().getElementType()))}}));
  if (inPlace && !count)
    made.setTouched(paddingBytes(op));
  return success();
}

LogicalResult ExecEmitter::emitIndex(dist::LogicalIndexOp op) {
  int64_t count = op.getType().getDimSize(0);
  Value start =
      dist::BlockStartOp::create(b, op.getLoc(), b.getI64Type(), op.getAxes(), count, /*shift=*/nullptr);
  call(*op, "logical_index", {storage.of(op.getResult())}, {}, {0}, start,
       settings({{"count", b.getI64IntegerAttr(count)}}));
  return success();
}

LogicalResult ExecEmitter::emitCollective(Operation &op) {
  auto collective = cast<dist::CollectiveInterface>(op);
  dist::CollectiveSpec spec = collective.getSpec();
  SmallVector<Value> list = {handleOf(collective.getSource()), handleOf(collective.getOutcome())};
  if (int scratch = storage.extraOf(&op); scratch >= 0)
    list.push_back(handle(scratch));
  int64_t token = -1;
  if (auto start = dyn_cast<dist::CollectiveStartOp>(op))
    tokens[start.getToken()] = token = tokens.size();
  StringAttr algorithm;
  if (spec.kind == dist::CollectiveKind::Broadcast) {
    double bytes = dist::collectiveSize(collective).bytes();
    algorithm = b.getStringAttr(
        rt::broadcastName(dist::broadcastCost(dist::Machine::of(&op).links, bytes, spec.axes).algorithm));
  }
  auto number = [&](std::optional<int64_t> value) {
    return value ? b.getI64IntegerAttr(*value) : IntegerAttr();
  };
  auto layout = [&](const std::optional<dist::Layout> &value) {
    return value ? dist::LayoutAttr::get(b.getContext(), *value) : dist::LayoutAttr();
  };
  exec::CollectiveOp::create(
      b, op.getLoc(), rt::collectiveName(spec.kind), list, dist::AxesAttr::get(b.getContext(), spec.axes),
      collective.getSource().getType().getElementType(), spec.shape, spec.split.value_or(0),
      spec.concat.value_or(0), dist::stringifyReduceKind(spec.reduce.value_or(dist::ReduceKind::Sum)),
      layout(spec.from), layout(spec.to), number(spec.shift), number(spec.root), algorithm, token);
  return success();
}

// Moves the blocks of a value, which lie one behind the other, to or from those of a pack, each `stride`
// bytes behind the last.
void ExecEmitter::copyBlocks(Operation &op, Type type, int64_t blocks, int source, int64_t sourceStride,
                             int target, int64_t targetStride) {
  Type element = cast<RankedTensorType>(type).getElementType();
  int64_t bytes = dist::elementBytes(element), count = cast<RankedTensorType>(type).getNumElements() / blocks;
  exec::CallOp made = call(op, "copy_box", {source, target}, {0}, {1}, {},
                           settings({{"shape", b.getI64ArrayAttr({blocks, count})},
                                     {"source_strides", b.getI64ArrayAttr({sourceStride / bytes, 1})},
                                     {"target_strides", b.getI64ArrayAttr({targetStride / bytes, 1})},
                                     {"dtype", b.getStringAttr(exec::dtypeName(element))}}));
  made.setTouched(dist::bytesOf(type)); // of the pack, where blocks of others lie between them
}

LogicalResult ExecEmitter::emitPack(dist::PackOp op) {
  int64_t blocks = op.getBlocks(), stride = dist::packOffsets(op.getSources().getTypes(), blocks).back();
  for (auto [source, part] : llvm::zip(op.getSources(), storage.partsOf(op)))
    if (blocks > 1)
      copyBlocks(*op, source.getType(), blocks, storage.of(source), dist::bytesOf(source.getType()) / blocks,
                 part, stride);
    else if (storage.of(source) != part)
      copy(source, part, *op.getOperation());
  return success();
}

LogicalResult ExecEmitter::emitUnpack(dist::UnpackOp op) {
  int64_t blocks = op.getBlocks(), stride = dist::packOffsets(op.getResultTypes(), blocks).back();
  if (blocks > 1)
    for (auto [result, part] : llvm::zip(op.getResults(), storage.partsOf(op)))
      copyBlocks(*op, result.getType(), blocks, part, stride, storage.of(result),
                 dist::bytesOf(result.getType()) / blocks);
  return success();
}

void ExecEmitter::fill(nn::ConstantOp constant, int buffer, Operation &op) {
  auto type = cast<RankedTensorType>(constant.getType());
  APFloat value = cast<DenseElementsAttr>(constant.getValue()).getSplatValue<APFloat>();
  call(op, "fill", {buffer}, {}, {0}, {},
       settings({{"count", b.getI64IntegerAttr(type.getNumElements())},
                 {"value", b.getF64FloatAttr(value.convertToDouble())},
                 {"dtype", b.getStringAttr(exec::dtypeName(type.getElementType()))}}));
}

LogicalResult ExecEmitter::emitLoop(dist::LoopOp op) {
  for (auto [init, result] : llvm::zip(op.getInits(), op.getResults())) {
    int buffer = storage.of(result);
    if (isa<dist::CopyType>(init.getType()) || (storage.has(init) && storage.of(init) == buffer))
      continue; // made where it lies
    auto constant = init.getDefiningOp<nn::ConstantOp>();
    auto splat = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
    if (splat && splat.isSplat() && isa<FloatType>(splat.getElementType()))
      fill(constant, buffer, *op);
    else
      copy(init, buffer, *op);
  }
  auto loop = exec::LoopOp::create(b, op.getLoc(), op.getTimes(), op.getFirst());
  Block *body = new Block();
  loop.getBody().push_back(body);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(body);
  Operation *yield = op.getBody()->getTerminator();
  for (Operation &inner : op.getBody()->without_terminator())
    if (failed(emit(inner)))
      return failure();
  for (auto [carried, next] : llvm::zip(op.getCarried(), yield->getOperands()))
    if (storage.of(next) != storage.of(carried))
      copy(next, storage.of(carried), *yield);
  return success();
}

// Steps of a pipeline's schedule and messages between its stages.
void ExecEmitter::emitPipeline(Operation &op) {
  if (auto step = dyn_cast<dist::StepOp>(op)) {
    exec::StepOp::create(b, op.getLoc(), dist::stringifyPipelineWork(step.getWork()), step.getChunk(),
                         step.getMicro());
  } else if (auto send = dyn_cast<dist::SendStartOp>(op)) {
    int64_t token = tokens[send.getToken()] = tokens.size();
    exec::SendOp::create(b, op.getLoc(), handleOf(send.getSource()), send.getStage(), send.getChannel(),
                         dist::bytesOf(send.getSource().getType()), token);
  } else if (auto wait = dyn_cast<dist::SendWaitOp>(op)) {
    exec::WaitOp::create(b, op.getLoc(), tokens.at(wait.getToken()));
  } else if (auto receive = dyn_cast<dist::RecvOp>(op)) {
    exec::RecvOp::create(b, op.getLoc(), handleOf(receive.getResult()), receive.getStage(),
                         receive.getChannel(), dist::bytesOf(receive.getResult().getType()));
  }
}
