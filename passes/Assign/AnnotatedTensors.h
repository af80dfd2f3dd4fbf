// The tensors of an annotated ONNX node, and where they are in the program.
#pragma once

#include "dialects/nn/NN.h"
#include <map>
#include <string>
#include <vector>

namespace tessera {

using AxisNames = std::vector<std::string>;
/// Axes by the factor that they split.
using AnnotatedSplits = std::map<int, AxisNames>;

/// A tensor of an annotated node, as the attribute that the importer wrote has it.
struct AnnotatedTensor {
  llvm::StringRef kind, name;
  int64_t position;
  llvm::ArrayRef<int64_t> shape;
  std::vector<AxisNames> split; // of each dimension

  explicit AnnotatedTensor(mlir::DictionaryAttr attr);
};

/// Whether the attributes have the form that the importer writes: in .mlir files they are text, which may say
/// anything.
bool isAnnotatedMesh(mlir::Attribute mesh);
bool areAnnotatedNodes(mlir::Attribute nodes);

/// Where a tensor of an annotated node is in the program: an operand of its operator, or (-1) the result; and
/// for each of its dimensions that of the value which begins with it.
struct AnnotatedPlace {
  const AnnotatedTensor *tensor;
  int operand;
  llvm::SmallVector<int> dims;
};

/// The dimension of `to` that each dimension of `from`, the same elements in another shape, begins in; -1 for
/// an extent of 1.
llvm::SmallVector<int> regroupedDims(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

/// The tensors that are operands or the result of `op`. Refers to `tensors`.
llvm::SmallVector<AnnotatedPlace> placesIn(nn::FactorOpInterface op, llvm::ArrayRef<AnnotatedTensor> tensors);

/// What the tensor's annotation splits, in terms of the operator's factors.
AnnotatedSplits splitsOf(const AnnotatedPlace &place, const nn::FactorRule &rule);

} // namespace tessera
