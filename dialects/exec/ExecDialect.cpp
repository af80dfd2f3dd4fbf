// Registration of the exec dialect, and the verifiers of its operations.
#include "dialects/exec/Exec.h"
#include "mlir/IR/DialectImplementation.h"
#include "runtime/comm/collective_kinds.h"
#include "runtime/machine/workload.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h" // IWYU pragma: keep
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tessera::exec;

#include "dialects/exec/ExecDialect.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/exec/ExecTypes.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/exec/ExecOps.cpp.inc"

void ExecDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/exec/ExecTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/exec/ExecOps.cpp.inc"
      >();
}

LogicalResult OwnOp::verify() {
  if (getSources().empty())
    return emitOpError("needs a value for each rank");
  for (Type type : getSources().getTypes())
    if (type != getType())
      return emitOpError("gives ") << getType() << " of a value of type " << type;
  return success();
}

// The tier, `in host`, where it is not the device.
ParseResult BufferOp::parse(OpAsmParser &parser, OperationState &state) {
  tessera::Tier tier = tessera::Tier::Device;
  if (succeeded(parser.parseOptionalKeyword("in"))) {
    FailureOr<tessera::Tier> parsed = FieldParser<tessera::Tier>::parse(parser);
    if (failed(parsed))
      return failure();
    tier = *parsed;
  }
  state.addTypes(BufferType::get(parser.getContext(), tier));
  return parser.parseOptionalAttrDict(state.attributes);
}

void BufferOp::print(OpAsmPrinter &printer) {
  if (tessera::Tier tier = getType().getTier(); tier != tessera::Tier::Device)
    printer << " in " << tier;
  printer.printOptionalAttrDict((*this)->getAttrs());
}

LogicalResult BufferOp::verify() {
  if (int64_t(getOffset()) < 0 || int64_t(getBytes()) < 0)
    return emitOpError("has a negative offset or size");
  if (int64_t end; llvm::AddOverflow(int64_t(getOffset()), int64_t(getBytes()), end))
    return emitOpError("ends behind byte 2^63");
  bool known =
      llvm::StringSwitch<bool>(getCategory())
          .Cases("parameters", "gradients", "optimizer", "activations", "workspace", "communication", true)
          .Default(false);
  if (!known)
    return emitOpError("has the unknown category \"")
           << getCategory()
           << "\"; expected parameters, gradients, optimizer, activations, workspace or communication";
  return success();
}

LogicalResult PartOp::verify() {
  BufferRange whole = rangeOf(getWhole());
  if (!whole.root)
    return emitOpError("is a part of what is no exec.buffer");
  if (int64_t(getOffset()) < 0 || int64_t(getBytes()) < 0 ||
      int64_t(getOffset()) > whole.bytes - int64_t(getBytes()))
    return emitOpError("has bytes [")
           << int64_t(getOffset()) << ", " << int64_t(getOffset()) + int64_t(getBytes())
           << ") of a buffer of " << whole.bytes << " bytes";
  return success();
}

LogicalResult CopyOp::verify() {
  if (getSource().getType() == getTarget().getType())
    return emitOpError("copies within a tier, from ")
           << getSource().getType() << " to " << getTarget().getType();
  if (!rt::areNeighbours(getSource().getType().getTier(), getTarget().getType().getTier()))
    return emitOpError("copies past the host, from ")
           << getSource().getType() << " to " << getTarget().getType();
  int64_t from = rangeOf(getSource()).bytes, to = rangeOf(getTarget()).bytes;
  if (from != to)
    return emitOpError("copies a buffer of ") << from << " bytes to one of " << to;
  if (int64_t(getToken()) < 0)
    return emitOpError("needs a token that is not negative");
  return success();
}

BufferRange tessera::exec::rangeOf(Value buffer) {
  int64_t offset = 0, bytes = -1;
  for (Operation *def = buffer.getDefiningOp(); def; def = buffer.getDefiningOp()) {
    if (auto root = dyn_cast<BufferOp>(def))
      return {root, offset, bytes < 0 ? int64_t(root.getBytes()) : bytes};
    auto part = dyn_cast<PartOp>(def);
    if (!part)
      break;
    offset += int64_t(part.getOffset());
    bytes = bytes < 0 ? int64_t(part.getBytes()) : bytes;
    buffer = part.getWhole();
  }
  return {nullptr, 0, 0};
}

// Every buffer of a launch or a call is read or written, or both.
template <typename Op> static LogicalResult verifyAccesses(Op op) {
  int64_t size = op.getBuffers().size();
  for (ArrayRef<int64_t> places : {op.getReads(), op.getWrites()})
    for (int64_t place : places)
      if (place < 0 || place >= size)
        return op.emitOpError("reads or writes buffer ") << place << " of " << size;
  for (int64_t place = 0; place < size; ++place)
    if (!llvm::is_contained(op.getReads(), place) && !llvm::is_contained(op.getWrites(), place))
      return op.emitOpError("neither reads nor writes its buffer ") << place;
  return success();
}

// What estimates of time are by; descriptions have room for so much.
template <typename Op> static LogicalResult verifyWork(Op op) {
  if (auto work = op.getWork(); work && !tessera::rt::parseWorkClass(*work))
    return op.emitOpError("is work of class '") << *work << "', which is none";
  // They are counted in 64 bits.
  if (auto functions = op.getFunctions())
    if (double number = functions->convertToDouble(); !(number >= 0 && number < 0x1p62))
      return op.emitOpError("evaluates ") << number << " functions; expected 0 or more, below 2^62";
  if (auto bytes = op.getBytesRead())
    if (double number = bytes->convertToDouble(); !(number >= 0 && number < 0x1p56))
      return op.emitOpError("reads ") << number << " bytes; expected 0 or more, below 2^56";
  return success();
}

LogicalResult LaunchOp::verify() {
  return success(succeeded(verifyAccesses(*this)) && succeeded(verifyWork(*this)));
}

LogicalResult CallOp::verify() {
  if (auto shape = getShape(); shape && shape->size() != 4)
    return emitOpError("has a product of ") << shape->size() << " sizes; it is count, m, n, k";
  return success(succeeded(verifyAccesses(*this)) && succeeded(verifyWork(*this)));
}

LogicalResult HostCallOp::verify() {
  if (int64_t(getToken()) < 0)
    return emitOpError("needs a token that is not negative");
  return verifyAccesses(*this);
}

LogicalResult CollectiveOp::verify() {
  if (size_t n = getBuffers().size(); n < 2 || n > 3)
    return emitOpError("has ") << n << " buffers; expected what goes in, what comes out, and perhaps scratch";
  if (!tessera::rt::findCollectiveKind(getKind()))
    return emitOpError("does '") << getKind() << "', which is no kind of collective";
  return success();
}

using Effects = SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

static void reads(Effects &effects, OpOperand &buffer) {
  effects.emplace_back(MemoryEffects::Read::get(), &buffer);
}
static void writes(Effects &effects, OpOperand &buffer) {
  effects.emplace_back(MemoryEffects::Write::get(), &buffer);
}
// Something beside buffers: a message, what the runtime reads, the microbatch.
static void writesElsewhere(Effects &effects) { effects.emplace_back(MemoryEffects::Write::get()); }

template <typename Op> static void accesses(Op op, Effects &effects) {
  MutableArrayRef<OpOperand> buffers = op.getBuffersMutable();
  for (int64_t place : op.getReads())
    reads(effects, buffers[place]);
  for (int64_t place : op.getWrites())
    writes(effects, buffers[place]);
}

void LaunchOp::getEffects(Effects &effects) { accesses(*this, effects); }
void CallOp::getEffects(Effects &effects) { accesses(*this, effects); }

void HostCallOp::getEffects(Effects &effects) {
  accesses(*this, effects);
  writesElsewhere(effects);
}

void InputOp::getEffects(Effects &effects) {
  for (OpOperand &buffer : getBufferMutable())
    writes(effects, buffer);
  writesElsewhere(effects);
}

void OutputOp::getEffects(Effects &effects) {
  for (OpOperand &buffer : getBufferMutable())
    reads(effects, buffer);
  writesElsewhere(effects);
}

void CollectiveOp::getEffects(Effects &effects) {
  for (auto [i, buffer] : llvm::enumerate(MutableArrayRef<OpOperand>(getBuffersMutable())))
    i == 0 ? reads(effects, buffer) : writes(effects, buffer);
  writesElsewhere(effects);
}

void SendOp::getEffects(Effects &effects) {
  reads(effects, getBufferMutable());
  writesElsewhere(effects);
}

void RecvOp::getEffects(Effects &effects) {
  writes(effects, getBufferMutable());
  writesElsewhere(effects);
}

void CopyOp::getEffects(Effects &effects) {
  reads(effects, getSourceMutable());
  writes(effects, getTargetMutable());
  writesElsewhere(effects);
}

void StepOp::getEffects(Effects &effects) { writesElsewhere(effects); }
void WaitOp::getEffects(Effects &effects) { writesElsewhere(effects); }

std::string tessera::exec::dtypeName(Type element) {
  if (element.isInteger(1))
    return "bool";
  if (element.isUnsignedInteger())
    return "u" + std::to_string(element.getIntOrFloatBitWidth());
  std::string text;
  llvm::raw_string_ostream os(text);
  element.print(os);
  return text;
}
