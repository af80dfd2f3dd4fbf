#include "dialects/nn/Builders.h"
#include "dialects/nn/NN.h"

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

void GradBuilder::finish() {
  auto id = op->getAttrOfType<StringAttr>("nn.id");
  // Forward through what was emitted, then backward, so that factors that only a result knows (the rows of a scatter) are found as well.
  SmallVector<SmallVector<int64_t>> maps(emitted.size());
  for (int sweep = 0; sweep < 2; ++sweep) {
    for (size_t k = 0; k < emitted.size(); ++k) {
      size_t e = sweep == 0 ? k : emitted.size() - 1 - k;
      auto factorOp = dyn_cast<FactorOpInterface>(emitted[e]);
      if (!factorOp)
        continue;
      FactorRule rule = factorOp.getFactorRule();
      if (rule.isReshape)
        continue;
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
    e->setAttr("nn.grad_of", GradOfAttr::get(getContext(), id ? id.getValue() : "", map));
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
