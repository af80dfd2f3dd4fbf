// Factor rules: how an operator may be split. A factor is a named loop of the operator; every dimension of
// every operand and result runs along one factor, or along none (a dimension of size 1 that is broadcast).
//
//   matmul   "bsi,io->bso"   i is a reduction: it occurs in no result, so a split of i leaves a partial sum
//   softmax  "bsh->bsh", cooperative "h": the operator itself communicates when h is split
#ifndef TESSERA_DIALECTS_NN_FACTORRULE_H
#define TESSERA_DIALECTS_NN_FACTORRULE_H

#include "mlir/IR/TypeRange.h"
#include "mlir/IR/ValueRange.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace tessera::nn {

enum class FactorKind { PassThrough, Reduction, Cooperative, Unsplit };

struct Factor {
  std::string name;
  int64_t size = 1;
  FactorKind kind = FactorKind::PassThrough;
  /// Whether the operator tells positions along it apart (a slice, an index into a table, a causal limit), so
  /// that they must be in order.
  bool ordered = false;
};

/// Per operand (result), per dimension: the index of its factor, or -1.
using DimFactors = llvm::SmallVector<int, 6>;

struct FactorRule {
  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<DimFactors> operands, results;
  /// The operator only regroups dimensions: row-major order of elements is kept, and factors are found by
  /// atoms.
  bool isReshape = false;

  /// Builds a rule from letters, one string an operand and a result, one letter a dimension ('1': no factor).
  /// Sizes come from the types. Letters that occur in operands and in no result are reductions; `cooperative`
  /// and `unsplit` name others. `ordered`: those whose positions must be in order, by default the unsplit
  /// ones.
  /// ({"bsi","io"}, {"bso"}) -> b, s, o pass through, i is a reduction.
  static FactorRule fromLetters(llvm::ArrayRef<std::string> operands, llvm::ArrayRef<std::string> results,
                                mlir::TypeRange operandTypes, mlir::TypeRange resultTypes,
                                llvm::StringRef cooperative = "", llvm::StringRef unsplit = "",
                                std::optional<llvm::StringRef> ordered = {});
  /// The factor called `name`, or -1.
  int find(llvm::StringRef name) const;
  bool operandHas(unsigned operand, int factor) const {
    return llvm::is_contained(operands[operand], factor);
  }
  bool resultHas(unsigned result, int factor) const { return llvm::is_contained(results[result], factor); }
  /// "([b,s,i],[i,o])->([b,s,o]) reduction={i}".
  std::string str() const;
};

} // namespace tessera::nn
#endif
