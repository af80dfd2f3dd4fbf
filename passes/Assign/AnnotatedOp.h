// What makes one operator lie as its node is annotated.
#pragma once

#include "dialects/dist/Axis.h"
#include "mlir/IR/Diagnostics.h"
#include "passes/Assign/AnnotatedTensors.h"

namespace tessera {

class Pattern;

/// An operator and the annotated tensors that are its operands and result. Refers to `places` and `mesh`.
class AnnotatedOp {
public:
  AnnotatedOp(nn::FactorOpInterface op, llvm::ArrayRef<AnnotatedPlace> places, const dist::Mesh &mesh);

  /// A pattern that implies the annotated splits, and whether it implies that of the result too.
  struct Match {
    const Pattern *pattern = nullptr;
    AxisNames axes;
    bool placesResult = false;
    size_t score = 0;
  };
  /// The pattern that says most of what the annotations say; none where every one says something else.
  Match match() const;

  /// What the annotations split, loop by loop. Contradictions are reported, naming the node.
  mlir::FailureOr<AnnotatedSplits> merged(llvm::StringRef node, llvm::StringRef opType) const;

private:
  struct Homes;
  Match judge(const Pattern *pattern, const AxisNames &chosen) const;
  mlir::InFlightDiagnostic contradiction(llvm::StringRef node, llvm::StringRef opType) const;

  nn::FactorOpInterface op;
  nn::FactorRule rule;
  llvm::ArrayRef<AnnotatedPlace> places;
  const dist::Mesh &mesh;
  std::vector<AnnotatedSplits> specs; // of each place
  AnnotatedSplits ofData;
  AxisNames axes;
};

} // namespace tessera
