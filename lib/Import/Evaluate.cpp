// The evaluator: what elementwise operators compute their lowering says; of those that move, join and sum
// elements, one function each.
#include "lib/Import/Evaluate.h"
#include "dialects/nn/NN.h"
#include "lib/Import/ScalarFunction.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tessera {
namespace {

using Operands = llvm::ArrayRef<const HostTensor *>;

/// An integer as elements of `type` are compared: those of u64 beyond int64's largest lie in it as negative
/// numbers.
int64_t ordered(Type type, int64_t value) { return type.isUnsignedInteger(64) ? value ^ INT64_MIN : value; }

RankedTensorType resultType(Operation *op) { return cast<RankedTensorType>(op->getResult(0).getType()); }

// Overflow wraps, as it does in the program.
int64_t addInt(int64_t x, int64_t y) { return static_cast<uint64_t>(x) + static_cast<uint64_t>(y); }
int64_t mulInt(int64_t x, int64_t y) { return static_cast<uint64_t>(x) * static_cast<uint64_t>(y); }

int64_t plus(int64_t x, int64_t y) { return addInt(x, y); }
double plus(double x, double y) { return x + y; }
int64_t times(int64_t x, int64_t y) { return mulInt(x, y); }
double times(double x, double y) { return x * y; }

int64_t at(llvm::ArrayRef<int64_t> index, llvm::ArrayRef<int64_t> strides) {
  int64_t offset = 0;
  for (auto [i, s] : llvm::zip(index, strides))
    offset += i * s;
  return offset;
}

/// The formula of an elementwise operator at every stored position of the broadcast result.
std::optional<HostTensor> elementwise(Operation *op, Operands operands) {
  std::optional<ScalarFunction> formula = ScalarFunction::of(op);
  if (!formula)
    return std::nullopt;
  RankedTensorType type = resultType(op);
  int64_t rank = type.getRank();
  Shape stored(rank, 1);
  llvm::SmallVector<Shape> strides;
  for (const HostTensor *operand : operands) {
    int64_t missing = rank - static_cast<int64_t>(operand->shape.size());
    Shape aligned(rank, 0), own = storedStrides(*operand);
    for (int64_t d = missing; d < rank; ++d) {
      aligned[d] = own[d - missing];
      if (operand->stored[d - missing] != 1)
        stored[d] = type.getDimSize(d);
    }
    strides.push_back(aligned);
  }
  if (llvm::is_contained(type.getShape(), 0))
    stored = Shape(type.getShape());
  if (product(stored) > maxHostElements)
    return std::nullopt;
  HostTensor result(type.getElementType(), type.getShape(), stored);
  llvm::SmallVector<Scalar> arguments(operands.size());
  forEachIndex(stored, [&](llvm::ArrayRef<int64_t> index, int64_t flat) {
    for (auto [argument, operand, stride] : llvm::zip(arguments, operands, strides)) {
      int64_t offset = at(index, stride);
      if (operand->isFloat())
        argument.f = operand->f[offset];
      else
        argument.i = operand->i[offset];
    }
    Scalar value = (*formula)(arguments);
    if (result.isFloat())
      result.f[flat] = roundTo(result.type, value.f);
    else
      result.i[flat] = wrapTo(result.type, value.i);
  });
  return result;
}

std::optional<HostTensor> reshape(Operation *op, const HostTensor &operand) {
  RankedTensorType type = resultType(op);
  auto withoutOnes = [](llvm::ArrayRef<int64_t> shape) {
    Shape kept;
    llvm::copy_if(shape, std::back_inserter(kept), [](int64_t d) { return d != 1; });
    return kept;
  };
  HostTensor result;
  if (withoutOnes(operand.shape) == withoutOnes(type.getShape())) {
    result = operand;
    Shape kept;
    for (auto [size, stored] : llvm::zip(operand.shape, operand.stored))
      if (size != 1)
        kept.push_back(stored);
    result.stored.assign(type.getRank(), 1);
    size_t next = 0;
    for (int64_t d = 0; d < type.getRank(); ++d)
      if (type.getDimSize(d) != 1)
        result.stored[d] = kept[next++];
  } else if (operand.storedSize() == 1) {
    result = operand;
    result.stored.assign(type.getRank(), 1);
  } else if (operand.size() <= maxHostElements) {
    result = operand.dense();
    result.stored = Shape(type.getShape());
  } else {
    return std::nullopt;
  }
  result.shape = Shape(type.getShape());
  return result;
}

/// The result whose element at `index` is the operand's at `map(index)`, over the stored dimensions `stored`.
std::optional<HostTensor> move(Operation *op, const HostTensor &operand, llvm::ArrayRef<int64_t> stored,
                               llvm::function_ref<void(llvm::ArrayRef<int64_t>, Shape &)> map) {
  if (product(stored) > maxHostElements)
    return std::nullopt;
  RankedTensorType type = resultType(op);
  HostTensor result(type.getElementType(), type.getShape(), stored);
  Shape strides = storedStrides(operand), from(operand.shape.size(), 0);
  forEachIndex(stored, [&](llvm::ArrayRef<int64_t> index, int64_t flat) {
    map(index, from);
    int64_t offset = at(from, strides);
    if (result.isFloat())
      result.f[flat] = operand.f[offset];
    else
      result.i[flat] = operand.i[offset];
  });
  return result;
}

std::optional<HostTensor> transpose(nn::TransposeOp op, const HostTensor &operand) {
  llvm::ArrayRef<int64_t> perm = op.getPerm();
  Shape stored;
  for (int64_t p : perm)
    stored.push_back(operand.stored[p]);
  return move(op, operand, stored, [&](llvm::ArrayRef<int64_t> index, Shape &from) {
    for (size_t d = 0; d < perm.size(); ++d)
      from[perm[d]] = index[d];
  });
}

std::optional<HostTensor> broadcast(nn::BroadcastOp op, const HostTensor &operand) {
  llvm::ArrayRef<int64_t> dims = op.getDims();
  HostTensor result = operand;
  result.shape = Shape(resultType(op).getShape());
  result.stored.assign(result.shape.size(), 1);
  bool ascending = true;
  for (size_t d = 0; d < dims.size(); ++d) {
    result.stored[dims[d]] = operand.stored[d];
    ascending &= d == 0 || dims[d] > dims[d - 1];
  }
  if (llvm::is_contained(result.shape, 0))
    return HostTensor(operand.type, result.shape, result.shape);
  if (!ascending)
    return std::nullopt;
  return result;
}

std::optional<HostTensor> slice(nn::SliceOp op, const HostTensor &operand) {
  Shape stored;
  for (auto [size, from] : llvm::zip(op.getSizes(), operand.stored))
    stored.push_back(from == 1 ? std::min<int64_t>(size, 1) : size);
  return move(op, operand, stored, [&](llvm::ArrayRef<int64_t> index, Shape &from) {
    for (size_t d = 0; d < index.size(); ++d)
      from[d] = op.getStarts()[d] + index[d] * op.getSteps()[d];
  });
}

std::optional<HostTensor> concat(nn::ConcatOp op, Operands operands) {
  RankedTensorType type = resultType(op);
  uint64_t dim = op.getDim();
  Shape stored(type.getShape());
  for (size_t d = 0; d < stored.size(); ++d)
    if (d != dim && llvm::all_of(operands, [&](const HostTensor *t) { return t->stored[d] == 1; }))
      stored[d] = 1;
  if (product(stored) > maxHostElements)
    return std::nullopt;
  HostTensor result(type.getElementType(), type.getShape(), stored);
  Shape to = storedStrides(result);
  int64_t start = 0;
  for (const HostTensor *operand : operands) {
    Shape strides = storedStrides(*operand), part = stored;
    part[dim] = operand->shape[dim];
    forEachIndex(part, [&](llvm::ArrayRef<int64_t> index, int64_t) {
      int64_t source = at(index, strides), target = at(index, to) + start * to[dim];
      if (result.isFloat())
        result.f[target] = operand->f[source];
      else
        result.i[target] = operand->i[source];
    });
    start += operand->shape[dim];
  }
  return result;
}

std::optional<HostTensor> iota(nn::IotaOp op) {
  RankedTensorType type = resultType(op);
  uint64_t dim = op.getDim();
  Shape stored(type.getRank(), 1);
  stored[dim] = type.getDimSize(dim);
  HostTensor result(type.getElementType(), type.getShape(), stored);
  for (int64_t k = 0; k < stored[dim]; ++k)
    result.set(k, static_cast<double>(k));
  return result;
}

std::optional<HostTensor> reduce(nn::ReduceOp op, const HostTensor &operand) {
  llvm::StringRef kind = op.getKind();
  RankedTensorType type = resultType(op);
  if (operand.size() > maxHostElements)
    return std::nullopt;
  HostTensor all = operand.dense();
  HostTensor result(type.getElementType(), type.getShape(), type.getShape());
  llvm::SmallVector<bool> reduced(all.shape.size(), false);
  for (int64_t d : op.getDims())
    reduced[d] = true;
  Shape strides(all.shape.size(), 0);
  int64_t stride = 1;
  for (int d = static_cast<int>(all.shape.size()) - 1; d >= 0; --d)
    if (!reduced[d]) {
      strides[d] = stride;
      stride *= all.shape[d];
    }
  std::vector<bool> seen(result.storedSize(), false);
  auto less = [&](auto x, auto y) {
    if constexpr (std::is_integral_v<decltype(x)>)
      return ordered(result.type, x) < ordered(result.type, y);
    else
      return x < y;
  };
  forEachIndex(all.shape, [&](llvm::ArrayRef<int64_t> index, int64_t flat) {
    int64_t target = at(index, strides);
    auto merge = [&](auto &into, auto value) {
      bool isFirst = !seen[target];
      seen[target] = true;
      if (kind == "sum" && !isFirst)
        into = plus(into, value);
      else if (kind == "prod" && !isFirst)
        into = times(into, value);
      else if (isFirst || value != value || (kind == "max" ? less(into, value) : less(value, into)))
        into = value;
    };
    if (result.isFloat())
      merge(result.f[target], all.f[flat]);
    else
      merge(result.i[target], all.i[flat]);
  });
  for (double &value : result.f)
    value = roundTo(result.type, value);
  for (int64_t &value : result.i)
    value = wrapTo(result.type, value);
  if (all.size() == 0 && kind == "prod")
    for (int64_t k = 0; k < result.storedSize(); ++k)
      result.set(k, 1);
  return result;
}

std::optional<HostTensor> gather(nn::GatherOp op, const HostTensor &table, const HostTensor &ids) {
  if (op.getStart())
    return std::nullopt;
  int64_t idRank = ids.shape.size(), rows = table.shape[0];
  Shape stored = ids.stored;
  stored.append(table.stored.begin() + 1, table.stored.end());
  Shape idStrides = storedStrides(ids);
  bool inside = llvm::all_of(ids.i, [&](int64_t id) { return id >= 0 && id < rows; });
  if (!inside)
    return std::nullopt;
  return move(op, table, stored, [&](llvm::ArrayRef<int64_t> index, Shape &from) {
    from[0] = ids.i[at(index.take_front(idRank), idStrides)];
    for (size_t d = 1; d < from.size(); ++d)
      from[d] = index[idRank + d - 1];
  });
}

std::optional<HostTensor> contract(nn::ContractOp op, Operands operands) {
  if (operands.size() != 2)
    return std::nullopt;
  llvm::StringRef lhs = op.getLhsLetters(), rhs = op.getRhsLetters(), out = op.getOutLetters();
  std::string letters = out.str();
  Shape sizes(resultType(op).getShape());
  auto add = [&](llvm::StringRef word, const HostTensor &tensor) {
    for (size_t d = 0; d < word.size(); ++d)
      if (letters.find(word[d]) == std::string::npos) {
        letters += word[d];
        sizes.push_back(tensor.shape[d]);
      }
  };
  add(lhs, *operands[0]);
  add(rhs, *operands[1]);
  if (product(sizes) > maxHostElements)
    return std::nullopt;
  auto stridesOf = [&](llvm::StringRef word, const HostTensor &tensor) {
    Shape own = storedStrides(tensor), all(letters.size(), 0);
    for (size_t d = 0; d < word.size(); ++d)
      all[letters.find(word[d])] = own[d];
    return all;
  };
  Shape lhsStrides = stridesOf(lhs, *operands[0]), rhsStrides = stridesOf(rhs, *operands[1]);
  HostTensor result(resultType(op).getElementType(), resultType(op).getShape(), resultType(op).getShape());
  Shape outStrides = storedStrides(result);
  outStrides.resize(letters.size(), 0);
  forEachIndex(sizes, [&](llvm::ArrayRef<int64_t> index, int64_t) {
    int64_t target = at(index, outStrides), x = at(index, lhsStrides), y = at(index, rhsStrides);
    if (result.isFloat())
      result.f[target] += operands[0]->f[x] * operands[1]->f[y];
    else
      result.i[target] = addInt(result.i[target], mulInt(operands[0]->i[x], operands[1]->i[y]));
  });
  for (double &value : result.f)
    value = roundTo(result.type, value);
  for (int64_t &value : result.i)
    value = wrapTo(result.type, value);
  return result;
}

} // namespace

std::optional<HostTensor> evaluate(Operation *op, Operands in) {
  if (op->getNumResults() != 1 || !resultType(op).hasStaticShape())
    return std::nullopt;
  using Result = std::optional<HostTensor>;
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([&](nn::ReshapeOp) { return reshape(op, *in[0]); })
      .Case([&](nn::TransposeOp transposeOp) { return transpose(transposeOp, *in[0]); })
      .Case([&](nn::BroadcastOp broadcastOp) { return broadcast(broadcastOp, *in[0]); })
      .Case([&](nn::SliceOp sliceOp) { return slice(sliceOp, *in[0]); })
      .Case([&](nn::ConcatOp concatOp) { return concat(concatOp, in); })
      .Case([&](nn::IotaOp iotaOp) { return iota(iotaOp); })
      .Case([&](nn::ReduceOp reduceOp) { return reduce(reduceOp, *in[0]); })
      .Case([&](nn::GatherOp gatherOp) { return gather(gatherOp, *in[0], *in[1]); })
      .Case([&](nn::ContractOp contractOp) { return contract(contractOp, in); })
      .Default([&](Operation *) { return elementwise(op, in); });
}

} // namespace tessera
