// Operators of the dist dialect: local parts, collectives and the loop over microbatches.
#include "dialects/dist/Broadcast.h"
#include "dialects/dist/CollectiveSize.h"
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
  buffers.define(op.getResult());
  call(*op, "copy_box", {buffers.of(op.getSource()), buffers.of(op.getResult())}, {0}, {1}, start,
       settings({{"shape", b.getI64ArrayAttr({outer, block})},
                 {"source_strides", b.getI64ArrayAttr({row, 1})},
                 {"target_strides", b.getI64ArrayAttr({block, 1})},
                 {"dtype", b.getStringAttr(exec::dtypeName(op.getSource().getType().getElementType()))}}));
  return success();
}

LogicalResult ExecEmitter::emitMask(dist::MaskPaddingOp op) {
  auto shape = op.getShape();
  Value valid = dist::ValidOp::create(b, op.getLoc(), b.getI64Type(), op.getAxes(), shape[1], op.getSize(),
                                      /*shift=*/nullptr);
  SmallVector<int> list = {buffers.of(op.getSource())};
  bool inPlace = buffers.diesAt(op.getSource(), op) && !buffers.hasPlace(op.getResult());
  if (inPlace) {
    buffers.bind(op.getResult(), buffers.of(op.getSource()));
    ++numInPlace;
  } else {
    buffers.define(op.getResult());
    list.push_back(buffers.of(op.getResult()));
  }
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
  call(*op, "mask_padding", list, {0}, {inPlace ? 0 : 1}, scalars,
       settings({{"piece", b.getI64IntegerAttr(count)},
                 {"outer", b.getI64IntegerAttr(shape[0])},
                 {"n", b.getI64IntegerAttr(shape[1])},
                 {"inner", b.getI64IntegerAttr(shape[2])},
                 {"value", text},
                 {"out", b.getBoolAttr(!inPlace)},
                 {"dtype", b.getStringAttr(exec::dtypeName(op.getSource().getType().getElementType()))}}));
  return success();
}

LogicalResult ExecEmitter::emitIndex(dist::LogicalIndexOp op) {
  int64_t count = op.getType().getDimSize(0);
  Value start =
      dist::BlockStartOp::create(b, op.getLoc(), b.getI64Type(), op.getAxes(), count, /*shift=*/nullptr);
  buffers.define(op.getResult());
  call(*op, "logical_index", {buffers.of(op.getResult())}, {}, {0}, start,
       settings({{"count", b.getI64IntegerAttr(count)}}));
  return success();
}

nn::VariableOp ExecEmitter::replacedBy(Value value, int64_t begin) const {
  Value stored = value;
  while (!updates.contains(stored)) {
    Operation *user = stored.hasOneUse() ? *stored.user_begin() : nullptr;
    if (!user || !isView(user))
      return nullptr;
    stored = user->getResult(0);
  }
  nn::VariableOp variable = updates.lookup(stored);
  if (!stored.hasOneUse() || dist::bytesOf(value.getType()) !=
                                 dist::bytesOf(dist::localType(cast<RankedTensorType>(variable.getType()))))
    return nullptr;
  bool isRead = false;
  value.getDefiningOp()->getParentOfType<func::FuncOp>().walk([&](nn::ReadOp read) {
    isRead |= read.getVariable() == variable.getSymName() && buffers.positions().lastUse(read) >= begin;
  });
  return isRead ? nullptr : variable;
}

LogicalResult ExecEmitter::emitCollective(Operation &op) {
  Value source = op.getOperand(0);
  auto start = dyn_cast<dist::CollectiveStartOp>(op);
  auto collective = dyn_cast<dist::CollectiveOp>(op);
  auto get = [&](auto f) { return start ? f(start) : f(collective); };
  auto kind = get([](auto o) { return o.getKind(); });
  auto axes = get([](auto o) { return o.getAxes(); });
  auto shape = get([](auto o) { return o.getShape(); });
  int64_t split = get([](auto o) { return o.getSplit().value_or(0); });
  int64_t concat = get([](auto o) { return o.getConcat().value_or(0); });
  auto reduce = get([](auto o) { return o.getReduce(); });
  auto from = get([](auto o) { return o.getFromAttr(); });
  auto to = get([](auto o) { return o.getToAttr(); });
  auto shift = get([](auto o) { return o.getShiftAttr(); });
  auto root = get([](auto o) { return o.getRootAttr(); });

  Value result = start ? cast<dist::CollectiveWaitOp>(*start.getToken().getUsers().begin()).getResult()
                       : collective.getResult();
  int64_t begin = buffers.positions().start(&op), end = buffers.positions().start(result.getDefiningOp());
  int home = buffers.of(source);
  // In place only where nobody else reads the source, which may happen while the collective is under way.
  bool keepsShape = kind == dist::CollectiveKind::AllReduce && source.hasOneUse();
  for (Operation *def = source.getDefiningOp(); keepsShape && def && isView(def);
       def = def->getOperand(0).getDefiningOp())
    keepsShape = def->getOperand(0).hasOneUse();
  if (keepsShape && !buffers.isVariable(home) && !isa<BlockArgument>(source) &&
      source.getParentBlock() == op.getBlock() && buffers.endOf(home) <= end + 1) {
    buffers.bind(result, home);
    ++numInPlace;
  } else if (kind == dist::CollectiveKind::Reduce && buffers.hasPlace(result)) {
    buffers.define(result, begin);
  } else if (auto variable = replacedBy(result, begin)) {
    buffers.bind(result, buffers.ofVariable(variable));
    ++numInPlace;
  } else {
    buffers.bind(result,
                 buffers.create(dist::bytesOf(result.getType()), begin, end + 1, buffers.categoryOf(result)));
  }
  Type element = cast<RankedTensorType>(source.getType()).getElementType();
  rt::CollectiveSize size = dist::collectiveSize(kind, axes.getAxes(), element, shape, split, concat);
  SmallVector<Value> handles = {buffers.handle(home), buffers.handle(buffers.of(result))};
  if (int64_t scratch = rt::collectiveScratchBytes(size))
    handles.push_back(buffers.handle(buffers.create(scratch, begin, end + 1, "communication")));
  int64_t token = -1;
  if (start)
    tokens[start.getToken()] = token = tokens.size();
  StringAttr algorithm;
  if (kind == dist::CollectiveKind::Broadcast)
    algorithm = b.getStringAttr(
        rt::broadcastName(dist::broadcastCost({}, double(size.bytes()), axes.getAxes()).algorithm));
  exec::CollectiveOp::create(b, op.getLoc(), dist::stringifyCollectiveKind(kind), handles, axes, element,
                             shape, split, concat,
                             reduce ? dist::stringifyReduceKind(*reduce) : StringRef("sum"), from, to, shift,
                             root, algorithm, token);
  return success();
}

// Moves the blocks of a value, which lie one behind the other, to or from those of a pack, each `stride`
// bytes behind the last.
void ExecEmitter::copyBlocks(Operation &op, Type type, int64_t blocks, int source, int64_t sourceStride,
                             int target, int64_t targetStride) {
  Type element = cast<RankedTensorType>(type).getElementType();
  int64_t bytes = dist::elementBytes(element), count = cast<RankedTensorType>(type).getNumElements() / blocks;
  call(op, "copy_box", {source, target}, {0}, {1}, {},
       settings({{"shape", b.getI64ArrayAttr({blocks, count})},
                 {"source_strides", b.getI64ArrayAttr({sourceStride / bytes, 1})},
                 {"target_strides", b.getI64ArrayAttr({targetStride / bytes, 1})},
                 {"dtype", b.getStringAttr(exec::dtypeName(element))}}));
}

LogicalResult ExecEmitter::emitPack(dist::PackOp op) {
  int64_t blocks = op.getBlocks();
  SmallVector<int64_t> offsets = dist::packOffsets(op.getSources().getTypes(), blocks);
  int pack = buffers.ofPack(op);
  int64_t at = buffers.positions().start(op);
  if (pack < 0)
    pack = buffers.create(dist::bytesOf(op.getType()), at, at + 1, buffers.categoryOf(op));
  buffers.bind(op, pack);
  for (auto [source, offset] : llvm::zip(op.getSources(), offsets)) {
    int64_t bytes = dist::bytesOf(source.getType()), block = bytes / blocks;
    if (blocks > 1)
      copyBlocks(*op, source.getType(), blocks, buffers.of(source), block,
                 buffers.part(pack, offset, (blocks - 1) * offsets.back() + block), offsets.back());
    else if (!buffers.isPart(buffers.of(source), pack, offset))
      copy(source, buffers.part(pack, offset, bytes), *op.getOperation());
  }
  return success();
}

LogicalResult ExecEmitter::emitUnpack(dist::UnpackOp op) {
  int64_t blocks = op.getBlocks();
  int pack = buffers.of(op.getSource());
  SmallVector<int64_t> offsets = dist::packOffsets(op.getResultTypes(), blocks);
  for (auto [result, offset] : llvm::zip(op.getResults(), offsets)) {
    int64_t bytes = dist::bytesOf(result.getType()), block = bytes / blocks;
    if (blocks == 1) {
      buffers.bind(result, buffers.part(pack, offset, bytes));
      continue;
    }
    if (auto variable = replacedBy(result, buffers.positions().start(op))) {
      buffers.bind(result, buffers.ofVariable(variable));
      ++numInPlace;
    } else {
      buffers.define(result);
    }
    copyBlocks(*op, result.getType(), blocks,
               buffers.part(pack, offset, (blocks - 1) * offsets.back() + block), offsets.back(),
               buffers.of(result), block);
  }
  return success();
}

LogicalResult ExecEmitter::emitLoop(dist::LoopOp op) {
  const Liveness &positions = buffers.positions();
  // Carried values keep one buffer from before the loop to its last use behind it.
  for (auto [init, carried, result] : llvm::zip(op.getInits(), op.getCarried(), op.getResults())) {
    buffers.define(result);
    int buffer = buffers.of(result);
    buffers.bind(carried, buffer);
    buffers.extend(buffer, positions.end(op) + 1);
    auto type = cast<RankedTensorType>(init.getType());
    auto constant = init.getDefiningOp<nn::ConstantOp>();
    auto splat = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
    if (splat && splat.isSplat() && isa<FloatType>(type.getElementType()))
      call(*op, "fill", {buffer}, {}, {0}, {},
           settings({{"count", b.getI64IntegerAttr(type.getNumElements())},
                     {"value", b.getF64FloatAttr(splat.getSplatValue<APFloat>().convertToDouble())},
                     {"dtype", b.getStringAttr(exec::dtypeName(type.getElementType()))}}));
    else
      copy(init, buffer, *op);
  }
  auto loop = exec::LoopOp::create(b, op.getLoc(), op.getTimes());
  Block *body = new Block();
  loop.getBody().push_back(body);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(body);
  Operation *yield = op.getBody()->getTerminator();
  for (Operation &inner : op.getBody()->without_terminator())
    if (failed(emit(inner)))
      return failure();
  for (auto [carried, next] : llvm::zip(op.getCarried(), yield->getOperands()))
    if (buffers.of(next) != buffers.of(carried))
      copy(next, buffers.of(carried), *yield);
  return success();
}

// Steps of a pipeline's schedule and messages between its stages.
void ExecEmitter::emitPipeline(Operation &op) {
  if (auto step = dyn_cast<dist::StepOp>(op)) {
    exec::StepOp::create(b, op.getLoc(), step.getWork(), step.getChunk(), step.getMicro());
  } else if (auto send = dyn_cast<dist::SendStartOp>(op)) {
    int64_t token = tokens[send.getToken()] = tokens.size();
    exec::SendOp::create(b, op.getLoc(), buffers.handle(buffers.of(send.getSource())), send.getStage(),
                         send.getChannel(), dist::bytesOf(send.getSource().getType()), token);
  } else if (auto wait = dyn_cast<dist::SendWaitOp>(op)) {
    exec::WaitOp::create(b, op.getLoc(), tokens.at(wait.getToken()));
  } else if (auto receive = dyn_cast<dist::RecvOp>(op)) {
    buffers.define(receive.getResult());
    exec::RecvOp::create(b, op.getLoc(), buffers.handle(buffers.of(receive.getResult())), receive.getStage(),
                         receive.getChannel(), dist::bytesOf(receive.getResult().getType()));
  }
}
