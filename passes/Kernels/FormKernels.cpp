// Grouping of operators into generated kernels.
#include "dialects/dist/Dist.h"
#include "dialects/nn/Attributes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"
#include "passes/Kernels/Generated.h"
#include "passes/Kernels/Passes.h"
#include "llvm/ADT/SetVector.h"
#include <unordered_set>

namespace tessera {
#define GEN_PASS_DEF_FORMKERNELS
#include "passes/Kernels/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

bool tessera::isGenerated(Operation *op, const nn::Library &library) {
  if (!isa<nn::LowerableOpInterface>(op))
    return false;
  if (auto factorOp = dyn_cast<nn::FactorOpInterface>(op); factorOp && factorOp.getFactorRule().isReshape)
    return false;
  return !library.computes(op);
}

// Marks what a decision in bf16 or f16 depends on: a kernel computes in f32, so that which operators share
// one would decide. What is before a sum does not matter: that has no exact value.
static void markDecided(func::FuncOp func) {
  auto elementOf = [](Value value) { return getElementTypeOrSelf(value.getType()); };
  SmallVector<Operation *> work;
  func.walk([&](nn::LowerableOpInterface op) {
    if (op.isDiscontinuous())
      work.push_back(op);
  });
  DenseSet<Operation *> seen(work.begin(), work.end());
  while (!work.empty())
    for (Value operand : work.pop_back_val()->getOperands()) {
      auto def = operand.getDefiningOp<nn::LowerableOpInterface>();
      if (!def || !isa<FloatType>(elementOf(operand)))
        continue;
      if (elementOf(operand).getIntOrFloatBitWidth() == 16)
        nn::kRounded.mark(def);
      auto factors = dyn_cast<nn::FactorOpInterface>(def.getOperation());
      bool sums =
          factors && llvm::any_of(factors.getFactorRule().factors, [](const nn::Factor &factor) {
            return factor.kind == nn::FactorKind::Reduction || factor.kind == nn::FactorKind::Cooperative;
          });
      if (!sums && seen.insert(def).second)
        work.push_back(def);
    }
}

namespace {

// A kernel being formed: operators in program order, and the rows they share.
struct Group {
  SmallVector<Operation *> ops;
  int64_t rows = 0; // product of all dimensions but the last of the largest result
  int64_t width = 0;
  bool open = true; // more may join
};

constexpr size_t kMostOps = 48;

/// Kernels by what they do: equal bodies are one kernel, wherever their operators come from.
struct HashBody {
  size_t operator()(func::FuncOp kernel) const {
    auto type = [](Value operand) { return hash_value(operand.getType()); };
    llvm::hash_code hash = hash_value(kernel.getFunctionType());
    for (Operation &op : kernel.getBody().front())
      hash = llvm::hash_combine(
          hash, OperationEquivalence::computeHash(&op, type, OperationEquivalence::ignoreHashValue,
                                                  OperationEquivalence::IgnoreLocations));
    return hash;
  }
};
struct EqualBody {
  bool operator()(func::FuncOp a, func::FuncOp b) const {
    return OperationEquivalence::isRegionEquivalentTo(&a.getBody(), &b.getBody(),
                                                      OperationEquivalence::IgnoreLocations);
  }
};

struct FormKernelsPass : tessera::impl::FormKernelsBase<FormKernelsPass> {
  using FormKernelsBase::FormKernelsBase;

  const nn::Library *library = nullptr;
  ModuleOp kernels;
  std::unordered_set<func::FuncOp, HashBody, EqualBody> known;

  LogicalResult initialize(MLIRContext *context) override {
    library = nn::findLibrary(target, UnknownLoc::get(context));
    return success(library);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder b(module.getBodyRegion());
    known.clear();
    kernels = module.lookupSymbol<ModuleOp>(kKernelsModule);
    if (!kernels) {
      b.setInsertionPointToEnd(module.getBody());
      kernels = ModuleOp::create(b, module.getLoc(), kKernelsModule);
    }
    for (auto func : module.getOps<func::FuncOp>()) {
      markDecided(func);
      SmallVector<Block *> blocks;
      func.walk([&](Block *block) { blocks.push_back(block); });
      for (Block *block : blocks) {
        passNumbers(*block);
        if (failed(formIn(*block)))
          return signalPassFailure();
      }
    }
    numKernels += std::distance(kernels.getOps<func::FuncOp>().begin(), kernels.getOps<func::FuncOp>().end());
  }

  static std::pair<int64_t, int64_t> rowsOf(Operation *op) {
    int64_t rows = 0, width = 0;
    auto consider = [&](Value value) {
      auto type = dyn_cast<RankedTensorType>(value.getType());
      if (!type || type.getNumElements() <= rows * width)
        return;
      width = type.getRank() ? type.getShape().back() : 1;
      rows = width ? type.getNumElements() / width : 0;
    };
    for (Value v : op->getOperands())
      consider(v);
    for (Value v : op->getResults())
      consider(v);
    return {rows, width};
  }

  bool joins(const Group &group, Operation *op) const {
    if (!group.open || group.ops.size() >= kMostOps)
      return false;
    auto kind = cast<nn::LowerableOpInterface>(op).getFusionKind();
    if (kind == nn::FusionKind::Alone)
      return false;
    auto [rows, width] = rowsOf(op);
    if (rows != group.rows || width != group.width)
      return false;
    // One feeds the other, or both read the same.
    for (Value operand : op->getOperands())
      for (Operation *member : group.ops) {
        if (operand.getDefiningOp() == member)
          return true;
        if (auto type = dyn_cast<RankedTensorType>(operand.getType());
            type && type.getNumElements() == rows * width &&
            llvm::is_contained(member->getOperands(), operand))
          return true;
      }
    return false;
  }

  // The initial value of a loop that memory planning fills in, in the loop's own buffer.
  static bool isOnlyFilled(Operation &op) {
    auto constant = dyn_cast<nn::ConstantOp>(op);
    auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : nullptr;
    return splat && isa<FloatType>(splat.getElementType()) &&
           llvm::all_of(op.getUsers(), [](Operation *user) { return isa<dist::LoopOp>(user); });
  }

  LogicalResult formIn(Block &block) {
    // A group is emitted where its last member stood, so everything between its members must be able to move
    // behind or before it: a group closes when one of its results is used by something outside it.
    SmallVector<Group> groups;
    DenseMap<Operation *, size_t> member;
    // The open groups that an operator may join for one of its operands: see joins().
    DenseMap<Value, SmallVector<size_t, 2>> joinable;
    size_t step = 0; // the first group of this step
    for (Operation &op : block) {
      if (!isGenerated(&op, *library)) {
        // Nothing moves from one step of a pipeline to another.
        if (isa<dist::StepOp>(op))
          step = groups.size();
        // What uses a group's result, in a region too, ends it; so does reading through a reshape.
        op.walk([&](Operation *inner) {
          for (Value operand : inner->getOperands())
            if (Operation *def = operand.getDefiningOp(); def && member.contains(def))
              groups[member[def]].open = false;
        });
        continue;
      }
      if (op.hasTrait<OpTrait::ConstantLike>())
        continue;
      // The last group that it may join.
      std::optional<size_t> home;
      for (Value operand : op.getOperands()) {
        SmallVector<size_t, 2> &candidates = joinable[operand];
        llvm::erase_if(candidates, [&](size_t g) { return !groups[g].open; });
        for (size_t g : candidates)
          if (g >= step && (!home || g > *home) && joins(groups[g], &op))
            home = g;
      }
      // Other groups that its operands come from are complete before this one runs. None of them can be
      // waiting for `home`, which would be closed then.
      for (Value operand : op.getOperands())
        if (Operation *def = operand.getDefiningOp(); def && member.contains(def) && home != member[def])
          groups[member[def]].open = false;
      // Operands that something outside the groups made after the group's first member are fine: the group
      // runs at its last member.
      if (!home) {
        auto [rows, width] = rowsOf(&op);
        bool alone = cast<nn::LowerableOpInterface>(op).getFusionKind() == nn::FusionKind::Alone;
        groups.push_back({{}, rows, width, !alone});
        home = groups.size() - 1;
      }
      groups[*home].ops.push_back(&op);
      member[&op] = *home;
      auto offer = [&](Value value) {
        if (SmallVector<size_t, 2> &list = joinable[value]; !llvm::is_contained(list, *home))
          list.push_back(*home);
      };
      llvm::for_each(op.getResults(), offer);
      for (Value operand : op.getOperands())
        if (auto type = dyn_cast<RankedTensorType>(operand.getType());
            type && type.getNumElements() == groups[*home].rows * groups[*home].width)
          offer(operand);
    }
    for (Group &group : groups)
      if (failed(outline(group)))
        return failure();
    // Constants that a call outside a kernel reads become kernels of their own.
    for (Operation &op : llvm::make_early_inc_range(block)) {
      bool isConstant = op.hasTrait<OpTrait::ConstantLike>() && isa<nn::LowerableOpInterface>(op);
      if (!isConstant && !isReadThrough(&op))
        continue;
      if (op.use_empty()) {
        op.erase();
        continue;
      }
      if (!isConstant || isOnlyFilled(op))
        continue;
      Group single;
      single.ops.push_back(&op);
      if (failed(outline(single)))
        return failure();
    }
    return success();
  }

  // The name of the input of kind `scalar` that `value` is; empty where it is none. A kernel has such a
  // number by value.
  static StringRef scalarInput(Value value) {
    auto arg = dyn_cast<BlockArgument>(value);
    auto func = arg ? dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp()) : func::FuncOp();
    if (!func || nn::inputKind(func, arg.getArgNumber()) != nn::InputKind::Scalar)
      return "";
    StringAttr name = nn::kName.ofArgument(func, arg.getArgNumber());
    return name ? name.getValue() : StringRef();
  }

  // Calls that have an input of kind `scalar` by value read no buffer of it.
  void passNumbers(Block &block) {
    for (Operation &op : block)
      if (std::optional<nn::LibraryCall> call = library->callOf(&op, /*threads=*/1))
        for (const nn::LibraryCall::Scalar &number : call->scalars)
          if (StringRef name = number.operand < 0 ? "" : scalarInput(op.getOperand(number.operand));
              !name.empty())
            op.setOperand(number.operand, inputNumber(&op, name));
  }

  // The number in the input `name`, before `op`.
  Value inputNumber(Operation *op, StringRef name) {
    OpBuilder b(op);
    return exec::ScalarOp::create(b, op->getLoc(), b.getI64Type(), name);
  }

  /// Whether it converts f32 to a half type.
  static bool narrows(Operation *op) {
    auto cast = dyn_cast<nn::CastOp>(op);
    if (!cast)
      return false;
    auto to = dyn_cast<FloatType>(cast.getType().getElementType());
    return getElementTypeOrSelf(cast.getOperand().getType()).isF32() && to && to.getWidth() == 16;
  }

  /// Whether a kernel reads the operand instead of the result: a slice that takes nearly all of it, so that
  /// not much more is live for that.
  static bool isReadThrough(Operation *op) {
    auto slice = dyn_cast<nn::SliceOp>(op);
    if (!slice || llvm::any_of(slice.getSteps(), [](int64_t step) { return step != 1; }))
      return false;
    auto all = cast<RankedTensorType>(slice.getOperand().getType());
    return cast<RankedTensorType>(slice.getType()).getNumElements() >= all.getNumElements() / 8 * 7;
  }

  /// What a kernel of a group takes and gives.
  struct Boundary {
    llvm::SetVector<Value> inputs;
    SmallVector<Operation *> constants; // and slices: become part of the kernel
    SmallVector<Value> outputs;
  };

  static Boundary boundaryOf(const Group &group) {
    Boundary boundary;
    llvm::SetVector<Operation *> members(group.ops.begin(), group.ops.end());
    for (Operation *op : group.ops)
      for (Value operand : op->getOperands()) {
        Operation *def = operand.getDefiningOp();
        if (def && members.contains(def))
          continue;
        if (def && def->hasTrait<OpTrait::ConstantLike>() && isa<nn::LowerableOpInterface>(def)) {
          if (!llvm::is_contained(boundary.constants, def))
            boundary.constants.push_back(def);
          continue;
        }
        if (def && isReadThrough(def)) {
          if (!llvm::is_contained(boundary.constants, def))
            boundary.constants.push_back(def);
          operand = def->getOperand(0);
        }
        boundary.inputs.insert(operand);
      }
    for (Operation *op : group.ops)
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !members.contains(user); }))
          boundary.outputs.push_back(result);
    return boundary;
  }

  /// A copy of the group as a function, without locations.
  func::FuncOp makeKernel(const Group &group, const Boundary &boundary) {
    OpBuilder b(&getContext());
    SmallVector<Type> inTypes;
    for (Value v : boundary.inputs)
      inTypes.push_back(scalarInput(v).empty() ? v.getType() : Type(b.getI64Type()));
    Location unknown = UnknownLoc::get(&getContext());
    auto func = func::FuncOp::create(unknown, "kernel",
                                     b.getFunctionType(inTypes, TypeRange(ValueRange(boundary.outputs))));
    Block *body = func.addEntryBlock();
    IRMapping map;
    b.setInsertionPointToEnd(body);
    for (auto [value, arg] : llvm::zip(boundary.inputs, body->getArguments()))
      map.map(value, scalarInput(value).empty()
                         ? Value(arg)
                         : nn::FromScalarOp::create(b, unknown, value.getType(), arg).getResult());
    auto copy = [&](Operation *op) {
      Operation *clone = b.clone(*op, map);
      clone->setLoc(unknown);
      for (NamedAttribute attr : llvm::make_early_inc_range(clone->getDiscardableAttrs()))
        if (attr.getName() != nn::kRounded.name)
          clone->removeDiscardableAttr(attr.getName());
    };
    for (Operation *op : boundary.constants)
      copy(op);
    for (Operation *op : group.ops)
      copy(op);
    SmallVector<Value> returned;
    for (Value v : boundary.outputs)
      returned.push_back(map.lookup(v));
    func::ReturnOp::create(b, unknown, returned);
    return func;
  }

  /// The name of the kernel that does the same as `func`, which becomes one where there is none.
  StringRef nameOf(func::FuncOp func) {
    auto [it, isNew] = known.insert(func);
    if (isNew) {
      func.setName("kernel_" + std::to_string(known.size() - 1));
      kernels.push_back(func);
    } else {
      func.erase();
    }
    return func::FuncOp(*it).getName();
  }

  LogicalResult outline(Group &group) {
    Boundary boundary = boundaryOf(group);
    if (boundary.outputs.empty())
      return success();
    StringRef name = nameOf(makeKernel(group, boundary));
    Operation *last = group.ops.back();
    OpBuilder b(last);
    bool isAlone = group.ops.size() == 1;
    SmallVector<Value> operands;
    for (Value v : boundary.inputs)
      operands.push_back(scalarInput(v).empty() ? v : inputNumber(last, scalarInput(v)));
    auto apply = exec::ApplyOp::create(
        b, last->getLoc(), TypeRange(ValueRange(boundary.outputs)), name, operands,
        b.getStringAttr(isAlone ? last->getName().stripDialect() : StringRef("fused")),
        /*adds=*/isAlone && isa<nn::AddOp>(last), /*converts=*/isAlone && narrows(last));
    for (auto [v, result] : llvm::zip(boundary.outputs, apply.getResults()))
      v.replaceAllUsesWith(result);
    ++numApplies;
    for (Operation *op : llvm::reverse(group.ops))
      op->erase();
    return success();
  }
};

} // namespace
