#include "dialects/nn/Builders.h"
#include "dialects/nn/Attributes.h"
#include "dialects/nn/OpSupport.h"
#include <functional>

using namespace mlir;
using namespace tessera::nn;

GradBuilder::GradBuilder(Operation *forward, ArrayRef<bool> wanted, ValueRange cotangents)
    : OpBuilder(forward->getContext(), this), op(forward), wanted(wanted.begin(), wanted.end()),
      grads(forward->getNumOperands()) {
  FactorRule rule = cast<FactorOpInterface>(forward).getFactorRule();
  if (rule.isReshape)
    return;
  for (auto [value, dims] : llvm::zip(forward->getOperands(), rule.operands))
    learn(value, dims);
  for (auto [value, dims] : llvm::zip(forward->getResults(), rule.results))
    learn(value, dims);
  for (auto [value, dims] : llvm::zip(cotangents, rule.results))
    if (value)
      learn(value, dims);
}

void GradBuilder::learn(Value value, ArrayRef<int> dims) {
  known.try_emplace(value, DimFactors(dims.begin(), dims.end()));
}

void GradBuilder::notifyOperationInserted(Operation *inserted, InsertPoint) { emitted.push_back(inserted); }

void GradBuilder::add(unsigned operand, Value cotangent) {
  grads[operand] = cotangent;
  FactorRule rule = cast<FactorOpInterface>(op).getFactorRule();
  if (!rule.isReshape)
    learn(cotangent, rule.operands[operand]);
}

// A reshape that only adds or drops dimensions of one position has the others' factors.
static std::optional<DimFactors> throughReshape(Operation *reshape, const DimFactors &of) {
  ArrayRef<int64_t> from = shapeOf(reshape->getOperand(0)), to = shapeOf(reshape->getResult(0));
  SmallVector<int> left;
  for (auto [extent, factor] : llvm::zip(from, of))
    if (extent != 1)
      left.push_back(factor);
  auto isOne = [](int64_t extent) { return extent == 1; };
  if (of.size() != from.size() || !llvm::equal(llvm::make_filter_range(from, std::not_fn(isOne)),
                                               llvm::make_filter_range(to, std::not_fn(isOne))))
    return std::nullopt;
  DimFactors result;
  auto next = left.begin();
  for (int64_t extent : to)
    result.push_back(extent == 1 ? -1 : *next++);
  return result;
}

void GradBuilder::finish() {
  StringAttr id = kId.of(op);
  // Forward through what was emitted, then backward, so that factors that only a result knows (the rows of a
  // scatter) are found as well.
  SmallVector<SmallVector<int64_t>> maps(emitted.size());
  for (int sweep = 0; sweep < 2; ++sweep) {
    for (size_t k = 0; k < emitted.size(); ++k) {
      size_t e = sweep == 0 ? k : emitted.size() - 1 - k;
      auto factorOp = dyn_cast<FactorOpInterface>(emitted[e]);
      if (!factorOp)
        continue;
      FactorRule rule = factorOp.getFactorRule();
      if (rule.isReshape) {
        if (auto it = known.find(emitted[e]->getOperand(0)); sweep == 0 && it != known.end())
          if (std::optional<DimFactors> through = throughReshape(emitted[e], it->second))
            known.try_emplace(emitted[e]->getResult(0), *through);
        continue;
      }
      SmallVector<int64_t> &map = maps[e];
      map.resize(rule.factors.size(), -1);
      auto read = [&](ValueRange values, ArrayRef<DimFactors> dims) {
        for (auto [value, factors] : llvm::zip(values, dims))
          if (auto it = known.find(value); it != known.end() && it->second.size() == factors.size())
            for (auto [f, forwardFactor] : llvm::zip(factors, it->second))
              if (f >= 0 && forwardFactor >= 0 && map[f] < 0)
                map[f] = forwardFactor;
      };
      auto write = [&](ValueRange values, ArrayRef<DimFactors> dims) {
        for (auto [value, factors] : llvm::zip(values, dims)) {
          DimFactors mapped;
          for (int f : factors)
            mapped.push_back(f < 0 ? -1 : map[f]);
          known.try_emplace(value, mapped);
        }
      };
      read(emitted[e]->getOperands(), rule.operands);
      read(emitted[e]->getResults(), rule.results);
      if (sweep == 0)
        write(emitted[e]->getResults(), rule.results);
    }
  }
  for (auto [e, map] : llvm::zip(emitted, maps))
    kGradOf.set(e, GradOfAttr::get(getContext(), id ? id.getValue() : "", map));
}

LogicalResult tessera::nn::cloneLocal(Operation *op, LocalBuilder &builder, ValueRange operands,
                                      SmallVectorImpl<Value> &results) {
  OperationState state(builder.loc(), op->getName());
  state.addOperands(operands);
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    state.addTypes(builder.resultType(i));
  state.addAttributes(op->getAttrs());
  Operation *local = builder.create(state);
  results.append(local->result_begin(), local->result_end());
  return success();
}

bool tessera::nn::isStepwise(Operation *op) {
  auto none = dyn_cast<NotDifferentiableOpInterface>(op);
  return (none && none.hasZeroGradient()) || llvm::none_of(op->getResultTypes(), [](Type type) {
           return isa<FloatType>(getElementTypeOrSelf(type));
         });
}
