// Fills up rows that the library is slow at.
#include "dialects/dist/Dist.h"
#include "dialects/nn/Library.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/Kernels/Generated.h"
#include "passes/Kernels/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace tessera {
#define GEN_PASS_DEF_ALIGNCALLS
#include "passes/Kernels/Passes.h.inc"
} // namespace tessera

using namespace mlir;
using namespace tessera;

namespace {

// Arithmetic on each element from which on a call that is faster is worth a copy of what it reads and writes:
// on an H100 a product of bf16 whose rows lie badly runs at a fifth of 700 TFLOP/s, and a copy at 3 TB/s.
constexpr double kMuchWork = 512;

// Bytes of an element of `value`; 0 where it is no tensor with rows.
int64_t elementBytes(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() > 0 ? type.getElementTypeBitWidth() / 8 : 0;
}

RankedTensorType withSize(Value value, int64_t dim, int64_t size) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = size;
  return type.clone(shape);
}

// The value of which `value` is the beginning along `dim`, which is `size` long; null where none is.
Value beginningOf(Value value, int64_t dim, int64_t size) {
  auto slice = value.getDefiningOp<nn::SliceOp>();
  bool isWhole = slice && slice.getOperand().getType() == withSize(value, dim, size) &&
                 llvm::all_of(slice.getStarts(), [](int64_t start) { return start == 0; }) &&
                 llvm::all_of(slice.getSteps(), [](int64_t step) { return step == 1; });
  return isWhole ? Value(slice.getOperand()) : Value();
}

// A copy of `def` on `operands` behind it, whose result has `type`; null where attributes say another.
Value cloneAs(OpBuilder &b, Operation *def, ValueRange operands, RankedTensorType type) {
  auto inferred = dyn_cast<InferTypeOpInterface>(def);
  SmallVector<Type> types;
  if (!inferred ||
      failed(inferred.inferReturnTypes(def->getContext(), def->getLoc(), operands, def->getAttrDictionary(),
                                       def->getPropertiesStorage(), def->getRegions(), types)) ||
      types != SmallVector<Type>{type})
    return {};
  b.setInsertionPointAfter(def);
  Operation *clone = b.clone(*def);
  clone->setOperands(operands);
  clone->getResult(0).setType(type);
  return clone->getResult(0);
}

/// Aligns the calls of one block.
class Aligner {
public:
  explicit Aligner(const nn::Library &library) : library(library) {}
  /// Whether `op` was replaced by a call on wider operands.
  bool align(nn::LibraryOpInterface op);
  /// Behind the last one: no part of a wide value that nobody reads is cut out.
  void eraseUnused() {
    for (nn::SliceOp cut : llvm::reverse(cuts))
      if (cut.use_empty())
        cut.erase();
  }

private:
  /// What `wide` has of `type`, in place of all other uses of `value`.
  void cutFrom(OpBuilder &b, Value wide, Value value, RankedTensorType type);
  /// New sizes by factor; empty where rows lie well, or where it is not worth it.
  llvm::SmallMapVector<int, int64_t, 2> sizesOf(nn::FactorOpInterface op, int64_t alignment);
  /// `value` with zeros, or where `isAny` anything, behind its end in `dim`.
  Value widened(OpBuilder &b, Value value, int64_t dim, int64_t size, bool isAny);
  /// The same made by the operator that makes `value`, where that only maps elements of operands that are cut
  /// from wide ones; null where it does not.
  Value madeWide(OpBuilder &b, Value value, int64_t dim, int64_t size, bool isAny);

  const nn::Library &library;
  llvm::DenseMap<std::pair<Value, int64_t>, Value> padded; // by value and dimension
  SmallVector<nn::SliceOp> cuts;
  llvm::DenseSet<Value> zeroed; // wide values that end with zeros
};

llvm::SmallMapVector<int, int64_t, 2> Aligner::sizesOf(nn::FactorOpInterface op, int64_t alignment) {
  nn::FactorRule rule = op.getFactorRule();
  llvm::SmallMapVector<int, int64_t, 2> sizes;
  auto consider = [&](ValueRange values, ArrayRef<nn::DimFactors> dims) {
    for (auto [value, factors] : llvm::zip(values, dims)) {
      int64_t bytes = elementBytes(value);
      if (!bytes || factors.back() < 0)
        continue;
      int64_t size = cast<RankedTensorType>(value.getType()).getShape().back();
      if (size * bytes % alignment) {
        int64_t &wide = sizes[factors.back()];
        wide = std::max<int64_t>(wide, llvm::alignTo(size, alignment / bytes));
      }
    }
  };
  consider(op->getOperands(), rule.operands);
  consider(op->getResults(), rule.results);
  double elements = 0;
  auto count = [&](ValueRange values, ArrayRef<nn::DimFactors> dims) {
    for (auto [value, factors] : llvm::zip(values, dims))
      if (llvm::any_of(factors, [&](int factor) { return sizes.contains(factor); }))
        elements += double(cast<RankedTensorType>(value.getType()).getNumElements());
  };
  count(op->getOperands(), rule.operands);
  count(op->getResults(), rule.results);
  auto mayWiden = [&](auto &each) {
    nn::FactorKind kind = rule.factors[each.first].kind;
    return kind == nn::FactorKind::PassThrough || kind == nn::FactorKind::Reduction;
  };
  if (nn::workOf(op).flops < kMuchWork * elements || !llvm::all_of(sizes, mayWiden))
    sizes.clear();
  return sizes;
}

void Aligner::cutFrom(OpBuilder &b, Value wide, Value value, RankedTensorType type) {
  SmallVector<int64_t> zeros(type.getRank(), 0), ones(type.getRank(), 1);
  cuts.push_back(nn::SliceOp::create(b, value.getLoc(), type, wide, zeros, type.getShape(), ones));
  value.replaceAllUsesExcept(cuts.back(), cuts.back());
}

Value Aligner::madeWide(OpBuilder &b, Value value, int64_t dim, int64_t size, bool isAny) {
  Operation *def = value.getDefiningOp();
  auto factors = dyn_cast_or_null<nn::FactorOpInterface>(def);
  if (!factors || def->getBlock() != b.getBlock() || !isGenerated(def, library) || def->getNumResults() != 1)
    return {};
  nn::FactorRule rule = factors.getFactorRule();
  int factor = rule.results[0][dim];
  if (factor < 0 || rule.factors[factor].kind != nn::FactorKind::PassThrough)
    return {};
  SmallVector<Value> operands(def->getOperands());
  bool isCut = false;
  for (auto [operand, dims] : llvm::zip(operands, rule.operands)) {
    auto at = llvm::find(dims, factor);
    if (at == dims.end())
      continue;
    operand = beginningOf(operand, at - dims.begin(), size);
    if (!operand)
      return {};
    isCut = true;
  }
  if (!isCut)
    return {};
  OpBuilder::InsertionGuard guard(b);
  RankedTensorType type = withSize(value, dim, size);
  Value result = cloneAs(b, def, operands, type);
  if (!result)
    return {};
  if (!isAny) {
    int64_t outer = 1, inner = 1;
    for (auto [d, n] : llvm::enumerate(type.getShape()))
      (int64_t(d) < dim ? outer : inner) *= int64_t(d) == dim ? 1 : n;
    result = dist::MaskPaddingOp::create(
        b, def->getLoc(), type, result, dist::AxesAttr::get(b.getContext(), {}),
        b.getDenseI64ArrayAttr({outer, size, inner}),
        b.getI64IntegerAttr(cast<RankedTensorType>(value.getType()).getDimSize(dim)),
        cast<TypedAttr>(b.getZeroAttr(type.getElementType())), dist::AxesAttr());
    zeroed.insert(result);
  }
  cutFrom(b, result, value, cast<RankedTensorType>(value.getType()));
  def->erase();
  return result;
}

Value Aligner::widened(OpBuilder &b, Value value, int64_t dim, int64_t size, bool isAny) {
  if (Value whole = beginningOf(value, dim, size); whole && (isAny || zeroed.contains(whole)))
    return whole;
  if (Value wide = madeWide(b, value, dim, size, isAny))
    return wide;
  Value &wide = padded[{value, dim}];
  if (!wide || cast<RankedTensorType>(wide.getType()).getDimSize(dim) != size) {
    // Not nn.pad: a GPU computes one that adds outer rows by a thread a column.
    RankedTensorType type = withSize(value, dim, size);
    Value zeros = nn::ConstantOp::create(b, value.getLoc(), type,
                                         DenseElementsAttr::get(type, b.getZeroAttr(type.getElementType())));
    Value first = arith::ConstantIntOp::create(b, value.getLoc(), 0, 64);
    wide = nn::InsertSliceOp::create(b, value.getLoc(), type, zeros, value, first, dim);
  }
  return wide;
}

bool Aligner::align(nn::LibraryOpInterface op) {
  auto factors = dyn_cast<nn::FactorOpInterface>(op.getOperation());
  std::optional<nn::LibraryCall> call = factors ? library.callOf(op, /*threads=*/1) : std::nullopt;
  int64_t alignment = call ? library.rowAlignment(*call) : 1;
  if (alignment == 1)
    return false;
  llvm::SmallMapVector<int, int64_t, 2> sizes = sizesOf(factors, alignment);
  if (sizes.empty())
    return false;
  nn::FactorRule rule = factors.getFactorRule();
  OpBuilder b(op);
  for (OpOperand &operand : op->getOpOperands())
    for (auto [dim, factor] : llvm::enumerate(rule.operands[operand.getOperandNumber()]))
      if (auto size = sizes.find(factor); size != sizes.end()) {
        bool isAny = !factors.getNeutral(operand.getOperandNumber(), factor);
        operand.set(widened(b, operand.get(), dim, size->second, isAny));
      }
  b.setInsertionPointAfter(op);
  for (auto [result, dims] : llvm::zip(op->getResults(), rule.results)) {
    auto narrow = cast<RankedTensorType>(result.getType());
    for (auto [dim, factor] : llvm::enumerate(dims))
      if (auto size = sizes.find(factor); size != sizes.end())
        result.setType(withSize(result, dim, size->second));
    if (result.getType() == narrow || result.use_empty())
      continue;
    cutFrom(b, result, result, narrow);
  }
  return true;
}

struct AlignCallsPass : tessera::impl::AlignCallsBase<AlignCallsPass> {
  using AlignCallsBase::AlignCallsBase;

  LogicalResult initialize(MLIRContext *context) override {
    library = nn::findLibrary(target, UnknownLoc::get(context));
    return success(library);
  }

  void runOnOperation() override {
    getOperation().walk([&](Block *block) {
      Aligner aligner(*library);
      SmallVector<nn::LibraryOpInterface> ops(block->getOps<nn::LibraryOpInterface>());
      for (nn::LibraryOpInterface op : ops)
        numCalls += aligner.align(op);
      aligner.eraseUnused();
    });
  }

  const nn::Library *library = nullptr;
};

} // namespace
