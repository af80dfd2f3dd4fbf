// Liveness, in-place merges and offsets: from tensors to buffers.
#include "dialects/dist/CollectiveSize.h"
#include "dialects/dist/Dist.h"
#include "dialects/dist/Reshard.h"
#include "dialects/nn/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Lower/Passes.h"
#include "passes/Memory/Packer.h"
#include "passes/Memory/Passes.h"
#include "llvm/ADT/StringSet.h"

namespace tessera {
#define GEN_PASS_DEF_PLANMEMORY
#include "passes/Memory/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;
using dist::AxisList;
using dist::Layout;

namespace {

int64_t bytesOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() * int64_t(dist::elementBytes(tensor.getElementType()));
}

// One buffer of the program: live at positions [start, end).
struct Buffer {
  int64_t start, end, bytes;
  std::string category;
  nn::VariableOp variable;
  exec::BufferOp op;
};

class Planner {
public:
  Planner(func::FuncOp func, ModuleOp kernels, int64_t threads) : func(func), kernels(kernels), threads(threads), b(func.getContext()) {}
  LogicalResult run();
  int64_t numInPlace = 0, numCopies = 0;

private:
  void number(Block &block);
  void findUses();
  LogicalResult emit(Block &block);
  LogicalResult emit(Operation &op);
  LogicalResult emitKernel(exec::ApplyOp op);
  LogicalResult emitLibrary(Operation &op, const nn::LibraryCall &call);
  LogicalResult emitCollective(Operation &op);
  LogicalResult emitLoop(dist::LoopOp op);
  void assignOffsets();

  int create(int64_t bytes, int64_t start, int64_t end, StringRef category);
  int ofVariable(nn::VariableOp variable);
  Value handle(int buffer) { return buffers[buffer].op.getResult(); }
  int of(Value value) { return root.at(value); }
  void bind(Value value, int buffer);
  void define(Value value);
  bool diesAt(Value value, Operation *op);
  int64_t lastUse(Value value) const;
  Value scalar(Value value);
  void copy(Value source, int target, Operation &op);
  void call(Operation &op, StringRef function, ArrayRef<int> buffers, ValueRange scalars, DictionaryAttr attrs);
  void tag(Operation *exec, Operation &source, StringRef kind);
  StringRef categoryOf(Value value) const;

  func::FuncOp func;
  ModuleOp kernels;
  int64_t threads;
  OpBuilder b;
  Block *program = nullptr;
  std::vector<Buffer> buffers;
  DenseMap<Value, int> root;                 // value -> buffer
  DenseMap<Operation *, int64_t> position;   // where an operator runs
  DenseMap<Operation *, int64_t> last;       // where a loop ends
  DenseMap<Value, int64_t> uses;             // last position at which the value itself is read
  DenseMap<Value, int> tokens;
  DenseSet<Value> gradients;
  llvm::StringMap<int> variables;
  DenseMap<Value, nn::VariableOp> updates;   // value -> the variable it is assigned to
  int64_t at = 0, numTokens = 0;
};

void Planner::number(Block &block) {
  for (Operation &op : block) {
    position[&op] = at++;
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        number(inner);
    last[&op] = at++;
  }
}

void Planner::findUses() {
  func.walk([&](Operation *op) {
    for (Value operand : op->getOperands()) {
      // A use inside a loop of a value from above lasts as long as the loop.
      Operation *user = op;
      Block *home = operand.getParentBlock();
      while (user->getBlock() != home)
        user = user->getParentOp();
      int64_t p = user == op ? position[op] : last[user];
      // What is started stays in use until it is waited for.
      if (isa<dist::CollectiveStartOp>(op))
        for (Operation *wait : op->getResult(0).getUsers())
          p = std::max(p, position[wait]);
      uses[operand] = std::max(uses.lookup(operand), p);
    }
  });
}

int64_t Planner::lastUse(Value value) const {
  int64_t p = uses.lookup(value);
  for (Operation *user : value.getUsers())
    if (auto factorOp = dyn_cast<nn::FactorOpInterface>(user); factorOp && factorOp.getFactorRule().isReshape)
      p = std::max(p, lastUse(user->getResult(0)));
  return p;
}

int Planner::create(int64_t bytes, int64_t start, int64_t end, StringRef category) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(program);
  if (!buffers.empty())
    b.setInsertionPointAfter(buffers.back().op);
  auto op = exec::BufferOp::create(b, func.getLoc(), exec::BufferType::get(b.getContext()), 0, bytes, category, FlatSymbolRefAttr());
  buffers.push_back({start, end, bytes, category.str(), nullptr, op});
  return buffers.size() - 1;
}

int Planner::ofVariable(nn::VariableOp variable) {
  auto [it, isNew] = variables.try_emplace(variable.getSymName(), 0);
  if (isNew) {
    StringRef category = variable.getRole() == "optimizer" ? "optimizer" : "parameters";
    it->second = create(bytesOf(dist::localType(cast<RankedTensorType>(variable.getType()))), 0, 0, category);
    buffers[it->second].variable = variable;
    buffers[it->second].op.setVariable(variable.getSymName());
  }
  return it->second;
}

StringRef Planner::categoryOf(Value value) const { return gradients.contains(value) ? "gradients" : "activations"; }

void Planner::bind(Value value, int buffer) {
  root[value] = buffer;
  if (!buffers[buffer].variable)
    buffers[buffer].end = std::max(buffers[buffer].end, lastUse(value) + 1);
}

void Planner::define(Value value) {
  Operation *op = value.getDefiningOp();
  int64_t start = op ? position[op] : 0;
  bind(value, create(bytesOf(value.getType()), start, start + 1, categoryOf(value)));
}

// Whether nothing reads the operand's buffer after `op`.
bool Planner::diesAt(Value value, Operation *op) {
  int buffer = of(value);
  if (buffers[buffer].variable ||
      (isa<BlockArgument>(value) && value.getParentBlock() == &func.getBody().front()))
    return false;
  // A value from outside the loop is read again in the next iteration.
  if (value.getParentBlock() != op->getBlock())
    return false;
  return buffers[buffer].end <= position[op] + 1;
}

Value Planner::scalar(Value value) {
  Operation *op = value.getDefiningOp();
  return b.clone(*op)->getResult(0);
}

void Planner::tag(Operation *made, Operation &source, StringRef kind) { made->setAttr("kind", b.getStringAttr(kind)); }

void Planner::call(Operation &op, StringRef function, ArrayRef<int> list, ValueRange scalars, DictionaryAttr attrs) {
  SmallVector<Value> handles;
  for (int buffer : list)
    handles.push_back(handle(buffer));
  auto made = exec::CallOp::create(b, op.getLoc(), function, handles, scalars, attrs);
  tag(made, op, function);
}

void Planner::copy(Value source, int target, Operation &op) {
  auto type = cast<RankedTensorType>(source.getType());
  int64_t n = type.getNumElements();
  auto attrs = b.getDictionaryAttr({b.getNamedAttr("shape", b.getI64ArrayAttr({n})), b.getNamedAttr("source_strides", b.getI64ArrayAttr({1})),
                                    b.getNamedAttr("target_strides", b.getI64ArrayAttr({1})),
                                    b.getNamedAttr("dtype", b.getStringAttr(exec::dtypeName(type.getElementType())))});
  call(op, "copy_box", {of(source), target}, {}, attrs);
  ++numCopies;
}

LogicalResult Planner::emitKernel(exec::ApplyOp op) {
  auto kernel = kernels.lookupSymbol<func::FuncOp>(op.getKernel());
  auto number = [&](StringRef name, int64_t otherwise) {
    auto attr = kernel->getAttrOfType<IntegerAttr>(name);
    return attr ? attr.getInt() : otherwise;
  };
  // A result that takes over an operand's buffer; the kernel is told, since it then has one argument for both. One only: each pair
  // is known to be safe by itself, not with another.
  SmallVector<int> inPlace(op.getNumResults(), -1);
  bool any = false;
  if (auto pairs = kernel->getAttrOfType<ArrayAttr>("exec.in_place"))
    for (Attribute attr : pairs) {
      auto pair = cast<DenseI64ArrayAttr>(attr);
      Value operand = op.getOperands()[pair[0]], result = op.getResult(pair[1]);
      bool once = llvm::count(op.getOperands(), operand) == 1;
      bool shared = llvm::any_of(op.getOperands(), [&](Value other) {
        return other != operand && isa<RankedTensorType>(other.getType()) && of(other) == of(operand);
      });
      if (!any && once && !shared && bytesOf(operand.getType()) == bytesOf(result.getType()) && diesAt(operand, op))
        inPlace[pair[1]] = pair[0], any = true;
    }
  std::string name = op.getKernel().str();
  if (any) {
    for (auto [r, i] : llvm::enumerate(inPlace))
      if (i >= 0)
        name += "_" + std::to_string(i) + "in" + std::to_string(r);
    if (!kernels.lookupSymbol(name)) {
      auto variant = cast<func::FuncOp>(kernel->clone());
      variant.setName(name);
      for (auto [r, i] : llvm::enumerate(inPlace))
        if (i >= 0)
          variant.setArgAttr(i, "tessera.result", b.getI64IntegerAttr(r));
      kernels.push_back(variant);
    }
  }
  SmallVector<Value> handles, scalars;
  for (Value operand : op.getOperands()) {
    if (isa<RankedTensorType>(operand.getType()))
      handles.push_back(handle(of(operand)));
    else
      scalars.push_back(scalar(operand));
  }
  for (auto [r, result] : llvm::enumerate(op.getResults())) {
    if (inPlace[r] >= 0) {
      bind(result, of(op.getOperands()[inPlace[r]]));
      ++numInPlace;
    } else {
      define(result);
      handles.push_back(handle(of(result)));
    }
  }
  if (int64_t workspace = number("exec.workspace", 0))
    handles.push_back(handle(create(workspace, position[op], position[op] + 1, "workspace")));
  auto launch = exec::LaunchOp::create(b, op.getLoc(), name, handles, scalars, number("exec.extent", 1), number("exec.grain", 1));
  auto kind = op->getAttrOfType<StringAttr>("kind");
  tag(launch, *op, kind ? kind.getValue() : "kernel");
  return success();
}

LogicalResult Planner::emitLibrary(Operation &op, const nn::LibraryCall &library) {
  int numOperands = op.getNumOperands();
  for (auto [r, result] : llvm::enumerate(op.getResults())) {
    int from = r < library.inPlace.size() ? library.inPlace[r] : -1;
    bool named = llvm::is_contained(library.buffers, numOperands + int(r));
    if (from < 0) {
      define(result);
      continue;
    }
    Value operand = op.getOperand(from);
    int buffer = of(operand);
    // The update of a variable happens in it, when nothing reads the old value afterwards.
    auto variable = updates.lookup(result);
    bool updatesIt = variable && buffers[buffer].variable == variable && lastUse(operand) <= position[&op];
    if (updatesIt || diesAt(operand, &op)) {
      bind(result, buffer);
      ++numInPlace;
      continue;
    }
    define(result);
    if (!named)
      copy(operand, of(result), op);
  }
  SmallVector<int> list;
  for (int index : library.buffers) {
    Value value = index < numOperands ? op.getOperand(index) : op.getResult(index - numOperands);
    int buffer = of(value);
    // An operand that a result was copied from, for the function to change in place.
    if (index < numOperands)
      for (auto [r, from] : llvm::enumerate(library.inPlace))
        if (from == index && !llvm::is_contained(library.buffers, numOperands + int(r)))
          buffer = of(op.getResult(r));
    list.push_back(buffer);
  }
  SmallVector<NamedAttribute> attrs(library.attrs.begin(), library.attrs.end());
  if (library.workspace > 0) {
    list.push_back(create(library.workspace, position[&op], position[&op] + 1, "workspace"));
    if (!library.attrs.get("workspace"))
      attrs.push_back(b.getNamedAttr("workspace", b.getI64IntegerAttr(library.workspace)));
  }
  SmallVector<Value> scalars;
  for (Value operand : op.getOperands())
    if (operand.getType().isInteger(64))
      scalars.push_back(scalar(operand));
  call(op, library.function, list, scalars, b.getDictionaryAttr(attrs));
  if (library.flops > 0)
    b.getInsertionBlock()->back().setAttr("flops", b.getF64FloatAttr(library.flops));
  return success();
}

LogicalResult Planner::emitCollective(Operation &op) {
  Value source = op.getOperand(0);
  auto start = dyn_cast<dist::CollectiveStartOp>(op);
  auto collective = dyn_cast<dist::CollectiveOp>(op);
  auto get = [&](auto f, auto g) { return start ? f(start) : g(collective); };
  auto kind = get([](auto o) { return o.getKind(); }, [](auto o) { return o.getKind(); });
  auto axes = get([](auto o) { return o.getAxes(); }, [](auto o) { return o.getAxes(); });
  auto shape = get([](auto o) { return o.getShape(); }, [](auto o) { return o.getShape(); });
  int64_t split = get([](auto o) { return o.getSplit().value_or(0); }, [](auto o) { return o.getSplit().value_or(0); });
  int64_t concat = get([](auto o) { return o.getConcat().value_or(0); }, [](auto o) { return o.getConcat().value_or(0); });
  auto reduce = get([](auto o) { return o.getReduce(); }, [](auto o) { return o.getReduce(); });
  auto from = get([](auto o) { return o.getFromAttr(); }, [](auto o) { return o.getFromAttr(); });
  auto to = get([](auto o) { return o.getToAttr(); }, [](auto o) { return o.getToAttr(); });

  Value result;
  int64_t end = position[&op];
  if (start) {
    auto wait = cast<dist::CollectiveWaitOp>(*start.getToken().getUsers().begin());
    result = wait.getResult();
    end = position[wait];
  } else {
    result = collective.getResult();
  }
  bool keepsShape = kind == dist::CollectiveKind::AllReduce;
  if (keepsShape && !buffers[of(source)].variable && !isa<BlockArgument>(source) && source.getParentBlock() == op.getBlock() &&
      buffers[of(source)].end <= end + 1) {
    bind(result, of(source));
    ++numInPlace;
  } else {
    int buffer = create(bytesOf(result.getType()), position[&op], end + 1, categoryOf(result));
    bind(result, buffer);
  }
  Type element = cast<RankedTensorType>(source.getType()).getElementType();
  rt::CollectiveSize size = dist::collectiveSize(kind, axes.getAxes(), element, shape, split, concat);
  SmallVector<Value> handles = {handle(of(source)), handle(of(result))};
  if (int64_t scratch = rt::collectiveScratchBytes(size))
    handles.push_back(handle(create(scratch, position[&op], end + 1, "communication")));
  int64_t token = -1;
  if (start) {
    token = numTokens++;
    tokens[start.getToken()] = token;
  }
  exec::CollectiveOp::create(b, op.getLoc(), dist::stringifyCollectiveKind(kind), handles, axes, element, shape, split, concat,
                             reduce ? dist::stringifyReduceKind(*reduce) : StringRef("sum"), from, to, token);
  return success();
}

LogicalResult Planner::emitLoop(dist::LoopOp op) {
  // Carried values keep one buffer from before the loop to its last use behind it.
  for (auto [init, carried, result] : llvm::zip(op.getInits(), op.getCarried(), op.getResults())) {
    int buffer = create(bytesOf(carried.getType()), position[op], last[op] + 1, categoryOf(result));
    root[carried] = buffer;
    bind(result, buffer);
    auto type = cast<RankedTensorType>(init.getType());
    auto constant = init.getDefiningOp<nn::ConstantOp>();
    auto splat = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
    if (splat && splat.isSplat() && isa<FloatType>(type.getElementType())) {
      auto attrs = b.getDictionaryAttr(
          {b.getNamedAttr("count", b.getI64IntegerAttr(type.getNumElements())),
           b.getNamedAttr("value", b.getF64FloatAttr(splat.getSplatValue<APFloat>().convertToDouble())),
           b.getNamedAttr("dtype", b.getStringAttr(exec::dtypeName(type.getElementType())))});
      call(*op, "fill", {buffer}, {}, attrs);
    } else {
      copy(init, buffer, *op);
    }
  }
  auto loop = exec::LoopOp::create(b, op.getLoc(), op.getTimes());
  Block *body = new Block();
  loop.getBody().push_back(body);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(body);
  Operation *yield = op.getBody()->getTerminator();
  // A carried buffer may be overwritten by the operator that makes its next value, if that is the last to read it.
  for (auto [carried, next] : llvm::zip(op.getCarried(), yield->getOperands()))
    buffers[of(carried)].end = std::max(buffers[of(carried)].end, last[op] + 1);
  for (Operation &inner : op.getBody()->without_terminator())
    if (failed(emit(inner)))
      return failure();
  for (auto [carried, next] : llvm::zip(op.getCarried(), yield->getOperands()))
    if (of(next) != of(carried))
      copy(next, of(carried), *yield);
  return success();
}

LogicalResult Planner::emit(Operation &op) {
  if (auto read = dyn_cast<nn::ReadOp>(op)) {
    bind(read.getResult(), ofVariable(SymbolTable::lookupNearestSymbolFrom<nn::VariableOp>(read, read.getVariableAttr())));
    return success();
  }
  if (auto assign = dyn_cast<nn::AssignOp>(op)) {
    int target = ofVariable(SymbolTable::lookupNearestSymbolFrom<nn::VariableOp>(assign, assign.getVariableAttr()));
    if (of(assign.getValue()) != target)
      copy(assign.getValue(), target, op);
    return success();
  }
  if (isa<dist::BlockStartOp>(op))
    return success(); // cloned where it is used
  if (op.hasTrait<OpTrait::ConstantLike>())
    return success(); // a loop's initial value
  if (auto factorOp = dyn_cast<nn::FactorOpInterface>(op); factorOp && factorOp.getFactorRule().isReshape) {
    bind(op.getResult(0), of(op.getOperand(0)));
    return success();
  }
  if (auto apply = dyn_cast<exec::ApplyOp>(op))
    return emitKernel(apply);
  if (auto library = dyn_cast<nn::LibraryOpInterface>(op)) {
    auto made = library.getLibraryCall(threads);
    if (!made)
      return op.emitOpError("has no library function and was not made part of a kernel");
    return emitLibrary(op, *made);
  }
  if (auto slice = dyn_cast<dist::SliceOp>(op)) {
    auto shape = slice.getShape();
    int64_t outer = 1, inner = 1, n = shape[slice.getSplit()], k = dist::product(slice.getAxes().getAxes());
    for (int64_t i = 0; i < int64_t(shape.size()); ++i)
      (i < int64_t(slice.getSplit()) ? outer : inner) *= i == int64_t(slice.getSplit()) ? 1 : shape[i];
    Value start = dist::BlockStartOp::create(b, op.getLoc(), b.getI64Type(), slice.getAxes(), n / k * inner);
    define(slice.getResult());
    auto type = cast<RankedTensorType>(slice.getSource().getType());
    auto attrs = b.getDictionaryAttr({b.getNamedAttr("shape", b.getI64ArrayAttr({outer, n / k * inner})),
                                      b.getNamedAttr("source_strides", b.getI64ArrayAttr({n * inner, 1})),
                                      b.getNamedAttr("target_strides", b.getI64ArrayAttr({n / k * inner, 1})),
                                      b.getNamedAttr("dtype", b.getStringAttr(exec::dtypeName(type.getElementType())))});
    call(op, "copy_box", {of(slice.getSource()), of(slice.getResult())}, start, attrs);
    return success();
  }
  if (auto mask = dyn_cast<dist::MaskPaddingOp>(op)) {
    auto shape = mask.getShape();
    auto type = cast<RankedTensorType>(mask.getSource().getType());
    Value valid = exec::ValidOp::create(b, op.getLoc(), b.getI64Type(), mask.getAxes(), shape[1], mask.getSize());
    SmallVector<int> list = {of(mask.getSource())};
    bool inPlace = diesAt(mask.getSource(), &op);
    if (inPlace) {
      bind(mask.getResult(), of(mask.getSource()));
      ++numInPlace;
    } else {
      define(mask.getResult());
      list.push_back(of(mask.getResult()));
    }
    double value = 0;
    if (auto f = dyn_cast<FloatAttr>(mask.getValue()))
      value = f.getValueAsDouble();
    else
      value = double(cast<IntegerAttr>(mask.getValue()).getInt());
    // JSON has no infinity: the library reads the word.
    Attribute text = std::isinf(value) ? Attribute(b.getStringAttr(value < 0 ? "-inf" : "inf")) : Attribute(b.getF64FloatAttr(value));
    auto attrs = b.getDictionaryAttr({b.getNamedAttr("outer", b.getI64IntegerAttr(shape[0])), b.getNamedAttr("n", b.getI64IntegerAttr(shape[1])),
                                      b.getNamedAttr("inner", b.getI64IntegerAttr(shape[2])), b.getNamedAttr("value", text),
                                      b.getNamedAttr("out", b.getBoolAttr(!inPlace)),
                                      b.getNamedAttr("dtype", b.getStringAttr(exec::dtypeName(type.getElementType())))});
    call(op, "mask_padding", list, valid, attrs);
    return success();
  }
  if (auto index = dyn_cast<dist::LogicalIndexOp>(op)) {
    int64_t count = index.getType().getDimSize(0);
    Value start = dist::BlockStartOp::create(b, op.getLoc(), b.getI64Type(), index.getAxes(), count);
    define(index.getResult());
    call(op, "logical_index", {of(index.getResult())}, start, b.getDictionaryAttr(b.getNamedAttr("count", b.getI64IntegerAttr(count))));
    return success();
  }
  if (isa<dist::CollectiveOp, dist::CollectiveStartOp>(op))
    return emitCollective(op);
  if (auto wait = dyn_cast<dist::CollectiveWaitOp>(op)) {
    exec::WaitOp::create(b, op.getLoc(), tokens.at(wait.getToken()));
    return success();
  }
  if (auto loop = dyn_cast<dist::LoopOp>(op))
    return emitLoop(loop);
  return op.emitOpError("cannot be executed; it should have been partitioned or lowered");
}

void Planner::assignOffsets() {
  // Variables at the bottom, in order of first use.
  int64_t bottom = 0;
  auto aligned = [](int64_t n) { return (n + 255) / 256 * 256; };
  SmallVector<std::pair<std::string, int64_t>> categories = {{"parameters", 0}, {"gradients", 0}, {"optimizer", 0},
                                                             {"activations", 0}, {"workspace", 0}, {"communication", 0}};
  auto account = [&](StringRef category, int64_t bytes) {
    for (auto &[name, sum] : categories)
      if (name == category)
        sum += bytes;
  };
  std::vector<PackBuffer> packed;
  std::vector<int> indices;
  for (auto [i, buffer] : llvm::enumerate(buffers)) {
    if (buffer.variable) {
      buffer.op.setOffset(bottom);
      account(buffer.category, aligned(buffer.bytes));
      bottom += aligned(buffer.bytes);
    } else {
      packed.push_back({buffer.start, buffer.end, buffer.bytes});
      indices.push_back(i);
    }
  }
  Packing packing = pack(packed);
  for (auto [k, i] : llvm::enumerate(indices))
    buffers[i].op.setOffset(bottom + packing.offsets[k]);
  // What makes up the peak: the buffers live where most is; gaps between them count as workspace.
  int64_t moment = 0, most = -1;
  for (const PackBuffer &candidate : packed) {
    int64_t sum = 0;
    for (const PackBuffer &other : packed)
      if (other.start <= candidate.start && candidate.start < other.end)
        sum += aligned(other.bytes);
    if (sum > most)
      most = sum, moment = candidate.start;
  }
  for (auto [k, i] : llvm::enumerate(indices))
    if (packed[k].start <= moment && moment < packed[k].end)
      account(buffers[i].category, aligned(buffers[i].bytes));
  account("workspace", packing.peak - std::max<int64_t>(most, 0));
  SmallVector<NamedAttribute> memory = {b.getNamedAttr("peak", b.getI64IntegerAttr(bottom + packing.peak)),
                                        b.getNamedAttr("bound", b.getI64IntegerAttr(bottom + packing.bound))};
  for (auto &[name, sum] : categories)
    memory.push_back(b.getNamedAttr(name, b.getI64IntegerAttr(sum)));
  func->setAttr("exec.memory", b.getDictionaryAttr(memory));
}

LogicalResult Planner::run() {
  Block &old = func.getBody().front();
  number(old);
  findUses();
  func.walk([&](nn::AssignOp assign) {
    updates[assign.getValue()] = SymbolTable::lookupNearestSymbolFrom<nn::VariableOp>(assign, assign.getVariableAttr());
  });
  func.walk([&](nn::UpdateOp update) {
    // The gradient and what it is a view or a reduction of.
    for (Value v = update.getGradient(); v;) {
      gradients.insert(v);
      Operation *def = v.getDefiningOp();
      bool passes = def && def->getNumOperands() == 1 && def->getNumResults() == 1 &&
                    (isa<dist::CollectiveOp, dist::CollectiveWaitOp, dist::CollectiveStartOp, nn::ReshapeOp>(def));
      v = passes ? def->getOperand(0) : Value();
    }
  });
  program = new Block();
  b.setInsertionPointToEnd(program);
  SmallVector<Attribute> names;
  auto stringAttr = [](DictionaryAttr attrs, StringRef name, StringRef otherwise) {
    auto attr = attrs ? attrs.getAs<StringAttr>(name) : StringAttr();
    return attr ? attr.getValue() : otherwise;
  };
  for (BlockArgument arg : old.getArguments()) {
    int buffer = create(bytesOf(arg.getType()), 0, 1, "activations");
    bind(arg, buffer);
    DictionaryAttr attrs = func.getArgAttrDict(arg.getArgNumber());
    std::string name = "input" + std::to_string(arg.getArgNumber());
    exec::InputOp::create(b, func.getLoc(), handle(buffer), stringAttr(attrs, "nn.name", name), stringAttr(attrs, "nn.kind", "data"),
                          cast<RankedTensorType>(arg.getType()).getElementType(), cast<DenseI64ArrayAttr>(attrs.get("dist.shape")),
                          attrs.get("dist.layout"), attrs.getAs<DenseI64ArrayAttr>("nn.range"));
  }
  for (Operation &op : old.without_terminator())
    if (failed(emit(op)))
      return delete program, failure();
  for (auto [i, value] : llvm::enumerate(old.getTerminator()->getOperands())) {
    DictionaryAttr attrs = func.getResultAttrDict(i);
    std::string name = "output" + std::to_string(i);
    exec::OutputOp::create(b, func.getLoc(), handle(of(value)), stringAttr(attrs, "nn.name", name),
                           cast<RankedTensorType>(value.getType()).getElementType(), cast<DenseI64ArrayAttr>(attrs.get("dist.shape")),
                           attrs.get("dist.layout"));
  }
  func::ReturnOp::create(b, func.getLoc());
  assignOffsets();
  for (BlockArgument arg : old.getArguments())
    func.setArgAttrs(arg.getArgNumber(), DictionaryAttr::get(func.getContext()));
  for (unsigned i = 0; i < func.getNumResults(); ++i)
    func.setResultAttrs(i, DictionaryAttr::get(func.getContext()));
  old.dropAllReferences();
  old.erase();
  func.getBody().push_back(program);
  func.removeArgAttrsAttr();
  func.removeResAttrsAttr();
  func.setType(FunctionType::get(func.getContext(), {}, {}));
  return success();
}

struct PlanMemoryPass : tessera::impl::PlanMemoryBase<PlanMemoryPass> {
  using PlanMemoryBase::PlanMemoryBase;
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto kernels = module.lookupSymbol<ModuleOp>(kKernelsModule);
    for (auto func : module.getOps<func::FuncOp>()) {
      Planner planner(func, kernels, threads);
      if (failed(planner.run()))
        return signalPassFailure();
      numInPlace += planner.numInPlace;
      numCopies += planner.numCopies;
    }
    // Kernels of which only in-place variants are called are gone.
    llvm::StringSet<> used;
    module.walk([&](exec::LaunchOp launch) { used.insert(launch.getKernel()); });
    if (kernels)
      for (auto func : llvm::make_early_inc_range(kernels.getOps<func::FuncOp>()))
        if (!used.contains(func.getName()))
          func.erase();
  }
};

} // namespace
