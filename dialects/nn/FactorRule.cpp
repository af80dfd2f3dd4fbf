#include "dialects/nn/FactorRule.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace tessera::nn;

FactorRule FactorRule::fromLetters(ArrayRef<std::string> operands, ArrayRef<std::string> results,
                                   TypeRange operandTypes, TypeRange resultTypes, StringRef cooperative,
                                   StringRef unsplit, std::optional<StringRef> ordered) {
  FactorRule rule;
  auto add = [&](ArrayRef<std::string> letters, TypeRange types, SmallVector<DimFactors> &out) {
    for (auto [i, type] : llvm::enumerate(types)) {
      DimFactors dims;
      auto shaped = dyn_cast<ShapedType>(type);
      StringRef word = i < letters.size() ? StringRef(letters[i]) : StringRef();
      for (auto [d, letter] : llvm::enumerate(word)) {
        if (letter == '1') {
          dims.push_back(-1);
          continue;
        }
        int f = rule.find(StringRef(&letter, 1));
        if (f < 0) {
          f = rule.factors.size();
          rule.factors.push_back({std::string(1, letter), shaped.getDimSize(d), FactorKind::PassThrough});
        }
        dims.push_back(f);
      }
      out.push_back(dims);
    }
  };
  add(operands, operandTypes, rule.operands);
  add(results, resultTypes, rule.results);
  for (auto [f, factor] : llvm::enumerate(rule.factors)) {
    factor.ordered = ordered.value_or(unsplit).contains(factor.name);
    bool inResult = llvm::any_of(rule.results, [&](DimFactors &d) { return llvm::is_contained(d, int(f)); });
    if (cooperative.contains(factor.name))
      factor.kind = FactorKind::Cooperative;
    else if (unsplit.contains(factor.name))
      factor.kind = FactorKind::Unsplit;
    else if (!inResult)
      factor.kind = FactorKind::Reduction;
  }
  return rule;
}

int FactorRule::find(StringRef name) const {
  for (auto [f, factor] : llvm::enumerate(factors))
    if (factor.name == name)
      return f;
  return -1;
}

std::string FactorRule::str() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (isReshape)
    return "reshape";
  auto list = [&](ArrayRef<DimFactors> values) {
    os << "(";
    llvm::interleaveComma(values, os, [&](const DimFactors &dims) {
      os << "[";
      llvm::interleave(
          dims, os, [&](int f) { os << (f < 0 ? StringRef("1") : StringRef(factors[f].name)); }, ",");
      os << "]";
    });
    os << ")";
  };
  list(operands);
  os << "->";
  list(results);
  auto kinds = [&](FactorKind kind, StringRef label) {
    SmallVector<StringRef> names;
    for (const Factor &factor : factors)
      if (factor.kind == kind)
        names.push_back(factor.name);
    if (!names.empty()) {
      os << " " << label << "={";
      llvm::interleaveComma(names, os);
      os << "}";
    }
  };
  kinds(FactorKind::Reduction, "reduction");
  kinds(FactorKind::Cooperative, "cooperative");
  kinds(FactorKind::Unsplit, "unsplit");
  return text;
}
