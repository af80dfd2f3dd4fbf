// Verification, folding and text of the dialect's operators.
#include "dialects/dist/Attributes.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tessera::dist {

//===--- reshard --------------------------------------------------------------------===//

LogicalResult ReshardOp::verify() {
  auto source = getSource().getType(), result = getResult().getType();
  if (!hasLayout(source) || !hasLayout(result))
    return emitOpError("needs a layout on both types; got ") << source << " and " << result;
  if (source.getShape() != result.getShape() || source.getElementType() != result.getElementType())
    return emitOpError("changes the tensor from ")
           << source << " to " << result << "; only the layout may change";
  Layout from = getLayout(source), to = getLayout(result);
  if (!from.sameAtoms(to))
    return emitOpError(
        "has layouts of different atoms or padding; both belong to the dimension and cannot be resharded");
  AxisList had = from.partial, wanted = to.partial;
  if (!refine({&had, &wanted}))
    return emitOpError("has partial axes that do not nest: ")
           << toString(from.partial) << " and " << toString(to.partial);
  if (AxisList extra = without(wanted, had); !extra.empty())
    return emitOpError("would make a value partial over ") << toString(extra) << ", which it is not";
  return success();
}

OpFoldResult ReshardOp::fold(FoldAdaptor) {
  return getSource().getType() == getResult().getType() ? OpFoldResult(getSource()) : OpFoldResult();
}

// Skips an inner reshard that nothing else reads.
LogicalResult ReshardOp::canonicalize(ReshardOp op, PatternRewriter &rewriter) {
  auto inner = op.getSource().getDefiningOp<ReshardOp>();
  if (!inner || !inner->hasOneUse())
    return failure();
  rewriter.modifyOpInPlace(op, [&] { op.getSourceMutable().assign(inner.getSource()); });
  return success();
}

//===--- shapes by atoms ---------------------------------------------------------------===//

/// Whether consecutive groups of atoms make up the dimensions: the same groups of `before` those of `source`
/// and of `after` those of `result`. Atoms of one position may belong to either neighbour, so all cuts are
/// kept.
static bool groupsInto(ArrayRef<int64_t> before, ArrayRef<int64_t> after, ArrayRef<int64_t> source,
                       ArrayRef<int64_t> result) {
  size_t n = before.size();
  llvm::BitVector starts(n + 1);
  starts.set(0);
  for (auto [inExtent, outExtent] : llvm::zip(source, result)) {
    llvm::BitVector ends(n + 1);
    for (size_t start : starts.set_bits()) {
      int64_t in = 1, out = 1;
      for (size_t end = start;; ++end) {
        if (in == inExtent && out == outExtent)
          ends.set(end);
        if (end == n || llvm::MulOverflow(in, before[end], in) || llvm::MulOverflow(out, after[end], out) ||
            in > inExtent || out > outExtent)
          break;
      }
    }
    starts = std::move(ends);
  }
  return starts.test(n);
}

/// Checks that `shape` describes `source` by atoms, and `after` the result in the same dimensions.
static LogicalResult verifyShapes(Operation *op, ArrayRef<int64_t> shape, ArrayRef<int64_t> after,
                                  RankedTensorType source, RankedTensorType result) {
  for (int64_t extent : shape)
    if (extent < 1)
      return op->emitOpError("has an atom of extent ") << extent << " in its shape; expected at least 1";
  if (source.getElementType() != result.getElementType())
    return op->emitOpError("changes the element type from ")
           << source.getElementType() << " to " << result.getElementType();
  if (!groupsInto(shape, shape, source.getShape(), source.getShape()))
    return op->emitOpError("has a shape [") << shape << "] that does not factor the source " << source;
  if (source.getRank() != result.getRank() || !groupsInto(shape, after, source.getShape(), result.getShape()))
    return op->emitOpError("yields atoms [") << after << "], which do not make up the result " << result;
  return success();
}

/// Divides atom `split` by the number of ranks.
static LogicalResult shorten(Operation *op, int64_t split, int64_t ranks, SmallVectorImpl<int64_t> &shape) {
  if (split < 0 || split >= int64_t(shape.size()))
    return op->emitOpError("splits atom ") << split << " of a shape of " << shape.size() << " atoms";
  if (shape[split] % ranks != 0)
    return op->emitOpError("cannot split an atom of ") << shape[split] << " into " << ranks << " blocks";
  shape[split] /= ranks;
  return success();
}

//===--- local operators ---------------------------------------------------------------===//

/// As many steps as there are axes to go along.
static LogicalResult verifyShift(Operation *op, AxesAttr axes, std::optional<ArrayRef<int64_t>> shift) {
  if (!shift || shift->size() == axes.getAxes().size())
    return success();
  return op->emitOpError("has a shift along ")
         << shift->size() << " axes; expected " << axes.getAxes().size() << ", one each";
}

LogicalResult SliceOp::verify() {
  if (failed(verifyShift(*this, getAxes(), getShift())))
    return failure();
  SmallVector<int64_t> after(getShape());
  if (failed(shorten(*this, getSplit(), product(getAxes().getAxes()), after)))
    return failure();
  return verifyShapes(*this, getShape(), after, getSource().getType(), getResult().getType());
}

/// A vector of at least as many elements as the block has.
static LogicalResult verifyFlat(Operation *op, RankedTensorType block, RankedTensorType vector) {
  if (vector.getRank() == 1 && vector.getNumElements() >= block.getNumElements() &&
      vector.getElementType() == block.getElementType())
    return success();
  return op->emitOpError("goes between ") << block << " and " << vector << "; expected a vector of at least "
                                          << block.getNumElements() << " elements of the same type";
}

LogicalResult FlattenOp::verify() { return verifyFlat(*this, getSource().getType(), getResult().getType()); }
LogicalResult UnflattenOp::verify() {
  return verifyFlat(*this, getResult().getType(), getSource().getType());
}

LogicalResult MaskPaddingOp::verify() {
  if (getShape().size() != 3)
    return emitOpError("has a shape of ") << getShape().size() << " extents; expected [outer, n, inner]";
  auto source = getSource().getType();
  // outer and inner are products over dimensions, so the extents factor the element count and not each
  // dimension.
  int64_t pieces = getPiece() ? product(getPiece()->getAxes()) : 1;
  if (llvm::any_of(getShape(), [](int64_t extent) { return extent < 1; }) ||
      llvm::divideCeil(ShapedType::getNumElements(getShape()), pieces) != uint64_t(source.getNumElements()))
    return emitOpError("has a shape [") << getShape() << "] that does not factor the source " << source;
  int64_t padded = getShape()[1] * product(getAxes().getAxes());
  if (int64_t(getSize()) < 0 || int64_t(getSize()) > padded)
    return emitOpError("has size ") << int64_t(getSize()) << ", but the blocks hold " << padded
                                    << " positions";
  if (getValue().getType() != source.getElementType())
    return emitOpError("writes a ") << getValue().getType() << " into " << source;
  return success();
}

LogicalResult BlockStartOp::verify() {
  if (int64_t(getBlock()) < 1)
    return emitOpError("has a block of ") << int64_t(getBlock()) << "; expected at least 1";
  return verifyShift(*this, getAxes(), getShift());
}

LogicalResult ValidOp::verify() { return verifyShift(*this, getAxes(), getShift()); }

LogicalResult LogicalIndexOp::verify() {
  int64_t size = getSize(), padded = getPadded(), blocks = product(getAxes().getAxes());
  if (size < 0 || padded < size || padded % blocks != 0)
    return emitOpError("has size ") << size << " and padded " << padded
                                    << "; expected size <= padded, a multiple of " << blocks;
  if (int64_t local = padded / blocks; getType().getDimSize(0) != local)
    return emitOpError("has ") << getType().getDimSize(0) << " results; a rank holds " << local
                               << " positions";
  return success();
}

//===--- collectives ---------------------------------------------------------------------===//

static LogicalResult verifyPermute(Operation *op, ArrayRef<int64_t> shape, LayoutAttr from, LayoutAttr to,
                                   RankedTensorType source, RankedTensorType result, bool shifts) {
  if (shifts) {
    if (from || to)
      return op->emitOpError("permute has either the layouts 'from' and 'to' or a shift");
    if (source != result)
      return op->emitOpError("a shift keeps the type of what it moves");
    return success();
  }
  if (!from || !to)
    return op->emitOpError("permute needs the layouts 'from' and 'to'");
  const Layout &before = from.getLayout(), &after = to.getLayout();
  for (const Layout *layout : {&before, &after})
    if (llvm::any_of(layout->usedAxes(), [](const AxisRef &axis) { return axis.name == kMicroAxis; }))
      return op->emitOpError(
          "cannot permute blocks of \"micro\": microbatches are iterations of a loop, not ranks");
  if (!before.sameAtoms(after) || before.localElements() != after.localElements())
    return op->emitOpError("permute must keep the atoms and the number of elements that a rank holds");
  if (ArrayRef<int64_t>(before.localAtoms()) != shape)
    return op->emitOpError("has a shape [")
           << shape << "], but the layout 'from' has local atoms [" << before.localAtoms() << "]";
  if (ArrayRef<int64_t>(before.localShape()) != source.getShape() ||
      ArrayRef<int64_t>(after.localShape()) != result.getShape())
    return op->emitOpError("has types whose shapes are not the local shapes of its layouts");
  if (source.getElementType() != result.getElementType())
    return op->emitOpError("changes the element type from ")
           << source.getElementType() << " to " << result.getElementType();
  return success();
}

/// What dist.collective and dist.collective_start share; `result` is what the collective yields.
template <typename Op> static LogicalResult verifyCollective(Op op, RankedTensorType result) {
  CollectiveKind kind = op.getKind();
  ArrayRef<AxisRef> axes = op.getAxes().getAxes();
  int64_t ranks = product(axes);
  if (axes.empty())
    return op.emitOpError("needs at least one axis to run over");
  for (const AxisRef &axis : axes)
    if (axis.name == kMicroAxis)
      return op.emitOpError("cannot run over \"micro\": microbatches are iterations of a loop, not ranks");

  const rt::CollectiveTraits &traits = rt::collectiveTraits(kind);
  auto check = [&](StringRef property, bool present, bool wanted) -> LogicalResult {
    if (present == wanted)
      return success();
    return op.emitOpError() << rt::collectiveName(kind) << (wanted ? " needs '" : " has no '") << property
                            << "'";
  };
  if (failed(check("split", op.getSplit().has_value(), traits.splits)) ||
      failed(check("concat", op.getConcat().has_value(), traits.joins)) ||
      failed(check("root", op.getRoot().has_value(), traits.isRooted())) ||
      (!traits.permutes() && (failed(check("from", op.getFrom().has_value(), false)) ||
                              failed(check("to", op.getTo().has_value(), false)) ||
                              failed(check("shift", op.getShift().has_value(), false)))) ||
      (op.getReduce() && failed(check("reduce", true, traits.reduces))))
    return failure();
  if (traits.isRooted() && (int64_t(*op.getRoot()) < 0 || int64_t(*op.getRoot()) >= ranks))
    return op.emitOpError("has root ") << int64_t(*op.getRoot()) << " in a group of " << ranks << " ranks";
  if (traits.permutes())
    return verifyPermute(op, op.getShape(), op.getFromAttr(), op.getToAttr(), op.getSource().getType(),
                         result, op.getShift().has_value());

  SmallVector<int64_t> after(op.getShape());
  if (traits.splits && failed(shorten(op, *op.getSplit(), ranks, after)))
    return failure();
  if (traits.joins) {
    int64_t concat = *op.getConcat();
    if (concat < 0 || concat >= int64_t(after.size()))
      return op.emitOpError("joins along atom ") << concat << " of a shape of " << after.size() << " atoms";
    if (traits.splits && concat == int64_t(*op.getSplit()))
      return op.emitOpError("splits and joins the same atom ")
             << concat << "; use permute to reorder its blocks";
    if (llvm::MulOverflow(after[concat], ranks, after[concat]))
      return op.emitOpError("yields more than 2^63 elements");
  }
  return verifyShapes(op, op.getShape(), after, op.getSource().getType(), result);
}

/// What both builders of both operators do; `yields` is the type of the result.
template <typename Op>
static void buildCollective(OpBuilder &builder, OperationState &state, Type yields, Value source,
                            const CollectiveSpec &spec) {
  MLIRContext *context = builder.getContext();
  auto number = [&](std::optional<int64_t> value) {
    return value ? builder.getI64IntegerAttr(*value) : IntegerAttr();
  };
  auto layout = [&](const std::optional<Layout> &value) {
    return value ? LayoutAttr::get(context, *value) : LayoutAttr();
  };
  ArrayRef<int64_t> shape = spec.shape;
  if (shape.empty())
    shape = cast<RankedTensorType>(source.getType()).getShape();
  auto &properties = state.getOrAddProperties<typename Op::Properties>();
  properties.kind = CollectiveKindAttr::get(context, spec.kind);
  properties.axes = AxesAttr::get(context, spec.axes);
  properties.shape = builder.getDenseI64ArrayAttr(shape);
  properties.split = number(spec.split);
  properties.concat = number(spec.concat);
  properties.root = number(spec.root);
  properties.reduce = spec.reduce ? ReduceKindAttr::get(context, *spec.reduce) : ReduceKindAttr();
  properties.from = layout(spec.from);
  properties.to = layout(spec.to);
  properties.shift = number(spec.shift);
  state.addOperands(source);
  state.addTypes(yields);
}

template <typename Op> static CollectiveSpec specOf(Op op) {
  auto layout = [](LayoutAttr attr) { return attr ? std::optional<Layout>(attr.getLayout()) : std::nullopt; };
  return {op.getKind(),
          AxisList(op.getAxes().getAxes()),
          SmallVector<int64_t>(op.getShape()),
          op.getSplit(),
          op.getConcat(),
          op.getRoot(),
          op.getReduce(),
          layout(op.getFromAttr()),
          layout(op.getToAttr()),
          op.getShift()};
}

void CollectiveOp::build(OpBuilder &builder, OperationState &state, RankedTensorType type, Value source,
                         const CollectiveSpec &spec) {
  buildCollective<CollectiveOp>(builder, state, type, source, spec);
}

void CollectiveOp::build(OpBuilder &builder, OperationState &state, Value source,
                         const CollectiveSpec &spec) {
  build(builder, state, cast<RankedTensorType>(source.getType()), source, spec);
}

void CollectiveStartOp::build(OpBuilder &builder, OperationState &state, RankedTensorType type, Value source,
                              const CollectiveSpec &spec) {
  buildCollective<CollectiveStartOp>(builder, state, TokenType::get(builder.getContext(), type), source,
                                     spec);
}

void CollectiveStartOp::build(OpBuilder &builder, OperationState &state, Value source,
                              const CollectiveSpec &spec) {
  build(builder, state, cast<RankedTensorType>(source.getType()), source, spec);
}

CollectiveSpec CollectiveOp::getSpec() { return specOf(*this); }
CollectiveSpec CollectiveStartOp::getSpec() { return specOf(*this); }

CollectiveWaitOp CollectiveStartOp::getWait() { return cast<CollectiveWaitOp>(*getToken().user_begin()); }
TypedValue<RankedTensorType> CollectiveStartOp::getOutcome() { return getWait().getResult(); }

CollectiveInterface collectiveOf(Value value) {
  if (auto wait = value.getDefiningOp<CollectiveWaitOp>())
    return wait.getToken().getDefiningOp<CollectiveStartOp>();
  return value.getDefiningOp<CollectiveOp>();
}

BlockArgument carriedBefore(Value next) {
  for (OpOperand &use : next.getUses())
    if (isa<YieldOp>(use.getOwner()))
      return use.getOwner()->getBlock()->getArgument(use.getOperandNumber());
  return nullptr;
}

LogicalResult CollectiveOp::verify() { return verifyCollective(*this, getResult().getType()); }

LogicalResult CollectiveStartOp::verify() {
  if (failed(verifyCollective(*this, getToken().getType().getTensor())))
    return failure();
  if (!getToken().hasOneUse() || !isa<CollectiveWaitOp>(*getToken().user_begin()))
    return emitOpError("needs exactly one dist.collective_wait of its token");
  return success();
}

/// Stages and channels are numbers from 0.
template <typename Op> static LogicalResult verifyChannel(Op op) {
  if (int64_t(op.getStage()) < 0 || int64_t(op.getChannel()) < 0)
    return op.emitOpError("has stage ")
           << int64_t(op.getStage()) << " and channel " << int64_t(op.getChannel()) << "; both count from 0";
  return success();
}

LogicalResult SendOp::verify() { return verifyChannel(*this); }
LogicalResult SendStartOp::verify() { return verifyChannel(*this); }
LogicalResult RecvOp::verify() { return verifyChannel(*this); }

//===--- tiers of memory -------------------------------------------------------------------===//

LogicalResult CopyType::verify(function_ref<InFlightDiagnostic()> emitError, RankedTensorType tensor,
                               Tier tier) {
  if (tier == Tier::Device)
    return emitError() << "a copy is in a tier below the device, not in " << tierName(tier);
  if (!tensor.hasStaticShape() || tensor.getEncoding())
    return emitError() << "a copy is of what a rank holds, a tensor of static shape without layout, not of "
                       << tensor;
  return success();
}

// The variable rests where the copy is, and the copy is of what a rank holds of it.
static LogicalResult verifyRests(Operation *user, SymbolTableCollection &symbols, FlatSymbolRefAttr name,
                                 CopyType copy) {
  Operation *variable = symbols.lookupNearestSymbolFrom(user, name);
  auto type = variable ? variable->getAttrOfType<TypeAttr>("type") : TypeAttr();
  if (!type || !isa<RankedTensorType>(type.getValue()))
    return user->emitOpError("names no variable: ") << name;
  if (restsIn(variable) != copy.getTier())
    return user->emitOpError("wants ") << name << " in the tier " << tierName(copy.getTier())
                                       << "; it rests in " << tierName(restsIn(variable));
  if (auto local = localType(cast<RankedTensorType>(type.getValue())); local != copy.getTensor())
    return user->emitOpError("type ") << copy << " is not of what a rank holds of " << name << ", " << local;
  return success();
}

LogicalResult ReadCopyOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyRests(*this, symbols, getVariableAttr(), getType());
}
LogicalResult AssignCopyOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyRests(*this, symbols, getVariableAttr(), getValue().getType());
}

// A transfer arrives once.
template <typename WaitOp> static LogicalResult verifyArrival(Operation *op, Value transfer) {
  if (transfer.hasOneUse() && isa<WaitOp>(*transfer.user_begin()))
    return success();
  return op->emitOpError("needs exactly one ") << WaitOp::getOperationName() << " of its transfer";
}

// A value of a type, in the tier that the type says.
static std::pair<Tier, Type> tierAndTensor(Type type) {
  auto copy = dyn_cast<CopyType>(type);
  return copy ? std::pair(copy.getTier(), Type(copy.getTensor())) : std::pair(Tier::Device, type);
}

// The same value, one tier further down.
static bool isBelow(Type lower, Type upper) {
  auto [below, copied] = tierAndTensor(lower);
  auto [above, tensor] = tierAndTensor(upper);
  return copied == tensor && int(below) == int(above) + 1;
}

LogicalResult OffloadStartOp::verify() {
  if (!isBelow(getTransfer().getType().getArrival(), getSource().getType()))
    return emitOpError("of ") << getSource().getType() << " cannot arrive as "
                              << getTransfer().getType().getArrival();
  return verifyArrival<OffloadWaitOp>(*this, getTransfer());
}

LogicalResult PrefetchStartOp::verify() {
  if (!isBelow(getSource().getType(), getTransfer().getType().getArrival()))
    return emitOpError("of ") << getSource().getType() << " cannot arrive as "
                              << getTransfer().getType().getArrival();
  return verifyArrival<PrefetchWaitOp>(*this, getTransfer());
}

LogicalResult HostStartOp::verify() {
  SmallVector<Type> changed;
  for (Value source : getSources())
    if (Tier tier = cast<CopyType>(source.getType()).getTier(); tier != Tier::Host)
      return emitOpError("takes a copy in the tier ") << tierName(tier) << "; the host computes with its own";
  for (auto [i, place] : llvm::enumerate(getChanges())) {
    if (place < 0 || place >= int64_t(getSources().size()) || (i > 0 && place <= getChanges()[i - 1]))
      return emitOpError("changes [") << getChanges() << "], which are not places of its "
                                      << getSources().size() << " sources, rising";
    changed.push_back(getSources()[place].getType());
  }
  ArrayRef<Type> results = getCall().getType().getResults();
  if (results.take_front(changed.size()) != ArrayRef<Type>(changed))
    return emitOpError("has a result of other types than those of the sources that it changes");
  for (Type made : results.drop_front(changed.size()))
    if (auto copy = dyn_cast<CopyType>(made); !copy || copy.getTier() != Tier::Host)
      return emitOpError("makes ") << made << ", which is no copy in the host's memory";
  if (!getCall().hasOneUse() || !isa<HostWaitOp>(*getCall().user_begin()))
    return emitOpError("needs exactly one dist.host_wait of its call");
  return success();
}

LogicalResult HostWaitOp::verify() {
  if (getResultTypes() != TypeRange(getCall().getType().getResults()))
    return emitOpError("yields other types than those that the function changes and makes");
  return success();
}

//===--- loop ------------------------------------------------------------------------------===//

void LoopOp::build(OpBuilder &builder, OperationState &state, int64_t times, ValueRange inits) {
  state.addAttribute(getTimesAttrName(state.name), builder.getI64IntegerAttr(times));
  state.addOperands(inits);
  state.addTypes(inits.getTypes());
  Block &body = state.addRegion()->emplaceBlock();
  for (Value init : inits)
    body.addArgument(init.getType(), init.getLoc());
}

void LoopOp::print(OpAsmPrinter &printer) {
  if (getFirst() != 0)
    printer << " from " << getFirst();
  printer << " times " << getTimes();
  if (!getInits().empty()) {
    printer << " iter_args(";
    llvm::interleaveComma(llvm::zip(getCarried(), getInits()), printer, [&](auto pair) {
      auto [carried, init] = pair;
      printer << carried << " = " << init << " : " << init.getType();
    });
    printer << ')';
  }
  printer << ' ';
  printer.printRegion(getRegion(), /*printEntryBlockArgs=*/false);
  printer.printOptionalAttrDict((*this)->getAttrs(), {getTimesAttrName(), getFirstAttrName()});
}

ParseResult LoopOp::parse(OpAsmParser &parser, OperationState &state) {
  int64_t times, first = 0;
  if (succeeded(parser.parseOptionalKeyword("from"))) {
    if (parser.parseInteger(first))
      return failure();
    state.addAttribute(getFirstAttrName(state.name), parser.getBuilder().getI64IntegerAttr(first));
  }
  if (parser.parseKeyword("times") || parser.parseInteger(times))
    return failure();
  state.addAttribute(getTimesAttrName(state.name), parser.getBuilder().getI64IntegerAttr(times));
  SmallVector<OpAsmParser::Argument> carried;
  if (succeeded(parser.parseOptionalKeyword("iter_args"))) {
    auto parseOne = [&]() -> ParseResult {
      OpAsmParser::Argument &argument = carried.emplace_back();
      OpAsmParser::UnresolvedOperand init;
      return failure(parser.parseArgument(argument) || parser.parseEqual() || parser.parseOperand(init) ||
                     parser.parseColonType(argument.type) ||
                     parser.resolveOperand(init, argument.type, state.operands));
    };
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOne))
      return failure();
  }
  for (const OpAsmParser::Argument &argument : carried)
    state.addTypes(argument.type);
  return failure(parser.parseRegion(*state.addRegion(), carried) ||
                 parser.parseOptionalAttrDict(state.attributes));
}

// Copies are changed where they lie, for nothing copies within a tier: the first one is nobody else's, and
// the next one arrives when the one before has been read.
static LogicalResult verifyCarriedCopy(LoopOp loop, Value init, BlockArgument carried, Value next) {
  if (!init.hasOneUse() || init.getDefiningOp<ReadCopyOp>())
    return loop.emitOpError("changes the copy that it begins with, which is a variable's or used elsewhere");
  if (next == carried)
    return success();
  auto arrived = next.getDefiningOp<OffloadWaitOp>();
  Operation *start = arrived ? arrived.getTransfer().getDefiningOp() : nullptr;
  if (!start || start->getBlock() != loop.getBody() || !next.hasOneUse())
    return loop.emitOpError("carries on a copy that no offload of its body brings for that alone");
  for (Operation *reader : carried.getUsers())
    for (Operation *wait : reader->getUsers())
      if (wait->getBlock() != loop.getBody() || start->isBeforeInBlock(wait))
        return start->emitOpError("brings a copy over the one before, which is read until behind it");
  return success();
}

LogicalResult LoopOp::verify() {
  if (int64_t(getTimes()) < 1)
    return emitOpError("runs ") << int64_t(getTimes()) << " times; expected at least 1";
  if (int64_t(getFirst()) < 0)
    return emitOpError("begins with microbatch ") << int64_t(getFirst()) << "; expected 0 or more";
  TypeRange results = getResultTypes();
  if (getInits().getTypes() != results || getBody()->getArgumentTypes() != results)
    return emitOpError("has initial values, carried values and results of different types");
  auto yield = dyn_cast_or_null<YieldOp>(getBody()->empty() ? nullptr : &getBody()->back());
  if (!yield || yield.getValues().getTypes() != results)
    return emitOpError("must end in a dist.yield of ") << results.size() << " values of the types it carries";
  for (auto [init, carried, next] : llvm::zip(getInits(), getCarried(), yield.getValues()))
    if (isa<CopyType>(init.getType()) && failed(verifyCarriedCopy(*this, init, carried, next)))
      return failure();
  return success();
}

} // namespace tessera::dist
